"""Whether one system is better than another on the same items."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from ssnt.errors import ConfigError, DataError
from ssnt.metrics.bootstrap import Bootstrap, interval, resampled_values
from ssnt.metrics.evaluate import check_unit, item_list, metric_signature
from ssnt.metrics.item import Item
from ssnt.metrics.metric import Floats, Metric
from ssnt.metrics.registry import find_metric
from ssnt.metrics.score import Record, interval_text


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two systems, A and B, by one metric.

    Attributes:
        metric: The metric.
        value_a: Its value for A.
        value_b: Its value for B.
        difference: ``value_a - value_b``.
        low: Lower end of the difference's confidence interval.
        high: Upper end of the difference's confidence interval.
        p_value: How likely a difference at least as large is, in either direction, if A and B were equally good; see
            :func:`compare`.
        wins_a: On how many items A is better.
        wins_b: On how many items B is better.
        ties: On how many items neither is.
        is_higher_better: Whether a larger value is a better one: a positive difference then speaks for A.
        signature: How it was computed.
    """

    metric: str
    value_a: float
    value_b: float
    difference: float
    low: float
    high: float
    p_value: float
    wins_a: int
    wins_b: int
    ties: int
    is_higher_better: bool
    signature: str

    def to_record(self) -> Record:
        """The comparison as a JSON object."""
        return {name: getattr(self, name) for name in self.__slots__}

    def __str__(self) -> str:
        return (
            f"{self.metric} {self.value_a:.4f} - {self.value_b:.4f} = {self.difference:+.4f}"
            f"{interval_text(self.low, self.high)} p={self.p_value:.4f} "
            f"(a wins {self.wins_a}, b wins {self.wins_b}, ties {self.ties})"
        )


def compare(
    items_a: Iterable[Item],
    items_b: Iterable[Item],
    metric: str | Metric = "accuracy",
    *,
    unit: str = "characters",
    confidence: float = 0.95,
    resamples: int = 1000,
    seed: int = 1,
) -> Comparison:
    """Compares two systems by the paired bootstrap: both are scored on the same resamples of items.

    With ``d`` the difference on the items and ``d_r`` that on resample ``r = 1..R``, the interval is the percentile
    interval of ``d_r``. The p-value is two-sided, from the differences moved to have their centre at 0:

    ``p = (1 + number of r with |d_r - d| >= |d|) / (1 + R)``

    So it is never below ``1 / (1 + R)``, and it is 1 if ``d = 0``. Numbers that are equal but for rounding count as
    equal. A resample in which both values are infinite has the difference 0.

    See "An Introduction to the Bootstrap" (1993), chapter 16; for the pairing, "Statistical Significance Tests for
    Machine Translation Evaluation" (2004).

    Args:
        items_a: Outputs of A with the references.
        items_b: Outputs of B for the same references, in the same order.
        metric: A name from :data:`~ssnt.metrics.METRICS`, or a metric.
        unit: What the symbols of the items are; it is only noted in the signature.
        confidence: The share of resamples that the interval holds.
        resamples: How many resamples are drawn.
        seed: Of the random numbers.

    Raises:
        ConfigError: The metric is unknown, or a setting out of range.
        DataError: The two do not have the same references, or cannot be scored, or a value is infinite.
    """
    metric = find_metric(metric)
    check_unit(unit)
    settings = Bootstrap(confidence, resamples, seed)
    if not resamples:
        raise ConfigError("resamples must be at least 1 to compare two systems, got 0; use 1000 or more")
    a, b = item_list(items_a, "items_a"), item_list(items_b, "items_b")
    metric.check(a, "items_a")
    metric.check(b, "items_b")
    _check_pairs(a, b, metric)
    rows_a, rows_b = metric.rows(a), metric.rows(b)
    parts = [metric.statistics(a, rows_a), metric.statistics(b, rows_b)]
    value_a, value_b = (part.value() for part in parts)
    if not np.isfinite([value_a, value_b]).all():
        raise DataError(
            f"items_a and items_b must have finite values of {metric.name} to be compared, got {value_a} and "
            f"{value_b}; leave out, of both, the items that are infinite: tabulate() shows them"
        )
    difference = value_a - value_b
    differences = _differences(resampled_values(parts, settings))
    low, high = interval(differences, confidence)
    wins_a, wins_b = _wins(metric, rows_a, rows_b)
    return Comparison(
        metric.name,
        value_a,
        value_b,
        difference,
        low,
        high,
        _p_value(difference, differences),
        wins_a,
        wins_b,
        len(a) - wins_a - wins_b,
        metric.is_higher_better,
        metric_signature(metric, a, unit, ("test:paired-bootstrap-two-sided", *settings.fields())),
    )


def _check_pairs(a: Sequence[Item], b: Sequence[Item], metric: Metric) -> None:
    if len(a) != len(b):
        raise DataError(
            f"items_b must hold as many items as items_a, {len(a)}, got {len(b)}; compare two systems on one test set"
        )
    for index, (one, other) in enumerate(zip(a, b, strict=True)):
        for name in metric.shared:
            expected, got = getattr(one, name), getattr(other, name)
            if expected != got:
                raise DataError(
                    f"items_b[{index}].{name} must be as in items_a, {expected!r}, got {got!r}; compare two systems on "
                    "one test set, in one order"
                )


def _differences(values: Floats) -> Floats:
    """A's values minus B's, ``(2, R)`` -> ``(R,)``."""
    with np.errstate(invalid="ignore"):
        return np.where(np.isinf(values).all(axis=0), 0.0, values[0] - values[1])


def _p_value(difference: float, differences: Floats) -> float:
    # The slack is far above the rounding of sums and far below what one item can change.
    extreme = np.abs(differences - difference) >= abs(difference) * (1 - 1e-9)
    return (1 + int(extreme.sum())) / (1 + len(differences))


def _wins(metric: Metric, rows_a: Floats, rows_b: Floats) -> tuple[int, int]:
    """On how many items A, and B, has the better value."""
    value_a, value_b = metric.aggregate(rows_a), metric.aggregate(rows_b)
    higher, lower = int((value_a > value_b).sum()), int((value_a < value_b).sum())
    return (higher, lower) if metric.is_higher_better else (lower, higher)
