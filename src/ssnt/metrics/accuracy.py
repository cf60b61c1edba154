"""Whole outputs that are right: accuracy, its mean over groups, and its complement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from ssnt.metrics.item import Item
from ssnt.metrics.metric import Floats, Indices, Metric, Statistics


class Accuracy(Metric):
    """Share of items whose symbols are those of a reference: ``exact / items``."""

    name = "accuracy"
    formula = "exact/items"
    columns = ("exact", "items")
    is_higher_better = True

    def rows(self, items: Sequence[Item]) -> Floats:
        """``(exact, 1)``."""
        return np.column_stack([_exact(items), np.ones(len(items))])


class ItemErrorRate(Metric):
    """Share of items that match no reference: ``1 - exact / items``.

    Where each item is one word, as in grapheme-to-phoneme conversion and inflection, the literature calls this the word
    error rate. It is not :data:`~ssnt.metrics.METRICS`' ``wer``, which counts edits in running text.
    """

    name = "item_error_rate"
    formula = "1-exact/items"
    columns = ("wrong", "items")
    is_higher_better = False

    def rows(self, items: Sequence[Item]) -> Floats:
        """``(not exact, 1)``."""
        return np.column_stack([~_exact(items), np.ones(len(items))])


class MacroAccuracy(Metric):
    """Accuracy of each group, averaged over groups: ``mean over g of (exact_g / items_g)``.

    A resample may miss a group: like any other set of items it is averaged over the groups that it has.
    """

    name = "macro_accuracy"
    formula = "mean-over-groups(exact/items)"
    columns = ("wrong", "exact")
    is_higher_better = True
    shared: ClassVar[tuple[str, ...]] = (*Metric.shared, "group")

    def rows(self, items: Sequence[Item]) -> Floats:
        """``(not exact, exact)``: the columns of the item's own group."""
        exact = _exact(items)
        return np.column_stack([~exact, exact]).astype(np.float64)

    def statistics(self, items: Sequence[Item], rows: Floats) -> Statistics:
        """Two columns for each group.

        An item adds 1 to one of them. So the counts of kinds are the sums, and the rows need not be written out: that
        would take memory of the number of groups squared.
        """
        numbers = {group: number for number, group in enumerate(sorted({item.group for item in items}))}
        group_of: Indices = np.fromiter((numbers[item.group] for item in items), np.intp, len(items))
        exact = rows[:, 1].astype(np.intp)
        return Statistics(2 * group_of + exact, None, 2 * len(numbers), self.aggregate)

    def aggregate(self, sums: Floats) -> Floats:
        """Mean of the groups' accuracies, from ``(R, 2 * groups)``."""
        by_group = sums.reshape(len(sums), -1, 2)
        totals = by_group.sum(axis=2)
        accuracies = by_group[:, :, 1] / np.maximum(totals, 1)  # a group without items has 0 here, and does not count
        means: Floats = accuracies.sum(axis=1) / (totals > 0).sum(axis=1)
        return means

    def fields(self, items: Sequence[Item], unit: str) -> tuple[str, ...]:
        """Also the number of groups."""
        return (*super().fields(items, unit), f"groups:{len({item.group for item in items})}")


def _exact(items: Sequence[Item]) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    return np.fromiter((item.prediction in item.references for item in items), np.bool_, len(items))
