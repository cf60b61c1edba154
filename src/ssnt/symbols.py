"""Checks of symbols, of either kind of arrays: importing this does not import torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ssnt.arrays import namespace
from ssnt.errors import DataError, ShapeError
from ssnt.types import PAD_ID, UNK_ID

if TYPE_CHECKING:
    from torch import Tensor


def check_symbols(name: str, symbols: Tensor, axes: tuple[str, ...], vocab_size: int) -> None:
    """Checks an array of symbols, padding included, against its axes and vocabulary.

    Values are looked at on the CPU only: on a GPU it would make the host wait for the device at every batch.

    Raises:
        ShapeError: It has other axes, or does not hold whole numbers of 64 bits.
        DataError: A symbol is outside the vocabulary.
    """
    if symbols.ndim != len(axes):
        expected = f"({', '.join(axes)}{',' if len(axes) == 1 else ''})"
        raise ShapeError(
            f"{name}: expected shape {expected}, got {tuple(symbols.shape)}; "
            "the batch axis comes first, also for a single pair"
        )
    int64 = namespace(symbols).int64
    if symbols.dtype != int64:
        raise ShapeError(f"{name}: expected dtype {int64}, got {symbols.dtype}; convert it with .long()")
    if symbols.device.type != "cpu" or symbols.numel() == 0:
        return
    wrong = (symbols < 0) | (symbols >= vocab_size)
    if bool(wrong.any()):
        where = wrong.nonzero()[0].tolist()
        hint = f"map unknown symbols to UNK_ID ({UNK_ID}) and pad with PAD_ID ({PAD_ID})"
        if name == "features":
            hint = f"leave unknown tags out, and pad with PAD_ID ({PAD_ID})"
        raise DataError(
            f"{name}: expected symbols from 0 to {vocab_size - 1} (a vocabulary of {vocab_size}), "
            f"got {int(symbols[tuple(where)])} at {where}; {hint}"
        )
