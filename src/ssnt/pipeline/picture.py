"""A small alignment picture as SVG text, for notebooks: no plotting library, and readable on light and dark pages.

The source runs down and the target to the right, as in the paper's figures; see :mod:`ssnt.plots` for larger pictures.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

END_LABEL = "∎"
"""Stands for the end symbol."""

MOST_SYMBOLS = 60
"""A longer source or target gives no picture: it would not be small."""

_CELL = 18
_LETTER = 7
_LONGEST_LABEL = 14
_FONT = "font-family='sans-serif' font-size='12' fill='currentColor'"


def alignment_svg(
    source: Sequence[str], target: Sequence[str], positions: Sequence[int], emit: Tensor | None = None
) -> str:
    """Draws a path, with the emission posteriors as shades if there are any; empty if there is nothing to draw.

    Args:
        source: Source symbols, without the end symbol.
        target: Target symbols, without the end symbol.
        positions: For each target symbol, and for the end symbol if it was written, the position of the source symbol
            that wrote it; the source's end symbol is the last position.
        emit: ``(J, I)``, end symbols included.
    """
    rows = [*map(label, source), END_LABEL]
    columns = [*map(label, target), END_LABEL][: len(positions)]
    if not columns or max(len(rows), len(columns)) > MOST_SYMBOLS or any(i >= len(rows) for i in positions):
        return ""
    left = 8 + _LETTER * max(map(len, rows))
    is_slanted = max(map(len, columns)) > 2
    top = 20 if not is_slanted else 12 + _LETTER * max(map(len, columns))
    width, height = left + _CELL * len(columns) + (top if is_slanted else 0), top + _CELL * len(rows)
    parts = [
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{width}' height='{height}' "
        f"viewBox='0 0 {width} {height}' role='img' aria-label='alignment'>"
    ]
    parts += [_cell(left, top, j, i, _shade(emit, j, i)) for i in range(len(rows)) for j in range(len(columns))]
    parts += [_row_label(row, left, top + _CELL * i) for i, row in enumerate(rows)]
    parts += [_column_label(column, left + _CELL * j, top, is_slanted) for j, column in enumerate(columns)]
    return "".join([*parts, *_path(positions, left, top), "</svg>"])


def label(symbol: str) -> str:
    """What is shown for a symbol: never invisible, never too long."""
    shown = "".join(_visible(character) for character in symbol)
    if shown and unicodedata.category(shown[0]).startswith("M"):
        shown = f"\u25cc{shown}"
    return shown if len(shown) <= _LONGEST_LABEL else f"{shown[: _LONGEST_LABEL - 1]}…"


def printable(text: str) -> str:
    """Text as HTML, with what no page may hold made visible."""
    return escape("".join(c if c in "\t\n " or not _is_hidden(c) else f"U+{ord(c):04X}" for c in text))


def _visible(character: str) -> str:
    if character == " ":
        return "\u2423"
    return f"U+{ord(character):04X}" if _is_hidden(character) or character.isspace() else character


def _is_hidden(character: str) -> bool:
    return unicodedata.category(character) in {"Cc", "Cs", "Cn", "Co", "Zl", "Zp"}


def _shade(emit: Tensor | None, j: int, i: int) -> float:
    if emit is None or j >= emit.shape[0] or i >= emit.shape[1]:
        return 0.0
    return float(emit[j, i])


def _cell(left: int, top: int, j: int, i: int, shade: float) -> str:
    opacity = 0.06 + 0.5 * max(0.0, min(1.0, shade))
    x, y, size = left + _CELL * j + 1, top + _CELL * i + 1, _CELL - 2
    return f"<rect x='{x}' y='{y}' width='{size}' height='{size}' fill='currentColor' fill-opacity='{opacity:.2f}'/>"


def _row_label(text: str, left: int, y: int) -> str:
    return f"<text x='{left - 5}' y='{y + 13}' text-anchor='end' {_FONT}>{escape(text)}</text>"


def _column_label(text: str, x: int, top: int, is_slanted: bool) -> str:
    if not is_slanted:
        return f"<text x='{x + _CELL // 2}' y='{top - 6}' text-anchor='middle' {_FONT}>{escape(text)}</text>"
    x, y = x + _CELL // 2 + 3, top - 4
    return f"<text x='{x}' y='{y}' transform='rotate(-55 {x} {y})' {_FONT}>{escape(text)}</text>"


def _path(positions: Sequence[int], left: int, top: int) -> list[str]:
    """The walk: down while it reads, to the right where it writes, with a dot for every symbol written."""

    def centre(j: int, i: int) -> tuple[int, int]:
        return left + _CELL * j + _CELL // 2, top + _CELL * i + _CELL // 2

    corners, at = [centre(0, 0)], 0
    for j, i in enumerate(positions):
        corners += [centre(j, at), centre(j, i)]
        at = i
    points = " ".join(f"{x},{y}" for x, y in corners)
    dots = [f"<circle cx='{x}' cy='{y}' r='3' fill='#d6336c'/>" for x, y in (centre(*p) for p in enumerate(positions))]
    return [f"<polyline points='{points}' fill='none' stroke='#d6336c' stroke-width='2'/>", *dots]
