"""Checks of what a caller hands to the lattice: every complaint names the argument, what was expected and what came.

Checks that look at values run only where the values are on the host already; on another device they would make it
wait, and there a bad value gives a NaN loss instead (see :class:`ssnt.dp.contract.Backend`).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, get_args

from ssnt.arrays import NumpyDevice, is_array, namespace
from ssnt.errors import ConfigError, DataError, ShapeError
from ssnt.types import End, Grid

if TYPE_CHECKING:
    import torch
    from torch import Tensor

_FLOATS = ("float32", "float64")
_HALVES = ("float16", "bfloat16")
_INTEGERS = ("int8", "int16", "int32", "int64", "uint8")


def _dtype_name(values: Tensor) -> str:
    """The name of a dtype, the same for both kinds of arrays."""
    return str(values.dtype).removeprefix("torch.")


def require_tensor(name: str, value: Any) -> None:
    """Raises unless ``value`` is a tensor, or a NumPy array that stands for one."""
    if not is_array(value):
        raise ShapeError(f"{name} must be a torch.Tensor, got {type(value).__name__}; use torch.tensor(...)")


def require_count(name: str, value: object) -> None:
    """Raises unless ``value`` is a whole number of at least one."""
    if not isinstance(value, int) or value < 1:
        raise ConfigError(f"{name} must be a whole number of at least 1, got {value!r}")


def require_end(end: str) -> None:
    """Raises unless ``end`` is one of the two conventions."""
    if end not in get_args(End):
        raise ConfigError(f"end must be one of {', '.join(map(repr, get_args(End)))}, got {end!r}")


def checked_lengths(
    name: str, lengths: Any, batch: int, longest: int, axis: str, device: torch.device | NumpyDevice
) -> Tensor:
    """Checks lengths and returns them as int64 on ``device``.

    Args:
        name: The argument's name, for messages.
        lengths: Integer tensor ``(B,)``, on ``device`` or on the host.
        batch: ``B``.
        longest: The size of the axis that the lengths measure.
        axis: The name of that axis, for messages.
        device: Where the grid is.
    """
    require_tensor(name, lengths)
    if _dtype_name(lengths) not in _INTEGERS:
        raise ShapeError(f"{name} must have an integer dtype, got {lengths.dtype}")
    if lengths.shape != (batch,):
        raise ShapeError(f"{name} must have shape ({batch},), one length a pair, got {tuple(lengths.shape)}")
    if lengths.device.type == "cpu":
        wrong = ((lengths < 1) | (lengths > longest)).nonzero()
        if len(wrong):
            b = int(wrong[0, 0])
            raise ShapeError(
                f"{name}[{b}] must be between 1 and {longest}, the size of the {axis} axis, got {int(lengths[b])}; "
                "a length counts the end symbol and not the padding"
            )
    elif lengths.device != device:
        raise ShapeError(f"{name} must be on the CPU or where the grid is ({device}), got {lengths.device}")
    moved: Tensor = lengths.detach().to(device=device, dtype=namespace(lengths).int64)
    return moved


def checked_grid(log_word: Any, log_emit: Any, log_shift: Any, src_lens: Any, tgt_lens: Any) -> Grid:
    """Checks shapes, dtypes, devices and lengths; half precision is widened to float32."""
    grids = {"log_word": log_word, "log_emit": log_emit, "log_shift": log_shift}
    for name, values in grids.items():
        require_tensor(name, values)
        if _dtype_name(values) not in _FLOATS + _HALVES:
            raise ShapeError(f"{name} must be float32 or float64 (half precision is widened), got {values.dtype}")
        if values.ndim != 3:
            raise ShapeError(f"{name} must have shape (B, J, I), got {values.ndim} axes: {tuple(values.shape)}")
        if values.shape != log_word.shape:
            raise ShapeError(
                f"{name} must have the shape of log_word, {tuple(log_word.shape)}, got {tuple(values.shape)}"
            )
        if values.device != log_word.device:
            raise ShapeError(f"{name} must be on log_word's device, {log_word.device}, got {values.device}")
    if 0 in log_word.shape:
        raise ShapeError(f"log_word must have no empty axis (B, J, I), got {tuple(log_word.shape)}")
    widened = [values.float() if _dtype_name(values) in _HALVES else values for values in grids.values()]
    for name, values in zip(grids, widened, strict=True):
        if values.dtype != widened[0].dtype:
            raise ShapeError(f"{name} must have the dtype of log_word, {widened[0].dtype}, got {values.dtype}")
    batch, tgt_size, src_size = log_word.shape
    _raise_if_transposed(src_lens, tgt_lens, tgt_size, src_size)
    word, emit, shift = widened
    return Grid(
        word,
        emit,
        shift,
        checked_lengths("src_lens", src_lens, batch, src_size, "source (I)", log_word.device),
        checked_lengths("tgt_lens", tgt_lens, batch, tgt_size, "target (J)", log_word.device),
    )


def _raise_if_transposed(src_lens: Any, tgt_lens: Any, tgt_size: int, src_size: int) -> None:
    """Raises if lengths on the host fit the grid the other way round only."""
    for lens in (src_lens, tgt_lens):
        if not is_array(lens) or lens.device.type != "cpu" or lens.numel() == 0:
            return
    longest_src, longest_tgt = int(src_lens.max()), int(tgt_lens.max())
    fits = longest_src <= src_size and longest_tgt <= tgt_size
    if not fits and longest_src <= tgt_size and longest_tgt <= src_size:
        raise ShapeError(
            f"the grids are (B, J, I) with J = {tgt_size} targets and I = {src_size} sources, but src_lens goes up to "
            f"{longest_src} and tgt_lens to {longest_tgt}: are the grids transposed, or the lengths swapped?"
        )


def raise_if_improper(grid: Grid, nll: Tensor) -> None:
    """On the host, turns a NaN loss into an error that names the cell that caused it."""
    if nll.device.type != "cpu" or not bool(nll.isnan().any()):
        return
    b = int(nll.isnan().nonzero()[0, 0])
    src_len, tgt_len = int(grid.src_lens[b]), int(grid.tgt_lens[b])
    for name in ("log_word", "log_emit", "log_shift"):
        values = getattr(grid, name)[b, :tgt_len, :src_len]
        wrong = (~(values < math.inf)).nonzero()
        if len(wrong):
            j, i = wrong[0].tolist()
            raise DataError(
                f"{name}[{b}, {j}, {i}] must be a log probability (minus infinity is allowed, NaN and plus infinity "
                f"are not), got {values[j, i].item()}"
            )
    raise DataError(f"the lattice of pair {b} gave NaN although its cells are proper; please report this")
