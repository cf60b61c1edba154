"""The lines of an input file: answered in order, whatever is wrong with some of them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from ssnt.cli.arriving import chunks
from ssnt.cli.errors import MISTAKE, SOME_FAILED, tell
from ssnt.cli.output import counted
from ssnt.errors import ConfigError, DataError

if TYPE_CHECKING:
    from ssnt.config import DataConfig
    from ssnt.data.lines import Problem, Watch
    from ssnt.decode import Failure
    from ssnt.interrupts import Stop
    from ssnt.pipeline import Transducer
    from ssnt.types import Example

AnswerT = TypeVar("AnswerT")

CHUNK_BATCHES = 16
"""So many batches are read together, so that inputs of about the same length can share one."""
_MOST_MESSAGES = 100
_NO_COLUMN = ("no source", "no target", "no tags")


class Inputs:
    """The lines of a file for a model, with an account of those that could not be used.

    Args:
        path: The file; ``-`` for standard input.
        data: How it is laid out.
        needs_target: Whether every line must have a target.
        has_tags: Whether the model needs tags.
        tags: Tags of every line, as the command line gives them; None: those in the file.
        watch: Sees every line as it is read.

    Attributes:
        tags: Tags of every line, divided; None: those in the file.
        lines: How many lines were answered.
        failed: How many of them could not be used.

    Raises:
        ConfigError: There are tags on the command line, and the model has none.
    """

    def __init__(
        self,
        path: str,
        data: DataConfig,
        *,
        needs_target: bool,
        has_tags: bool,
        tags: str | None = None,
        watch: Watch | None = None,
    ) -> None:
        self._path, self._data, self._needs_target, self._watch = path, data, needs_target, watch
        self.tags = fixed_tags(tags, data, has_tags=has_tags)
        self._needs_tags = has_tags and self.tags is None
        self.lines = self.failed = 0

    def chunks(self, size: int, *, patient_until: Stop | None = None) -> Iterator[list[Example | Problem]]:
        """The lines, several at a time, with a problem in the place of each that cannot be used.

        The first ones are read at once, so that a file that cannot be used is told before anything is written.

        Args:
            size: How many there are together.
            patient_until: If given, so many are waited for also from standard input, until it is requested to stop.

        Raises:
            DataError: The file cannot be read, or is not laid out as expected.
            StopNow: So.
        """
        found = self._read(size, patient_until)
        first = next(found, None)
        return iter(()) if first is None else itertools.chain([first], found)

    def _read(self, size: int, patient_until: Stop | None) -> Iterator[list[Example | Problem]]:
        from ssnt.types import Example

        is_first = True
        for chunk in chunks(
            self._path,
            self._data,
            size,
            needs_target=self._needs_target,
            needs_tags=self._needs_tags,
            patient_until=patient_until,
            watch=self._watch,
        ):
            if is_first and not isinstance(chunk[0], Example):
                self._check_layout(chunk[0])
            is_first = False
            tags = self.tags
            yield [replace(one, tags=tags) if tags is not None and isinstance(one, Example) else one for one in chunk]

    def answered(
        self, chunk: Sequence[Example | Problem], answer: Callable[[list[Example]], Sequence[AnswerT | Failure]]
    ) -> Iterator[tuple[Example, AnswerT | DataError]]:
        """Each line with its answer, in order, or with what is wrong with it, which is told too.

        Args:
            chunk: Some lines.
            answer: From examples to their answers, with a failure in the place of each that has none.
        """
        from ssnt.data.lines import Problem
        from ssnt.decode import Failure
        from ssnt.types import Example

        examples = [one for one in chunk if isinstance(one, Example)]
        answers = iter(answer(examples) if examples else ())
        for one in chunk:
            self.lines += 1
            if isinstance(one, Problem):
                self.tell(one)
                yield Example("", line=one.line), DataError(one.message)
                continue
            found = next(answers)
            if isinstance(found, Failure):
                self.tell(Problem(self._path, one.line, str(found.error)))
                yield one, found.error
            else:
                yield one, found

    def tell(self, problem: Problem) -> None:
        """Tells of a line that cannot be used, unless there were many, and counts it."""
        self.failed += 1
        if self.failed <= _MOST_MESSAGES:
            tell(str(problem))
        if self.failed == _MOST_MESSAGES:
            tell("further lines that cannot be used are only counted")

    def exit_code(self) -> int:
        """What the command ends with; says how many lines could not be used, if there were any."""
        if not self.failed:
            return 0
        tell(f"{self.failed} of {counted(self.lines, 'line')} could not be used")
        return SOME_FAILED if self.failed < self.lines else MISTAKE

    def _check_layout(self, problem: Problem) -> None:
        """Stops at a first line that lacks a column, as the others will too; any other bad line is only a bad line."""
        if problem.line and not problem.message.startswith(_NO_COLUMN):
            return
        lacks_tags = self._needs_tags and "tags" in problem.message
        hint = "; the model was trained with tags: give them with --tags or --tags-column" if lacks_tags else ""
        raise DataError(f"{problem}{hint}")


def fixed_tags(tags: str | None, data: DataConfig, *, has_tags: bool) -> tuple[str, ...] | None:
    """The tags that the command line gives to all inputs, None if it gives none.

    Raises:
        ConfigError: The model has no tags.
    """
    if tags is None:
        return None
    if not has_tags:
        raise ConfigError(f"--tags {tags!r}: the model was trained without tags; leave --tags out")
    from ssnt.data.formats import resolve_format
    from ssnt.data.parsers import split_tags

    return split_tags(tags, resolve_format(data).tag_separator)


class UnknownTags:
    """Tells of inputs with tags that a model does not know.

    Args:
        transducer: The model.
        data: How inputs are laid out, and so where tags are divided.
    """

    def __init__(self, transducer: Transducer, data: DataConfig) -> None:
        self._tags = transducer.vocabulary_for(()).tags
        self._data = data
        self._count = 0
        self._example: str | None = None

    def see(self, tags: Iterable[str]) -> None:
        """Looks at the tags of an input."""
        if self._tags is None:
            return
        unknown = [tag for tag in tags if tag not in self._tags.table]
        self._count += bool(unknown)
        if unknown and self._example is None:
            self._example = unknown[0]

    def tell(self, count: int | None = None) -> None:
        """Says how many inputs there were, if any; as many as are given, if whoever asks has counted them."""
        count = self._count if count is None else count
        if not count or self._tags is None:
            return
        from ssnt.data.formats import resolve_format

        example = "" if self._example is None else f", such as {self._example!r}"
        names = self._tags.names
        others = f" and {len(names) - 3} others" if len(names) > 3 else ""
        known = ", ".join(map(repr, names[:3])) + others
        separator = resolve_format(self._data).tag_separator
        tell(
            f"{counted(count, 'input')} with tags that the model does not know{example}; it knows {known}, and tags "
            f"are split at {separator!r}",
            "warning",
        )
