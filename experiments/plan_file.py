"""What a table's ``plan.yaml`` may say, checked before anything is trained."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import yaml
from pydantic import Field, NonNegativeInt, model_validator

from ssnt.config.base import Settings
from ssnt.errors import ConfigError
from ssnt.metrics import find_metric

PLAN = "plan.yaml"


_OF_TRAINING = {
    "model", "per_type", "types", "settings", "dataset_settings", "dataset_seeds", "further_seeds_of"
}  # fmt: skip
"""What a system says of its training, and one that is made of others cannot."""


class System(Settings):
    """A system: what is trained, or what is measured in another way.

    Attributes:
        name: What the table calls it.
        model: The name of the model that is trained, such as ``biSSNT+``; None: as the settings say.
        datasets: What it is trained on, or measured on; None: the plan's.
        seeds: Of the training; for what is made of others, which of their seeds; None: the plan's, or all of theirs.
        dataset_seeds: For data sets that have some of the seeds only.
        further_seeds_of: A system above it that it has more seeds of, with the same settings: the report shows the two
            as one, and what is made of that system does not have to wait for them.
        per_type: Whether there is a model for each tag set.
        types: The tag sets that there is a model for, if not all, each with ``;`` between its tags.
        settings: What differs from the plan's ``base``.
        dataset_settings: What differs from these on some data sets.
        made_of: The system whose models are measured: one above it, or ``TABLE/SYSTEM`` of another plan. Without a
            search or a stream of its own it is their ensemble. Made of several systems, such as of one that has a model
            for each tag set and one that has a model for all, it is the ensemble of all their models.
        dataset_made_of: What it is made of on some data sets, if not of these.
        of_answers: Whether that ensemble is of the answers that their trials have kept, and not of their models, which
            then need not be there.
        keeps_answers: Whether what it answers is kept for that; None: as the plan says.
        search: How to search; empty: as the model's settings say.
        stream: How to stream, for latency; None: not at all.
        has_test: Whether the test data may be looked at; None: as the plan says.
        test_limit: How many test examples are used, the first ones; None: as the plan says.
        dev_limit: The same of dev.
    """

    name: str
    model: str | None = None
    datasets: list[str] | None = None
    seeds: list[NonNegativeInt] | None = None
    dataset_seeds: dict[str, list[NonNegativeInt]] = Field(default_factory=dict)
    further_seeds_of: str | None = None
    per_type: bool = False
    types: list[str] | None = None
    settings: dict[str, Any] = Field(default_factory=dict)
    dataset_settings: dict[str, dict[str, Any]] = Field(default_factory=dict)
    made_of: str | list[str] | None = None
    dataset_made_of: dict[str, list[str]] = Field(default_factory=dict)
    of_answers: bool = False
    keeps_answers: bool | None = None
    search: dict[str, Any] = Field(default_factory=dict)
    stream: dict[str, Any] | None = None
    has_test: bool | None = None
    test_limit: int | None = None
    dev_limit: int | None = None

    @property
    def parts(self) -> list[str]:
        """The systems that it is made of, on whatever data set."""
        some = [name for names in self.dataset_made_of.values() for name in names]
        return list(dict.fromkeys([*self._usual_parts, *some]))

    def parts_on(self, dataset: str) -> list[str]:
        """The systems that it is made of on a data set."""
        return self.dataset_made_of.get(dataset, self._usual_parts)

    @property
    def _usual_parts(self) -> list[str]:
        if self.made_of is None:
            return []
        return [self.made_of] if isinstance(self.made_of, str) else self.made_of

    @model_validator(mode="after")
    def _check_once(self) -> Self:
        _refuse_repeated(self, "seeds", "datasets", "types")
        for dataset, seeds in self.dataset_seeds.items():
            if len(set(seeds)) < len(seeds):
                raise ValueError(f"setting 'dataset_seeds': expected each seed once on {dataset}, got {seeds}")
        return self

    @model_validator(mode="after")
    def _check_trained_or_made(self) -> Self:
        if self.made_of is None:
            return self
        if training := sorted(_OF_TRAINING & self.model_fields_set):
            raise ValueError(
                f"what is made_of others is not trained, and cannot have {', '.join(training)}; leave that out"
            )
        return self

    @model_validator(mode="after")
    def _check_parts(self) -> Self:
        if self.made_of == []:
            raise ValueError("made_of: expected the systems that it is made of, got an empty list")
        if self.dataset_made_of and self.made_of is None:
            raise ValueError("expected made_of beside dataset_made_of: what it is made of on the other data sets")
        if empty := next((dataset for dataset, names in self.dataset_made_of.items() if not names), None):
            raise ValueError(f"expected what it is made of on {empty}, or nothing about it, got an empty list")
        for names in (self._usual_parts, *self.dataset_made_of.values()):
            if len(set(names)) < len(names) or (len(names) > 1 and self.stream):
                raise ValueError(f"it is to be made of different systems, of one if it streams, got {names}")
        counts = {len(names) > 1 for names in (self._usual_parts, *self.dataset_made_of.values())}
        if self.search and len(counts) > 1:
            raise ValueError(
                "with a search of its own it is to be made of one system on all data sets, each of whose models is "
                "measured, or of several on all, which are joined"
            )
        return self


class Plan(Settings):
    """A table.

    Attributes:
        metrics: What is measured; the first is the table's.
        systems: What is trained and measured, the most important first.
        order: Its place among the tables.
        base: Settings of all its trainings.
        datasets: Of the systems that name none; None: each has to name its own.
        seeds: Of the systems that name none.
        has_test: Whether the test data may be looked at; not while something is being chosen.
        test_limit: How many test examples are used, the first ones; None: all.
        dev_limit: The same of dev, where nothing is chosen by it.
        keeps_answers: Whether trials keep what they answer, for ensembles.
        by_request: Whether it is done only if its table is named.
    """

    metrics: list[str]
    systems: list[System]
    order: float = 99.0
    base: dict[str, Any] = Field(default_factory=dict)
    datasets: list[str] | None = None
    seeds: list[NonNegativeInt] = Field(default_factory=lambda: [1])
    has_test: bool = True
    test_limit: int | None = None
    dev_limit: int | None = None
    keeps_answers: bool = False
    by_request: bool = False

    @model_validator(mode="after")
    def _check_once(self) -> Self:
        _refuse_repeated(self, "seeds", "datasets", "metrics")
        return self


def _refuse_repeated(settings: Settings, *names: str) -> None:
    for name in names:
        values = getattr(settings, name) or []
        if len(set(values)) < len(values):
            raise ValueError(f"setting {name!r}: expected each once, got {values}")


def read_plan(folder: Path) -> Plan:
    """The plan of a table's folder.

    Raises:
        ConfigError: It cannot be read, or says something that it may not.
    """
    path = folder / PLAN
    where = f"{folder.name}/{PLAN}"
    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise ConfigError(f"{where}: {error}") from None
    if not isinstance(found, dict):
        raise ConfigError(f"{where}: expected metrics, systems and so on, got {found!r}")
    if isinstance(found.get("systems"), list):
        found["systems"] = [_system(one, where, place) for place, one in enumerate(found["systems"], 1)]
    with _named(where):
        plan = Plan.model_validate(found)
        for name in plan.metrics:
            find_metric(name)
    for one in plan.systems:
        _check_datasets(plan, one, where)
    return plan


def _system(found: Any, where: str, place: int) -> System:
    """One of a plan's systems; what is wrong is told with its name, or its place among them."""
    if not isinstance(found, dict):
        raise ConfigError(f"{where}: system {place}: expected name, datasets and so on, got {found!r}")
    with _named(f"{where}: system {found.get('name', place)!r}"):
        return System.model_validate(found)


