"""The results of a table beside its plan: groups of trials that make one figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.plan import Trial, shown_names, trials_of
from experiments.results import Results, Row
from ssnt.errors import DataError


@dataclass(frozen=True)
class Group:
    """The trials that make one figure: a system on a data set with a seed.

    Attributes:
        system: What the table calls it, or the system that it has further seeds of.
        dataset: The data set.
        seed: Of the training; for an ensemble the first of its members'.
        trials: What is planned: one trial, or one for each inflection type.
        rows: Of the trials that are finished, in the order of the trials.
        records: Their scores and outcomes.
    """

    system: str
    dataset: str
    seed: int
    trials: tuple[Trial, ...]
    rows: tuple[Row, ...]
    records: tuple[Mapping[str, Any], ...]

    @property
    def is_ensemble(self) -> bool:
        """Whether several models answer together."""
        return any(trial.model_count > 1 for trial in self.trials)

    @property
    def is_per_type(self) -> bool:
        """Whether there is one trial for each inflection type."""
        return any(trial.tags for trial in self.trials)

    def scores(self, name: str, part: str) -> list[float]:
        """The values of a score of all finished trials that have it."""
        found = [one for record in self.records for one in record["scores"].get(part, ()) if one["name"] == name]
        return [float(one["value"]) for one in found if one["value"] is not None]


@dataclass(frozen=True)
class Gathered:
    """A table's results.

    Attributes:
        table: Its folder.
        groups: In the order of the plan.
        missing: Planned trials without a row.
        strays: How many rows are not those of the plan, such as of settings that were given up.
    """

    table: str
    groups: tuple[Group, ...]
    missing: tuple[Trial, ...]
    strays: int

    @property
    def rows(self) -> list[Row]:
        """The rows of the plan."""
        return [row for group in self.groups for row in group.rows]

    @property
    def systems(self) -> list[str]:
        """The names of all systems, in the order of the plan."""
        return list(dict.fromkeys(group.system for group in self.groups))

    @property
    def datasets(self) -> list[str]:
        """The names of all data sets, in the order of the plan."""
        return list(dict.fromkeys(group.dataset for group in self.groups))

    def of(self, system: str, dataset: str | None = None) -> list[Group]:
        """The groups of a system, one for each data set and seed."""
        return [
            group for group in self.groups if group.system == system and (dataset is None or group.dataset == dataset)
        ]

    def kind(self, system: str) -> str:
        """What a system's figure comes from."""
        groups = self.of(system)
        sizes = {trial.model_count for group in groups for trial in group.trials if trial.model_count > 1}
        kind = "one a type" if any(group.is_per_type for group in groups) else "one model"
        if any(trial.has_type_members for group in groups for trial in group.trials):
            kind += " and one a type"
        is_of_answers = any(trial.of_answers for group in groups for trial in group.trials)
        joined = f"ensembles of {'the answers of ' * is_of_answers}{'/'.join(map(str, sorted(sizes)))}"
        return kind + (f", {joined}" if sizes else "")


def gather(table: str, home: Path) -> Gathered:
    """Reads a table's plan and results; neither models nor data are needed."""
    trials, names = trials_of(table), shown_names(table)
    results = Results(table, home)
    rows, records = results.rows(), results.records()
    by_figure: dict[tuple[str, str, int], list[Trial]] = {}
    for trial in trials:
        by_figure.setdefault((names[trial.system], trial.dataset, trial.seed), []).append(trial)
    groups = tuple(_group(name, some, rows, records) for (name, _, _), some in by_figure.items())
    planned = {trial.key for trial in trials}
    missing = tuple(trial for trial in trials if trial.key not in rows)
    return Gathered(table, groups, missing, len(rows.keys() - planned))


def _group(
    system: str, trials: Sequence[Trial], rows: Mapping[str, Row], records: Mapping[str, Mapping[str, Any]]
) -> Group:
    first = trials[0]
    done = [trial.key for trial in trials if trial.key in rows]
    if lost := next((key for key in done if key not in records), None):
        raise DataError(f"{lost}: expected its outcome beside its row, got none; was outcomes.jsonl committed too?")
    return Group(
        system,
        first.dataset,
        first.seed,
        tuple(trials),
        tuple(rows[key] for key in done),
        tuple(records[key] for key in done),
    )
