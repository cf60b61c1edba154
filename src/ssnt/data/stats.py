"""What a data file holds, counted in memory that grows with the vocabulary and not with the file."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ssnt.data.filters import FilterReport, Filters
from ssnt.data.formats import resolve_format
from ssnt.data.lines import STDIN, Problem, shown
from ssnt.data.readers import files_of, iterate, read_examples
from ssnt.data.text import normalise
from ssnt.data.units import Characters, make_unit, units_for
from ssnt.data.vocab import Vocabulary, make_vocabulary
from ssnt.errors import DataError
from ssnt.types import Example

if TYPE_CHECKING:
    from ssnt.config import DataConfig, UnitName
    from ssnt.data.units import Unit

PERCENTILES = (5, 25, 50, 75, 95, 99)
"""The percentiles of lengths that are written as JSON."""


@dataclass(slots=True)
class Side:
    """The sources or the targets of a file.

    Attributes:
        unit: What a symbol is.
        lengths: How many have each length in symbols, without the end symbol.
        counts: How often each symbol is there, in the pairs that the filters leave.
        first_lines: Where each symbol is first.
    """

    unit: UnitName
    lengths: Counter[int] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    first_lines: dict[str, int] = field(default_factory=dict)

    def add(self, symbols: list[str], line: int) -> None:
        """Counts the symbols of an example."""
        self.counts.update(symbols)
        if len(self.counts) > len(self.first_lines):
            for symbol in symbols:
                self.first_lines.setdefault(symbol, line)

    @property
    def symbols(self) -> int:
        """How many symbols there are in all."""
        return sum(length * count for length, count in self.lengths.items())

    @property
    def mean_length(self) -> float:
        """The mean length."""
        return self.symbols / max(1, self.lengths.total())

    @property
    def seen_once(self) -> tuple[str, ...]:
        """The symbols that are there only once, in their order in the file."""
        return tuple(symbol for symbol in self.first_lines if self.counts[symbol] == 1)

    def percentile(self, percent: float) -> int:
        """The least length that at least ``percent`` percent do not exceed; 0 if there is nothing."""
        needed, so_far = self.lengths.total() * percent / 100.0, 0
        for length in sorted(self.lengths):
            so_far += self.lengths[length]
            if so_far >= needed:
                return length
        return 0

    def to_json(self) -> dict[str, Any]:
        """The numbers as JSON values."""
        return {
            "unit": self.unit,
            "symbols": self.symbols,
            "different": len(self.counts),
            "seen_once": len(self.seen_once),
            "length": {
                "mean": self.mean_length,
                "min": min(self.lengths, default=0),
                "max": max(self.lengths, default=0),
                "percentiles": {str(percent): self.percentile(percent) for percent in PERCENTILES},
                "histogram": {str(length): self.lengths[length] for length in sorted(self.lengths)},
            },
        }


@dataclass(slots=True)
class Stats:
    """What a file holds.

    Attributes:
        path: The file.
        examples: How many examples there are.
        source: The sources.
        target: The targets; None where they were not read.
        tags: How many examples have each tag.
        tag_sets: How many examples have each set of tags; the tags are sorted.
        report: What the filters of training would do.
        vocabulary: The vocabulary that training on this file has, or the one that it was compared with.
        unseen_source: How often there are source symbols that the vocabulary it was compared with does not have.
        unseen_target: The same for target symbols.
        unseen_tags: The same for tags.
    """

    path: str
    examples: int
    source: Side
    target: Side | None
    tags: Counter[str]
    tag_sets: Counter[tuple[str, ...]]
    report: FilterReport
    vocabulary: Vocabulary
    unseen_source: Counter[str]
    unseen_target: Counter[str]
    unseen_tags: Counter[str]

    def to_json(self) -> dict[str, Any]:
        """The numbers as JSON values."""
        sizes = self.vocabulary
        return {
            "path": self.path,
            "examples": self.examples,
            "source": self.source.to_json(),
            "target": None if self.target is None else self.target.to_json(),
            "tags": dict(self.tags.most_common()),
            "tag_sets": [{"tags": list(tags), "examples": count} for tags, count in self.tag_sets.most_common()],
            "filters": self.report.to_json(),
            "vocabulary": {
                "source": len(sizes.source.symbols),
                "target": len(sizes.target.symbols),
                "tags": 0 if sizes.tags is None else len(sizes.tags),
            },
            "unseen": {
                "source": dict(self.unseen_source),
                "target": dict(self.unseen_target),
                "tags": dict(self.unseen_tags),
            },
        }


class Census:
    """Counts what examples hold, one after another.

    Args:
        path: The file that they come from, for byte-pair units and messages.
        data: The settings.
        against: A vocabulary to compare with. Then the examples are not for training: they are divided by its units
            and not filtered, and normalised as it says.
        needs_target: Whether the examples have targets.

    Raises:
        DataError: Byte-pair units would have to be learnt from standard input or a pipe, which can be read only once.
    """

    def __init__(
        self, path: str, data: DataConfig, against: Vocabulary | None = None, *, needs_target: bool = True
    ) -> None:
        self._data, self._against = data, against
        if against is not None:
            self._units: tuple[Unit, Unit] = (against.source_unit, against.target_unit)
        else:
            self._units = _units(path, data, needs_target)
        self.filters = Filters.of(data) if against is None else Filters()
        self.examples = 0
        self.source, self.target = Side(self._units[0].name), Side(self._units[1].name)
        self.tags: Counter[str] = Counter()
        self.tag_lines: dict[str, int] = {}  # where each tag is first
        self.tag_sets: Counter[tuple[str, ...]] = Counter()  # as written, few different ones
        self.report = FilterReport(self.filters)

    def add(self, example: Example) -> tuple[int, int]:
        """Counts an example, and returns the lengths of its source and target."""
        self.examples += 1
        source = self._units[0].split(self.normalise(example.source))
        target = [] if example.target is None else self._units[1].split(self.normalise(example.target))
        self.source.lengths[len(source)] += 1
        self.tag_sets[example.tags] += 1
        verdict = self.filters.verdict(len(source), len(target))
        self.report.count(verdict)
        if verdict is None:
            self.source.add(source, example.line)
            self._add_tags(example)
        if example.target is not None:
            self.target.lengths[len(target)] += 1
            if verdict is None:
                self.target.add(target, example.line)
        return len(source), len(target)

    def _add_tags(self, example: Example) -> None:
        self.tags.update(example.tags)
        if len(self.tags) > len(self.tag_lines):
            for tag in example.tags:
                self.tag_lines.setdefault(tag, example.line)

    def vocabulary(self) -> Vocabulary:
        """The vocabulary that training on these examples has, or the given one."""
        if self._against is not None:
            return self._against
        return make_vocabulary(self.source.counts, self.target.counts, self.tags, *self._units, self._data)

    def unseen(self) -> tuple[Counter[str], Counter[str], Counter[str]]:
        """How often source symbols, target symbols and tags are there that the given vocabulary does not have."""
        if self._against is None:
            return Counter(), Counter(), Counter()
        tables = (self._against.source, self._against.target, self._against.tags)
        # a model without tags takes no notice of any
        tables_or_none = [None if table is None else table.table for table in tables]
        counts = (self.source.counts, self.target.counts, self.tags)
        source, target, tags = (
            Counter({name: count for name, count in counted.items() if table is not None and name not in table})
            for counted, table in zip(counts, tables_or_none, strict=True)
        )
        return source, target, tags

    def normalise(self, text: str) -> str:
        """Text as it is before it is divided: by the given vocabulary, or by the settings if it is for training."""
        if self._against is not None:
            return self._against.normalise(text)
        return normalise(text, lowercase=self._data.lowercase, digits_to_hash=self._data.digits_to_hash)


def file_stats(
    path: str, data: DataConfig, *, needs_target: bool = True, against: Vocabulary | str | None = None
) -> Stats:
    """Reads a whole file and counts what it holds.

    Args:
        path: The file; ``-`` for standard input.
        data: How it is laid out, and what its symbols are.
        needs_target: Whether every example must have a target; otherwise targets are ignored.
        against: The vocabulary to compare with, or the training file that has it; None: the file is for training.

    Raises:
        DataError: A line cannot be used.
    """
    census = Census(path, data, as_vocabulary(against, data), needs_target=needs_target)
    for example in read_examples(path, data, needs_target=needs_target):
        census.add(example)
    sets: Counter[tuple[str, ...]] = Counter()
    for tags, count in census.tag_sets.items():
        sets[tuple(sorted(tags))] += count
    source, target, tags_unseen = census.unseen()
    return Stats(
        path=path,
        examples=census.examples,
        source=census.source,
        target=census.target if needs_target else None,
        tags=census.tags,
        tag_sets=sets,
        report=census.report,
        vocabulary=census.vocabulary(),
        unseen_source=source,
        unseen_target=target,
        unseen_tags=tags_unseen,
    )


def as_vocabulary(against: Vocabulary | str | None, data: DataConfig) -> Vocabulary | None:
    """The vocabulary that training on a file has; one that is there already is returned as it is.

    Lines that cannot be used are passed over.

    Raises:
        DataError: The file has no line that can be used.
    """
    if not isinstance(against, str):
        return against
    census = Census(against, data)
    problem: Problem | None = None
    for one in iterate(against, data):
        if isinstance(one, Example):
            census.add(one)
        else:
            problem = problem or one
    if problem is not None and not census.examples:
        raise problem.as_error()
    return census.vocabulary()


def _usable(path: str, data: DataConfig, needs_target: bool) -> Iterator[Example]:
    return (one for one in iterate(path, data, needs_target=needs_target) if isinstance(one, Example))


def _is_stream(name: str) -> bool:
    return os.path.exists(name) and not os.path.isfile(name) and not os.path.isdir(name)


def _units(path: str, data: DataConfig, needs_target: bool) -> tuple[Unit, Unit]:
    form = resolve_format(data)
    if "bpe" not in (form.source_unit, form.target_unit):
        return make_unit(form.source_unit), make_unit(form.target_unit)
    if path == STDIN or any(map(_is_stream, files_of(path, data, needs_target=needs_target))):
        raise DataError(
            f"{shown(path)}: byte-pair units are learnt in a first reading, and this can be read only once; "
            "save it to a file first"
        )
    if next(_usable(path, data, needs_target), None) is None:  # whoever reads the file will say so
        return Characters(), Characters()
    return units_for(data, lambda: _usable(path, data, needs_target))
