"""One line of a data file to an example, for each layout.

A parser returns the example, or a sentence on what is wrong with the line, or None for a line that holds no example.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

from ssnt.data.formats import FileFormat, check_distinct
from ssnt.data.text import nfc
from ssnt.errors import DataError
from ssnt.types import Example

Parser: TypeAlias = Callable[[int, str], Example | str | None]
"""From a line's number and text to its example."""


def make_parser(form: FileFormat, *, needs_target: bool, needs_tags: bool | None) -> Parser:
    """The parser of a layout in which every line is an example.

    Args:
        form: The layout.
        needs_target: Whether every line must have a target; otherwise targets are ignored.
        needs_tags: Whether every line must have tags; None: what the layout says. If False, tags are ignored.
    """
    if form.layout == "json":
        return JsonParser(form, needs_target, needs_tags)
    if form.layout == "morph-trans":
        return MorphTransParser(form, needs_target, needs_tags)
    if form.layout == "cmudict":
        return CmudictParser(needs_target)
    if form.layout == "parallel":
        return lambda number, line: checked(line, None, (), number)
    return ColumnParser(form, needs_target, needs_tags)


@lru_cache(maxsize=1 << 16)  # few tag sets, many lines
def split_tags(text: str, separator: str) -> tuple[str, ...]:
    """The tags of a field: each once, in their order, without the spaces around them."""
    return unique_tags(text.split(separator))


