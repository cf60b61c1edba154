"""Data files to examples, line by line: nothing is held in memory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING

from ssnt.data.formats import FileFormat, resolve_format
from ssnt.data.lines import STDIN, Problem, Watch, lines_or_problems, shown
from ssnt.data.parsers import ColumnParser, checked, make_parser, split_tags
from ssnt.errors import DataError
from ssnt.types import Example

if TYPE_CHECKING:
    from ssnt.config import DataConfig

_BLANK = "the line is empty"


def read_examples(
    path: str, data: DataConfig, *, needs_target: bool = True, needs_tags: bool | None = None
) -> Iterator[Example]:
    """Reads a file's examples, in NFC and otherwise as they are written.

    Args:
        path: A file, packed with gzip or not; ``-`` for standard input. For ``parallel``, the name without ``.src``.
        data: How the file is laid out.
        needs_target: Whether every example must have a target. If not, as for prediction, targets are ignored.
        needs_tags: Whether every line must say what its tags are; None: what the layout says. If False, tags are
            ignored.

    Raises:
        ConfigError: The settings ask for columns that the format cannot have.
        DataError: A line cannot be used, or the file cannot be read; or targets are needed and there is no example.
    """
    for one in iterate(path, data, needs_target=needs_target, needs_tags=needs_tags):
        if isinstance(one, Problem):
            raise one.as_error()
        yield one


def iterate(
    path: str,
    data: DataConfig,
    *,
    needs_target: bool = True,
    needs_tags: bool | None = None,
    watch: Watch | None = None,
) -> Iterator[Example | Problem]:
    """Reads a file like :func:`read_examples`, with a problem in the place of every line that cannot be used.

    Empty lines at the end of a file are no problem where targets are needed. For prediction every line counts: it gives
    an example or a problem as soon as it is read, so that outputs stay beside their inputs.

    Args:
        path: The file.
        data: How it is laid out.
        needs_target: Whether every example must have a target.
        needs_tags: Whether every line must say what its tags are; None: what the layout says.
        watch: Called with the file, number and text of every line before it is normalised.

    Raises:
        ConfigError: The settings ask for columns that the format cannot have.
    """
    form = resolve_format(data)
    if needs_tags and not form.may_have_tags:
        hint = "data.tags_column must say in which column they are"
        hint = hint if form.layout == "columns" else f"the format {form.name!r} has none"
        return iter([Problem(path, 0, f"tags are needed, and the file has no column of tags: {hint}")])
    if form.layout == "parallel":
        rows = _parallel(path, form, needs_target, needs_tags, watch)
    else:
        rows = _lines(path, form, needs_target, needs_tags, watch)
    return _not_empty(rows, path, form) if needs_target else rows


def files_of(path: str, data: DataConfig, *, needs_target: bool = True) -> tuple[str, ...]:
    """The files that are read for ``path``: itself, or for ``parallel`` two or three."""
    if resolve_format(data).layout != "parallel":
        return (path,)
    files = ParallelFiles.of(path, needs_target=needs_target)
    return tuple(name for name in (files.source, files.target, files.tags) if name is not None)


@dataclass(frozen=True, slots=True)
class ParallelFiles:
    """The files of parallel text, of which line ``n`` of one belongs to line ``n`` of the others.

    Attributes:
        source: The file of the sources.
        target: The file of the targets; None where they are not needed.
        tags: The file of the tags; None if there is none.
    """

    source: str
    target: str | None
    tags: str | None

    @classmethod
    def of(cls, path: str, *, needs_target: bool) -> ParallelFiles:
        """Finds the files; what is packed may have ``.gz`` at its end."""
        if not needs_target and (path == STDIN or os.path.isfile(path)):
            tags = _existing(path.removesuffix(".gz").removesuffix(".src") + ".tags")
            return cls(path, None, tags if path != STDIN and os.path.isfile(tags) else None)
        tags = _existing(f"{path}.tags")
        target = _existing(f"{path}.tgt") if needs_target else None
        return cls(_existing(f"{path}.src"), target, tags if os.path.isfile(tags) else None)


def _existing(name: str) -> str:
    return f"{name}.gz" if not os.path.exists(name) and os.path.exists(f"{name}.gz") else name


def _not_empty(rows: Iterator[Example | Problem], path: str, form: FileFormat) -> Iterator[Example | Problem]:
    is_empty = True
    for row in rows:
        is_empty = False
        yield row
    if is_empty:
        besides = " besides the line that names the columns" if form.has_header else ""
        yield Problem(path, 0, f"there is no example in this file{besides}")


def _lines(
    path: str, form: FileFormat, needs_target: bool, needs_tags: bool | None, watch: Watch | None
) -> Iterator[Example | Problem]:
    """The examples of a file in which every line is one."""
    parse = make_parser(form, needs_target=needs_target, needs_tags=needs_tags)
    first_blank = 0  # of those that may be the last lines of the file
    for number, line in lines_or_problems(path, watch):
        if number == 1 and form.has_header and isinstance(parse, ColumnParser):
            problem = line if isinstance(line, Problem) else _header_problem(parse, path, line)
            if problem is not None:
                yield problem
                return
            continue
        if isinstance(line, str) and not line.strip(" "):
            if not needs_target:
                yield Problem(path, number, _BLANK)
            elif not first_blank:
                first_blank = number
            continue
        if first_blank:
            yield from (Problem(path, blank, _BLANK) for blank in range(first_blank, number))
            first_blank = 0
        row = line if isinstance(line, Problem) else parse(number, line)
        if isinstance(row, str):
            yield Problem(path, number, row)
        elif row is not None:
            yield row


def _header_problem(parse: ColumnParser, path: str, line: str) -> Problem | None:
    try:
        parse.read_header("", line)
    except DataError as error:
        return Problem(path, 1, str(error))
    return None


def _parallel(
    path: str, form: FileFormat, needs_target: bool, needs_tags: bool | None, watch: Watch | None
) -> Iterator[Example | Problem]:
    """The examples of parallel text."""
    files = ParallelFiles.of(path, needs_target=needs_target)
    if needs_tags and files.tags is None:
        yield Problem(path, 0, "tags are needed, and there is no file of tags beside that of the sources (NAME.tags)")
        return
    if missing := _missing(path, files):
        yield missing
        return
    tags_file = files.tags if needs_tags is not False else None
    if files.target is None and tags_file is None:
        yield from _lines(files.source, form, needs_target, needs_tags, watch)
        return
    names = [name for name in (files.source, files.target, tags_file) if name is not None]
    last = dict.fromkeys(names, 0)  # how many lines each file has, without empty ones at the end of all
    first_blank = 0
    for number, row in enumerate(zip_longest(*(lines_or_problems(name, watch) for name in names)), 1):
        parts = {name: None if part is None else part[1] for name, part in zip(names, row, strict=True)}
        if all(map(_is_blank, parts.values())):
            if not needs_target:
                yield Problem(files.source, number, _BLANK)
            first_blank = first_blank or number
            continue
        last.update((name, number) for name, part in parts.items() if part is not None)
        if None in parts.values():  # counted only, but for prediction a line has one answer
            if not needs_target and parts[files.source] is not None:
                yield Problem(files.source, number, f"no tags: {tags_file} ends before this line")
            continue
        if first_blank and needs_target:
            yield from (Problem(files.source, blank, _BLANK) for blank in range(first_blank, number))
        first_blank = 0
        yield from _parallel_row(parts, files, form, number, needs_target)
    if len(set(last.values())) > 1 and (needs_target or last[files.source] == min(last.values())):
        counts = ", ".join(f"{name} has {count}" for name, count in last.items())
        shortest = min(last, key=lambda name: last[name])
        yield Problem(shortest, last[shortest], f"the last line; expected equally many lines, but {counts}")


def _is_blank(part: str | Problem | None) -> bool:
    """Whether a part of a line is empty, or behind the end of its file."""
    return part is None or (isinstance(part, str) and not part.strip(" "))


def _missing(path: str, files: ParallelFiles) -> Problem | None:
    """What is wrong if a file of parallel text is not there."""
    if path == STDIN and files.target is not None:
        return Problem(path, 0, "parallel text cannot be read from standard input; name the files without .src, .tgt")
    for name in (files.source, files.target):
        if name is not None and name != STDIN and not os.path.exists(name):
            hint = f"no such file: {shown(path)!r} should name parallel text without .src and .tgt"
            return Problem(name, 0, hint)
    return None


def _parallel_row(
    parts: dict[str, str | Problem | None], files: ParallelFiles, form: FileFormat, number: int, needs_target: bool
) -> Iterator[Example | Problem]:
    problems = [part for part in parts.values() if isinstance(part, Problem)]
    if problems:
        # for prediction a line has one answer
        yield from problems if needs_target else problems[:1]
        return
    texts = {name: part for name, part in parts.items() if isinstance(part, str)}
    target = texts[files.target] if files.target is not None else None
    tags = split_tags(texts[files.tags], form.tag_separator) if files.tags in texts else ()
    example = checked(texts[files.source], target, tags, number)
    if isinstance(example, Example):
        yield example
    else:
        yield Problem(files.target if "target" in example and files.target else files.source, number, example)


def how_read(data: DataConfig, first: Example) -> str:
    """Says how a file is read, by its first example: nothing else shows that columns are in another order."""
    tags = f" with tags {', '.join(first.tags)}" if first.tags else ""
    target = "" if first.target is None else f" -> {first.target!r}"
    return f"read as {data.format}: first {first.source!r}{tags}{target}"
