"""How well a model predicts the references."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from ssnt.errors import DataError
from ssnt.metrics.item import Item, check_likelihood
from ssnt.metrics.metric import Floats, Metric


def perplexity(total_nll: float, total_tokens: int) -> float:
    """``exp(total_nll / total_tokens)``.

    Args:
        total_nll: Negative log likelihood of all target outputs, in nats; may be infinite.
        total_tokens: The number of their symbols, each output's end symbol included.

    Raises:
        DataError: ``total_nll`` is not a number of at least 0, or ``total_tokens`` is not at least 1.
    """
    check_likelihood(total_nll, total_tokens)
    try:
        return math.exp(total_nll / total_tokens)
    except OverflowError:
        return math.inf


class Perplexity(Metric):
    """``exp(sum of nll / sum of tokens)`` over the items, each output's end symbol being one of its tokens."""

    name = "perplexity"
    formula = "exp(nll/tokens)"
    columns = ("nll", "tokens", "impossible")
    is_higher_better = False
    needs_references: ClassVar[bool] = False
    shared: ClassVar[tuple[str, ...]] = (*Metric.shared, "tokens")

    def check(self, items: Sequence[Item], argument: str = "items") -> None:
        """Refuses items without a likelihood too."""
        super().check(items, argument)
        for index, item in enumerate(items):
            if item.nll is None:
                raise DataError(
                    f"{argument}[{index}].nll must be given for perplexity, got None; score the references with a "
                    "model and give nll and tokens to the item"
                )

    def rows(self, items: Sequence[Item]) -> Floats:
        """``(nll if finite, tokens, whether nll is infinite)``.

        Infinite ones have a column of their own because a row that is drawn 0 times would add ``0 * inf``, which is no
        number.
        """
        rows = np.array([(item.nll, item.tokens, 0) for item in items], dtype=np.float64)
        impossible = np.isinf(rows[:, 0])
        rows[:, 2] = impossible
        rows[impossible, 0] = 0
        return rows

    def aggregate(self, sums: Floats) -> Floats:
        """``exp(nll / tokens)``, infinite where an item was impossible."""
        with np.errstate(over="ignore"):
            return np.where(sums[:, 2] > 0, np.inf, np.exp(sums[:, 0] / sums[:, 1]))

    def fields(self, items: Sequence[Item], unit: str) -> tuple[str, ...]:
        """Whose symbols are counted: the unit of scoring has no part in it."""
        return ("tokens:model-with-eos",)
