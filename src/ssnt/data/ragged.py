"""Rows of different lengths in one flat array: what millions of sequences are kept in."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ssnt.errors import DataError
from ssnt.types import PAD_ID


@dataclass(frozen=True, eq=False)
class Ragged:
    """Rows of numbers one after the other.

    Attributes:
        values: All rows in one array; it may be mapped from a file.
        offsets: Where each row begins, and where the last one ends; one more than there are rows.
    """

    values: npt.NDArray[np.int32]
    offsets: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> npt.NDArray[np.int32]:
        if not -len(self) <= row < len(self):
            raise IndexError(f"expected a row from 0 to {len(self) - 1}, got {row}")
        row %= len(self)
        return self.values[self.offsets[row] : self.offsets[row + 1]]

    @cached_property
    def lens(self) -> npt.NDArray[np.int64]:
        """The length of each row."""
        return np.diff(self.offsets)

    def padded(self, rows: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Some rows as a rectangle, padded with ``PAD_ID`` to the longest, and their lengths.

        Raises:
            DataError: There is no row to pad to.
        """
        if not len(rows):
            raise DataError("expected at least one example to put into a batch, got none")
        starts, ends = self.offsets[rows], self.offsets[rows + 1]
        lens = ends - starts
        columns = np.arange(lens.max(), dtype=np.int64)
        is_valid = columns < lens[:, None]
        places = (starts[:, None] + columns)[is_valid]
        rectangle = np.full(is_valid.shape, PAD_ID, dtype=np.int64)
        rectangle[is_valid] = self.values[places]
        return rectangle, lens
