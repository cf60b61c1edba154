"""A table's plan to the trials that it asks for; :mod:`experiments.plan_file` says what a plan may say."""

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
from experiments.plan_file import PLAN, Plan, System, read_plan
from ssnt.config import Config, load_config
from ssnt.config.model import named_settings
from ssnt.errors import ConfigError, nearest_name
from ssnt.types import Example

HOME = Path(__file__).parent
TYPES = "types.yaml"
ALL = "all"
"""What a key says in the place of a tag set, if it is about all of them."""


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
    return sorted(found, key=lambda name: (_read(name).order, name))


def is_by_request(table: str) -> bool:
    """Whether a table is done only if it is named, such as because few have its data."""
    return _read(table).by_request


def trials_of(table: str) -> list[Trial]:
    """The trials of a table, in the order in which they are wanted.

    Raises:
        ConfigError: The plan cannot be understood.
    """
    plan = _read(table)
    made: dict[str, list[Trial]] = {}
    for system in plan.systems:
        if system.name in made:
            raise ConfigError(f"{table}/{PLAN}: there are two systems with the name {system.name!r}")
        made[system.name] = list(_trials(table, plan, system, made))
    _check_further_seeds(table, plan, made)
    return [trial for found in made.values() for trial in found]


def shown_names(table: str) -> dict[str, str]:
    """What the report calls each system of a table: one that has further seeds of another is shown as that one."""
    return _names_shown(_read(table))


def _names_shown(plan: Plan) -> dict[str, str]:
    names: dict[str, str] = {}
    for one in plan.systems:
        names[one.name] = names.get(one.further_seeds_of or "", one.name)
    return names


def _check_further_seeds(table: str, plan: Plan, made: Mapping[str, Sequence[Trial]]) -> None:
    """Refuses further seeds of a system that is not above, that has them already, or that is trained otherwise.

    Raises:
        ConfigError: There are some.
    """
    names = _names_shown(plan)
    seen: dict[tuple[str, str, str, int], str] = {}
    above: dict[str, dict[tuple[str, str], str]] = {}
    for system in plan.systems:
        name, first = system.name, system.further_seeds_of
        where = f"{table}/{PLAN}: {name!r} has further seeds of {first!r}"
        if first is not None and first not in above:
            raise ConfigError(f"{where}, which is no system above it; name one that is, or leave further_seeds_of out")
        for one in made[name]:
            what = " ".join(filter(None, (one.dataset, one.tags)))
            if first is not None and above[first].get((one.dataset, one.tags)) != one.config_hash:
                raise ConfigError(f"{where}, which has other settings on {what}, or none; give both the same")
            place = (names[name], one.dataset, one.tags, one.seed)
            if first is not None and place in seen:
                raise ConfigError(f"{where}, but {seen[place]!r} has seed {one.seed} on {what}; leave one of them out")
            seen[place] = name
        above[name] = {(one.dataset, one.tags): one.config_hash for one in made[name]}


def _read(table: str) -> Plan:
    if not (HOME / table / PLAN).exists():
        names = ", ".join(sorted(one.parent.name for one in HOME.glob(f"*/{PLAN}")))
        raise ConfigError(f"there is no table {table!r}; expected one of {names}")
    return read_plan(HOME / table)


def _trials(table: str, plan: Plan, system: System, made: Mapping[str, Sequence[Trial]]) -> Iterator[Trial]:
    common = _common(plan, system)
    _check_answers(table, system, common)
    if system.parts:
        yield from _measurements(table, plan, system, made, common)
        return
    seeds = system.seeds or plan.seeds
    for seed in seeds:  # a second seed when all sets have a first
        for dataset in system.datasets or plan.datasets or []:
            if seed not in system.dataset_seeds.get(dataset, seeds):
                continue
            settings = merged(plan.base, system.settings, system.dataset_settings.get(dataset, {}))
            if system.model is not None:
                settings["model"] = {**settings.get("model", {}), **_model_of(table, system)}
            for tags in system.types or (types_of(dataset) if system.per_type else [""]):
                yield Trial(table, system.name, dataset, tags, seed, settings=settings, **common)


def _model_of(table: str, system: System) -> dict[str, Any]:
    try:
        return model_settings(str(system.model))
    except ConfigError as error:
        raise ConfigError(f"{table}/{PLAN}: {system.name!r}: {error}") from None


def _common(plan: Plan, system: System) -> dict[str, Any]:
    """What all trials of a system have in common, those of its plan where it says nothing itself."""
    found: dict[str, Any] = {"metrics": tuple(plan.metrics)}
    for name in ("has_test", "test_limit", "dev_limit"):
        own = getattr(system, name)
        found[name] = getattr(plan, name) if own is None else own
    found |= {"search": system.search, "stream": system.stream, "of_answers": system.of_answers}
    of_plan = plan.keeps_answers and not system.parts
    return {**found, "keeps_answers": of_plan if system.keeps_answers is None else system.keeps_answers}


def _check_answers(table: str, system: System, common: Mapping[str, Any]) -> None:
    """Refuses answers of what has none, or is more than answers.

    Raises:
        ConfigError: They are of no other system, of a search or a stream, or measured by more than accuracy.
    """
    if not (common["of_answers"] or common["keeps_answers"]):
        return
    where = f"{table}/{PLAN}: {system.name!r} {'is of answers' if common['of_answers'] else 'keeps its answers'}"
    if common["metrics"] != ("accuracy",):
        raise ConfigError(f"{where}: expected the metric accuracy alone, got {', '.join(common['metrics'])}")
    if common["search"] or common["stream"] is not None:
        raise ConfigError(f"{where}: expected neither a search nor a stream of its own")
    if common["of_answers"] and not system.parts:
        raise ConfigError(f"{where}: expected made_of, the systems whose answers they are")
    if common["keeps_answers"] and system.parts:
        raise ConfigError(f"{where}: expected that of a system that is trained, and not made_of others")


