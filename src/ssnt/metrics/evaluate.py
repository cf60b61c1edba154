"""From items to scores."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ssnt.errors import ConfigError, DataError
from ssnt.metrics.bootstrap import Bootstrap, interval, resampled_values
from ssnt.metrics.item import Item
from ssnt.metrics.metric import Floats, Metric, Statistics
from ssnt.metrics.registry import find_metric
from ssnt.metrics.score import Record, Score, json_number, signature


def evaluate(
    items: Iterable[Item],
    metrics: str | Metric | Iterable[str | Metric] = ("accuracy", "edit_distance"),
    *,
    unit: str = "characters",
    confidence: float = 0.95,
    resamples: int = 1000,
    seed: int = 1,
) -> list[Score]:
    """Scores items, with a bootstrap interval for each metric.

    Args:
        items: Outputs with their references.
        metrics: Names from :data:`~ssnt.metrics.METRICS`, or metrics such as ``Rouge("l", use_stemmer=True)``.
        unit: What the symbols of the items are, such as ``phones``; it is only noted in the signature.
        confidence: The share of resamples that an interval holds.
        resamples: How many resamples an interval is read from; 0 for no intervals.
        seed: Of the random numbers. The interval of a metric does not depend on what other metrics are asked for.

    Returns:
        One score a metric, in their order.

    Raises:
        ConfigError: A metric is unknown, or a setting out of range.
        DataError: There are no items, or a metric cannot score one of them.
    """
    chosen = find_metrics(metrics)
    check_unit(unit)
    settings = Bootstrap(confidence, resamples, seed)
    items = item_list(items)
    scores = []
    for metric in chosen:
        metric.check(items)
        text = metric_signature(metric, items, unit, settings.fields())
        statistics = metric.statistics(items, metric.rows(items))
        scores.append(
            bootstrap_score(metric.name, statistics, text, is_higher_better=metric.is_higher_better, settings=settings)
        )
    return scores


def bootstrap_score(
    name: str, statistics: Statistics, text: str, *, is_higher_better: bool, settings: Bootstrap
) -> Score:
    """The score of some statistics, with its interval if one is asked for.

    Args:
        name: Of the score.
        statistics: Of at least one item.
        text: The signature.
        is_higher_better: Whether a larger value is a better one.
        settings: Of the bootstrap.
    """
    low = high = None
    if settings.resamples:
        low, high = interval(resampled_values([statistics], settings)[0], settings.confidence)
    return Score(name, statistics.value(), len(statistics.kind_of), text, is_higher_better, low, high)


@dataclass(frozen=True, eq=False)
class ItemTable:
    """What one metric says of each item.

    Attributes:
        metric: The metric's name.
        columns: What the numbers in a row count, such as ``("edits", "reference_symbols")``.
        rows: The numbers, ``(n, K)``; the metric is a formula of their sum.
        values: The metric over each item alone, ``(n,)``.
        signature: How they were computed.
    """

    metric: str
    columns: tuple[str, ...]
    rows: Floats
    values: Floats
    signature: str

    def to_records(self) -> Iterator[Record]:
        """The items as JSON objects: ``item`` counted from 0, the metric, and its columns."""
        for index, (row, value) in enumerate(zip(self.rows.tolist(), self.values.tolist(), strict=True)):
            yield {
                "item": index,
                self.metric: json_number(value),
                **dict(zip(self.columns, row, strict=True)),
            }


def tabulate(items: Iterable[Item], metric: str | Metric, *, unit: str = "characters") -> ItemTable:
    """Scores each item by itself, to see where a system goes wrong.

    Args:
        items: Outputs with their references.
        metric: A name from :data:`~ssnt.metrics.METRICS`, or a metric.
        unit: What the symbols of the items are; it is only noted in the signature.

    Raises:
        ConfigError: The metric is unknown.
        DataError: There are no items, or the metric cannot score one of them.
    """
    metric = find_metric(metric)
    check_unit(unit)
    items = item_list(items)
    metric.check(items)
    rows = metric.rows(items)
    text = metric_signature(metric, items, unit, ("per:item",))
    return ItemTable(metric.name, metric.columns, rows, metric.aggregate(rows), text)


def metric_signature(metric: Metric, items: Sequence[Item], unit: str, more: tuple[str, ...]) -> str:
    """The signature of a metric over items, with more fields before the version."""
    return signature(metric.name, f"formula:{metric.formula}", *metric.fields(items, unit), *more)


def find_metrics(metrics: str | Metric | Iterable[str | Metric]) -> list[Metric]:
    """The metrics asked for: one, or several.

    Raises:
        ConfigError: There are none, or one is unknown.
    """
    several = [metrics] if isinstance(metrics, str) or not isinstance(metrics, Iterable) else metrics
    chosen = [find_metric(one) for one in several]
    if not chosen:
        raise ConfigError("metrics must name at least one metric, got none; try 'accuracy'")
    return chosen


def item_list(items: Iterable[Item], argument: str = "items") -> list[Item]:
    """The items as a list; what is in it is not checked.

    Raises:
        DataError: They cannot be gone through.
    """
    if not isinstance(items, Iterable):
        raise DataError(f"{argument} must be a list of items, got {type(items).__name__}; put a single item in a list")
    return list(items)


def check_unit(unit: object) -> None:
    """Refuses a unit that would make a signature unreadable.

    Raises:
        ConfigError: The unit is no string, is empty or has a separator in it.
    """
    if not isinstance(unit, str) or not unit or "|" in unit or any(sign.isspace() for sign in unit):
        raise ConfigError(f"unit must be a word without '|' and spaces, got {unit!r}; for example 'characters'")