def unique_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Each tag once, in their order; empty ones are none."""
    stripped = (tag.strip() for tag in tags)
    return tuple(dict.fromkeys(tag for tag in stripped if tag))


def checked(source: str, target: str | None, tags: tuple[str, ...], number: int) -> Example | str:
    """The example, or what is wrong if a part that must be there is empty."""
    if not source or source.isspace():
        return "the source is empty"
    if target is not None and (not target or target.isspace()):
        return "the target is empty"
    return Example(source, target, tags, number)


class ColumnParser:
    """Parses columns split by tabs.

    If the columns are known by name, :meth:`read_header` must see the first line before other lines are parsed.
    """

    def __init__(self, form: FileFormat, needs_target: bool, needs_tags: bool | None) -> None:
        self._form = form
        wanted = {"source_column": form.source}
        if needs_target:
            wanted["target_column"] = form.target
        if form.tags is not None and needs_tags is not False:
            wanted["tags_column"] = form.tags
        self._wanted = wanted
        self._tags_if_two = form.tags_if_two and not needs_target and "tags_column" in wanted
        if not form.has_header:
            self._use({name: column for name, column in wanted.items() if isinstance(column, int)})

    def read_header(self, where: str, line: str) -> None:
        """Finds the columns by their names.

        Args:
            where: What messages begin with.
            line: The first line.

        Raises:
            DataError: A name is missing, or there twice.
        """
        names = [name.strip() for name in line.split("\t")]
        for index, name in enumerate(names):
            if name and name in names[:index]:
                raise DataError(
                    f"{where}the column name {name!r} is there twice (columns {names.index(name) + 1} and "
                    f"{index + 1}); rename one, or choose columns by number"
                )
        numbers: dict[str, int | str | None] = {}
        for setting, column in self._wanted.items():
            if isinstance(column, str) and column not in names:
                raise DataError(f"{where}no column {column!r} (data.{setting}); {_instead(column, names, self._form)}")
            numbers[setting] = names.index(column) + 1 if isinstance(column, str) else column
        check_distinct(numbers, DataError, where)
        self._use({name: column for name, column in numbers.items() if isinstance(column, int)})

    def _use(self, numbers: dict[str, int]) -> None:
        self._numbers = numbers
        self._source = numbers["source_column"] - 1
        self._target = numbers["target_column"] - 1 if "target_column" in numbers else None
        self._tags = numbers["tags_column"] - 1 if "tags_column" in numbers else None

    def __call__(self, number: int, line: str) -> Example | str | None:
        """The example of a line."""
        fields = line.split("\t")
        try:
            source = fields[self._source]
            target = None if self._target is None else fields[self._target]
            if self._tags is None:
                tags: tuple[str, ...] = ()
            else:
                place = 1 if self._tags_if_two and len(fields) == 2 else self._tags
                tags = split_tags(fields[place], self._form.tag_separator)
        except IndexError:
            return self._too_short(fields)
        return checked(source, target, tags, number)

    def _too_short(self, fields: Sequence[str]) -> str:
        setting, column = next((name, column) for name, column in self._numbers.items() if column > len(fields))
        what = setting.removesuffix("_column")
        named = f" {self._wanted[setting]!r}" if isinstance(self._wanted[setting], str) else ""
        count = f"{len(fields)} column{'s' if len(fields) != 1 else ''}"
        hint = f"the format {self._form.name!r} has tags there" if what == "tags" else "columns are split by tabs"
        return f"no {what}: expected in column {column}{named} (data.{setting}), the line has {count}; {hint}"


class JsonParser:
    """Parses JSON objects."""

    def __init__(self, form: FileFormat, needs_target: bool, needs_tags: bool | None) -> None:
        self._form = form
        self._source, self._target = str(form.source), str(form.target) if needs_target else None
        self._tags = str(form.tags) if needs_tags is not False else None
        self._separator = form.tag_separator
        # None until the first line shows whether the file has tags: either all lines have the key or none
        self._has_tags = True if needs_tags or not form.tags_optional else None

    def __call__(self, number: int, line: str) -> Example | str | None:
        """The example of a line."""
        try:
            value = json.loads(line, object_pairs_hook=_unique_keys)
        except json.JSONDecodeError as error:
            return f"not valid JSON: {error.msg} at place {error.colno}; expected one object a line"
        except (ValueError, RecursionError) as error:
            return f"not usable JSON: {error}"
        if not isinstance(value, dict):
            return f"expected a JSON object, got {_kind(value)}"
        try:
            source = self._text(value, self._source, "source_column")
            target = None if self._target is None else self._text(value, self._target, "target_column")
            tags = self._read_tags(value)
        except DataError as error:
            return str(error)
        if "\\u" in line and _has_half_character((source, target or "", *tags)):
            return "holds half of a character (an unpaired \\ud800 to \\udfff), which is no text"
        return checked(source, target, tags, number)

    def _text(self, value: dict[str, Any], key: str, setting: str) -> str:
        if key not in value:
            raise DataError(f"no key {key!r} (data.{setting}); {_instead(key, list(value), self._form)}")
        text = value[key]
        if not isinstance(text, str):
            raise DataError(f"expected a string for the key {key!r}, got {_kind(text)}")
        return nfc(text)

    def _read_tags(self, value: dict[str, Any]) -> tuple[str, ...]:
        key = self._tags
        if key is None:
            return ()
        if self._has_tags is None:
            self._has_tags = key in value
        if key not in value:
            if self._has_tags:
                there = _instead(key, list(value), self._form)
                raise DataError(f"no key {key!r} (data.tags_column), which every line must have; {there}")
            return ()
        if not self._has_tags:
            raise DataError(f"has the key {key!r}, which the lines before do not have; give all lines tags, or none")
        tags = value[key]
        if tags is None:
            return ()
        if isinstance(tags, str):
            return split_tags(nfc(tags), self._separator)
        if isinstance(tags, list) and all(isinstance(tag, str) for tag in tags):
            return unique_tags(map(nfc, tags))
        raise DataError(f"expected a string or a list of strings for the key {key!r}, got {_kind(tags)}")


class MorphTransParser:
    """Parses ``<s> a b </s>|<s> a b c </s>|k=v:k=v``."""

    def __init__(self, form: FileFormat, needs_target: bool, needs_tags: bool | None) -> None:
        self._source_gap = " " if form.source_unit == "tokens" else ""
        self._target_gap = " " if form.target_unit == "tokens" else ""
        self._separator = form.tag_separator
        self._needs_target, self._ignores_tags = needs_target, needs_tags is False

    def __call__(self, number: int, line: str) -> Example | str | None:
        """The example of a line."""
        found = _SEQUENCE.match(line)
        if found is None:
            return "expected a source such as '<s> a b </s>' at the beginning of the line"
        source = nfc(self._source_gap.join(found[1].split()))
        rest = line[found.end() :]
        target, goal = None, _SEQUENCE.match(rest, 1) if rest.startswith("|") else None
        if goal is not None:
            rest = rest[goal.end() :]
            target = nfc(self._target_gap.join(goal[1].split()))
        elif self._needs_target:
            return "expected a target such as '|<s> a b c </s>' after the source"
        if self._ignores_tags:
            return checked(source, target if self._needs_target else None, (), number)
        if not rest.startswith("|"):
            return "expected tags such as '|case=nominative:number=plural' at the end of the line"
        tags = split_tags(rest.lstrip("|"), self._separator)
        return checked(source, target if self._needs_target else None, tags, number)


class CmudictParser:
    """Parses lines of the CMU pronouncing dictionary."""

    def __init__(self, needs_target: bool) -> None:
        self._needs_target = needs_target

    def __call__(self, number: int, line: str) -> Example | str | None:
        """The example of a line."""
        if line.startswith(";;;"):
            return None
        word, _, rest = line.strip().partition(" ")
        if "\t" in word:
            word, _, rest = line.strip().partition("\t")
        word = _VARIANT.sub("", word)
        if not self._needs_target:
            return checked(word, None, (), number)
        phones = " ".join(_COMMENT.split(rest, maxsplit=1)[0].split())
        if not phones:
            return f"no pronunciation: expected '{word}  P1 P2'"
        return checked(word, phones, (), number)


_SEQUENCE = re.compile(r"\s*<s>(?=\s)(.*?)\s</s>\s*")
_VARIANT = re.compile(r"(?<=.)\(\d+\)$")
_COMMENT = re.compile(r"(?:^|\s)#")


def _instead(name: str, names: Sequence[str], form: FileFormat) -> str:
    """Says which names there are, and which one may be meant: one that means nothing else."""
    there = ", ".join(repr(one) for one in names if one) or "none"
    free = [one for one in names if one not in (form.source, form.target, form.tags)]
    nearest = difflib.get_close_matches(name, free, n=1)
    return f"there are {there}" + (f"; did you mean {nearest[0]!r}?" if nearest else "")


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for index, key in enumerate(keys) if key in keys[:index])
        raise ValueError(f"the key {twice!r} is there twice")
    return value


def _kind(value: object) -> str:
    """What kind of JSON value this is, with its beginning."""
    kinds = {dict: "an object", list: "a list", str: "a string", bool: "a truth value", type(None): "null"}
    text = json.dumps(value, ensure_ascii=False)
    shown = text if len(text) <= 40 else text[:37] + "..."
    kind = kinds.get(type(value), "a number")
    return kind if kind == "null" else f"{kind} ({shown})"


def _has_half_character(texts: Iterable[str]) -> bool:
    try:
        "".join(texts).encode("utf-8")
    except UnicodeEncodeError:
        return True
    return False
