"""What a metric is: a row of numbers for each item, and a formula from the sum of the rows to one value."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ssnt.errors import DataError
from ssnt.metrics.item import Item

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]
Aggregate = Callable[[Floats], Floats]
"""From sums of rows, ``(R, K)``, to values, ``(R,)``."""


@dataclass(frozen=True, eq=False)
class Statistics:
    """The rows of a set of items, with equal rows kept once, and the formula over their sum.

    Whatever is drawn from the items, how often each kind of row came up is enough to compute the value. Many metrics
    have few kinds: accuracy has two.

    Attributes:
        kind_of: For each item the number of its kind of row, ``(n,)``.
        kinds: The rows, ``(U, K)``; None if row ``u`` is 1 in column ``u`` and 0 elsewhere.
        size: ``U``, the number of kinds.
        aggregate: From sums of rows, ``(R, K)``, to values, ``(R,)``.
    """

    kind_of: Indices
    kinds: Floats | None
    size: int
    aggregate: Aggregate

    @classmethod
    def of_rows(cls, rows: Floats, aggregate: Aggregate) -> Statistics:
        """Finds the kinds of rows in ``(n, K)``."""
        kinds, kind_of = np.unique(rows, axis=0, return_inverse=True)
        return cls(kind_of.reshape(-1).astype(np.intp), kinds, len(kinds), aggregate)

    def values(self, counts: Floats) -> Floats:
        """The value of each row of counts, ``(R, U)`` -> ``(R,)``."""
        return self.aggregate(counts if self.kinds is None else counts @ self.kinds)

    def value(self) -> float:
        """The value over the items themselves."""
        counts = np.bincount(self.kind_of, minlength=self.size).astype(np.float64)
        return float(self.values(counts[None])[0])


def ratio(sums: Floats) -> Floats:
    """First column by the second: ``0 / 0`` is 0, and anything else by 0 is infinite."""
    top, bottom = sums[:, 0], sums[:, 1]
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where((top == 0) & (bottom == 0), 0.0, top / bottom)


class Metric(ABC):
    """A metric over items. Its value is the first column's sum by the second's, unless it says otherwise.

    Attributes:
        name: Its name in the registry and in scores.
        formula: How items become one value, for the signature.
        columns: What the numbers in a row count.
        is_higher_better: Whether a larger value is a better one.
        needs_references: Whether each item must have a reference.
        shared: The fields of an item that must be the same for two systems to be compared.
    """

    name: str
    formula: str
    columns: tuple[str, ...]
    is_higher_better: bool
    needs_references: ClassVar[bool] = True
    shared: ClassVar[tuple[str, ...]] = ("references", "reference_texts")

    @abstractmethod
    def rows(self, items: Sequence[Item]) -> Floats:
        """One row of numbers for each item, ``(n, K)``; the items have been checked."""

    def aggregate(self, sums: Floats) -> Floats:
        """Values from sums of rows, ``(R, K)`` -> ``(R,)``."""
        return ratio(sums)

    def statistics(self, items: Sequence[Item], rows: Floats) -> Statistics:
        """What any resample of the items can be scored from, given their rows."""
        return Statistics.of_rows(rows, self.aggregate)

    def fields(self, items: Sequence[Item], unit: str) -> tuple[str, ...]:
        """The fields of the signature that belong to the metric, without its name and formula."""
        return (references_field(items), f"unit:{unit}", "norm:NFC")

    def check(self, items: Sequence[Item], argument: str = "items") -> None:
        """Refuses items that this metric cannot score.

        Raises:
            DataError: There are no items, one is not an :class:`Item`, or it lacks what the metric needs.
        """
        if not items:
            raise DataError(f"{argument} must hold at least one item, got none; is the file of outputs empty?")
        for index, item in enumerate(items):
            if not isinstance(item, Item):
                raise DataError(f"{argument}[{index}] must be an Item, got {type(item).__name__}; see Item.from_text")
            if self.needs_references and not item.references:
                raise DataError(
                    f"{argument}[{index}].references must hold at least one reference for {self.name}, got none; "
                    "score only items that have one"
                )


def references_field(items: Sequence[Item]) -> str:
    """``refs:1``, ``refs:best-of-2`` or, where items differ, ``refs:best-of-1..3``."""
    numbers = {len(item.references) for item in items}
    low, high = min(numbers), max(numbers)
    if high == 1:
        return "refs:1"
    return f"refs:best-of-{high}" if low == high else f"refs:best-of-{low}..{high}"
