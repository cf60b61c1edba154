"""From symbols to flat files of numbers in one pass, before it is known which symbols the vocabulary will have.

Symbols get provisional numbers in the order in which they first appear, and are counted. When all are read and the
vocabulary is made from the counts, the file of provisional numbers is rewritten piece by piece with the final
ones. What is in memory at any time is a piece, and a table of the different symbols.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

import numpy as np
import numpy.typing as npt

from ssnt.types import EOS_ID, UNK_ID

_PIECE = 1 << 16  # numbers that are written, read and changed at a time
_END = 0  # provisional number of the end of a row


class _RawFile:
    """A file of ``int32`` numbers that grows piece by piece, and is read piece by piece when all are there."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._size = 0
        path.touch()

    def __len__(self) -> int:
        return self._size

    def write(self, numbers: npt.NDArray[np.int32]) -> None:
        with self._path.open("ab") as file:
            file.write(numbers.data)
        self._size += len(numbers)

    def pieces(self) -> Iterator[npt.NDArray[np.int32]]:
        with self._path.open("rb") as file:
            while len(piece := np.fromfile(file, dtype=np.int32, count=_PIECE)):
                yield piece

    def remove(self) -> None:
        self._path.unlink()


class NumberWriter:
    """Writes numbers to a ``.npy`` file of whose size nothing is known before the end."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._raw = _RawFile(path.with_suffix(".raw"))
        self._pending: list[int] = []

    def add(self, number: int) -> None:
        """Adds a number."""
        self._pending.append(number)
        if len(self._pending) >= _PIECE:
            self._flush()

    def finish(self) -> None:
        """Writes the file."""
        self._flush()
        with self._path.open("wb") as file:
            _write_header(file, np.dtype(np.int32), len(self._raw))
            for piece in self._raw.pieces():
                file.write(piece.data)
        self.discard()

    def finish_offsets(self) -> None:
        """Writes a file of 0 and of the sums of the first numbers, one for each."""
        self._flush()
        with self._path.open("wb") as file:
            _write_header(file, np.dtype(np.int64), len(self._raw) + 1)
            end = np.zeros(1, dtype=np.int64)
            file.write(end.data)
            for piece in self._raw.pieces():
                ends = end[-1] + np.cumsum(piece, dtype=np.int64)
                file.write(ends.data)
                end = ends
        self.discard()

    def discard(self) -> None:
        """Removes what is not for keeping."""
        self._raw.remove()

    def _flush(self) -> None:
        self._raw.write(np.array(self._pending, dtype=np.int32))
        self._pending.clear()


class RaggedWriter:
    """Writes rows of symbols to two ``.npy`` files in a directory: the numbers, and where each row begins.

    Args:
        directory: Where to write.
        name: What the files are called: ``name.npy`` and ``name_offsets.npy``.
        has_end: Whether each row ends in ``EOS_ID``.
    """

    def __init__(self, directory: Path, name: str, *, has_end: bool) -> None:
        self._path, self._has_end = directory / f"{name}.npy", has_end
        # None, which is no symbol of any data, stands for the end
        self._table: defaultdict[str | None, int] = defaultdict(None, {None: _END})
        self._table.default_factory = self._table.__len__  # a symbol that is looked up gets the next number
        self._counts = np.zeros(0, dtype=np.int64)
        self._pending: list[str | None] = []
        self._raw = _RawFile(directory / f"{name}.raw")
        self._lens = NumberWriter(directory / f"{name}_offsets.npy")

    def add(self, row: Sequence[str]) -> None:
        """Adds a row."""
        self._pending += row
        if self._has_end:
            self._pending.append(None)
        self._lens.add(len(row) + self._has_end)
        if len(self._pending) >= _PIECE:
            self._flush()

    def counts(self) -> dict[str, int]:
        """How often each symbol has been added."""
        self._flush()
        return {symbol: int(self._counts[number]) for symbol, number in self._table.items() if symbol is not None}

    def finish(self, table: Mapping[str, int]) -> Counter[str]:
        """Writes the files with the numbers of a table, and counts the symbols that it does not have.

        They become ``UNK_ID``.
        """
        counts = self.counts()
        final = np.empty(len(self._table), dtype=np.int32)
        for symbol, number in self._table.items():
            final[number] = EOS_ID if symbol is None else table.get(symbol, UNK_ID)
        with self._path.open("wb") as file:
            _write_header(file, final.dtype, len(self._raw))
            for piece in self._raw.pieces():
                file.write(final[piece].data)
        self._lens.finish_offsets()
        self._raw.remove()
        return Counter({symbol: count for symbol, count in counts.items() if symbol not in table})

    def discard(self) -> None:
        """Writes nothing after all."""
        self._lens.discard()
        self._raw.remove()

    def _flush(self) -> None:
        numbers = np.fromiter(map(self._table.__getitem__, self._pending), dtype=np.int32, count=len(self._pending))
        counts = np.bincount(numbers, minlength=len(self._table))
        counts[: len(self._counts)] += self._counts
        self._counts = counts
        self._raw.write(numbers)
        self._pending.clear()


def _write_header(file: IO[bytes], dtype: np.dtype[np.signedinteger], size: int) -> None:
    """Writes what comes before the numbers in a ``.npy`` file."""
    description = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": (size,)}
    np.lib.format.write_array_header_1_0(file, description)
