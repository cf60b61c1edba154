"""The settings of a sweep: those of a training run, and which of them are tried with which values."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, NonNegativeInt, PositiveInt, model_validator

from ssnt.config.base import Settings, kinds_of, section_of, unknown_setting
from ssnt.config.files import load_settings
from ssnt.config.run import Config, DevMetric

Value = bool | int | float | str | None
"""What a setting can be tried with."""

DEFAULT_TRIALS = 20

FIXED = {
    "data.train": "all trials learn from the same data",
    "data.dev": "all trials are compared on the same data",
    "data.cache": "it changes nothing about a model",
    "out": "every trial has a directory of its own",
    "training.per_tag": "a trial is the training of one model",
    "training.checkpoint_minutes": "it changes nothing about a model",
    "training.tensorboard": "it changes nothing about a model",
    "validation.metric": "sweep.metric says what all trials are compared by",
    "validation.examples": "all trials are compared on the same data",
}
"""Settings that cannot be a part of what is tried, and why; besides, those of the section ``hardware``."""


class RangeConfig(Settings):
    """Numbers from which a setting's values are drawn.

    Attributes:
        low: The lowest.
        high: The highest.
        log: Whether they are drawn evenly by their order of magnitude.
        step: Distance between two of them, counted from ``low``; None: any number, or any whole number.
    """

    low: int | float
    high: int | float
    log: bool = False
    step: int | float | None = Field(default=None, gt=0)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.low > self.high:
            raise ValueError(f"expected low to be at most high, got {self.low} and {self.high}")
        if self.log and self.low <= 0:
            raise ValueError(f"expected low to be above 0 with log, got {self.low}")
        if self.log and self.step is not None:
            raise ValueError("expected step or log, got both")
        return self

    def values(self) -> list[int | float]:
        """The numbers of a range with a step, as they would be written: 0.1, 0.2, 0.3."""
        if self.step is None:
            raise ValueError("a range without a step has no list of values")
        return [self._value(place) for place in range(self.count)]

    @property
    def count(self) -> int:
        """How many numbers a range with a step has."""
        low, high, step = (Decimal(str(one)) for one in (self.low, self.high, self.step))
        return int((high - low) / step) + 1

    @property
    def last(self) -> int | float:
        """The highest number that is drawn, which a step need not end at ``high`` for."""
        return self.high if self.step is None else self._value(self.count - 1)

    def _value(self, place: int) -> int | float:
        number = Decimal(str(self.low)) + Decimal(str(self.step)) * place
        return int(number) if isinstance(self.low, int) and isinstance(self.step, int) else float(number)


DEFAULT_SPACE: dict[str, list[Value] | RangeConfig] = {
    "model.hidden_size": [128, 256],
    "model.input_dropout": [0.2, 0.5],
    "optimiser.learning_rate": [0.0005, 0.001, 0.002],
}
"""A small grid around the settings that the paper came to: hidden size 256 and dropout 0.2 for words, 128 and 0.5 for
characters, and a learning rate of 0.001 for both."""


class SweepConfig(Settings):
    """What is tried, how it is chosen, and what is kept.

    Attributes:
        space: What is tried: the names of settings, such as ``model.hidden_size``, each with a list of values or with a
            range ``{low, high, log, step}``.
        sampler: How trials are chosen: ``grid`` (every combination), ``random``, or ``tpe`` (Optuna's, which learns
            from the trials so far).
        pruner: Which trials are given up early: ``none``, ``median`` (those worse than half of the others after as many
            epochs), ``asha`` or ``hyperband`` (those that are not in the best third after 1, 3, 9 ... epochs).
        metric: What trials are compared by, on the development data.
        trials: How many trials there are; None: the whole grid, or 20 for the other samplers.
        seed: Fixes what ``random`` and ``tpe`` draw. That of the trainings is ``training.seed``.
        keep: So many of the best models are kept, in ``trials/``; of others the log is.
    """

    space: dict[str, list[Value] | RangeConfig] = Field(default_factory=lambda: dict(DEFAULT_SPACE))
    sampler: Literal["grid", "random", "tpe"] = "grid"
    pruner: Literal["none", "median", "asha", "hyperband"] = "none"
    metric: DevMetric = "perplexity"
    trials: PositiveInt | None = None
    seed: NonNegativeInt = 1
    keep: PositiveInt = 1

    @model_validator(mode="before")
    @classmethod
    def _read(cls, given: Any) -> Any:
        if not isinstance(given, Mapping) or "space" not in given:
            return given
        return {**given, "space": _read_space(given["space"])}

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.sampler != "grid":
            return self
        if self.trials is not None:
            raise ValueError(
                f"setting 'sweep.trials': expected none with the sampler grid, which tries everything, got "
                f"{self.trials}; leave it out, or set sweep.sampler to random or tpe"
            )
        for name, values in self.space.items():
            if isinstance(values, RangeConfig) and values.step is None:
                raise ValueError(
                    f"setting 'sweep.space': {name}: a grid needs a list of values or a range with a step, got "
                    f"{_shown(values)}; give one, or set sweep.sampler to random or tpe"
                )
        return self

    @property
    def trial_count(self) -> int:
        """How many trials there are with a sampler that is not the grid."""
        return self.trials or DEFAULT_TRIALS


class SweepRunConfig(Config):
    """A whole sweep: the settings that all trials share, and the sweep itself.

    Attributes:
        sweep: What is tried.
    """

    sweep: SweepConfig = SweepConfig()

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        for name, values in self.sweep.space.items():
            if wrong := _objection(name, values):
                raise ValueError(f"setting 'sweep.space': {wrong}")
        return self


def load_sweep_config(
    path: str | Path | None = None, *, preset: str | None = None, overrides: Mapping[str, Any] | None = None
) -> SweepRunConfig:
    """The settings of a sweep; as :func:`load_config`, with a section ``sweep``.

    Raises:
        ConfigError: A setting is unknown or wrong; the message names the file.
    """
    return load_settings(SweepRunConfig, path, preset=preset, overrides=overrides)


def _read_space(given: Any) -> dict[str, list[Value] | RangeConfig]:
    """What is tried, from what a file says of it."""
    if not isinstance(given, Mapping) or not given:
        raise ValueError(
            f"setting 'sweep.space': expected names of settings, each with a list of values or a range, got {given!r}"
        )
    return {str(name): _read_values(str(name), values) for name, values in given.items()}


def _read_values(name: str, given: Any) -> list[Value] | RangeConfig:
    where = f"setting 'sweep.space': {name}"
    if isinstance(given, RangeConfig):
        return given
    if isinstance(given, Mapping):
        try:
            return RangeConfig.model_validate(dict(given))
        except ValueError as error:
            lines = [f"{where}: {line}" for line in str(error).splitlines()]
            raise ValueError("\n".join(lines)) from None
    if not isinstance(given, list) or not given:
        raise ValueError(f"{where}: expected a list of values or a range such as {{low: 1, high: 9}}, got {given!r}")
    for value in given:
        if value is not None and not isinstance(value, bool | int | float | str):
            raise ValueError(f"{where}: expected values that are numbers, text, true, false or null, got {value!r}")
    for place, value in enumerate(given):
        if value in given[:place]:  # 1.0 is another way to write 1
            raise ValueError(f"{where}: {value!r} is given twice; leave one out")
    return list(given)


def _objection(name: str, values: list[Value] | RangeConfig) -> str | None:
    """Why a setting cannot be tried with these values; None if it can, as far as that can be told from its type."""
    *parents, last = name.split(".")
    parent = section_of(Config, parents)
    field = None if parent is None else parent.model_fields.get(last)
    if field is None:
        return unknown_setting(Config, name.split("."), _shown(values))
    if (section := section_of(Config, name.split("."))) is not None:
        first = next(iter(section.model_fields))
        return f"expected settings, got the section {name!r}; name its settings one by one, such as {name}.{first}"
    if name in FIXED or parents == ["hardware"]:
        return f"{name} cannot be tried: {FIXED.get(name, 'it says where a model is trained')}; leave it out"
    if not isinstance(values, RangeConfig):
        return None
    kinds = kinds_of(field.annotation)
    if not kinds & {int, float}:
        return f"{name} is not a number; expected a list of values, got {_shown(values)}"
    is_whole = all(one is None or isinstance(one, int) for one in (values.low, values.high, values.step))
    if float not in kinds and not is_whole:
        return f"{name} is a whole number; expected low, high and step to be whole numbers, got {_shown(values)}"
    return None


def _shown(values: list[Value] | RangeConfig) -> Any:
    """Values as they were given, for a message."""
    if not isinstance(values, RangeConfig):
        return values
    return {name: value for name, value in values.model_dump().items() if name in values.model_fields_set}
