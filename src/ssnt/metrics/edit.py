"""How much of an output must be changed: edit distance and error rates.

The edits of an item are the fewest insertions, deletions and substitutions of a symbol, each of cost 1, that turn the
output into a reference. Of several references the one with the fewest edits counts, and of those with equally many the
longest, which gives the lowest rate.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ssnt.errors import DataError
from ssnt.metrics.item import Item
from ssnt.metrics.metric import Floats, Metric, references_field


class EditDistance(Metric):
    """Mean Levenshtein distance to the nearest reference: ``edits / items``, in symbols."""

    name = "edit_distance"
    formula = "edits/items"
    columns = ("edits", "items")
    is_higher_better = False

    def rows(self, items: Sequence[Item]) -> Floats:
        """``(edits, 1)``."""
        rows = np.ones((len(items), 2))
        rows[:, 0] = [edits for edits, _ in _nearest((item.prediction, item.references) for item in items)]
        return rows


class ErrorRate(Metric):
    """Edits by the length of the references that they lead to: ``sum of edits / sum of reference lengths``.

    The lengths are summed over the corpus before dividing, so that a long reference weighs more than a short one; the
    rate may exceed 1. An empty reference adds its edits and no length. A set of items in which all references are empty
    has no rate, and is refused; a resample of that sort has the rate 0 if it has no edits, and else an infinite one.

    Args:
        by_words: Whether to count the tokens of the text, split at whitespace (``wer``), rather than the symbols of the
            item (``per``: the phone error rate if they are phones, the character error rate if they are characters).
    """

    is_higher_better = False

    def __init__(self, *, by_words: bool) -> None:
        self._by_words = by_words
        self.name = "wer" if by_words else "per"
        unit = "tokens" if by_words else "symbols"
        self.formula = f"edits/reference-{unit}"
        self.columns = ("edits", f"reference_{unit}")

    def rows(self, items: Sequence[Item]) -> Floats:
        """``(edits, length of the reference that they lead to)``."""
        pairs = map(_words if self._by_words else _symbols, items)
        rows = np.array(list(_nearest(pairs)), dtype=np.float64)
        if not rows[:, 1].any():
            raise DataError(
                f"references must not all be empty for {self.name}, which divides by their length, got {len(items)} "
                "empty ones; accuracy and edit_distance are defined for these items"
            )
        return rows

    def fields(self, items: Sequence[Item], unit: str) -> tuple[str, ...]:
        """The tokenizer in place of the unit, where it counts words."""
        return (references_field(items), "tok:whitespace" if self._by_words else f"unit:{unit}", "norm:NFC")


_Pair = tuple[Sequence[str], Sequence[Sequence[str]]]


def _symbols(item: Item) -> _Pair:
    return item.prediction, item.references


def _words(item: Item) -> _Pair:
    return item.text.split(), [text.split() for text in item.reference_texts]


def _nearest(pairs: Iterator[_Pair]) -> Iterator[tuple[int, int]]:
    """Edits to the nearest reference, and that reference's length."""
    from rapidfuzz.distance.Levenshtein import distance

    for output, references in pairs:
        edits, shortness = min((distance(output, reference), -len(reference)) for reference in references)
        yield edits, -shortness
