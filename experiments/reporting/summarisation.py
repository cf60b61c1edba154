"""Tables 1 and 2: ROUGE of sentence compressions, and perplexity on dev."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations

import numpy as np

from experiments.reporting.estimates import Estimate, difference, over_seeds
from experiments.reporting.gathered import Gathered, Group
from experiments.reporting.markdown import MISSING, difference_shown, plain, seeds_shown, shown, spread_shown, table
from experiments.reporting.measured import items
from experiments.reporting.published import published
from ssnt.config import load_config

ROUGE = {"rouge_1": "ROUGE-1", "rouge_2": "ROUGE-2", "rouge_l": "ROUGE-L"}


@dataclass(frozen=True)
class Rouge:
    """The ROUGE scores of a system on a data set.

    Attributes:
        name: The system.
        dataset: The data set.
        scores: By metric.
    """

    name: str
    dataset: str
    scores: Mapping[str, Estimate | None]


@dataclass(frozen=True)
class Perplexity:
    """A system's perplexity on dev.

    Attributes:
        name: The system.
        dataset: The data set.
        model: The kind of model.
        hidden: Its hidden size.
        layers: Its number of layers.
        seeds: The perplexity of each seed.
        unknown: Unknown target symbols of all, such as ``120/3400``; a perplexity means less the more there are.
    """

    name: str
    dataset: str
    model: str
    hidden: int | None
    layers: int
    seeds: Mapping[int, float]
    unknown: str

    @property
    def value(self) -> float:
        """The mean over seeds."""
        return float(np.mean(list(self.seeds.values())))


def rouge_of(gathered: Gathered) -> list[Rouge]:
    """The ROUGE scores of all systems that have some."""
    found = []
    for dataset in gathered.datasets:
        for name in gathered.systems:
            groups = gathered.of(name, dataset)
            scores = {one: over_seeds(groups, partial(items, name=one), "trials") for one in ROUGE}
            if any(one is not None for one in scores.values()):
                found.append(Rouge(name, _data_of(dataset, groups), scores))
    return found


def _data_of(dataset: str, groups: Sequence[Group]) -> str:
    """A data set, and how many pairs of it there were if not as many as its name says."""
    pairs = {record["pairs"] for group in groups for record in group.records if "pairs" in record}
    return dataset + "".join(f", a sample of {count} pairs" for count in sorted(pairs))


def find(found: Sequence[Rouge], name: str) -> Rouge | None:
    """A system by its name, whatever its case: on the first data set that has it."""
    return next((one for one in found if one.name.lower() == name.lower()), None)


def table1(found: Sequence[Rouge]) -> str:
    """The paper's Table 1 beside ours."""
    theirs = published()["summarisation"]["table1"]
    known = {name.lower() for name in theirs}
    rows = []
    for name in theirs:
        ours = [one for one in found if one.name.lower() == name.lower()]
        rows += [_rouge_row(name, theirs[name], one) for one in ours] or [_rouge_row(name, theirs[name], None)]
    rows += [_rouge_row(one.name, {}, one) for one in found if one.name.lower() not in known]
    head = [
        "system",
        *(f"{one} (paper, Gigaword)" for one in ROUGE.values()),
        *(f"{one} (ours)" for one in ROUGE.values()),
    ]
    return table([*head, "our data"], rows)


def _rouge_row(name: str, theirs: Mapping[str, float], one: Rouge | None) -> list[str]:
    cells = [plain(theirs.get(metric)) for metric in ROUGE]
    cells += [shown(one.scores[metric] if one else None) for metric in ROUGE]
    return [name, *cells, one.dataset if one else MISSING]


def seeds_table(found: Sequence[Rouge]) -> str:
    """Each seed of the systems that have several; empty if there is none."""
    rows = [
        [f"{one.name}, {ROUGE[metric]}", plain(score.value), spread_shown(score), seeds_shown(score)]
        for one in found
        for metric, score in one.scores.items()
        if score is not None and len(score.seeds) > 1
    ]
    return table(["system, score", "mean", "least to greatest", "each seed"], rows) if rows else ""


def comparisons(found: Sequence[Rouge]) -> str:
    """All pairs of systems on the same sentences; empty if there is none."""
    rows = []
    for b, a in combinations(found, 2):
        parts = [difference(a.scores[metric], b.scores[metric]) for metric in ROUGE]
        if any(part is not None for part in parts):
            rows.append([f"{a.name} - {b.name}", *map(difference_shown, parts)])
    return table(["systems", *ROUGE.values()], rows) if rows else ""


def perplexities_of(gathered: Gathered) -> list[Perplexity]:
    """The perplexity on dev of all systems that have one."""
    found = []
    for dataset in gathered.datasets:
        for name in gathered.systems:
            groups = gathered.of(name, dataset)
            seeds = {group.seed: values[0] for group in groups if len(values := group.scores("perplexity", "dev")) == 1}
            if seeds:
                model, hidden, layers = _shape(groups[0])
                unknown = _unknown(next(group for group in groups if group.seed in seeds))
                found.append(Perplexity(name, _data_of(dataset, groups), model, hidden, layers, seeds, unknown))
    return found


def perplexity_of(found: Sequence[Perplexity], model: str, hidden: int, layers: int) -> Perplexity | None:
    """That of a model of some size."""
    wanted = (model.lower(), hidden, layers)
    return next((one for one in found if (one.model.lower(), one.hidden, one.layers) == wanted), None)


def table2(found: Sequence[Perplexity]) -> str:
    """The paper's Table 2 beside ours."""
    rows, used = [], []
    for theirs in published()["summarisation"]["table2"]:
        one = perplexity_of(found, theirs["model"], theirs["hidden"], theirs["layers"])
        used.append(one)
        label = f"{theirs['model']}, H={theirs['hidden']}, L={theirs['layers']}"
        rows.append([label, plain(theirs["perplexity"], 1), *_perplexity_cells(one)])
    rows += [[one.name, MISSING, *_perplexity_cells(one)] for one in found if one not in used]
    return table(["model", "paper, Gigaword", "ours", "each seed", "unknown symbols", "our data"], rows)


def _perplexity_cells(one: Perplexity | None) -> list[str]:
    if one is None:
        return [MISSING] * 4
    seeds = ", ".join(f"{seed}: {value:.2f}" for seed, value in one.seeds.items())
    return [plain(one.value), seeds, one.unknown or MISSING, one.dataset]


def _shape(group: Group) -> tuple[str, int | None, int]:
    """What kind of model a group has, its hidden size and its layers: from its name, or else from its settings."""
    settings = group.trials[0].settings
    model = dict(settings.get("model", {}))
    name = re.split(r"[\s,]", group.system)[0]
    hidden, layers = (re.search(rf"\b{letter}\s*=?\s*(\d+)", group.system) for letter in "HL")
    size: int | None = int(hidden[1]) if hidden else model.get("hidden_size")
    if size is None and settings.get("preset"):
        size = load_config(preset=settings["preset"]).model.hidden_size
    depth = int(layers[1]) if layers else int(model.get("encoder_layers") or 1)
    return name, size, depth


def _unknown(group: Group) -> str:
    for score in group.records[0]["scores"].get("dev", ()):
        if score["name"] == "perplexity" and (found := re.search(r"\|unk:(\d+/\d+)", score["signature"])):
            return found[1]
    return ""
