"""Tables 3 and 4, and what goes beyond them: accuracy on the seven inflection sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from experiments.reporting.estimates import Estimate, difference, over_seeds, over_sets
from experiments.reporting.gathered import Gathered
from experiments.reporting.markdown import (
    MISSING,
    difference_shown,
    plain,
    seeds_shown,
    shown,
    spread_shown,
    table,
)
from experiments.reporting.measured import DEV, TEST, accuracy
from experiments.reporting.published import inflection_sets, published

FOLDER = "inflection/"
PAPERS = "biSSNT+"
"""The system of Table 4."""

CROSSED = "biSSNT+, crossed"
"""The same with examples that are crossed, which the paper does not have."""

NOT_PLANNED = "not planned"


@dataclass(frozen=True)
class System:
    """A system on the inflection sets.

    Attributes:
        name: What its table calls it.
        kind: What its figures come from.
        sets: On each of the seven sets; None where there is nothing.
        dev: The same on dev.
        planned: The sets that it is planned for.
    """

    name: str
    kind: str
    sets: Mapping[str, Estimate | None]
    dev: Mapping[str, Estimate | None]
    planned: tuple[str, ...]

    @property
    def average(self) -> Estimate | None:
        """Over the seven sets."""
        return over_sets(self.sets)

    @property
    def dev_average(self) -> Estimate | None:
        """Over the seven sets, on dev: what systems are chosen by."""
        return over_sets(self.dev)

    @property
    def whole(self) -> list[str]:
        """The sets that are complete."""
        return [name for name, one in self.sets.items() if one is not None and not one.is_partial]

    def over(self, names: Sequence[str]) -> Estimate | None:
        """The mean over some sets."""
        return over_sets({name: self.sets[name] for name in names})

    def count_of_best(self) -> int:
        """On how many sets it is at least the best that was published, to two places."""
        best = published()["inflection"]["best"]
        return sum(round(one.value, 2) >= best[name] for name in self.whole if (one := self.sets[name]) is not None)


def systems_of(gathered: Gathered) -> list[System]:
    """The systems of a table, in the order of the plan."""
    found = []
    for name in gathered.systems:
        by_part = {
            part: {
                one: over_seeds(gathered.of(name, FOLDER + one), partial(accuracy, part=part))
                for one in inflection_sets()
            }
            for part in (TEST, DEV)
        }
        planned = tuple(one for one in inflection_sets() if gathered.of(name, FOLDER + one))
        found.append(System(name, gathered.kind(name), by_part[TEST], by_part[DEV], planned))
    return found


def find(systems: Sequence[System], name: str) -> System | None:
    """A system by its name, whatever its case."""
    return next((one for one in systems if one.name.lower() == name.lower()), None)


def chosen(systems: Sequence[System]) -> System | None:
    """The system with the best average on dev among those with all seven sets."""
    whole = [
        (dev.value, one)
        for one in systems
        if one.average is not None
        and not one.average.is_partial
        and (dev := one.dev_average) is not None
        and not dev.is_partial
    ]
    return max(whole, key=lambda pair: pair[0])[1] if whole else None


def best_of_each_set(systems: Sequence[System]) -> System:
    """For each set the system that is best on its dev, as if it were one system; its kind says which."""
    found: dict[str, System] = {}
    for name in inflection_sets():
        whole = [(dev.value, one) for one in systems if name in one.whole and (dev := one.dev[name]) is not None]
        if whole:
            found[name] = max(whole, key=lambda pair: pair[0])[1]
    return System(
        "the best on dev of each set",
        "; ".join(f"{name}: {one.name}" for name, one in found.items()),
        {name: found[name].sets[name] if name in found else None for name in inflection_sets()},
        {name: found[name].dev[name] if name in found else None for name in inflection_sets()},
        tuple(found),
    )


def common_sets(systems: Sequence[System]) -> list[str]:
    """The sets that all of some systems have complete."""
    return [name for name in inflection_sets() if all(name in one.whole for one in systems)]


def table4(systems: Sequence[System]) -> str:
    """The paper's Table 4 beside ours."""
    theirs = published()["inflection"]
    ours = find(systems, PAPERS)
    names = list(theirs["table4_average"])
    rows = []
    for one in inflection_sets():
        found = ours.sets[one] if ours else None
        rows.append([one, *(plain(theirs["table4"][one][name]) for name in names), *_beside(found, theirs, one)])
    average = ours.average if ours else None
    rows.append(["average", *(plain(theirs["table4_average"][name]) for name in names), *_beside(average, theirs, "")])
    head = ["set", *(f"{name} (paper)" for name in names), f"{PAPERS} (ours)", "ours - paper", "spread of seeds"]
    return table(head, rows)