def _measurements(
    table: str, plan: Plan, system: System, made: Mapping[str, Sequence[Trial]], common: Mapping[str, Any]
) -> Iterator[Trial]:
    """An ensemble of all seeds of other systems for each data set, or each model of another system, in another search.

    Raises:
        ConfigError: What it is made of is not there, or does not go together.
    """
    is_ensemble = not (system.search or system.stream)
    groups: dict[tuple[str, str], list[Trial]] = {}
    for name in system.parts:
        for trial in _chosen(table, plan, system, name, _trained(table, system.name, name, made)):
            groups.setdefault((trial.dataset, trial.tags), []).append(trial)
    for dataset, tags in [one for one in groups if one[1] and (one[0], "") in groups]:
        groups[dataset, ""] += groups.pop((dataset, tags))  # a model for all tag sets takes part in every answer
    for (dataset, tags), members in groups.items():
        _require_members(table, system, dataset, tags, members)
        if common["of_answers"]:
            _require_answers(table, system.name, members, common)
        are_joined = is_ensemble or len(system.parts_on(dataset)) > 1
        for some in [members] if are_joined else [[one] for one in members]:
            keys = tuple(one.key for one in some)
            yield Trial(table, system.name, dataset, tags, some[0].seed, members=keys, **common)


def _require_members(table: str, system: System, dataset: str, tags: str, members: Sequence[Trial]) -> None:
    """Refuses systems that have not all a data set, or not all its tag sets where one of them has a model for all."""
    parts = system.parts_on(dataset)
    if len({(one.table, one.system) for one in members}) < len(parts):
        raise ConfigError(
            f"{table}/{PLAN}: {system.name!r} is made of {parts}, not all of which have {dataset}; name the "
            "datasets that they share"
        )
    own = {one.tags for one in members if one.tags}
    if not tags and own and (missing := [one for one in types_of(dataset) if one not in own]):
        raise ConfigError(
            f"{table}/{PLAN}: {system.name!r} is made of {parts}, one of which has models for some tag sets of "
            f"{dataset} and none for {missing[0]}"
        )


def _require_answers(table: str, name: str, members: Sequence[Trial], common: Mapping[str, Any]) -> None:
    """Refuses members that do not keep their answers, or not to all that is asked."""
    where = f"{table}/{PLAN}: {name!r} is of the answers of"
    for one in members:
        if not one.keeps_answers:
            raise ConfigError(f"{where} {one.key}, which are not kept; set keeps_answers where that is planned")
        for key in ("has_test", "test_limit", "dev_limit"):
            if getattr(one, key) != common[key]:
                raise ConfigError(f"{where} {one.key}, whose {key} is {getattr(one, key)}, and its own {common[key]}")


def _chosen(table: str, plan: Plan, system: System, made_of: str, members: Sequence[Trial]) -> Sequence[Trial]:
    """Of what a system is made of, the data sets and seeds that it names, or else the plan's data sets.

    Data sets on which it is made of others are left out.

    Raises:
        ConfigError: It names one that is not there, or nothing is left.
    """

    def with_it(datasets: list[str]) -> list[str]:
        return [one for one in datasets if made_of in system.parts_on(one)]

    there = list(dict.fromkeys(one.dataset for one in members))
    wanted = with_it(system.datasets or plan.datasets or there)
    missing = [one for one in wanted if one not in there]
    if missing and (system.datasets or len(missing) == len(wanted)):
        raise _not_there(table, system, made_of, "datasets", there, missing)
    members = [one for one in members if one.dataset in wanted]
    seeds = list(dict.fromkeys(one.seed for one in members))
    if unknown := [one for one in system.seeds or [] if members and one not in seeds]:
        raise _not_there(table, system, made_of, "seeds", seeds, unknown)
    return [one for one in members if one.seed in (system.seeds or seeds)]


def _not_there(
    table: str, system: System, made_of: str, what: str, there: Sequence[Any], missing: Sequence[Any]
) -> ConfigError:
    return ConfigError(
        f"{table}/{PLAN}: the {what} of {system.name!r} are to be some of {there}, which {made_of!r} has, got "
        f"{missing}; leave them out, or train on them there"
    )


def _trained(table: str, system: str, name: str, made: Mapping[str, Sequence[Trial]]) -> Sequence[Trial]:
    """The trials of one of the systems that a system is made of, by its name."""
    if name in made and not any(one.members for one in made[name]):
        return made[name]
    elsewhere, _, other = name.partition("/")
    plan = _read(elsewhere) if other and elsewhere != table and (HOME / elsewhere / PLAN).exists() else None
    # one that is itself made of others is not looked for, so that no two plans can be made of each other
    found = [one for one in plan.systems if one.name == other and not one.parts] if plan else []
    if plan is None or not found:
        nearest = nearest_name(name, [one for one in made if not any(trial.members for trial in made[one])])
        raise ConfigError(
            f"{table}/{PLAN}: {system!r} is made of {name!r}, which is neither a system above it nor the "
            f"TABLE/SYSTEM of another plan that is trained{f'; did you mean {nearest!r}?' if nearest else ''}"
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
