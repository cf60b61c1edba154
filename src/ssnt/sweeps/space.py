"""What a sweep tries: the settings of every trial, checked before any is trained."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from typing import Any

from ssnt.config import Config, RangeConfig, SweepRunConfig, merged, nested
from ssnt.config.base import kinds_of, section_of
from ssnt.errors import ConfigError
from ssnt.sweeps.result import shown_params

MAX_POINTS = 10_000
"""A grid of more points is a mistake rather than a plan."""

_MAX_CORNERS = 1_000  # of a space that is sampled: more are checked one setting at a time


class Space:
    """The settings that are tried.

    Args:
        config: The settings of the sweep.

    Raises:
        ConfigError: Some of what would be tried cannot be: a value is wrong, or does not go with another.
    """

    def __init__(self, config: SweepRunConfig) -> None:
        self._settings = config.model_dump(exclude={"sweep"})
        self._dimensions = config.sweep.space
        self.is_grid = config.sweep.sampler == "grid"
        if self.is_grid and self.size > MAX_POINTS:
            raise ConfigError(
                f"setting 'sweep.space': the grid has {self.size:,} points, and at most {MAX_POINTS:,} can be tried; "
                "give fewer values, or set sweep.sampler to random or tpe"
            )
        for params in self.points() if self.is_grid else self._corners():
            try:
                self.config(params)
            except ConfigError as error:
                lines = [f"setting 'sweep.space': {shown_params(params)}: {line}" for line in str(error).splitlines()]
                raise ConfigError("\n".join(lines)) from None

    @property
    def size(self) -> int:
        """How many points the grid has."""
        return math.prod(
            values.count if isinstance(values, RangeConfig) else len(values) for values in self._dimensions.values()
        )

    @property
    def max_epochs(self) -> int:
        """The most epochs that a trial can have."""
        tried = self._dimensions.get("training.max_epochs")
        if tried is None:
            return int(self._settings["training"]["max_epochs"])
        return int(tried.high) if isinstance(tried, RangeConfig) else max(int(one or 0) for one in tried)

    def point(self, number: int) -> dict[str, Any]:
        """A point of the grid, counted from 0: the last setting changes first."""
        return next(itertools.islice(self.points(), number, None))

    def points(self) -> Iterator[dict[str, Any]]:
        """All points of the grid, in order."""
        lists = self._lists()
        for values in itertools.product(*lists.values()):
            yield dict(zip(lists, values, strict=True))

    def config(self, params: Mapping[str, Any]) -> Config:
        """The settings of a training with some of the settings that are tried.

        Raises:
            ConfigError: They do not go together.
        """
        return Config.model_validate(merged(self._settings, nested(params)))

    def distributions(self) -> dict[str, Any]:
        """What Optuna draws from."""
        from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

        found: dict[str, Any] = {}
        for name, values in self._dimensions.items():
            if self.is_grid or not isinstance(values, RangeConfig):
                found[name] = CategoricalDistribution(self._lists()[name])
                continue
            high = values.last  # not values.high: of a step that does not end there, Optuna would tell every time
            if _is_whole(name):
                found[name] = IntDistribution(int(values.low), int(high), log=values.log, step=int(values.step or 1))
            else:
                found[name] = FloatDistribution(values.low, high, log=values.log, step=values.step)
        return found

    def _lists(self) -> dict[str, list[Any]]:
        return {
            name: values.values() if isinstance(values, RangeConfig) else list(values)
            for name, values in self._dimensions.items()
            if self.is_grid or not isinstance(values, RangeConfig)
        }

    def _corners(self) -> Iterator[dict[str, Any]]:
        """Where a space that is sampled ends: all values of lists, and the ends of ranges."""
        ends = {
            name: [values.low, values.high] if isinstance(values, RangeConfig) else list(values)
            for name, values in self._dimensions.items()
        }
        if math.prod(map(len, ends.values())) <= _MAX_CORNERS:
            for values in itertools.product(*ends.values()):
                yield dict(zip(ends, values, strict=True))
            return
        first = {name: values[0] for name, values in ends.items()}
        for name, tried in ends.items():
            yield from ({**first, name: value} for value in tried)


def _is_whole(name: str) -> bool:
    """Whether a setting that is a number is a whole one."""
    *parents, last = name.split(".")
    section = section_of(Config, parents)
    if section is None:
        raise ConfigError(f"unknown setting {name!r}")
    return float not in kinds_of(section.model_fields[last].annotation)
