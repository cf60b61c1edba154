"""Other fields, and what was tried on dev."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from experiments.reporting.estimates import Estimate, over_seeds, over_sets
from experiments.reporting.gathered import Gathered, Group
from experiments.reporting.markdown import MISSING, plain, seeds_shown, shown, spread_shown, table
from experiments.reporting.measured import DEV, TEST, Measured, accuracy, items
from experiments.reporting.published import published
from experiments.results import Row


@dataclass(frozen=True)
class Pronunciation:
    """A system on CMUdict.

    Attributes:
        name: The system.
        kind: What its figures come from.
        is_ensemble: Whether several models answer together.
        wer: Share of words of which no pronunciation is met.
        dev_wer: The same on dev.
        per: Errors by phone, by seed; without an interval, as single words were not kept.
    """

    name: str
    kind: str
    is_ensemble: bool
    wer: Estimate | None
    dev_wer: Estimate | None
    per: Mapping[int, float]


def pronunciations_of(gathered: Gathered) -> list[Pronunciation]:
    """All systems on CMUdict."""
    found = []
    for name in gathered.systems:
        groups = gathered.of(name)
        per = {group.seed: 100 * values[0] for group in groups if (values := group.scores("per", TEST))}
        wer, dev = (over_seeds(groups, partial(_errors, part=part), "trials") for part in (TEST, DEV))
        is_ensemble = any(group.is_ensemble for group in groups)
        found.append(Pronunciation(name, gathered.kind(name), is_ensemble, wer, dev, per))
    return found


def _errors(group: Group, part: str) -> Measured | None:
    """The share of words that are wrong: what accuracy leaves."""
    found = accuracy(group, part)
    if found is None:
        return None
    return Measured(100 - found.value, 100 - found.draws, found.basis, found.done, found.wanted)


def chosen_single(found: Sequence[Pronunciation]) -> Pronunciation | None:
    """The single model with the lowest error rate on dev."""
    whole = [
        (one.dev_wer.value, one)
        for one in found
        if not one.is_ensemble and one.wer and not one.wer.is_partial and one.dev_wer and not one.dev_wer.is_partial
    ]
    return min(whole, key=lambda pair: pair[0])[1] if whole else None


def pronunciation_table(found: Sequence[Pronunciation]) -> str:
    """All systems on CMUdict beside what was published."""
    rows = [
        [f"*{name} (published)*", "", MISSING, plain(value, 1), MISSING, MISSING]
        for name, value in published()["g2p"]["wer"].items()
    ]
    for one in found:
        per = plain(float(np.mean(list(one.per.values()))) if one.per else None)
        dev = plain(one.dev_wer.value) if one.dev_wer else MISSING
        rows.append([one.name, one.kind, dev, shown(one.wer), spread_shown(one.wer), per])
    return table(["system", "models", "dev WER", "WER", "spread of seeds", "PER"], rows)


@dataclass(frozen=True)
class Languages:
    """A system on the SIGMORPHON 2017 languages with training data of one size.

    Attributes:
        name: The system.
        kind: What its figures come from.
        is_ensemble: Whether several models answer together.
        size: ``high`` or ``medium``.
        languages: The accuracy by language.
    """

    name: str
    kind: str
    is_ensemble: bool
    size: str
    languages: Mapping[str, Estimate | None]

    @property
    def average(self) -> Estimate | None:
        """Over all planned languages."""
        return over_sets(self.languages, "languages")


def languages_of(gathered: Gathered) -> list[Languages]:
    """All systems on the SIGMORPHON 2017 languages, those with much training data first."""
    found = []
    for size in ("high", "medium", "low"):
        datasets = [one for one in gathered.datasets if one.endswith(f"-{size}")]
        for name in gathered.systems:
            groups = {one: gathered.of(name, one) for one in datasets}
            scores = {
                one.partition("/")[2].removesuffix(f"-{size}"): over_seeds(some, accuracy, "trials")
                for one, some in groups.items()
                if some
            }
            if scores:
                is_ensemble = any(group.is_ensemble for some in groups.values() for group in some)
                found.append(Languages(name, gathered.kind(name), is_ensemble, size, scores))
    return found


def languages_table(found: Sequence[Languages], size: str) -> str:
    """Languages down, systems to the right."""
    systems = [one for one in found if one.size == size]
    names = sorted({name for one in systems for name in one.languages})
    rows = [[name, *(shown(one.languages.get(name)) for one in systems)] for name in names]
    rows.append(["average", *(shown(one.average) for one in systems)])
    rows.append(["average, least to greatest seed", *(spread_shown(one.average) for one in systems)])
    return table([size, *(f"{one.name} ({one.kind}{_seeds_of(one)})" for one in systems)], rows)


def _seeds_of(system: Languages) -> str:
    """Of how many seeds the means of a system are, if of several."""
    most = max((len(one.seeds) for one in system.languages.values() if one is not None), default=1)
    return f", {most} seeds" if most > 1 else ""


def tried_table(gathered: Gathered, part: str = DEV) -> str:
    """All systems of a table by their first metric on dev or test, with what they took."""
    extra = list(dict.fromkeys(name for group in gathered.groups for name in group.trials[0].metrics[1:]))
    rows = []
    for dataset in gathered.datasets:
        for system in gathered.systems:
            groups = gathered.of(system, dataset)
            if not groups:
                continue
            estimate = over_seeds(groups, partial(_any, part=part))
            done = [row for group in groups for row in group.rows]
            means = [_mean([one for group in groups for one in group.scores(name, part)]) for name in extra]
            rows.append(
                [
                    system,
                    gathered.kind(system),
                    _data_of(groups[0]),
                    shown(estimate) if estimate else plain(_mean(_of_rows(done, part)), 4),
                    seeds_shown(estimate),
                    *(plain(one, 4) for one in means),
                    plain(_mean([row.epochs for row in done]), 1),
                    plain(_mean([row.seconds for row in done]), 0),
                ]
            )
    metric = gathered.groups[0].trials[0].metrics[0] if gathered.groups else ""
    head = ["system", "models", "data", f"{part} {metric}", "each seed", *(f"{part} {one}" for one in extra)]
    return table([*head, "epochs a model", "seconds a model"], rows)


def _data_of(group: Group) -> str:
    """The data set of a group, with the inflection types if it has not one model for all of them."""
    types = [trial.tags for trial in group.trials if trial.tags]
    if not types:
        return group.dataset
    return f"{group.dataset}, {types[0] if len(types) == 1 else f'{len(types)} types'}"


def _any(group: Group, part: str) -> Measured | None:
    """The first metric of a group, by lemma or by sentence."""
    return accuracy(group, part, whole=False) or items(group, group.trials[0].metrics[0], part)


def _of_rows(rows: Sequence[Row], part: str) -> list[float]:
    """The metric as the rows have it, where neither lemmas nor sentences were kept."""
    values = [row.dev if part == DEV else row.test for row in rows]
    return [one for one in values if one is not None]


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None
