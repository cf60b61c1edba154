"""Quality against latency."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from experiments.reporting.estimates import Estimate, over_seeds
from experiments.reporting.gathered import Gathered, Group
from experiments.reporting.markdown import MISSING, plain, shown, table
from experiments.reporting.measured import TEST, accuracy, items

LATENCIES = {"al": "AL", "laal": "LAAL", "dal": "DAL", "ap": "AP"}
_NUMBER = re.compile(r"(?<![\w.])\d+(\.\d+)?(?![\w.])")


@dataclass(frozen=True)
class Point:
    """A system that reads and writes at the same time, or one that reads everything first.

    Attributes:
        system: Its name.
        curve: The name with its numbers left out: systems that differ in a number only make a curve.
        numbers: These numbers, in their order.
        dataset: The data set.
        metric: What the quality is.
        quality: On test.
        latency: The measures of latency by name, means over seeds; empty for a system that does not stream.
    """

    system: str
    curve: str
    numbers: tuple[str, ...]
    dataset: str
    metric: str
    quality: Estimate
    latency: dict[str, float]


def points_of(gathered: Gathered) -> list[Point]:
    """All points of a table, by data set, curve and latency."""
    found = []
    for dataset in gathered.datasets:
        for system in gathered.systems:
            groups = [group for group in gathered.of(system, dataset) if group.rows]
            quality, metric = _quality(gathered.of(system, dataset))
            if quality is None:
                continue
            curve, numbers = _NUMBER.sub("…", system), tuple(one[0] for one in _NUMBER.finditer(system))
            found.append(Point(system, curve, numbers, dataset, metric, quality, _latency(groups)))
    order = {name: at for at, name in enumerate(gathered.datasets)}
    curves = list(dict.fromkeys(one.curve for one in found))
    return sorted(found, key=lambda one: (order[one.dataset], curves.index(one.curve), one.latency.get("al", np.inf)))


def points_table(points: Sequence[Point]) -> str:
    """Quality and latency of every system on a data set."""
    rows = [[one.system, shown(one.quality), *(plain(one.latency.get(name)) for name in LATENCIES)] for one in points]
    return table(["system", label_of(points[0].metric) if points else MISSING, *LATENCIES.values()], rows)


def label_of(metric: str) -> str:
    """A metric's name for readers."""
    if metric.startswith("rouge_"):
        return metric.replace("rouge_", "ROUGE-").upper()
    return metric


def _quality(groups: Sequence[Group]) -> tuple[Estimate | None, str]:
    """The accuracy where cells were kept, and else the table's own metric, sentence by sentence."""
    metric = groups[0].trials[0].metrics[0] if groups else ""
    by_lemma = over_seeds(groups, accuracy)
    if by_lemma is not None:
        return by_lemma, "accuracy"
    return over_seeds(groups, partial(items, name=metric), "trials"), metric


def _latency(groups: Sequence[Group]) -> dict[str, float]:
    values = {name: [one for group in groups for one in group.scores(name, TEST)] for name in LATENCIES}
    return {name: float(np.mean(found)) for name, found in values.items() if found}
