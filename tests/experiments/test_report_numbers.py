"""The report's numbers: accuracies by hand, the lemma bootstrap against a slow one, seeds, incomplete sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest
from experiments.datasets import load
from experiments.plan import Trial, known_types
from experiments.reporting import bootstrap, measured
from experiments.reporting.bars import inflection_bars
from experiments.reporting.estimates import Estimate, difference, over_seeds, over_sets
from experiments.reporting.gathered import Group
from experiments.reporting.inflection import System, best_of_each_set, table3
from experiments.reporting.markdown import difference_shown, shown, spread_shown
from experiments.reporting.measured import accuracy, cells_of, items
from experiments.reporting.published import inflection_sets
from experiments.results import Row

from ssnt.errors import ConfigError, DataError
from ssnt.metrics.compare import _p_value

TYPES = ("a", "b")


@pytest.fixture(autouse=True)
def _toy_types(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measured, "known_types", lambda: {"toy/one": list(TYPES), "toy/two": list(TYPES)})


def group(
    outcomes: Mapping[str, Mapping[str, object]],
    *,
    seed: int = 1,
    dataset: str = "toy/one",
    planned: Sequence[str] = TYPES,
) -> Group:
    """A group with an outcome for each tag set that is finished; ``""`` is one model of all."""
    trials = [Trial("t", "s", dataset, tags, seed, ("accuracy",)) for tags in planned]
    rows = [
        Row(dataset, one.tags, "s", seed, "accuracy", 0.0, 0.0, 1, 1.0, "c", "h", "d", "2026-01-01 00:00", one.key)
        for one in trials
        if one.tags in outcomes
    ]
    records = [{"scores": {}, "outcomes": {"test": outcomes[row.tags]}} for row in rows]
    return Group("s", dataset, seed, tuple(trials), tuple(rows), tuple(records))


def joint(*texts: str, **settings: object) -> Group:
    """A group of one model, with the signs of its cells."""
    cells = dict(zip(TYPES, texts, strict=True))
    return group({"": {"cells": cells}}, planned=[""], **settings)  # type: ignore[arg-type]


def test_accuracy_is_the_mean_of_the_cells() -> None:
    found = accuracy(joint("110.", "0001"))
    assert found is not None
    assert found.value == pytest.approx(100 * (2 / 3 + 1 / 4) / 2)
    assert found.is_complete


def test_all_questions_count_the_same_where_there_are_no_known_types() -> None:
    found = accuracy(joint("110.", "0001", dataset="toy/language"))
    assert found is not None
    assert found.value == pytest.approx(100 * 3 / 7)


def test_models_of_one_type_are_joined_by_their_rows_tags() -> None:
    per_type = accuracy(group({"a": {"cells": {"": "110."}}, "b": {"cells": {"": "0001"}}}))
    one = accuracy(joint("110.", "0001"))
    assert per_type is not None
    assert one is not None
    assert per_type.value == one.value
    assert per_type.basis == one.basis
    assert np.array_equal(per_type.draws, one.draws)


@pytest.mark.parametrize("dataset", ["toy/one", "toy/language"])
def test_the_bootstrap_is_that_of_lemmas_drawn_one_by_one(dataset: str) -> None:
    rng = np.random.default_rng(3)
    texts = ["".join(rng.choice(list(".01"), 9)) for _ in TYPES]
    found = accuracy(joint(*texts, dataset=dataset))
    assert found is not None
    for counts, value in zip(bootstrap.draws(dataset, 9)[:300], found.draws, strict=False):
        lemmas = [at for at, count in enumerate(counts) for _ in range(count)]
        assert len(lemmas) == 9
        cells = [[text[at] for at in lemmas if text[at] != "."] for text in texts]
        if dataset == "toy/language":
            cells = [cells[0] + cells[1]]
        shares = [cell.count("1") / len(cell) for cell in cells if cell]
        assert value == pytest.approx(100 * sum(shares) / len(shares))


def test_resamples_are_uniform_differ_between_sets_and_do_not_change() -> None:
    counts = bootstrap.draws("toy/one", 40)
    assert counts.shape == (bootstrap.RESAMPLES, 40)
    assert (counts.sum(axis=1) == 40).all()
    assert abs(counts.mean(axis=0) - 1).max() < 0.12  # 5 standard errors
    assert not np.array_equal(counts, bootstrap.draws("toy/two", 40))
    bootstrap.draws.cache_clear()
    assert np.array_equal(counts, bootstrap.draws("toy/one", 40))


def test_an_interval_is_wider_when_cells_fail_together() -> None:
    together = "10" * 50
    apart = over_seeds([joint(together, "01" * 50)], accuracy)
    same = over_seeds([joint(together, together)], accuracy)
    assert apart is not None
    assert same is not None
    assert apart.value == same.value == 50
    assert apart.ends == (50.0, 50.0)  # every lemma is right in one of its two cells
    low, high = same.ends
    assert 38 < low < 42  # 50 -+ 1.96 * 5
    assert 58 < high < 62


def test_items_are_resampled_by_sentence() -> None:
    values = [0.25, 0.5, 0.1234, 1.0]
    found = items(group({"": {"items": {"rouge_1": values}}}, planned=[""]), "rouge_1")
    assert found is not None
    assert found.value == pytest.approx(100 * sum(values) / 4)
    for counts, value in zip(bootstrap.draws("toy/one", 4), found.draws, strict=True):
        assert value == pytest.approx(100 * float(counts @ np.array(values)) / 4)
    assert items(joint("1", "1"), "rouge_1") is None


def test_an_incomplete_set_is_marked_and_never_compared() -> None:
    partial = over_seeds([group({"a": {"cells": {"": "1110"}}})], accuracy)
    whole = over_seeds([joint("1111", "1111")], accuracy)
    assert partial is not None
    assert partial.is_partial
    assert shown(partial) == "*partial: 1 of 2 types, 75.00*"
    assert difference(whole, partial) is None
    average = over_sets({"one": whole, "two": partial, "three": None})
    assert average is not None
    assert average.value == 100
    assert shown(average) == "*partial: 1 of 3 sets, 100.00*"
    assert over_sets({"two": partial}) is None
    assert over_seeds([group({})], accuracy) is None
    assert shown(None) == "—"


def test_a_plan_of_some_types_is_complete_only_where_no_more_is_wanted() -> None:
    some = group({"a": {"cells": {"": "1110"}}}, planned=["a"])
    found = accuracy(some)
    assert found is not None
    assert not found.is_complete
    found = accuracy(some, whole=False)
    assert found is not None
    assert found.is_complete


def test_several_seeds_are_averaged_and_their_spread_is_told() -> None:
    groups = [
        joint("1111", "1100", seed=1),
        joint("1110", "0000", seed=2),
        group({"a": {"cells": {"": "0000"}}}, seed=3),
    ]
    found = over_seeds(groups, accuracy)
    assert found is not None
    assert dict(found.seeds) == {1: 75.0, 2: 37.5}
    assert found.value == 56.25
    assert found.missing == "2 of 3 seeds"
    assert not found.is_partial
    assert spread_shown(found) == "37.50 to 75.00"
    parts = [accuracy(one) for one in groups[:2]]
    assert np.allclose(found.draws, np.mean([one.draws for one in parts if one is not None], axis=0))


def test_an_average_over_sets_resamples_each_set_by_itself() -> None:
    signs = "10" * 50
    one, two = (over_seeds([joint(signs, signs, dataset=name)], accuracy) for name in ("toy/one", "toy/two"))
    average = over_sets({"one": one, "two": two})
    assert one is not None
    assert average is not None
    assert average.value == 50
    assert average.draws.std() == pytest.approx(one.draws.std() / 2**0.5, rel=0.1)
    lacking = over_sets({"one": one, "two": replace(one, missing="1 of 3 seeds")})
    assert lacking is not None
    assert (lacking.missing, lacking.is_partial) == ("two: 1 of 3 seeds", False)


def test_differences_are_paired() -> None:
    a = over_seeds([joint("1111" * 10, "1110" * 10)], accuracy)
    b = over_seeds([joint("1111" * 10, "1100" * 10)], accuracy)
    found = difference(a, b)
    assert found is not None
    assert a is not None
    assert b is not None
    assert found.value == 12.5
    expected = a.draws - b.draws
    assert (found.low, found.high) == bootstrap.ends(expected)
    assert found.p == (1 + int((abs(expected - 12.5) >= 12.5 - 1e-9).sum())) / (1 + bootstrap.RESAMPLES)
    assert difference_shown(found).startswith("+12.50 [+")
    same = difference(a, a)
    assert same is not None
    assert (same.value, same.p) == (0, 1)
    other = over_seeds([joint("111", "111")], accuracy)
    assert difference(a, other) is None  # other questions


@pytest.mark.parametrize("shift", [0.0, 0.3, -2.0])
def test_the_p_value_is_that_of_the_metrics(shift: float) -> None:
    draws = np.random.default_rng(1).normal(shift, 1, 500)
    assert bootstrap.p_value(shift, draws) == _p_value(shift, draws)


def test_broken_outcomes_are_refused() -> None:
    with pytest.raises(DataError, match="as many lemmas in every cell"):
        cells_of(joint("111", "11"), "test")
    twice = group({"a": {"cells": {"": "1", "x": "1"}}}, planned=["a"])
    with pytest.raises(DataError, match="got two"):
        cells_of(twice, "test")


def test_the_kept_types_are_those_of_the_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    known = known_types()
    assert sum(map(len, known.values())) == 230
    try:
        rows = load("inflection/de-N").train
    except ConfigError:
        pytest.skip("the data is not on this machine")
    assert known["inflection/de-N"] == sorted({";".join(one.tags) for one in rows})


def test_the_best_of_each_set_is_chosen_on_dev_among_what_is_complete() -> None:
    def one(name: str, dev: float, test: float, *, is_partial: bool = False) -> System:
        def everywhere(value: float) -> dict[str, Estimate | None]:
            figures = dict.fromkeys(inflection_sets(), value) | {"de-N": 100 - value}
            return {
                place: Estimate(figure, np.full(3, figure), (place,), {1: figure}, is_partial=is_partial)
                for place, figure in figures.items()
            }

        return System(name, "one model", everywhere(test), everywhere(dev), inflection_sets())

    low, high, unfinished = (
        one("low", 40.0, 45.0),
        one("high", 60.0, 44.0),
        one("unfinished", 90.0, 90.0, is_partial=True),
    )
    best = best_of_each_set([low, high, unfinished])
    assert {name: found and found.value for name, found in best.sets.items()} == {
        name: 55.0 if name == "de-N" else 44.0 for name in inflection_sets()
    }
    assert best.kind.startswith("de-N: low; de-V: high; ")
    nothing = best_of_each_set([unfinished])
    assert (nothing.average, nothing.kind) == (None, "")


def estimate(value: float, place: str) -> Estimate:
    return Estimate(value, np.full(3, value), (place,), {1: value}, is_partial=False)


def of_sets(name: str, value: float, *sets: str) -> System:
    found = {place: estimate(value, place) if place in sets else None for place in inflection_sets()}
    return System(name, "one a type", found, found, sets)


def test_a_system_of_one_set_does_not_narrow_what_all_are_compared_on() -> None:
    wide = [of_sets("biSSNT+", 50.0, *inflection_sets()), of_sets("uniSSNT+", 50.0, "de-N", "de-V", "nl-V")]
    assert table3([*wide, of_sets("biSSNT+, crossed", 50.0, "de-N")]) == table3(wide)
    assert "ours, mean of de-N, de-V, nl-V" in table3(wide)
    assert "ours, on de-N" in table3([*wide, of_sets("other", 50.0, "de-N", "fi-V")])


def test_crossed_examples_count_where_they_are_better_on_dev() -> None:
    plain = of_sets("biSSNT+", 92.0, *inflection_sets())
    crossed = System("biSSNT+, crossed", "one a type", {**plain.sets}, {**plain.dev}, ("de-N", "de-V"))
    for place, test, dev in (("de-N", 87.5, 93.0), ("de-V", 99.0, 91.0)):  # chosen on dev, whatever test says
        crossed.sets[place], crossed.dev[place] = estimate(test, place), estimate(dev, place)  # type: ignore[index]
    bars = {bar.name: bar for bar in inflection_bars([plain, crossed], [])}
    chosen = "1. biSSNT+, on de-N, de-V crossed if dev prefers it"
    assert {
        name: (bar.seen, bar.is_met) for name, bar in bars.items() if name.startswith((chosen, "1. biSSNT+, de"))
    } == {
        "1. biSSNT+, de-N": (shown(plain.sets["de-N"]), True),
        "1. biSSNT+, de-V": (shown(plain.sets["de-V"]), False),
        f"{chosen}, a model for each type, average": (
            shown(over_sets({**plain.sets, "de-N": crossed.sets["de-N"]})),
            False,
        ),
        f"{chosen}, de-N": (shown(crossed.sets["de-N"]), True),
        f"{chosen}, de-V": (shown(plain.sets["de-V"]), False),
        f"{chosen}, fi-NA": (shown(plain.sets["fi-NA"]), False),
    }
    assert len(inflection_bars([plain], [])) == len(bars) - 4
