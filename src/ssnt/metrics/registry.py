"""Every metric by its name."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from types import MappingProxyType

from ssnt.errors import ConfigError
from ssnt.metrics.accuracy import Accuracy, ItemErrorRate, MacroAccuracy
from ssnt.metrics.edit import EditDistance, ErrorRate
from ssnt.metrics.metric import Metric
from ssnt.metrics.perplexity import Perplexity
from ssnt.metrics.rouge import Rouge

METRICS: Mapping[str, Metric] = MappingProxyType(
    {
        metric.name: metric
        for metric in (
            Accuracy(),
            MacroAccuracy(),
            ItemErrorRate(),
            EditDistance(),
            ErrorRate(by_words=False),
            ErrorRate(by_words=True),
            Rouge("1"),
            Rouge("2"),
            Rouge("l"),
            Perplexity(),
        )
    }
)
"""The metrics that can be asked for by name."""


def find_metric(metric: str | Metric) -> Metric:
    """The metric of a name; one that is no name is given back.

    Raises:
        ConfigError: No metric has this name.
    """
    if isinstance(metric, Metric):
        return metric
    if metric in METRICS:
        return METRICS[metric]
    nearest = difflib.get_close_matches(str(metric), METRICS, n=1)
    hint = f"did you mean {nearest[0]!r}?" if nearest else f"expected one of {', '.join(METRICS)}"
    raise ConfigError(f"unknown metric {metric!r}; {hint}")
