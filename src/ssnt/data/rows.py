"""Lines of fields with tabs between them, to be written."""

from __future__ import annotations

from collections.abc import Sequence

_ESCAPES = str.maketrans({"\t": r"\t", "\n": r"\n", "\r": r"\r"})


def field(text: str) -> str:
    r"""Text as one field of a line: tabs and line ends in it become ``\t``, ``\n`` and ``\r``."""
    return text.translate(_ESCAPES)


def row(fields: Sequence[str]) -> str:
    """A line with a tab between fields."""
    return "\t".join(map(field, fields)) + "\n"