@contextmanager
def _named(where: str) -> Iterator[None]:
    try:
        yield
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None


def _check_datasets(plan: Plan, system: System, where: str) -> None:
    """Refuses settings and seeds for data sets, or seeds, that a system does not have."""
    datasets, seeds = system.datasets or plan.datasets or [], system.seeds or plan.seeds
    if system.parts:
        _check_known(system, where, "dataset_made_of", datasets)
        return
    if not datasets:
        raise ConfigError(f"{where}: {system.name!r}: expected datasets, there or for the whole plan, got none")
    for key in ("dataset_settings", "dataset_seeds"):
        _check_known(system, where, key, datasets)
    for dataset, some in system.dataset_seeds.items():
        if not set(some) <= set(seeds):
            raise ConfigError(
                f"{where}: the dataset_seeds of {system.name!r} are to be some of {seeds}, got {some} for {dataset}"
            )


def _check_known(system: System, where: str, key: str, datasets: Sequence[str]) -> None:
    """Refuses something for a data set that a system does not have."""
    if getattr(system, key) and not datasets:
        raise ConfigError(f"{where}: {system.name!r}: expected datasets beside its {key}, got none")
    if unknown := [one for one in getattr(system, key) if one not in datasets]:
        raise ConfigError(f"{where}: the {key} of {system.name!r} are to be of some of {datasets}, got {unknown[0]}")
