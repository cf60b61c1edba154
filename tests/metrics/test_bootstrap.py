"""The bootstrap, against explicit resampling of items, full enumeration and the binomial distribution."""

import itertools
import math
import random
import tracemalloc
from collections import Counter

import numpy as np
import pytest

from ssnt.errors import ConfigError
from ssnt.metrics import METRICS, Item, bootstrap, evaluate
from ssnt.metrics.bootstrap import Bootstrap, interval, resampled_values
from ssnt.metrics.metric import Statistics, ratio

TEXTS = ["a b c", "a c", "b", "a b", "c c a b", "b a"]


def some_items(many, seed=3):
    rng = random.Random(seed)
    return [
        Item.from_text(
            rng.choice(TEXTS),
            [rng.choice(TEXTS) for _ in range(rng.randint(1, 2))],
            group=rng.choice("xyz"),
            nll=rng.random() * 9,
            tokens=rng.randint(1, 5),
        )
        for _ in range(many)
    ]


def statistics_of(items, name):
    return METRICS[name].statistics(items, METRICS[name].rows(items))


def value_of(items, name):
    """The value by the public way, on a list that has really been put together."""
    return evaluate(items, name, resamples=0)[0].value


@pytest.mark.parametrize("name", METRICS)
def test_same_as_scoring_lists_of_drawn_items(name, monkeypatch):
    monkeypatch.setattr(bootstrap, "FEW", 1000)  # items are drawn, so that the draws can be repeated here
    items = some_items(12)
    (values,) = resampled_values([statistics_of(items, name)], Bootstrap(resamples=40, seed=5))
    drawn = np.random.default_rng(5).integers(12, size=(40, 12))
    assert values.tolist() == pytest.approx([value_of([items[i] for i in row], name) for row in drawn])
    assert len(set(values.tolist())) > 3
    # and the interval is read from these values: of 40, (39 * 0.2 / 2) = 3.9 are cut off at either end
    (score,) = evaluate(items, name, resamples=40, seed=5, confidence=0.8)
    assert (score.low, score.high) == (sorted(values)[3], sorted(values)[36])


@pytest.mark.parametrize("few", [0, 1000])  # counts drawn at once; items drawn and counted
@pytest.mark.parametrize("name", ["accuracy", "macro_accuracy", "per", "perplexity"])
def test_the_distribution_is_that_of_all_possible_resamples(name, few, monkeypatch):
    monkeypatch.setattr(bootstrap, "FEW", few)
    items = some_items(4, seed=8)
    resamples = 20_000
    (values,) = resampled_values([statistics_of(items, name)], Bootstrap(resamples=resamples))
    found = Counter(np.round(values, 9).tolist())
    possible = Counter(round(value_of(list(drawn), name), 9) for drawn in itertools.product(items, repeat=4))
    assert len(possible) > 3
    assert found.keys() <= possible.keys()
    for value, ways in possible.items():
        p = ways / 4**4
        assert abs(found[value] / resamples - p) < 5 * math.sqrt(p * (1 - p) / resamples), value


@pytest.mark.parametrize("few", [0, 1000])
def test_accuracy_is_binomial(few, monkeypatch):
    monkeypatch.setattr(bootstrap, "FEW", few)
    n, right, resamples = 400, 300, 4000
    items = [Item.from_text("a", "a" if i < right else "b") for i in range(n)]
    (values,) = resampled_values([statistics_of(items, "accuracy")], Bootstrap(resamples=resamples))
    error = math.sqrt(0.75 * 0.25 / n)
    # the standard error of a standard deviation is the deviation by sqrt(2 R); 4 of them are allowed
    assert values.std() == pytest.approx(error, rel=4 / math.sqrt(2 * resamples))
    assert values.mean() == pytest.approx(0.75, abs=4 * error / math.sqrt(resamples))
    (score,) = evaluate(items, "accuracy", resamples=resamples)
    below = sum(math.comb(n, k) * 0.75**k * 0.25 ** (n - k) for k in range(round(score.low * n) + 1))
    above = sum(math.comb(n, k) * 0.75**k * 0.25 ** (n - k) for k in range(round(score.high * n), n + 1))
    # one correct answer more or less is 0.5 percentage points of probability out there
    assert below == pytest.approx(0.025, abs=0.012)
    assert above == pytest.approx(0.025, abs=0.012)


