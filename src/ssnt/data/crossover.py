"""Training examples that are made of two: the beginning of one and the end of another.

How a word is inflected is mostly decided by how it ends, and its beginning is copied: who knows *Schwester* and
*Blumentopf* can inflect *Blumenschwester*. From a few thousand words a network learns this but half: it has also learnt
which whole words there are. Crossed examples are words that it cannot know, whose ends it has to look at.

An example is cut only before a symbol that its target copies, and what the target inserts before that belongs to the
beginning: *op|bergen* and *opge|borgen*, *|machen* and *ge|macht*. A beginning may end at any such place, but an end is
a whole word, or what follows an insertion: of *tragen* and *fragen*, whose pasts are *trug* and *fragte*, *-agen* says
nothing. Two examples are crossed only if they have the same tags and have inserted the same before their cuts:
*gelobt* and *abgelegt*, but not *belegt*.

What is an insertion is learnt from the data: *gelacht* shows that participles may begin with *ge-*, since *lach* is
copied behind it, and so *gegossen* is read as *ge-gossen*, and *opgeborgen* as *op-ge-borgen*. What no word begins with
is none: not *och* in *gespr-och-en* from *sprechen*, nor *i* in Dutch *w-i-erpen* from *werpen*.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ssnt.data.prepared import Prepared
from ssnt.data.ragged import Ragged
from ssnt.data.vocab import SPECIAL
from ssnt.types import UNK_ID

LONGEST_INSERTION = 3
"""How many target symbols may stand before a copy."""

_CLEAR = 3  # so many symbols more are copied behind an insertion than without one, if there is no doubt about it
_OFTEN = 2  # so many examples with the same tags must show an insertion clearly
_CELLS_AT_ONCE = 1 << 20
_LEAST_END = 4  # source symbols behind an insertion: fewer are often an ending and no word
_TRIES = 8  # to find a partner that an example can be crossed with
_STREAM = 1  # sets these draws apart from others with the same seed and epoch

_Numbers = npt.NDArray[np.int64]
_Bits = npt.NDArray[np.bool_]


class Crossover:
    """Crosses the examples of a training set, anew in each epoch.

    What is made is no longer than the longest examples there are, on either side and in cells, asks nothing that an
    example answers already, and nothing twice in an epoch. Where no such partner is found in a few draws, an example is
    left out for an epoch.

    Args:
        prepared: The training data.
        ratio: How many crossed examples there are to be for each example that can be crossed.
        keep: If set, ends are also parts of words, of at least so many source symbols.
        seed: Fixes, together with the epoch, which are crossed and where.
    """

    def __init__(self, prepared: Prepared, *, ratio: float, keep: int | None, seed: int) -> None:
        self._prepared = prepared
        self._ratio = ratio
        self._seed = seed
        self._tags = _tag_sets(prepared)
        self._limits = (prepared.src_lens.max(), prepared.tgt_lens.max(), (prepared.src_lens * prepared.tgt_lens).max())
        self._places = _Places.of(prepared, self._tags, keep)
        self._donors = _Groups.of(self._places.kinds, self._places.last_begin >= 1)
        recipients = np.flatnonzero((self._donors.partners > 0) & self._leaves_room())
        self._recipients = recipients[np.argsort(self._places.rows[recipients], kind="stable")]
        # of each example that can be crossed, where its places begin among the recipients, and how many there are
        _, self._firsts, self._counts = np.unique(
            self._places.rows[self._recipients], return_index=True, return_counts=True
        )
        self.able = len(self._firsts)
        """How many examples can be crossed."""
        self._multipliers = _multipliers(int(prepared.src_lens.max()))
        self._known = np.unique(self._hashes(prepared.src, np.arange(len(prepared))))

    def epoch(self, number: int) -> Prepared:
        """All examples as they are, and the crossed ones of an epoch behind them."""
        own = self._prepared
        begins, ends = self._cuts(np.random.default_rng((self._seed, number, _STREAM)))
        rows = np.concatenate((np.arange(len(own)), ends.rows))
        return replace(
            own,
            src=_appended(own.src, _joined(own.src, begins.rows, begins.source, ends.rows, ends.source)),
            tgt=_appended(own.tgt, _joined(own.tgt, begins.rows, begins.target, ends.rows, ends.target)),
            tags=None if own.tags is None else _taken(own.tags, rows),
            lines=own.lines[rows],
        )

    def _leaves_room(self) -> _Bits:
        """At which places an end is so short that one symbol more before it is not too long."""
        places, (longest_src, longest_tgt, most_cells) = self._places, self._limits
        src_lens = self._prepared.src_lens[places.rows] - places.last_end + 1
        tgt_lens = self._prepared.tgt_lens[places.rows] - places.last_end + 1
        fits: _Bits = (src_lens <= longest_src) & (tgt_lens <= longest_tgt) & (src_lens * tgt_lens <= most_cells)
        return fits

    def _cuts(self, generator: np.random.Generator) -> tuple[_Cuts, _Cuts]:
        """Where examples are cut whose beginnings, and where those whose ends are put together."""
        wanted = math.ceil(self._ratio * self.able)
        rounds = [generator.permutation(self.able) for _ in range(-(-wanted // max(self.able, 1)))]
        left = np.concatenate([*rounds, np.zeros(0, dtype=np.int64)])[:wanted]
        found, asked = [], self._known
        for _ in range(_TRIES):
            places = self._recipients[self._firsts[left] + _between(0, self._counts[left] - 1, generator)]
            begins = self._places.begins(self._donors.draw(places, generator), generator)
            ends = self._places.ends(places, generator)
            is_good, questions = self._are_good(begins, ends, asked)
            found.append((begins.where(is_good), ends.where(is_good)))
            left, asked = left[~is_good], np.union1d(asked, questions)
        begins_found, ends_found = zip(*found, strict=True)
        return _Cuts.joined(begins_found), _Cuts.joined(ends_found)

    def _are_good(
        self, begins: _Cuts, ends: _Cuts, asked: npt.NDArray[np.uint64]
    ) -> tuple[_Bits, npt.NDArray[np.uint64]]:
        """Which are not too long, and ask what has not been asked, nor is by one before them; and what they ask."""
        own = self._prepared
        src_lens = own.src_lens[ends.rows] + begins.source - ends.source
        tgt_lens = own.tgt_lens[ends.rows] + begins.target - ends.target
        longest_src, longest_tgt, most_cells = self._limits
        is_good: _Bits = (src_lens <= longest_src) & (tgt_lens <= longest_tgt) & (src_lens * tgt_lens <= most_cells)
        short, behind = begins.where(is_good), ends.where(is_good)
        sources = _joined(own.src, short.rows, short.source, behind.rows, behind.source)
        questions, firsts = np.unique(self._hashes(sources, behind.rows), return_index=True)
        is_new = ~np.isin(questions, asked)
        chosen = np.zeros(len(behind.rows), dtype=np.bool_)
        chosen[firsts[is_new]] = True
        is_good[is_good] = chosen
        return is_good, questions[is_new]

    def _hashes(self, sources: Ragged, rows: _Numbers) -> npt.NDArray[np.uint64]:
        """A number for each source with the tags of a row, which are the same where both are."""
        places = np.arange(len(sources.values)) - np.repeat(sources.offsets[:-1], sources.lens)
        terms = sources.values.astype(np.uint64) * self._multipliers[places]
        sums = np.concatenate((np.zeros(1, dtype=np.uint64), np.cumsum(terms, dtype=np.uint64)))
        hashes: npt.NDArray[np.uint64] = np.diff(sums[sources.offsets])
        return hashes ^ (self._tags[rows].astype(np.uint64) << np.uint64(40))


@dataclass(frozen=True)
class _Cuts:
    """Where some examples are cut: behind how many symbols of their source, and of their target."""

    rows: _Numbers
    source: _Numbers
    target: _Numbers

    @classmethod
    def joined(cls, parts: Sequence[_Cuts]) -> _Cuts:
        """The cuts of all parts."""
        columns = zip(*((one.rows, one.source, one.target) for one in parts), strict=True)
        return cls(*(np.concatenate(column) for column in columns))

    def where(self, is_good: _Bits) -> _Cuts:
        """Some of them."""
        return _Cuts(self.rows[is_good], self.source[is_good], self.target[is_good])


@dataclass(frozen=True)
class _Places:
    """Where examples can be cut. An example has as many of these as it has copies of its source.

    Attributes:
        rows: The example of each.
        first: Its first cut, as a number of source symbols.
        last_begin: The last one that a beginning can end at.
        last_end: The last one that an end can begin at.
        shift: How many more target symbols are before each of its cuts.
        kinds: Only places of one kind are crossed.
    """

    rows: _Numbers
    first: _Numbers
    last_begin: _Numbers
    last_end: _Numbers
    shift: _Numbers
    kinds: _Numbers

    @classmethod
    def of(cls, prepared: Prepared, tags: _Numbers, keep: int | None) -> _Places:
        """The places of all examples."""
        copies = _Copies.of(prepared, tags)
        firsts = np.flatnonzero(copies.first > 0)
        seconds = np.flatnonzero((copies.second > 0) & (prepared.src_lens - 1 - copies.first >= _LEAST_END))
        rows = np.concatenate((firsts, seconds))
        is_second = np.arange(len(rows)) >= len(firsts)
        first = np.where(is_second, copies.first[rows], 0)
        last_begin = copies.first[rows] + np.where(is_second, copies.second[rows], 0) - 1
        inserted = np.where(is_second, copies.inserted[rows], 0)
        last_end = first
        if keep is not None:
            last_end = np.maximum(first, np.minimum(last_begin, prepared.src_lens[rows] - 1 - keep))
        kinds = _kinds(prepared, tags, rows, copies.affix[rows], first, inserted)
        return cls(rows, first, last_begin, last_end, copies.affix[rows] + inserted, kinds)

    def begins(self, places: _Numbers, generator: np.random.Generator) -> _Cuts:
        """Where the beginnings of some examples end, which are not empty."""
        return self._cuts(places, _between(np.maximum(self.first[places], 1), self.last_begin[places], generator))

    def ends(self, places: _Numbers, generator: np.random.Generator) -> _Cuts:
        """Where the ends of some examples begin."""
        return self._cuts(places, _between(self.first[places], self.last_end[places], generator))

    def _cuts(self, places: _Numbers, source: _Numbers) -> _Cuts:
        return _Cuts(self.rows[places], source, source + self.shift[places])


@dataclass(frozen=True)
class _Groups:
    """For each place, those that it may be crossed with: the members of its kind without itself.

    Attributes:
        members: The members of all kinds, kind after kind.
        starts: For each place, where its kind begins in ``members``.
        partners: For each place, how many members its kind has besides itself.
        own: For each place, where it is in ``members`` itself; behind all if it is no member.
    """

    members: _Numbers
    starts: _Numbers
    partners: _Numbers
    own: _Numbers

    @classmethod
    def of(cls, kinds: _Numbers, is_member: _Bits) -> _Groups:
        """Groups by kind, of some of the places. No example has two places of one kind."""
        some = np.flatnonzero(is_member)
        members = some[np.argsort(kinds[some], kind="stable")]
        starts = np.searchsorted(kinds[members], kinds, side="left")
        ends = np.searchsorted(kinds[members], kinds, side="right")
        own = np.full(len(kinds), len(members))
        own[members] = np.arange(len(members))
        return cls(members, starts, ends - starts - is_member, own)

    def draw(self, places: _Numbers, generator: np.random.Generator) -> _Numbers:
        """A partner for each of some places, each of its partners as likely as the others."""
        chosen: _Numbers = self.starts[places] + _between(0, self.partners[places] - 1, generator)
        return self.members[chosen + (chosen >= self.own[places])]


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
    def of(cls, prepared: Prepared, tags: _Numbers) -> _Copies:
        """The copies of all examples."""
        none = np.zeros(len(prepared), dtype=np.int64)
        behind = _copies_behind(prepared, none, none)
        known = _clear_affixes(prepared, tags, behind)
        # *gehen* and *gegangen* both begin with *ge*, which is no reason to see no insertion; *gegen* would be one
        affix, first = _insertions(prepared, tags, none, behind, known, behind[0] - _CLEAR)
        first = np.where(affix > 0, first, behind[0])
        inserted, second, moved = none.copy(), none.copy(), none.copy()
        # in *aufgegossen* from *aufgießen* the copy goes on for a letter of *ge-*, before which it is to end
        for back in range(LONGEST_INSERTION + 1):
            end = np.maximum(first - back, 0)
            behind = np.where(end > 0, _copies_behind(prepared, end, affix + end), 0)
            found, copied = _insertions(prepared, tags, affix + end, behind, known, second)
            is_better = found > 0
            inserted[is_better], second[is_better], moved[is_better] = found[is_better], copied[is_better], back
        return cls(affix, first - moved, inserted, second)


def _copies_behind(prepared: Prepared, source_starts: _Numbers, target_starts: _Numbers) -> _Numbers:
    """How many symbols are copied from given places on, behind 0, 1, 2, ... inserted ones."""
    target_numbers = np.array(prepared.vocabulary.target.numbers_of(prepared.vocabulary.source))
    target_numbers[: len(SPECIAL)] = -1
    target_numbers[target_numbers == UNK_ID] = -1  # two unknown symbols need not be the same one
    behind = np.zeros((LONGEST_INSERTION + 1, len(prepared)), dtype=np.int64)
    for rows in _by_size(np.maximum(prepared.src_lens, prepared.tgt_lens)):
        sources, targets = target_numbers[prepared.src.padded(rows)[0]], prepared.tgt.padded(rows)[0]
        for inserted in range(LONGEST_INSERTION + 1):
            behind[inserted, rows] = _copied(sources, targets, source_starts[rows], target_starts[rows] + inserted)
    return behind


def _clear_affixes(prepared: Prepared, tags: _Numbers, behind: _Numbers) -> set[Hashable]:
    """What targets begin with before they copy, with their tags, in so many examples that there is no doubt."""
    counts = Counter(
        key
        for inserted, copied in enumerate(behind[1:], 1)
        for key in _keys(prepared, tags, np.zeros_like(copied), np.flatnonzero(copied >= behind[0] + _CLEAR), inserted)
    )
    return {key for key, count in counts.items() if count >= _OFTEN}


def _insertions(
    prepared: Prepared, tags: _Numbers, starts: _Numbers, behind: _Numbers, known: set[Hashable], above: _Numbers
) -> tuple[_Numbers, _Numbers]:
    """How many symbols are inserted at given places, of known insertions, and how many are copied behind them.

    Of several the one with the longest copy, which has to have more symbols than a number for each example. Both are 0
    where there is none.
    """
    best_inserted, best = np.zeros_like(starts), np.zeros_like(starts)
    for inserted in range(1, LONGEST_INSERTION + 1):
        rows = np.flatnonzero((behind[inserted] > best) & (behind[inserted] > above))
        keys = _keys(prepared, tags, starts, rows, inserted)
        rows = rows[np.fromiter((key in known for key in keys), dtype=np.bool_, count=len(rows))]
        best_inserted[rows], best[rows] = inserted, behind[inserted, rows]
    return best_inserted, best


def _keys(prepared: Prepared, tags: _Numbers, starts: _Numbers, rows: _Numbers, length: int) -> Iterator[Hashable]:
    """The tags of some examples with what their targets have at given places."""
    for row in rows:
        yield int(tags[row]), prepared.tgt[row][starts[row] : starts[row] + length].tobytes()


def _by_size(lens: _Numbers) -> Iterator[_Numbers]:
    """All rows, in parts that do not take much memory when they are padded."""
    order = np.argsort(-lens, kind="stable")
    while len(order):
        count = max(1, _CELLS_AT_ONCE // int(lens[order[0]]))
        yield order[:count]
        order = order[count:]


def _copied(sources: _Numbers, targets: _Numbers, source_starts: _Numbers, target_starts: _Numbers) -> _Numbers:
    """How many symbols are the same, from given places on."""
    columns = np.arange(sources.shape[1])
    is_same = _from(sources, source_starts, columns, beyond=-1) == _from(targets, target_starts, columns, beyond=-2)
    counts: _Numbers = np.cumprod(is_same, axis=1).sum(axis=1)
    return counts


def _from(rows: _Numbers, starts: _Numbers, columns: _Numbers, *, beyond: int) -> _Numbers:
    """Each row from a place of its own on."""
    places = starts[:, None] + columns
    inside = np.take_along_axis(rows, np.minimum(places, rows.shape[1] - 1), axis=1)
    return np.where(places < rows.shape[1], inside, beyond)


def _tag_sets(prepared: Prepared) -> _Numbers:
    """A number for each example, the same for those with the same tags in whatever order."""
    if prepared.tags is None:
        return np.zeros(len(prepared), dtype=np.int64)
    known: dict[bytes, int] = {}
    tags = (np.sort(prepared.tags[row]).tobytes() for row in range(len(prepared)))
    return np.fromiter((known.setdefault(one, len(known)) for one in tags), dtype=np.int64, count=len(prepared))


def _kinds(
    prepared: Prepared, tags: _Numbers, rows: _Numbers, affix: _Numbers, first: _Numbers, inserted: _Numbers
) -> _Numbers:
    """A number for each place, the same for those with the same tags and the same insertions before them."""
    known: dict[Hashable, int] = {}
    numbers = np.empty(len(rows), dtype=np.int64)
    for place, row in enumerate(rows):
        target = prepared.tgt[row]
        between = affix[place] + first[place]
        text = target[: affix[place]].tobytes() + target[between : between + inserted[place]].tobytes()
        numbers[place] = known.setdefault((tags[row], text), len(known))
    return numbers


def _multipliers(longest: int) -> npt.NDArray[np.uint64]:
    """An odd number for each place of a source."""
    drawn = np.random.default_rng(_STREAM).integers(1 << 63, size=longest, dtype=np.uint64)
    return drawn * np.uint64(2) + np.uint64(1)


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
