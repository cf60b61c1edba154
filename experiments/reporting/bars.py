"""What the project asks of itself, and what was seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from experiments.reporting import summarisation
from experiments.reporting.estimates import Estimate, difference
from experiments.reporting.gathered import Gathered
from experiments.reporting.inflection import CROSSED, PAPERS, System, best_of_each_set, chosen, common_sets, find
from experiments.reporting.markdown import MISSING, difference_shown, duration, p_shown, plain, shown, table
from experiments.reporting.others import Languages, Pronunciation, chosen_single
from experiments.reporting.provenance import threads_shown
from experiments.reporting.published import published
from experiments.reporting.summarisation import ROUGE, Perplexity, Rouge, perplexity_of

SMALL, LARGE = ("biSSNT+", 128, 1), ("seq2seq", 256, 3)
"""The two models of Table 2 that are compared: model, hidden size, layers."""

_SUBSET_SECONDS = 600


@dataclass(frozen=True)
class Bar:
    """One thing that is asked for.

    Attributes:
        name: What it is about.
        wanted: What is asked.
        seen: What the results say.
        is_met: Whether that is enough; None: it cannot be said, or nothing was asked but to report it.
    """

    name: str
    wanted: str
    seen: str = MISSING
    is_met: bool | None = None


def bars_table(bars: Sequence[Bar]) -> str:
    """All bars."""
    said = {True: "yes", False: "no", None: MISSING}
    return table(
        ["bar", "wanted", "seen", "met"], [[b.name, b.wanted, b.seen, said[b.is_met]] for b in bars], numbers=False
    )


def inflection_bars(papers: Sequence[System], beyond: Sequence[System]) -> list[Bar]:
    """Those of Tables 3 and 4, and of the best system."""
    ours, crossed = find(papers, PAPERS), find(papers, CROSSED)
    found = _table4(f"1. {PAPERS}", ours)
    if ours is not None and crossed is not None:
        either = best_of_each_set([ours, crossed])
        found += _table4(f"1. {PAPERS}, on {', '.join(crossed.planned)} crossed if dev prefers it", either)
    found += [_order(papers, "biSSNT+", "uniSSNT+"), _order(papers, "uniSSNT+", "seq2seq")]
    every = [*papers, *beyond]
    best = chosen(every)
    whole = sum(len(one.whole) == len(one.sets) for one in every)
    among = f"of {whole} systems with all sets" if whole > 1 else "the only one with all sets"
    named = f"{best.name} ({among})" if best else ""
    found += _best_system("2. The best system, chosen by its average on dev", best, named)
    return found + _best_system("2. The best system of each set, chosen on its dev", best_of_each_set(every))


def _table4(name: str, system: System | None) -> list[Bar]:
    """Whether models for single types have the average that is wanted, and what is wanted of some sets."""
    wanted = published()["bars"]
    average = _at_least(
        f"{name}, a model for each type, average", wanted["average"], system.average if system else None
    )
    return [
        average,
        *(
            _at_least(f"{name}, {one}", least, system.sets[one] if system else None)
            for one, least in wanted["sets"].items()
        ),
    ]


def _best_system(name: str, best: System | None, shown_as: str = "") -> list[Bar]:
    """Whether a system has the average that is wanted, and is as good as what was published on as many sets."""
    wanted = published()["bars"]
    before = f"{shown_as}: " if shown_as else ""
    average = _at_least(f"{name}: average", wanted["best_average"], best.average if best else None)
    sets = f"{name}: sets with at least the best published figure"
    asked = f"at least {wanted['best_sets']} of 7"
    if best is None or average.is_met is None:
        return [average, Bar(sets, asked)]
    count = best.count_of_best()
    return [
        Bar(average.name, average.wanted, before + average.seen, average.is_met),
        Bar(sets, asked, f"{before}{count}", count >= wanted["best_sets"]),
    ]


def _at_least(name: str, least: float, found: Estimate | None) -> Bar:
    is_met = None if found is None or found.is_partial else round(found.value, 2) >= least
    return Bar(name, f"at least {least}", shown(found), is_met)


def _order(systems: Sequence[System], better: str, worse: str) -> Bar:
    """Whether one system is above another over the sets that both have."""
    name, wanted = f"1. {better} above {worse}", "above, as in Table 3"
    a, b = find(systems, better), find(systems, worse)
    common = common_sets([a, b]) if a and b else []
    found = difference(a.over(common), b.over(common)) if a and b and common else None
    if found is None:
        return Bar(name, wanted)
    return Bar(
        name,
        wanted,
        f"{difference_shown(found)} ({'mean of' if len(common) > 1 else 'on'} {', '.join(common)})",
        found.value > 0,
    )


def summarisation_bars(rouge: Sequence[Rouge], perplexities: Sequence[Perplexity]) -> list[Bar]:
    """Those of Tables 1 and 2."""
    most = published()["bars"]["summarisation_p"]
    found = [
        _above(rouge, "biSSNT+", "seq2seq", most),
        _above(rouge, "biSSNT+", "attention", None, is_equal_enough=True),
        _above(rouge, "uniSSNT+", "uniSSNT", None),
        _above(rouge, "biSSNT+", "biSSNT", None),
    ]
    small, large = perplexity_of(perplexities, *SMALL), perplexity_of(perplexities, *LARGE)
    name = "3. Dev perplexity, biSSNT+ at H=128 against seq2seq at H=256 with 3 layers"
    if small is None or large is None or small.dataset != large.dataset:
        return [*found, Bar(name, "lower")]
    seen = f"{plain(small.value)} against {plain(large.value)}"
    return [*found, Bar(name, "lower", seen, small.value < large.value)]


def _above(
    rouge: Sequence[Rouge], better: str, worse: str, most_p: float | None, *, is_equal_enough: bool = False
) -> Bar:
    """Whether one system is above another by all three scores."""
    name = f"3. {better} {'not below' if is_equal_enough else 'above'} {worse}"
    wanted = "on all three ROUGE scores" + (f" with p < {most_p}" if most_p else "")
    a, b = summarisation.find(rouge, better), summarisation.find(rouge, worse)
    parts = [difference(a.scores[one], b.scores[one]) for one in ROUGE] if a and b else []
    whole = [part for part in parts if part is not None]
    if len(whole) < len(ROUGE):
        return Bar(name, wanted)
    seen = ", ".join(f"{part.value:+.2f} ({p_shown(part.p)})" for part in whole)
    is_met = all(
        (part.value >= 0 if is_equal_enough else part.value > 0) and (most_p is None or part.p < most_p)
        for part in whole
    )
    return Bar(name, wanted, seen, is_met)


def other_bars(pronunciations: Sequence[Pronunciation], languages: Sequence[Languages]) -> list[Bar]:
    """Those of the other fields."""
    most = published()["bars"]["wer"]
    best = chosen_single(pronunciations)
    name = "4. CMUdict, the single model chosen on dev: WER"
    found = [Bar(name, f"below {most}")]
    if best is not None and best.wer is not None:
        found = [Bar(name, f"below {most}", f"{best.name}: {shown(best.wer)}", round(best.wer.value, 2) < most)]
    for kind, is_ensemble in (("single model", False), ("ensemble", True)):
        some = [one for one in languages if one.size == "high" and one.is_ensemble == is_ensemble]
        seen = "; ".join(f"{one.name}: {shown(one.average)}" for one in some if one.average) or MISSING
        found.append(Bar(f"4. SIGMORPHON 2017 high, average accuracy, {kind}", "to be reported", seen))
    return found


def other_asks(subset: Gathered) -> list[Bar]:
    """What the results say little about."""
    command, name = "`python -m experiments report`", "5. One inflection type, all systems, from scratch"
    seen, is_met = MISSING, None
    if subset.rows and not subset.missing:
        seconds = sum(row.seconds for row in subset.rows)
        seen = (
            f"{duration(seconds)} of training in all, {threads_shown(subset)}; on two cores: see the notes of `subset`"
        )
        is_met = seconds < _SUBSET_SECONDS or None  # side by side they take less than one after the other
    return [
        Bar("5. Every table from the committed results with one command", "yes", f"this page, by {command}"),
        Bar(name, "under 10 minutes", seen, is_met),
    ]
