"""Everything that is wrong or odd about a data file, found before anything is trained on it.

Errors are what training or prediction would stop at. Warnings are about what works but may not be meant.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ssnt.data.filters import FilterReport
from ssnt.data.formats import resolve_format
from ssnt.data.lines import Problem
from ssnt.data.oddities import LineWatch, invisible, padded, search_limit
from ssnt.data.readers import iterate
from ssnt.data.repeats import Repeats
from ssnt.data.stats import Census, Stats, as_vocabulary, file_stats
from ssnt.data.vocab import Vocabulary

if TYPE_CHECKING:
    from ssnt.config import DataConfig, SearchConfig
    from ssnt.types import Example

__all__ = ["CheckReport", "Problem", "Stats", "check_file", "file_stats"]

_SHOWN = 10  # symbols that a message names


@dataclass(slots=True)
class CheckReport:
    """What was found in a file.

    Attributes:
        path: The file.
        problems: What is wrong, by line; about the whole file first. All of it, unless there was a limit.
        errors: How many errors there are, whether or not they are all in ``problems``.
        warnings: How many warnings there are.
        counts: How many problems there are of each kind; a kind is a short name such as ``"duplicate"``.
        examples: How many examples can be used.
        first: The first of them; None if there is none.
        report: What the filters of training do to them.
        unseen_source: How often there are source symbols that the training data does not have.
        unseen_target: The same for target symbols.
        unseen_tags: The same for tags.
        vocabulary: The vocabulary that training on this file has, or the one that it was compared with.
    """

    path: str
    problems: list[Problem]
    errors: int
    warnings: int
    counts: Counter[str]
    examples: int
    first: Example | None
    report: FilterReport
    unseen_source: Counter[str]
    unseen_target: Counter[str]
    unseen_tags: Counter[str]
    vocabulary: Vocabulary

    @property
    def is_usable(self) -> bool:
        """Whether there is no error."""
        return not self.errors

    def sentence(self) -> str:
        """Says how many examples and problems there are."""
        return (
            f"{_count(self.examples, 'usable example')}, {_count(self.errors, 'error')}, "
            f"{_count(self.warnings, 'warning')}"
        )


def check_file(
    path: str,
    data: DataConfig,
    *,
    needs_target: bool = True,
    needs_tags: bool | None = None,
    against: Vocabulary | str | None = None,
    search: SearchConfig | None = None,
    limit: int | None = None,
    on_problem: Callable[[Problem], None] | None = None,
) -> CheckReport:
    """Reads a whole file and finds every problem with its line.

    Args:
        path: The file; ``-`` for standard input.
        data: How it is laid out, what its symbols are, and which pairs are used.
        needs_target: Whether every example must have a target, as for training and evaluation.
        needs_tags: Whether every line must say what its tags are; None: whether the training data has tags, or what the
            layout says if the file itself is for training. If False, tags are ignored.
        against: The vocabulary of the training data, or the training file: what is unseen in it is counted. None: the
            file itself is for training.
        search: The settings of the search, whose longest output targets should not exceed; None: the defaults.
        limit: At most so many errors, and so many warnings about single lines, are kept in the report; None: all. All
            are counted.
        on_problem: Called with each problem when it is found, also with those beyond the limit.

    Raises:
        ConfigError: The settings ask for columns that the format cannot have.
        DataError: Byte-pair units would have to be learnt from standard input or a pipe.
    """
    is_training = needs_target and against is None
    vocabulary = as_vocabulary(against, data)
    if vocabulary is not None and needs_tags is None:
        needs_tags = vocabulary.tags is not None  # as in training
    census = Census(path, data, vocabulary, needs_target=needs_target)
    found = _Findings(path, limit, on_problem)
    checker = _Checker(path, data, census, found, search, ignores_tags=needs_tags is False)
    watch = LineWatch(resolve_format(data), found.warn)
    first: Example | None = None
    for one in iterate(path, data, needs_target=needs_target, needs_tags=needs_tags, watch=watch):
        if isinstance(one, Problem):
            found.add("error", one)
        else:
            first = first or one
            checker.add(one)
    watch.finish(path, found.summarise)
    checker.finish(is_training)
    source, target, tags = census.unseen()
    return CheckReport(
        path=path,
        problems=found.sorted(),
        errors=found.errors,
        warnings=found.warnings,
        counts=found.counts,
        examples=census.examples,
        first=first,
        report=census.report,
        unseen_source=source,
        unseen_target=target,
        unseen_tags=tags,
        vocabulary=census.vocabulary(),
    )


@dataclass(slots=True)
class _Findings:
    """Problems as they are found: all are counted, and as many are kept as the limit allows."""

    path: str
    limit: int | None
    on_problem: Callable[[Problem], None] | None
    counts: Counter[str] = field(default_factory=Counter)
    errors: int = 0
    warnings: int = 0
    _kept: list[Problem] = field(default_factory=list)
    _room: dict[bool, int] = field(default_factory=dict)

    def add(self, kind: str, problem: Problem, *, is_summary: bool = False) -> None:
        """Counts a problem, and keeps it if there is room; a summary is always kept."""
        self.counts[kind] += 1
        if problem.is_error:
            self.errors += 1
        else:
            self.warnings += 1
        if self.on_problem is not None:
            self.on_problem(problem)
        if not is_summary and self.limit is not None:
            kept = self._room.get(problem.is_error, 0)
            if kept >= self.limit:
                return
            self._room[problem.is_error] = kept + 1
        self._kept.append(problem)

    def warn(self, kind: str, path: str, line: int, message: str) -> None:
        """Adds a warning about a line."""
        self.add(kind, Problem(path, line, message, is_error=False))

    def summarise(self, kind: str, path: str, line: int, message: str) -> None:
        """Adds a warning about the file, with the first line that it is about."""
        self.add(kind, Problem(path, line, message, is_error=False), is_summary=True)

    def fail(self, kind: str, line: int, message: str) -> None:
        """Adds an error about the file."""
        self.add(kind, Problem(self.path, line, message), is_summary=True)

    def sorted(self) -> list[Problem]:
        """What was kept, by line; of one line, errors first."""
        return sorted(self._kept, key=lambda problem: (problem.line, not problem.is_error))


class _Checker:
    """Looks at the usable examples of a file, one after another and then as a whole."""

    def __init__(
        self,
        path: str,
        data: DataConfig,
        census: Census,
        found: _Findings,
        search: SearchConfig | None,
        *,
        ignores_tags: bool,
    ) -> None:
        self._path, self._census, self._found = path, census, found
        self._form, self._ignores_tags = resolve_format(data), ignores_tags
        self._longest = search_limit(search)
        self._repeats = Repeats()
        self._has_tags = self._form.layout in ("columns", "morph-trans") and self._form.may_have_tags
        self._without_tags = array("Q")
        self._kept_line = 0

    def add(self, example: Example) -> None:
        """Looks at an example."""
        found, path, line = self._found, self._path, example.line
        kept = self._census.report.kept
        src_len, tgt_len = self._census.add(example)
        if self._census.report.kept > kept:
            self._kept_line = line
        for what, text, unit in (
            ("source", example.source, self._form.source_unit),
            ("target", example.target, self._form.target_unit),
        ):
            if text is None:
                continue
            if not text.isprintable() or "\ufffd" in text:
                found_there = invisible(text)
                if found_there:
                    found.warn("control character", path, line, f"the {what} holds {found_there}")
            if unit != "tokens" and padded(text):
                found.warn("surrounding space", path, line, f"the {what} begins or ends with whitespace: {text!r}")
        if not example.tags and not self._ignores_tags:
            self._note_no_tags(line)
        if example.target is None:
            return
        if tgt_len > (longest := self._longest(src_len)):
            found.warn(
                "long target",
                path,
                line,
                f"the target has {tgt_len} symbols, and the search writes at most {longest} for a source of "
                f"{src_len}; raise search.max_length or search.max_length_ratio",
            )
        normalise = self._census.normalise
        self._repeats.add(normalise(example.source), normalise(example.target), example.tags, line)

    def finish(self, is_training: bool) -> None:
        """Looks at the file as a whole."""
        found, census, path = self._found, self._census, self._path
        for line, first in self._repeats.duplicates():
            found.warn("duplicate", path, line, f"the same as line {first}")
        count, line = self._repeats.several_targets()
        if count:
            message = f"{_count(count, 'source')} with the same tags {'has' if count == 1 else 'have'} several targets"
            found.summarise("several targets", path, line, f"{message}; the first is here")
        self._finish_tags()
        if is_training:
            self._finish_training()
        else:
            self._finish_unseen()
        if is_training and census.report.kept == 1 and not found.errors:
            found.fail("only one line", self._kept_line, census.report.only_one())

    def _note_no_tags(self, line: int) -> None:
        """Remembers a line without tags: whether that is odd is known at the end."""
        if self._has_tags:
            self._found.warn("no tags", self._path, line, "there are no tags in this line")
        else:
            self._without_tags.append(line)

    def _finish_tags(self) -> None:
        # where tags are optional, a line without is odd only if others have some
        if len(self._without_tags) < self._census.examples:
            for line in self._without_tags:
                self._found.warn("no tags", self._path, line, "there are no tags in this line, and others have some")

    def _finish_training(self) -> None:
        found, census, path = self._found, self._census, self._path
        if census.report.taken:
            sentence = census.report.sentence()
            if census.report.kept:
                found.summarise("filtered", path, 0, sentence)
            else:
                found.fail("filtered", 0, sentence)
        for what, side in (("source", census.source), ("target", census.target)):
            once = side.seen_once
            if once and side.unit != "bpe":
                shown = _listed(once, side.first_lines)
                message = f"{_count(len(once), f'{what} symbol')}, of {len(side.counts)}, seen only once: {shown}"
                found.summarise("seen once", path, side.first_lines[once[0]], message)

    def _finish_unseen(self) -> None:
        census = self._census
        source, target, tags = census.unseen()
        for what, unseen, side in (("source symbol", source, census.source), ("target symbol", target, census.target)):
            if unseen:
                self._warn_unseen(what, unseen, side.first_lines)
        if tags:
            self._warn_unseen("tag", tags, census.tag_lines)

    def _warn_unseen(self, what: str, unseen: Mapping[str, int], lines: Mapping[str, int]) -> None:
        message = f"{_count(len(unseen), what)} not in the vocabulary of the training data"
        self._found.summarise(
            f"unseen {what}",
            self._path,
            min(lines[symbol] for symbol in unseen),
            f"{message}, {_count(sum(unseen.values()), 'time')}: {_listed(unseen, lines)}",
        )


def _listed(symbols: Collection[str], lines: Mapping[str, int]) -> str:
    """The first of some symbols, with the lines where they are first."""
    first = sorted(symbols, key=lambda symbol: lines[symbol])[:_SHOWN]
    more = f" and {len(symbols) - _SHOWN} more" if len(symbols) > _SHOWN else ""
    return ", ".join(f"{symbol!r} (line {lines[symbol]})" for symbol in first) + more


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
