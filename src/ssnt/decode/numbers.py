"""Between symbols as strings and as numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ssnt.types import UNK_ID, Hypothesis


@dataclass(frozen=True)
class Numbered:
    """A source as numbers.

    Attributes:
        symbols: What to give to a search.
        unknown: How many symbols the table did not have.
    """

    symbols: tuple[int, ...]
    unknown: int


def number_symbols(source: Sequence[str], table: Mapping[str, int]) -> Numbered:
    """Looks symbols up; those that the table does not have become ``UNK_ID``, and are counted."""
    symbols = tuple(table.get(symbol, UNK_ID) for symbol in source)
    return Numbered(symbols, sum(symbol not in table for symbol in source))


def copy_unknowns(
    hypothesis: Hypothesis, source: Sequence[str], names: Sequence[str], positions: Sequence[int] | None = None
) -> list[str]:
    """The output as strings, an unknown symbol replaced by the source symbol that it was written at.

    Args:
        hypothesis: An output with its alignment; without one, unknown symbols stay as they are.
        source: The source symbols as strings, without the end symbol.
        names: The string of each target symbol.
        positions: Where each symbol was written, if not where the alignment says.
    """
    places = hypothesis.alignment.positions if positions is None else positions
    return [
        source[places[j]] if symbol == UNK_ID and j < len(places) and places[j] < len(source) else names[symbol]
        for j, symbol in enumerate(hypothesis.symbols)
    ]
