"""A measured number, with all that is needed to read it and to measure it again."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ssnt.__about__ import __version__

Record = dict[str, str | int | float | bool | None]
"""What is written as one JSON object."""


@dataclass(frozen=True, slots=True)
class Score:
    """One number over a set of items.

    Attributes:
        name: The metric.
        value: Its value.
        count: How many items it was computed over.
        signature: How it was computed, as ``key:value`` fields after the metric's name, separated by ``|``.
        is_higher_better: Whether a larger value is a better one.
        low: Lower end of the confidence interval; None without one.
        high: Upper end of the confidence interval; None without one.
    """

    name: str
    value: float
    count: int
    signature: str
    is_higher_better: bool
    low: float | None = None
    high: float | None = None

    def to_record(self) -> Record:
        """The score as a JSON object; a value that is infinite or no number becomes None, as JSON has neither."""
        return {
            "name": self.name,
            "value": json_number(self.value),
            "low": json_number(self.low),
            "high": json_number(self.high),
            "count": self.count,
            "is_higher_better": self.is_higher_better,
            "signature": self.signature,
        }

    def __str__(self) -> str:
        return f"{self.name} {self.value:.4f}{interval_text(self.low, self.high)} (n={self.count})"


def json_number(value: float | None) -> float | None:
    """The number, or None for what JSON cannot say."""
    return value if value is not None and math.isfinite(value) else None


def interval_text(low: float | None, high: float | None) -> str:
    """`` [low, high]`` with four places, or nothing."""
    return "" if low is None or high is None else f" [{low:.4f}, {high:.4f}]"


def signature(name: str, *fields: str) -> str:
    """Joins a metric's name, its fields and the version of ssnt."""
    return "|".join((name, *fields, f"v:{__version__}"))