def _beside(found: Estimate | None, theirs: Mapping[str, Mapping[str, Mapping[str, float]]], name: str) -> list[str]:
    paper = theirs["table4"][name][PAPERS] if name else theirs["table4_average"][PAPERS]
    if found is None or found.is_partial:
        return [shown(found), MISSING, MISSING]
    return [shown(found), f"{found.value - float(paper):+.2f}", spread_shown(found)]  # type: ignore[arg-type]


def table3(systems: Sequence[System]) -> str:
    """The paper's Table 3 beside ours: over the seven sets, and over those that all our systems have.

    A system that is planned for a single set is about that set alone, and no part of this table.
    """
    theirs = published()["inflection"]["table3"]
    systems = [one for one in systems if len(one.planned) > 1]
    begun = [one for one in systems if one.whole]
    common = common_sets(begun) if begun else []
    names = [*theirs, *(one.name for one in systems if one.name.lower() not in {name.lower() for name in theirs})]
    rows = []
    for name in names:
        one = find(systems, name)
        over = one.over(common) if one and one in begun and common else None
        rows.append([name, plain(theirs.get(name)), shown(one.average if one else None), shown(over)])
    label = f"ours, {'mean of' if len(common) > 1 else 'on'} {', '.join(common) or 'the sets that all have'}"
    return table(["system", "paper, seven sets", "ours, seven sets", label], rows)


def by_set(systems: Sequence[System]) -> str:
    """Every system on every set."""
    rows = [
        [one.name, one.kind, *(_cell(one, name) for name in inflection_sets()), shown(one.average)] for one in systems
    ]
    return table(["system", "models", *inflection_sets(), "average"], rows)


def _cell(system: System, name: str) -> str:
    return shown(system.sets[name]) if name in system.planned else NOT_PLANNED


def seeds_table(systems: Sequence[System]) -> str:
    """Each seed of the systems that have several; empty if there is none."""
    rows = [
        [f"{one.name}, {name}", plain(found.value), spread_shown(found), seeds_shown(found)]
        for one in systems
        for name, found in [*one.sets.items(), ("average", one.average)]
        if found is not None and not found.is_partial and len(found.seeds) > 1
    ]
    return table(["system, set", "mean", "least to greatest", "each seed"], rows) if rows else ""


def comparisons(systems: Sequence[System], reference: System) -> str:
    """Each system minus a reference, lemma by lemma, on the sets that both have; empty if there is none."""
    rows = []
    for one in systems:
        if one is reference:
            continue
        common = common_sets([one, reference])
        if not common:
            continue
        cells = [difference_shown(difference(one.sets[name], reference.sets[name])) for name in inflection_sets()]
        rows.append([one.name, *cells, difference_shown(difference(one.over(common), reference.over(common)))])
    if not rows:
        return ""
    return table([f"minus {reference.name}", *inflection_sets(), "mean of common sets"], rows)


def beyond_table(systems: Sequence[System]) -> str:
    """Every system beside the best that was published."""
    theirs = published()["inflection"]
    rows = [["*best published on the set*", "", "", *(plain(theirs["best"][one]) for one in inflection_sets()), "", ""]]
    rows += [
        [
            f"*{one['name']}*",
            "",
            "",
            *[""] * len(theirs["best"]),
            ("about " if one["is_about"] else "") + plain(one["value"]),
            "",
        ]
        for one in theirs["averages"]
    ]
    for one in systems:
        cells = [_marked(one, name, theirs["best"][name]) for name in inflection_sets()]
        count = f"{one.count_of_best()} of {len(one.whole)}" if one.whole else MISSING
        rows.append([one.name, one.kind, _plain_or_missing(one.dev_average), *cells, shown(one.average), count])
    head = ["system", "models", "dev average", *inflection_sets(), "average", "at least the best published"]
    return table(head, rows)


def dev_table(systems: Sequence[System]) -> str:
    """What systems are chosen by: every one on dev of every set."""
    rows = [
        [
            one.name,
            *(_plain_or_missing(one.dev[name]) if name in one.planned else NOT_PLANNED for name in inflection_sets()),
            _plain_or_missing(one.dev_average),
        ]
        for one in systems
        if one.whole
    ]
    return table(["system, on dev", *inflection_sets(), "average"], rows) if rows else ""


def _plain_or_missing(found: Estimate | None) -> str:
    return MISSING if found is None or found.is_partial else plain(found.value)


def _marked(system: System, name: str, best: float) -> str:
    """A figure in bold if it is at least the best that was published."""
    found = system.sets[name]
    text = _cell(system, name)
    is_best = found is not None and not found.is_partial and round(found.value, 2) >= best
    return f"**{text}**" if is_best else text
