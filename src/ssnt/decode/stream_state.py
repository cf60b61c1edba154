"""What streams remember, saved and restored: arrays, numbers and lists, and nothing that is code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, replace
from typing import TYPE_CHECKING, Any, TypeVar

from ssnt.arrays import placed, plain
from ssnt.decode.progress import Progress
from ssnt.decode.rows import Layout, layout, leaves, rebuilt
from ssnt.decode.scorer import HearingT, StateT
from ssnt.decode.stream_options import StreamOptions
from ssnt.errors import ConfigError, ModelError

if TYPE_CHECKING:
    from torch import Tensor

T = TypeVar("T")


def saved_streams(
    options: StreamOptions, is_finished: Sequence[bool], progress: Progress[StateT, HearingT]
) -> dict[str, Any]:
    """All that streams remember; nothing in it is shared with them."""
    prefixes = progress.prefixes
    return {
        "options": _plain_options(options),
        "is_finished": list(is_finished),
        "prefixes": {field.name: _copied(getattr(prefixes, field.name)) for field in fields(prefixes)},
        "decoder": [_copied(array) for array in leaves(progress.decoder)],
        "hearing": [_copied(array) for array in leaves(progress.hearing)],
    }


def restored_streams(
    state: Mapping[str, Any], options: StreamOptions, count: int, progress: Progress[StateT, HearingT]
) -> Progress[StateT, HearingT]:
    """How far streams had got that were saved.

    Args:
        state: What was saved.
        options: Of the streams that are to go on.
        count: How many these are.
        progress: Theirs, which says what fits.

    Raises:
        ConfigError: The options differ.
        ModelError: The state is incomplete, or does not fit.
    """
    missing = {"options", "is_finished", "prefixes", "decoder", "hearing"} - state.keys()
    if not missing:
        missing = {one.name for one in fields(progress.prefixes)} - state["prefixes"].keys()
    if missing:
        raise ModelError(f"this is not the state of streams: {', '.join(sorted(missing))} missing")
    if len(state["is_finished"]) != count:
        raise ModelError(f"the state is that of {len(state['is_finished'])} streams, and these are {count}")
    mine = _plain_options(options)
    if state["options"] != mine:
        names = [name for name, value in mine.items() if state["options"].get(name) != value]
        raise ConfigError(f"the saved streams have other options: {', '.join(names)}; open streams with theirs")
    device = progress.prefixes.lens.device
    prefixes = replace(progress.prefixes, **{name: placed(one, device) for name, one in state["prefixes"].items()})
    # All but the symbols, which have any length.
    _check_fit(layout(tuple(leaves(progress.prefixes)[2:])), layout(tuple(leaves(prefixes)[2:])))
    decoder, hearing = ([placed(one, device) for one in state[name]] for name in ("decoder", "hearing"))
    return Progress(prefixes, _restored(progress.decoder, decoder), _restored(progress.hearing, hearing))


def _plain_options(options: StreamOptions) -> dict[str, Any]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(options).items()}


def _copied(array: Tensor) -> Any:
    """A copy that shares nothing, also not the rest of a larger array that this is a part of; NumPy's as plain ones."""
    return plain(array.detach().clone().contiguous())


def _restored(mine: T, saved: list[Tensor]) -> T:
    """The saved arrays in the place of mine."""
    if len(saved) != len(leaves(mine)):
        _check_fit(layout(mine), layout(tuple(saved)))
    restored = rebuilt(mine, iter(saved))
    _check_fit(layout(mine), layout(restored))
    return restored


def _check_fit(mine: Layout, saved: Layout) -> None:
    if mine != saved:
        raise ModelError(
            f"the saved streams do not fit: expected {mine}, got {saved}; "
            "load them into as many streams of the model that they were saved from"
        )
