"""What is odd about single lines and texts though they can be read."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from ssnt.config import SearchConfig
    from ssnt.data.formats import FileFormat

Warn: TypeAlias = Callable[[str, str, int, str], None]
"""Takes a kind of problem, the file, the line and the message."""

# Control characters, and what one does not see or what is left of a failed conversion. Joiners are letters' parts in
# many scripts and are left alone.
_INVISIBLE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u200b\u200e\u200f\u2028\u2029\u202a-\u202e\u2060-\u2064\ufeff\ufffd\ufffe\uffff]"
)


def invisible(text: str) -> str | None:
    """Names the first control or invisible character of a text, None if there is none."""
    found = _INVISIBLE.search(text)
    if found is None:
        return None
    name = unicodedata.name(found[0], "control character").lower()
    return f"U+{ord(found[0]):04X} ({name}) at place {found.start() + 1}"


def padded(text: str) -> bool:
    """Whether whitespace is around a text."""
    return text[0].isspace() or text[-1].isspace()


def search_limit(search: SearchConfig | None) -> Callable[[int], int]:
    """How many symbols a search writes at most, as a function of the source length without the end symbol."""
    if search is None:
        from ssnt.config import SearchConfig

        search = SearchConfig()
    most, ratio, margin = search.max_length, search.max_length_ratio, search.max_length_margin
    return lambda src_len: int(min(most, ratio * (src_len + 1) + margin))


class LineWatch:
    """Looks at lines before they are normalised and taken apart.

    Args:
        form: How the file is laid out.
        warn: What is told about a line.
    """

    def __init__(self, form: FileFormat, warn: Warn) -> None:
        self._form, self._warn = form, warn
        self._has_columns = form.layout == "columns"
        self._has_words = form.layout == "morph-trans"
        self._first: tuple[int, int] | None = None  # a line, and how many columns it has
        self._not_nfc: dict[str, list[int]] = {}  # for each file the first line and how many
        self._long_symbols: list[int] = []

    def __call__(self, path: str, line: int, text: str) -> None:
        """Looks at a line."""
        if not text.isascii() and not unicodedata.is_normalized("NFC", text):
            self._not_nfc.setdefault(path, [line, 0])[1] += 1
        if self._has_columns and text:
            columns = text.count("\t") + 1
            if self._first is None:
                self._first = line, columns
            elif columns > self._first[1]:  # what is missing the reader finds
                first, expected = self._first
                hint = "is there a tab inside a text?"
                self._warn("columns", path, line, f"has {columns} columns, and line {first} has {expected}; {hint}")
        elif self._has_words and not self._long_symbols and _has_long_symbol(text, self._form):
            self._long_symbols.append(line)

    def finish(self, path: str, summarise: Warn) -> None:
        """Says what is odd about the files."""
        for name, (first, count) in self._not_nfc.items():
            lines = "1 line is" if count == 1 else f"{count} lines are"
            message = f"{lines} not in Unicode's composed form (NFC), the first here; read as if composed"
            summarise("not NFC", name, first, message)
        for line in self._long_symbols:
            message = "symbols of several characters, the first here, are taken apart"
            hint = "to keep them whole, set data.source_unit and data.target_unit to tokens"
            summarise("long symbol", path, line, f"{message}; {hint}")


def _has_long_symbol(text: str, form: FileFormat) -> bool:
    """Whether a symbol of ``morph-trans`` is divided further by the unit."""
    words = text.rpartition("</s>")[0].replace("</s>|<s>", " ").split()
    if "tokens" in (form.source_unit, form.target_unit):
        return False
    return any(len(unicodedata.normalize("NFC", word)) > 1 for word in words if word not in ("<s>", "</s>"))
