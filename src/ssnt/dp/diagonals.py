"""The lattice laid out by anti-diagonals, so that one can walk it a whole diagonal at a time.

All cells with the same ``i + j`` depend only on the diagonal before them. A grid ``(B, J, I)`` is skewed into
``(D, B, L)``, ``D = I + J - 1`` diagonals of ``L = min(I, J)`` lanes. Moving from a diagonal to the next keeps the lane
("stay") or goes to the next lane ("step"); which of the two is *emit* and which is *shift* depends on whether lanes
are target or source positions. The recursions over diagonals need not know.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ssnt.arrays import NumpyDevice, namespace, namespace_on
from ssnt.types import End, Grid

if TYPE_CHECKING:
    import torch
    from torch import Tensor


def accumulation_dtype(device: torch.device | NumpyDevice) -> torch.dtype:
    """The precision in which the recursions run: float64, unless the device has none."""
    xp = namespace_on(device)
    return xp.float32 if device.type == "mps" else xp.float64


def in_full_precision(grid: Grid) -> Grid:
    """The same lattices in the precision of the recursions, out of autograd's sight."""
    dtype = accumulation_dtype(grid.log_word.device)
    word, emit, shift = (values.detach().to(dtype) for values in (grid.log_word, grid.log_emit, grid.log_shift))
    return Grid(word, emit, shift, grid.src_lens, grid.tgt_lens)


def valid_cells(grid: Grid) -> Tensor:
    """True for the cells within each pair's lengths, ``(B, J, I)``."""
    _, tgt_size, src_size = grid.log_word.shape
    xp, device = namespace(grid.src_lens), grid.log_word.device
    rows = xp.arange(tgt_size, device=device) < grid.tgt_lens[:, None]  # (B, J)
    columns = xp.arange(src_size, device=device) < grid.src_lens[:, None]  # (B, I)
    return rows[:, :, None] & columns[:, None, :]


def _skew(cells: Tensor, fill: float) -> Tensor:
    """``(B, L, M) -> (L + M - 1, B, L)``; places outside the grid get ``fill``."""
    batch, lanes, length = cells.shape
    padded = namespace(cells).constant_pad_nd(cells, (0, lanes), fill).reshape(batch, -1)
    skewed = padded[:, : lanes * (lanes + length - 1)].view(batch, lanes, lanes + length - 1)
    return skewed.permute(2, 0, 1).contiguous()


def _unskew(diagonals: Tensor) -> Tensor:
    """``(L + M - 1, B, L) -> (B, L, M)``, the inverse of :func:`_skew`."""
    count, batch, lanes = diagonals.shape
    flat = diagonals.permute(1, 2, 0).reshape(batch, lanes * count)
    return namespace(flat).constant_pad_nd(flat, (0, lanes)).view(batch, lanes, count + 1)[:, :, : count - lanes + 1]


def to_next_lane(values: Tensor, fill: float) -> Tensor:
    """Moves the values of the innermost axis one lane up; lane 0 gets ``fill``."""
    return namespace(values).constant_pad_nd(values[..., :-1], (1, 0), fill)


def from_next_lane(values: Tensor, fill: float) -> Tensor:
    """Moves the values of the innermost axis one lane down; the last lane gets ``fill``."""
    return namespace(values).constant_pad_nd(values[..., 1:], (0, 1), fill)


@dataclass(frozen=True)
class Moves:
    """A value for every move of every lattice in a batch: log weights, posteriors or costs, each ``(D, B, L)``.

    Attributes:
        stay: Of the move to the next diagonal that keeps the lane.
        step: Of the move to the next diagonal and the next lane.
        exit: Of writing the last target symbol here and ending.
        lanes_are_targets: Whether a lane is a target position (step = emit) or a source position (step = shift).
    """

    stay: Tensor
    step: Tensor
    exit: Tensor
    lanes_are_targets: bool

    @classmethod
    def log_weights(cls, grid: Grid, end: End) -> Moves:
        """The lattice of ``grid``; impossible moves and cells beyond the lengths weigh minus infinity."""
        dtype = accumulation_dtype(grid.log_word.device)
        log_write = grid.log_word.to(dtype) + grid.log_emit.to(dtype)
        return cls.by_diagonals(grid, end, log_write, grid.log_shift.to(dtype), fill=-math.inf)

    @classmethod
    def by_diagonals(cls, grid: Grid, end: End, write: Tensor, shift: Tensor, fill: float) -> Moves:
        """Lays out values of writing and of shifting, ``(B, J, I)``; impossible moves get ``fill``."""
        _, tgt_size, src_size = write.shape
        xp, valid = namespace(write), valid_cells(grid)
        last_row = xp.arange(tgt_size, device=valid.device)[:, None] == grid.tgt_lens[:, None, None] - 1
        last_column = xp.arange(src_size, device=valid.device) == grid.src_lens[:, None, None] - 1
        may_exit = valid & last_row & (last_column if end == "last" else True)
        emit = write.masked_fill(~(valid & ~last_row), fill)
        shift = shift.masked_fill(~(valid & ~last_column), fill)
        leave = write.masked_fill(~may_exit, fill)
        if tgt_size <= src_size:
            return cls(_skew(shift, fill), _skew(emit, fill), _skew(leave, fill), lanes_are_targets=True)
        emit, shift, leave = (_skew(values.transpose(1, 2), fill) for values in (emit, shift, leave))
        return cls(emit, shift, leave, lanes_are_targets=False)

    @property
    def write(self) -> Tensor:
        """Of writing at the cell, whether the path goes on or ends; for values that add up, not for logs."""
        return self.to_grid((self.step if self.lanes_are_targets else self.stay) + self.exit)

    @property
    def shift(self) -> Tensor:
        """Of shifting at the cell, ``(B, J, I)``."""
        return self.to_grid(self.stay if self.lanes_are_targets else self.step)

    def to_grid(self, diagonals: Tensor) -> Tensor:
        """Turns ``(D, B, L)`` back into ``(B, J, I)``."""
        cells = _unskew(diagonals)
        return cells if self.lanes_are_targets else cells.transpose(1, 2)

    def start(self) -> Tensor:
        """The first diagonal of a forward recursion: all mass at the first cell, ``(B, L)``."""
        first = namespace(self.stay).full_like(self.stay[0], -math.inf)
        first[:, 0] = 0.0
        return first
