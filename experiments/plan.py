"""A table's ``plan.yaml`` to the trials that it asks for.

A plan has the ``metrics`` that are measured (the first one is the table's), ``base`` settings, and ``systems``. A
system is trained on every one of its ``datasets`` with every one of its ``seeds``, as one model or, with ``per_type:
true``, as one for each tag set; or it is ``made_of`` the models of another system, of this table or, as
``TABLE/SYSTEM``, of another: their ensemble, or the same model in another search, on those of that system's data sets
that it names, or else the plan. Made of several, such as of one that has a model for each tag set and one that has a
model for all, it is the ensemble of all their models. With ``of_answers: true`` that ensemble is of the answers that
their trials have kept, as those of systems or plans with ``keeps_answers: true`` do: the models need not be there. With
``dataset_seeds`` a data set has some of the seeds only. A plan with ``by_request: true`` is done only if its table is
named.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from experiments.datasets import Parts, load
from ssnt.config import Config, load_config
from ssnt.config.model import named_settings
from ssnt.errors import ConfigError
from ssnt.types import Example

HOME = Path(__file__).parent
PLAN = "plan.yaml"
TYPES = "types.yaml"
ALL = "all"
"""What a key says in the place of a tag set, if it is about all of them."""
_SYSTEM_KEYS = {
    "name", "model", "datasets", "types", "seeds", "dataset_seeds", "per_type", "settings", "dataset_settings",
    "made_of", "of_answers", "keeps_answers", "search", "stream", "has_test", "test_limit",
    "dev_limit",
}  # fmt: skip


@dataclass(frozen=True)
class Trial:
    """One model to train and measure, or a measurement of models that are trained by others.

    Attributes:
        table: The folder of its plan.
        system: What the table calls it.
        dataset: The name of a data set.
        tags: The one tag set that it is about, as text; empty: all.
        seed: Of the training; for an ensemble the first of its members'.
        metrics: What is measured.
        settings: Of the training, without data, seed and directory; empty for a measurement.
        members: The keys of the trials whose models are measured.
        search: How to search; empty: as the model's settings say.
        stream: How to stream, for latency; None: not at all.
        has_test: Whether the test data may be looked at; not while something is being chosen.
        test_limit: How many test examples are used, the first ones; None: all.
        dev_limit: The same of dev, where nothing is chosen by it.
        of_answers: Whether an ensemble is of its members' kept answers, and not of their models.
        keeps_answers: Whether its answers are kept. The search for them is as wide, but is not told the greedy output
            beforehand: the best one could be another, and was not in any that were tried.
    """

    table: str
    system: str
    dataset: str
    tags: str
    seed: int
    metrics: tuple[str, ...]
    settings: dict[str, Any] = field(default_factory=dict)
    members: tuple[str, ...] = ()
    search: dict[str, Any] = field(default_factory=dict)
    stream: dict[str, Any] | None = None
    has_test: bool = True
    test_limit: int | None = None
    dev_limit: int | None = None
    of_answers: bool = False
    keeps_answers: bool = False

    @classmethod
    def of(cls, order: dict[str, Any]) -> Trial:
        """The trial whose fields an order has, in JSON."""
        return cls(**{**order, "metrics": tuple(order["metrics"]), "members": tuple(order["members"])})

    @property
    def config_hash(self) -> str:
        """Of everything that the result depends on besides code, data and seed."""
        parts = {
            name: value
            for name, value in asdict(self).items()
            if name not in ("table", "system", "dataset", "tags", "seed", "keeps_answers")
        }
        for name in ("of_answers", "dev_limit"):  # rows that are older than these fields keep their keys
            if not parts[name]:
                del parts[name]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:10]

    @property
    def key(self) -> str:
        """What its row and its model directory are found by."""
        parts = [self.table, self.system, self.dataset, self.tags or ALL, str(self.seed), self.config_hash]
        return "/".join(map(_as_name, parts))

    @property
    def model_count(self) -> int:
        """How many models answer each question: of those for one tag set each, one."""
        return len({asker_of(key) for key in self.members}) or 1

    @property
    def has_type_members(self) -> bool:
        """Whether it is about all tag sets, and made of models for one each."""
        return not self.tags and any(key.split("/")[3] != ALL for key in self.members)

    def asked(self, parts: Parts) -> dict[str, Sequence[Example]]:
        """The parts of its data set that it is measured on."""
        return {
            "dev": parts.dev[: self.dev_limit],
            **({"test": parts.test[: self.test_limit]} if self.has_test else {}),
        }

    def config(self) -> Config:
        """The settings of the training, without data and directory.

        Raises:
            ConfigError: A setting is unknown or wrong.
        """
        settings = dict(self.settings)
        preset = settings.pop("preset", None)
        settings["training"] = {**settings.get("training", {}), "seed": self.seed}
        return load_config(preset=preset, overrides=settings)


def _as_name(part: str) -> str:
    return re.sub(r"[^\w.=;+-]+", "_", part)


def table_of(key: str) -> str:
    """The table of the trial with a key."""
    return key.partition("/")[0]


def asker_of(key: str) -> tuple[str, ...]:
    """Table, system and seed of the trial with a key: of all trials that have these, one answers a question."""
    table, system, _, _, seed, _ = key.split("/")
    return table, system, seed


def tags_of(key: str, dataset: str) -> str:
    """The tag set of the trial with a key, which is about that data set; empty: all.

    Raises:
        ConfigError: The data set has no such tag set.
    """
    name = key.split("/")[3]
    found = [""] if name == ALL else [tags for tags in types_of(dataset) if _as_name(tags) == name]
    if not found:
        raise ConfigError(f"{key}: {dataset} has no tag set {name!r}")
    return found[0]


def tables() -> list[str]:
    """The folders that have a plan, in the order of their importance."""
    found = [path.parent.name for path in HOME.glob(f"*/{PLAN}")]
    return sorted(found, key=lambda name: (_read(name).get("order", 99), name))


def is_by_request(table: str) -> bool:
    """Whether a table is done only if it is named, such as because few have its data."""
    return bool(_read(table).get("by_request", False))


def trials_of(table: str) -> list[Trial]:
    """The trials of a table, in the order in which they are wanted.

    Raises:
        ConfigError: The plan cannot be understood.
    """
    plan = _read(table)
    made: dict[str, list[Trial]] = {}
    for system in plan["systems"]:
        if unknown := set(system) - _SYSTEM_KEYS:
            raise ConfigError(f"{table}/{PLAN}: system {system.get('name')!r} has unknown keys {sorted(unknown)}")
        if system["name"] in made:
            raise ConfigError(f"{table}/{PLAN}: there are two systems with the name {system['name']!r}")
        made[system["name"]] = list(_trials(table, plan, system, made))
    return [trial for found in made.values() for trial in found]


def _read(table: str) -> dict[str, Any]:
    path = HOME / table / PLAN
    if not path.exists():
        names = ", ".join(sorted(one.parent.name for one in HOME.glob(f"*/{PLAN}")))
        raise ConfigError(f"there is no table {table!r}; expected one of {names}")
    found: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return found


def _trials(
    table: str, plan: Mapping[str, Any], system: Mapping[str, Any], made: Mapping[str, Sequence[Trial]]
) -> Iterator[Trial]:
    common = {
        "metrics": tuple(plan["metrics"]),
        "has_test": system.get("has_test", plan.get("has_test", True)),
        "test_limit": system.get("test_limit", plan.get("test_limit")),
        "dev_limit": system.get("dev_limit", plan.get("dev_limit")),
        "search": system.get("search", {}),
        "stream": system.get("stream"),
        "of_answers": system.get("of_answers", False),
        "keeps_answers": system.get("keeps_answers", plan.get("keeps_answers", False) and "made_of" not in system),
    }
    name = system["name"]
    _check_answers(table, name, system, common)
    if "made_of" in system:
        yield from _measurements(table, plan, system, made, common)
        return
    datasets = system.get("datasets", plan.get("datasets", []))
    seeds = system.get("seeds", plan.get("seeds", [1]))
    fewer = system.get("dataset_seeds", {})
    for dataset, some in fewer.items():
        if dataset not in datasets or not set(some) <= set(seeds):
            raise ConfigError(
                f"{table}/{PLAN}: the dataset_seeds of {name!r} are to be some of {seeds} for some of {datasets}, got "
                f"{some} for {dataset}"
            )
    for seed in seeds:  # a second seed when all sets have a first
        for dataset in datasets:
            if seed not in fewer.get(dataset, seeds):
                continue
            own = system.get("dataset_settings", {}).get(dataset, {})
            settings = merged(plan.get("base", {}), system.get("settings", {}), own)
            if "model" in system:
                settings["model"] = {**settings.get("model", {}), **model_settings(system["model"])}
            for tags in system.get("types") or (types_of(dataset) if system.get("per_type") else [""]):
                yield Trial(table, name, dataset, tags, seed, settings=settings, **common)


def _check_answers(table: str, name: str, system: Mapping[str, Any], common: Mapping[str, Any]) -> None:
    """Refuses answers of what has none, or is more than answers.

    Raises:
        ConfigError: They are of no other system, of a search or a stream, or measured by more than accuracy.
    """
    if not (common["of_answers"] or common["keeps_answers"]):
        return
    is_plain = common["metrics"] == ("accuracy",) and not common["search"] and common["stream"] is None
    is_either = common["of_answers"] != common["keeps_answers"] and ("made_of" in system) == common["of_answers"]
    if not (is_plain and is_either):
        raise ConfigError(
            f"{table}/{PLAN}: {name!r} keeps answers or is of kept ones: expected the metric accuracy, no search and "
            "no stream of its own, and made_of for of_answers alone"
        )


def _measurements(
    table: str,
    plan: Mapping[str, Any],
    system: Mapping[str, Any],
    made: Mapping[str, Sequence[Trial]],
    common: Mapping[str, Any],
) -> Iterator[Trial]:
    """An ensemble of all seeds of other systems for each data set, or each model of another system, in another search.

    Raises:
        ConfigError: What it is made of is not there, or does not go together.
    """
    names = system["made_of"] if isinstance(system["made_of"], list) else [system["made_of"]]
    is_ensemble = len(names) > 1 or not (system.get("search") or system.get("stream"))
    if len(set(names)) < len(names) or (len(names) > 1 and system.get("stream")):
        raise ConfigError(
            f"{table}/{PLAN}: {system['name']!r} is to be made of different systems, of one if it streams, got {names}"
        )
    groups: dict[tuple[str, str], list[Trial]] = {}
    for name in names:
        for trial in _chosen(table, plan, system, name, _trained(table, system["name"], name, made)):
            groups.setdefault((trial.dataset, trial.tags), []).append(trial)
    for dataset, tags in [one for one in groups if one[1] and (one[0], "") in groups]:
        groups[dataset, ""] += groups.pop((dataset, tags))  # a model for all tag sets takes part in every answer
    for (dataset, tags), members in groups.items():
        if len({(one.table, one.system) for one in members}) < len(names):
            raise ConfigError(
                f"{table}/{PLAN}: {system['name']!r} is made of {names}, not all of which have {dataset}; name the "
                "datasets that they share"
            )
        if common["of_answers"]:
            _require_answers(table, system["name"], members, common)
        for some in [members] if is_ensemble else [[one] for one in members]:
            keys = tuple(one.key for one in some)
            yield Trial(table, system["name"], dataset, tags, some[0].seed, members=keys, **common)


def _require_answers(table: str, name: str, members: Sequence[Trial], common: Mapping[str, Any]) -> None:
    """Refuses members that do not keep their answers, or not to all that is asked."""
    for one in members:
        if not one.keeps_answers or any(
            getattr(one, key) != common[key] for key in ("has_test", "test_limit", "dev_limit")
        ):
            raise ConfigError(
                f"{table}/{PLAN}: {name!r} is of the answers of {one.key}, which are not kept, or are to other "
                "questions; set keeps_answers where that is planned, and the same has_test, test_limit and dev_limit"
            )


def _chosen(
    table: str, plan: Mapping[str, Any], system: Mapping[str, Any], made_of: str, members: Sequence[Trial]
) -> Sequence[Trial]:
    """Of what a system is made of, the data sets and seeds that it names, or else the plan's data sets.

    Raises:
        ConfigError: It names one that is not there, or nothing is left.
    """
    for key, name in (("datasets", "dataset"), ("seeds", "seed")):
        there = list(dict.fromkeys(getattr(one, name) for one in members))
        wanted = system.get(key, plan.get(key, there) if key == "datasets" else there)
        missing = [one for one in wanted if one not in there]
        if missing and (key in system or len(missing) == len(wanted)):
            raise ConfigError(
                f"{table}/{PLAN}: the {key} of {system['name']!r} are to be some of {there}, which "
                f"{made_of!r} has, got {missing}; leave them out, or train on them there"
            )
        members = [one for one in members if getattr(one, name) in wanted]
    return members


def _trained(table: str, system: str, name: str, made: Mapping[str, Sequence[Trial]]) -> Sequence[Trial]:
    """The trials of one of the systems that a system is made of, by its name."""
    if name in made and not any(one.members for one in made[name]):
        return made[name]
    elsewhere, _, other = name.partition("/")
    plan = _read(elsewhere) if other and elsewhere != table else {"systems": []}
    # one that is itself made of others is not looked for, so that no two plans can be made of each other
    found = [one for one in plan["systems"] if one["name"] == other and "made_of" not in one]
    if not found:
        raise ConfigError(
            f"{table}/{PLAN}: {system!r} is made of {name!r}, which is neither a system above it nor the "
            "TABLE/SYSTEM of another plan that is trained"
        )
    return list(_trials(elsewhere, plan, found[0], {}))


def types_of(dataset: str) -> list[str]:
    """The tag sets of a data set, in order: from a file where they are known, so that no data is needed."""
    known = known_types()
    return list(known[dataset]) if dataset in known else sorted({";".join(one.tags) for one in load(dataset).train})


@lru_cache(maxsize=1)
def known_types() -> Mapping[str, Sequence[str]]:
    """The inflection types of the data sets whose types are written down."""
    found: dict[str, list[str]] = yaml.safe_load((Path(__file__).parent / TYPES).read_text(encoding="utf-8"))
    return found


def model_settings(name: str) -> dict[str, Any]:
    """The settings that a model's name stands for; what is the default is left out, as it always was."""
    return {key: value for key, value in named_settings(name).items() if (key, value) != ("architecture", "ssnt")}


def merged(*several: Mapping[str, Any]) -> dict[str, Any]:
    """Settings over settings, section by section."""
    result: dict[str, Any] = {}
    for settings in several:
        for key, value in settings.items():
            is_section = isinstance(value, Mapping) and isinstance(result.get(key), Mapping)
            result[key] = {**result[key], **value} if is_section else value
    return result