def test_several_parts_are_drawn_together():
    """What is computed of two equal parts is equal, resample by resample; and of complements it adds up to one."""
    items = some_items(60)
    parts = [statistics_of(items, name) for name in ("accuracy", "accuracy", "item_error_rate", "macro_accuracy")]
    one, same, complement, macro = resampled_values(parts, Bootstrap(resamples=50))
    assert one.tolist() == same.tolist()
    assert (one + complement).tolist() == pytest.approx([1.0] * 50)
    assert np.corrcoef(one, macro)[0, 1] > 0.8
    assert len(set(one.tolist())) > 3


def test_a_resample_is_averaged_over_the_groups_that_it_has(monkeypatch):
    monkeypatch.setattr(bootstrap, "FEW", 1000)
    items = [Item.from_text("a", "a", group="x"), Item.from_text("a", "b", group="y")]
    (values,) = resampled_values([statistics_of(items, "macro_accuracy")], Bootstrap(resamples=200))
    assert Counter(values.tolist()).keys() == {0.0, 0.5, 1.0}


@pytest.mark.parametrize("few", [0, 1000])
def test_the_size_of_chunks_changes_nothing(few, monkeypatch):
    monkeypatch.setattr(bootstrap, "FEW", few)
    items = some_items(30)

    def drawn():
        return resampled_values([statistics_of(items, "per")], Bootstrap(resamples=50))[0].tolist()

    whole = drawn()
    for chunk in (1, 7 * 30, 49 * 30):
        monkeypatch.setattr(bootstrap, "CHUNK", chunk)
        assert drawn() == whole


def test_a_seed_fixes_the_interval():
    items = some_items(50)
    score = evaluate(items, "per", seed=1)
    assert evaluate(items, "per", seed=1) == score
    assert (evaluate(items, "per", seed=2)[0].low, evaluate(items, "per", seed=2)[0].high) != (
        score[0].low,
        score[0].high,
    )
    # whatever else is asked for
    assert evaluate(items, ["accuracy", "edit_distance", "per"], seed=1)[2] == score[0]


@pytest.mark.parametrize(
    ("values", "confidence", "expected"),
    [
        (range(100), 0.9, (4, 95)),  # floor(99 * 0.05) = 4 at either end
        (range(1000), 0.95, (24, 975)),
        (range(101), 0.8, (10, 90)),
        ([3.0], 0.95, (3, 3)),
        ([5.0, 1.0, 3.0], 0.95, (1, 5)),
        ([1.0] * 20 + [math.inf] * 20, 0.9, (1, math.inf)),
    ],
)
def test_intervals(values, confidence, expected):
    assert interval(np.array(values, dtype=float), confidence) == expected


def test_without_resamples_there_is_no_interval():
    (score,) = evaluate(some_items(5), "accuracy", resamples=0)
    assert (score.low, score.high) == (None, None)
    assert "bootstrap:none|v:" in score.signature


def test_items_that_are_all_alike():
    (score,) = evaluate([Item.from_text("a", "a")] * 9, "accuracy")
    assert (score.value, score.low, score.high) == (1, 1, 1)


def peak(action):
    tracemalloc.start()
    try:
        action()
        return tracemalloc.get_traced_memory()[1] / 1e6
    finally:
        tracemalloc.stop()


def test_memory_is_bounded():
    rows = np.random.default_rng(0).random((100_000, 2))  # no two alike
    statistics = Statistics.of_rows(rows, ratio)
    assert statistics.size == 100_000
    # the numbers of all drawn items at once would be 160 MB
    assert peak(lambda: resampled_values([statistics], Bootstrap(resamples=200))) < 80


def test_memory_with_as_many_groups_as_items():
    items = [Item.from_text("a", "a", group=str(i)) for i in range(10_000)]
    # written out, the rows of 10 000 groups would take 3200 MB
    assert peak(lambda: evaluate(items, "macro_accuracy", resamples=20)) < 80


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"confidence": 95}, "confidence must be between 0 and 1, got 95; 0.95 stands for 95 %"),
        ({"confidence": 0}, "confidence must be between 0 and 1, got 0"),
        ({"confidence": math.nan}, "confidence must be between 0 and 1, got nan"),
        ({"confidence": "high"}, "confidence must be between 0 and 1, got 'high'"),
        ({"resamples": -1}, "resamples must be a whole number of at least 0, got -1"),
        ({"resamples": 1e3}, r"resamples must be a whole number of at least 0, got 1000\.0"),
        ({"seed": None}, "seed must be a whole number of at least 0, got None"),
    ],
)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        evaluate(some_items(2), "accuracy", **settings)
