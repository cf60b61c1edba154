"""Training examples that are made of two: the beginning of one and the end of another.

How a word is inflected is mostly decided by how it ends, and its beginning is copied: who knows *Schwester* and
*Blumentopf* can inflect *Blumenschwester*. From a few thousand words a network learns this but half: it has also learnt
which whole words there are. Crossed examples are words that it cannot know, whose ends it has to look at.

An example is cut only before a symbol that its target copies, and what the target inserts before that belongs to the
beginning: *op|bergen* and *opge|borgen*, *|machen* and *ge|macht*. Two examples are crossed only if they have the same
tags and have inserted the same before their cuts: *gelobt* and *abgelegt*, but not *belegt*.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ssnt.data.prepared import Prepared
from ssnt.data.ragged import Ragged
from ssnt.data.vocab import SPECIAL
from ssnt.errors import DataError
from ssnt.types import UNK_ID

LONGEST_INSERTION = 3
"""How many target symbols may stand before a copy."""

_WORTH_AN_AFFIX = 2  # so many symbols more must be copied behind an insertion at the very beginning than without it
_ROWS_AT_ONCE = 4096
_STREAM = 1  # sets these draws apart from others with the same seed and epoch

_Numbers = npt.NDArray[np.int64]


class Crossover:
    """Crosses the examples of a training set, anew in each epoch.

    Args:
        prepared: The training data.
        ratio: How many crossed examples there are to be for each example. Those that would be longer than every example
            there is are missing from them.
        keep: How many source symbols stay together at each end: no example is cut closer to it.
        seed: Fixes, together with the epoch, which are crossed and where.

    Raises:
        DataError: No two examples can be crossed.
    """

    def __init__(self, prepared: Prepared, *, ratio: float, keep: int, seed: int) -> None:
        self._prepared = prepared
        self._ratio = ratio
        self._seed = seed
        self._places = _Places.of(prepared, keep)
        self._donors = _Groups.of(self._places.kinds, np.flatnonzero(self._places.last >= 1))
        self._recipients = np.flatnonzero(self._donors.counts > 0)
        if not len(self._recipients):
            raise DataError(
                f"setting 'training.crossover': no example of the training data begins with a copy of its source that "
                f"leaves {keep} symbols at its end, so that none can be crossed; set it to 0"
            )

    def epoch(self, number: int) -> Prepared:
        """All examples as they are, and the crossed ones of an epoch behind them."""
        begins, ends = self._cuts(np.random.default_rng((self._seed, number, _STREAM)))
        own = self._prepared
        rows = np.concatenate((np.arange(len(own)), ends.rows))
        return replace(
            own,
            src=_appended(own.src, _joined(own.src, begins.rows, begins.source, ends.rows, ends.source)),
            tgt=_appended(own.tgt, _joined(own.tgt, begins.rows, begins.target, ends.rows, ends.target)),
            tags=None if own.tags is None else _taken(own.tags, rows),
            lines=own.lines[rows],
        )

    def _cuts(self, generator: np.random.Generator) -> tuple[_Cuts, _Cuts]:
        """Where examples are cut whose beginnings, and where those whose ends are put together."""
        wanted = round(self._ratio * len(self._prepared))
        rounds = [generator.permutation(self._recipients) for _ in range(-(-wanted // len(self._recipients)))]
        recipients = np.concatenate([*rounds, self._recipients[:0]])[:wanted]
        donors = self._donors.draw(recipients, generator)
        begins = self._places.cuts(donors, np.maximum(self._places.first[donors], 1), generator)
        ends = self._places.cuts(recipients, self._places.first[recipients], generator)
        src_lens, tgt_lens = self._prepared.src_lens, self._prepared.tgt_lens
        is_good = begins.rows != ends.rows
        is_good &= src_lens[ends.rows] + begins.source - ends.source <= src_lens.max()
        is_good &= tgt_lens[ends.rows] + begins.target - ends.target <= tgt_lens.max()
        return begins.where(is_good), ends.where(is_good)


@dataclass(frozen=True)
class _Cuts:
    """Where some examples are cut: behind how many symbols of their source, and of their target."""

    rows: _Numbers
    source: _Numbers
    target: _Numbers

    def where(self, is_good: npt.NDArray[np.bool_]) -> _Cuts:
        return _Cuts(self.rows[is_good], self.source[is_good], self.target[is_good])


@dataclass(frozen=True)
class _Places:
    """Where examples can be cut. An example has as many of these as it has copies of its source.

    Attributes:
        rows: The example of each.
        first: Its first cut, as a number of source symbols.
        last: Its last cut.
        shift: How many more target symbols are before each of its cuts.
        kinds: Only places of one kind are crossed.
    """

    rows: _Numbers
    first: _Numbers
    last: _Numbers
    shift: _Numbers
    kinds: _Numbers

    @classmethod
    def of(cls, prepared: Prepared, keep: int) -> _Places:
        """The places of all examples, as far as they leave so many source symbols at the end."""
        copies = _Copies.of(prepared)
        everything = np.arange(len(prepared))
        rows = np.concatenate((everything, everything))
        first = np.concatenate((np.zeros_like(copies.first), copies.first))
        end = np.concatenate((copies.first, copies.first + copies.second))
        last = np.minimum(end, prepared.src_lens[rows] - keep) - 1
        shift = np.concatenate((copies.affix, copies.affix + copies.inserted))
        kinds = _kinds(prepared, copies, rows)
        some = np.flatnonzero((end > first) & (last >= first))
        return cls(rows[some], first[some], last[some], shift[some], kinds[some])

    def cuts(self, places: _Numbers, first: _Numbers, generator: np.random.Generator) -> _Cuts:
        """A cut in each of some places, from given ones on."""
        source = _between(first, self.last[places], generator)
        return _Cuts(self.rows[places], source, source + self.shift[places])


@dataclass(frozen=True)
class _Groups:
    """For each place, those that it may be crossed with.

    Attributes:
        members: The members of all groups, group after group.
        starts: For each place, where its group begins in ``members``.
        counts: For each place, how many members its group has.
    """

    members: _Numbers
    starts: _Numbers
    counts: _Numbers

    @classmethod
    def of(cls, kinds: _Numbers, members: _Numbers) -> _Groups:
        """Groups by kind, of some of the places."""
        by_kind = members[np.argsort(kinds[members], kind="stable")]
        own = kinds[by_kind]
        starts = np.searchsorted(own, kinds, side="left")
        return cls(by_kind, starts, np.searchsorted(own, kinds, side="right") - starts)

    def draw(self, places: _Numbers, generator: np.random.Generator) -> _Numbers:
        """A member of the group of each of some places."""
        chosen: _Numbers = self.starts[places] + _between(0, self.counts[places] - 1, generator)
        return self.members[chosen]


@dataclass(frozen=True)
class _Copies:
    """What the targets of examples copy from the beginnings of their sources, in one piece or two.

    Attributes:
        affix: How many target symbols stand before the first piece.
        first: How many symbols it has.
        inserted: How many target symbols stand between the two pieces.
        second: How many symbols the second piece has, 0 if there is none.
    """

    affix: _Numbers
    first: _Numbers
    inserted: _Numbers
    second: _Numbers

    @classmethod
    def of(cls, prepared: Prepared) -> _Copies:
        """The copies of all examples."""
        target_numbers = np.array(prepared.vocabulary.target.numbers_of(prepared.vocabulary.source))
        target_numbers[: len(SPECIAL)] = -1
        target_numbers[target_numbers == UNK_ID] = -1  # two unknown symbols need not be the same one
        parts = []
        for start in range(0, len(prepared), _ROWS_AT_ONCE):
            rows = np.arange(start, min(start + _ROWS_AT_ONCE, len(prepared)))
            sources, targets = target_numbers[prepared.src.padded(rows)[0]], prepared.tgt.padded(rows)[0]
            none = np.zeros(len(rows), dtype=np.int64)
            affix, first = _best_copy(sources, targets, none, none, range(LONGEST_INSERTION + 1))
            inserted, second = _best_copy(sources, targets, first, affix + first, range(1, LONGEST_INSERTION + 1))
            parts.append((affix, first, inserted, np.where(first > 0, second, 0)))
        return cls(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def _best_copy(
    sources: _Numbers, targets: _Numbers, source_starts: _Numbers, target_starts: _Numbers, insertions: range
) -> tuple[_Numbers, _Numbers]:
    """From given places on, how many target symbols are best inserted before a copy, and how long that copy is."""
    best_inserted, best = np.zeros_like(source_starts), np.zeros_like(source_starts)
    columns = np.arange(sources.shape[1])
    own = _from(sources, source_starts, columns, beyond=-1)
    for inserted in insertions:
        copied = np.cumprod(own == _from(targets, target_starts + inserted, columns, beyond=-2), axis=1).sum(axis=1)
        is_better = copied > best + (_WORTH_AN_AFFIX if inserted and 0 in insertions else 0)
        best_inserted[is_better], best[is_better] = inserted, copied[is_better]
    return best_inserted, best


def _from(rows: _Numbers, starts: _Numbers, columns: _Numbers, *, beyond: int) -> _Numbers:
    """Each row from a place of its own on."""
    places = starts[:, None] + columns
    inside = np.take_along_axis(rows, np.minimum(places, rows.shape[1] - 1), axis=1)
    return np.where(places < rows.shape[1], inside, beyond)


def _kinds(prepared: Prepared, copies: _Copies, rows: _Numbers) -> _Numbers:
    """A number for each place, the same for those with the same tags and the same insertions before them."""
    kinds: dict[Hashable, int] = {}
    numbers = np.empty(len(rows), dtype=np.int64)
    for place, row in enumerate(rows):
        target = prepared.tgt[row]
        tags = b"" if prepared.tags is None else np.sort(prepared.tags[row]).tobytes()
        inserted = target[: copies.affix[row]].tobytes()
        if place >= len(prepared):
            start = copies.affix[row] + copies.first[row]
            inserted += target[start : start + copies.inserted[row]].tobytes()
        numbers[place] = kinds.setdefault((tags, inserted), len(kinds))
    return numbers


def _between(low: int | _Numbers, high: _Numbers, generator: np.random.Generator) -> _Numbers:
    return generator.integers(low, high, endpoint=True, dtype=np.int64)


def _joined(rows: Ragged, begins: _Numbers, begin_cut: _Numbers, ends: _Numbers, end_cut: _Numbers) -> Ragged:
    """Rows that begin like some, up to a cut, and go on like others from another cut."""
    starts = np.stack((rows.offsets[begins], rows.offsets[ends] + end_cut), axis=1).ravel()
    lens = np.stack((begin_cut, rows.lens[ends] - end_cut), axis=1).ravel()
    return Ragged(_pieces(rows.values, starts, lens), _offsets(lens.reshape(-1, 2).sum(axis=1)))


def _taken(rows: Ragged, which: _Numbers) -> Ragged:
    lens = rows.lens[which]
    return Ragged(_pieces(rows.values, rows.offsets[which], lens), _offsets(lens))


def _pieces(values: npt.NDArray[np.int32], starts: _Numbers, lens: _Numbers) -> npt.NDArray[np.int32]:
    """Pieces of an array, one after the other."""
    ends = np.cumsum(lens)
    places: _Numbers = np.repeat(starts - (ends - lens), lens) + np.arange(lens.sum())
    return values[places]


def _offsets(lens: _Numbers) -> _Numbers:
    return np.concatenate(([0], np.cumsum(lens)))


def _appended(rows: Ragged, more: Ragged) -> Ragged:
    values = np.concatenate((rows.values, more.values))
    return Ragged(values, np.concatenate((rows.offsets, rows.offsets[-1] + more.offsets[1:])))
