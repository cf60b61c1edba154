"""Many sources through a search: checked one by one, batched by length, answered in their order."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from ssnt.arrays import NumpyDevice, namespace_on, padded_rows
from ssnt.decode.marginal import marginal_search
from ssnt.decode.online import online_search
from ssnt.decode.options import SearchOptions
from ssnt.decode.path import path_search
from ssnt.decode.scorer import Scorer, as_scorer, require_alignment
from ssnt.dp.checks import require_count
from ssnt.errors import ConfigError, DataError
from ssnt.types import BOS_ID, EOS_ID, PAD_ID, UNK_ID, Batch, Hypothesis

if TYPE_CHECKING:
    import torch

    from ssnt.nn import Model

SearchName = Literal["marginal", "path", "online"]

_SEARCHES: dict[str, Callable[..., list[list[Hypothesis]]]] = {
    "marginal": marginal_search,
    "path": path_search,
    "online": online_search,
}

_MOST_LOGITS = 64_000_000
"""Word logits that a batch may have, of its source positions and its hypotheses: 256 MB in float32."""

_MOST_POSITIONS = 64_000
"""Source positions that a batch may have, each with the states of an encoder."""


@dataclass(frozen=True)
class Failure:
    """A source that could not be decoded; the others were.

    Attributes:
        index: Which one.
        error: Why.
    """

    index: int
    error: DataError


def decode(
    scorer: Scorer[Any, Any] | Model,
    sources: Sequence[Sequence[int]],
    search: SearchName = "marginal",
    options: SearchOptions | None = None,
    *,
    features: Sequence[Sequence[int]] | None = None,
    max_source_length: int = 2000,
    batch_size: int = 256,
    device: torch.device | NumpyDevice | str | None = None,
) -> list[list[Hypothesis] | Failure]:
    """Decodes sources of any lengths.

    Args:
        scorer: The model, such as an SSNT, or a scorer.
        sources: Symbols of each source, without the end symbol, which is added.
        search: ``"marginal"``, ``"path"`` or ``"online"``.
        options: Settings of the search.
        features: Tags of each source, for a model that has them.
        max_source_length: Longer sources are refused rather than searched for hours.
        batch_size: How many sources, of about the same length, are searched together at most; fewer if they are long
            or the vocabulary is large, so that memory stays bounded.
        device: Where the sources are to be put; by default where the model is.

    Returns:
        For each source its hypotheses, best first, or why there are none: a source that is empty, too long or holds
        symbols that do not exist is a :class:`Failure` and keeps nobody else from an answer.
    """
    if search not in _SEARCHES:
        raise ConfigError(f"search must be one of {', '.join(map(repr, _SEARCHES))}, got {search!r}")
    model: Scorer[Any, Any] = as_scorer(scorer)
    if search != "marginal":
        require_alignment(model, f"search={search!r}", example="uniSSNT+" if search == "online" else "biSSNT+")
    options = options or SearchOptions()
    if any(isinstance(source, (int, str)) for source in sources):
        raise DataError("sources: expected a list of sources, each a list of symbols; for a single one, [[5, 6]]")
    require_count("max_source_length", max_source_length)
    require_count("batch_size", batch_size)
    if features is not None and len(features) != len(sources):
        raise DataError(f"features must have {len(sources)} entries, one a source, got {len(features)}")
    results: list[list[Hypothesis] | Failure | None] = [
        _complaint(index, source, None if features is None else features[index], max_source_length)
        for index, source in enumerate(sources)
    ]
    good = [index for index, result in enumerate(results) if result is None]
    good.sort(key=lambda index: len(sources[index]))

    def run(group: list[int]) -> None:
        tags = None if features is None else [features[i] for i in group]
        batch = _batch([sources[i] for i in group], tags, model.device if device is None else device)
        try:
            found = _SEARCHES[search](model, batch, options)
        except DataError as error:
            if len(group) == 1:
                results[group[0]] = Failure(group[0], DataError(f"source {group[0]}: {error}"))
                return
            for index in group:  # one of them is to blame, and the others are not to suffer for it
                run([index])
            return
        for index, hypotheses in zip(group, found, strict=True):
            results[index] = hypotheses

    most = min(_MOST_LOGITS // (model.vocab_size * model.model_count), _MOST_POSITIONS)
    # Path search has hypotheses at every position, the others a number of them.
    breadth, extra = (1 + options.beam, 0) if search == "path" else (1, options.beam)
    sizes = {index: (len(sources[index]) + 1) * breadth + extra for index in good}
    for group in _groups(sizes, batch_size, most):
        run(group)
    return [result for result in results if result is not None]


def _groups(sizes: dict[int, int], most: int, most_in_sum: int) -> Iterator[list[int]]:
    """Cuts indices, which come in the order of their sizes, so that a group's number times its largest is limited."""
    group: list[int] = []
    for index, size in sizes.items():
        if group and (len(group) == most or (len(group) + 1) * size > most_in_sum):
            yield group
            group = []
        group.append(index)
    if group:
        yield group


def _complaint(index: int, source: Any, tags: Any, longest: int) -> Failure | None:
    """What is wrong with a source or its tags, if anything."""
    try:
        symbols = [operator.index(symbol) for symbol in source]
        _ = [operator.index(tag) for tag in tags or ()]
    except TypeError as error:
        message = f"source {index} and its tags must be sequences of symbols, which are numbers: {error}"
        return Failure(index, DataError(message))
    complaint = None
    if not symbols:
        complaint = "is empty; give at least one symbol"
    elif len(symbols) > longest:
        complaint = f"has {len(symbols)} symbols, more than max_source_length ({longest}); split it"
    elif min(symbols) < 0 or max(symbols) >= 2**31:
        wrong = min(symbols) if min(symbols) < 0 else max(symbols)
        complaint = f"holds {wrong}, which is no symbol; unknown ones are UNK_ID ({UNK_ID})"
    elif EOS_ID in symbols or PAD_ID in symbols or BOS_ID in symbols:
        complaint = "holds a padding, start or end symbol (0 to 2); give the source without them, the end is added"
    return None if complaint is None else Failure(index, DataError(f"source {index} {complaint}"))


def _batch(
    sources: list[Sequence[int]], features: list[Sequence[int]] | None, device: torch.device | NumpyDevice | str
) -> Batch:
    rows = [[*map(operator.index, source), EOS_ID] for source in sources]
    tags = None if features is None else padded_rows([[*map(operator.index, row or ())] for row in features], device)
    lens = namespace_on(device).tensor([len(row) for row in rows], device=device)
    return Batch(padded_rows(rows, device), lens, features=tags)
