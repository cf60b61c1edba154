"""Two systems: the paired bootstrap against explicit resampling, and what it refuses."""

import json
import math
import random
from dataclasses import replace
from statistics import NormalDist

import numpy as np
import pytest

from ssnt.errors import ConfigError, DataError
from ssnt.metrics import METRICS, Item, bootstrap, compare, evaluate


def outputs(texts, references, groups=None):
    groups = groups or [""] * len(texts)
    return [Item.from_text(*fields[:2], group=fields[2]) for fields in zip(texts, references, groups, strict=True)]


def binary(a_right, b_right):
    """Items on which A and B are right or wrong as said."""
    references = ["a"] * len(a_right)
    return tuple(outputs(["a" if right else "b" for right in side], references) for side in (a_right, b_right))


def two_systems(many, seed=2):
    rng = random.Random(seed)
    words = ["a b c", "a c", "b", "a b", "c c a b"]
    sides = []
    references = [rng.choice(words) for _ in range(many)]
    for _ in range(2):
        sides.append(
            [
                Item.from_text(rng.choice([text, *words]), text, group=text[0], nll=rng.random() * 9, tokens=len(text))
                for text in references
            ]
        )
    return sides


@pytest.mark.parametrize("name", METRICS)
def test_same_as_scoring_lists_of_drawn_items(name, monkeypatch):
    monkeypatch.setattr(bootstrap, "FEW", 1000)  # items are drawn, so that the draws can be repeated here
    a, b = two_systems(12)
    result = compare(a, b, name, resamples=60, seed=4, confidence=0.9)

    def value(items):
        return evaluate(items, name, resamples=0)[0].value

    d = value(a) - value(b)
    assert d != 0
    drawn = np.random.default_rng(4).integers(12, size=(60, 12))
    ds = [value([a[i] for i in row]) - value([b[i] for i in row]) for row in drawn]
    assert (result.value_a, result.value_b) == (value(a), value(b))
    assert result.difference == d
    assert (result.low, result.high) == pytest.approx((sorted(ds)[2], sorted(ds)[57]))  # floor(59 * 0.05) = 2
    extreme = sum(abs(x - d) >= abs(d) - 1e-12 for x in ds)
    assert 0 < extreme < 60
    assert result.p_value == (1 + extreme) / 61
    singles = [(value([x]), value([y])) for x, y in zip(a, b, strict=True)]
    higher, lower = sum(x > y for x, y in singles), sum(x < y for x, y in singles)
    wins = (higher, lower) if METRICS[name].is_higher_better else (lower, higher)
    assert (result.wins_a, result.wins_b, result.ties) == (*wins, 12 - higher - lower)


def test_swapping_the_systems_turns_the_sign(monkeypatch):
    monkeypatch.setattr(bootstrap, "FEW", 1000)
    a, b = two_systems(40)
    one, other = compare(a, b, "wer"), compare(b, a, "wer")
    assert (other.difference, other.low, other.high) == (-one.difference, -one.high, -one.low)
    assert (other.wins_a, other.wins_b, other.p_value) == (one.wins_b, one.wins_a, one.p_value)


def test_the_p_value_is_near_that_of_the_normal_test():
    # A alone is right on 30, B alone on 14, of 200: d = 0.08, its standard error sqrt(44/200 - d^2) / sqrt(200)
    a, b = binary([1] * 30 + [0] * 14 + [1] * 156, [0] * 30 + [1] * 14 + [1] * 156)
    result = compare(a, b, resamples=20_000)
    error = math.sqrt((44 / 200 - 0.08**2) / 200)
    # |d_r - d| takes steps of 1/200 and "at least as large" takes in the whole step at |d|: half a step less
    expected = 2 * (1 - NormalDist().cdf((0.08 - 0.0025) / error))
    assert 0.01 < expected < 0.05
    assert result.p_value == pytest.approx(expected, abs=0.004)
    assert (result.wins_a, result.wins_b, result.ties) == (30, 14, 156)
    assert (result.low, result.high) == pytest.approx((0.08 - 1.96 * error, 0.08 + 1.96 * error), abs=0.006)


def test_p_values_of_equal_systems_are_spread_evenly():
    rng = random.Random(0)
    values = []
    for _ in range(200):
        sides = [[rng.random() < 0.6 for _ in range(150)] for _ in range(2)]
        values.append(compare(*binary(*sides), resamples=300).p_value)
    # a share x of them should be below x; 200 draws have a standard error of at most 3.5 %
    for x in (0.1, 0.3, 0.5):
        assert sum(value <= x for value in values) / 200 == pytest.approx(x, abs=0.1)


@pytest.mark.parametrize("name", METRICS)
def test_all_ties(name):
    a, _ = two_systems(10)
    result = compare(a, a, name, resamples=50)
    assert (result.difference, result.low, result.high, result.p_value) == (0, 0, 0, 1)
    assert (result.wins_a, result.wins_b, result.ties) == (0, 0, 10)


def test_equal_values_with_wins_on_either_side():
    a, b = binary([1, 0, 1], [0, 1, 1])
    result = compare(a, b)
    assert (result.difference, result.p_value) == (0, 1)
    assert (result.wins_a, result.wins_b, result.ties) == (1, 1, 1)
    assert result.low < 0 < result.high


def test_one_item():
    result = compare(*binary([1], [0]), resamples=99)
    # every resample has the same difference, 1, so none is 1 away from it
    assert (result.difference, result.low, result.high, result.p_value) == (1, 1, 1, 1 / 100)


def test_a_lower_error_wins():
    a, b = outputs(["ab", "xy"], ["ab", "ab"]), outputs(["ax", "ab"], ["ab", "ab"])
    result = compare(a, b, "per")
    assert result.difference == (2 - 1) / 4
    assert (result.wins_a, result.wins_b, result.is_higher_better) == (1, 1, False)


def test_resamples_without_reference_symbols_do_no_harm():
    # a quarter of the resamples have nothing but the empty reference: both rates are infinite there
    a, b = outputs(["x", "ab"], ["", "ab"]), outputs(["xy", "ax"], ["", "ab"])
    result = compare(a, b, "per", resamples=500)
    assert math.isfinite(result.low)
    assert math.isfinite(result.high)
    assert result.difference == (1 - 3) / 2
    assert (result.wins_a, result.wins_b, result.ties) == (1, 0, 1)


def test_text_and_record():
    a, b = binary([1, 1, 1, 0], [0, 1, 1, 0])
    result = compare(a, b, unit="letters", resamples=200, seed=7)
    start = f"accuracy 0.7500 - 0.5000 = +0.2500 [0.0000, {result.high:.4f}] p={result.p_value:.4f} "
    assert str(result) == start + "(a wins 1, b wins 0, ties 3)"
    record = json.loads(json.dumps(result.to_record(), allow_nan=False))
    assert record["p_value"] == result.p_value
    assert (record["metric"], record["wins_a"], record["is_higher_better"]) == ("accuracy", 1, True)
    assert record["signature"].startswith(
        "accuracy|formula:exact/items|refs:1|unit:letters|norm:NFC|test:paired-bootstrap-two-sided|bootstrap:200|"
        "seed:7|conf:0.95|v:"
    )


GOOD = Item.from_text("a", "b", group="x", nll=1.0, tokens=2)


@pytest.mark.parametrize(
    ("b", "metric", "message"),
    [
        ([GOOD], "accuracy", "items_b must hold as many items as items_a, 2, got 1"),
        (
            [GOOD, Item.from_text("a", "c")],
            "accuracy",
            r"items_b\[1\]\.references must be as in items_a, \(\('b',\),\), got \(\('c',\),\); compare two systems on",
        ),
        ([GOOD, Item.from_text("a", ["b", "c"])], "accuracy", r"items_b\[1\]\.references must be as in items_a"),
        (
            [replace(GOOD, reference_texts=("b ",)), GOOD],
            "accuracy",
            r"items_b\[0\]\.reference_texts must be as in items_a, \('b',\), got \('b ',\)",
        ),
        (
            [GOOD, replace(GOOD, group="y")],
            "macro_accuracy",
            r"items_b\[1\]\.group must be as in items_a, 'x', got 'y'",
        ),
        ([GOOD, replace(GOOD, tokens=3)], "perplexity", r"items_b\[1\]\.tokens must be as in items_a, 2, got 3"),
        ([GOOD, replace(GOOD, nll=math.inf)], "perplexity", "must have finite values of perplexity .* and inf; leave"),
        ([GOOD, "a"], "accuracy", r"items_b\[1\] must be an Item, got str"),
        (GOOD, "accuracy", "items_b must be a list of items, got Item"),
        ([], "accuracy", "items_b must hold at least one item, got none"),
        (
            [GOOD, Item((), (), "", ())],
            "accuracy",
            r"items_b\[1\]\.references must hold at least one reference for acc",
        ),
    ],
)
def test_what_cannot_be_compared_is_refused(b, metric, message):
    with pytest.raises(DataError, match=message):
        compare([GOOD, GOOD], b, metric)


def test_groups_and_tokens_matter_only_where_they_are_used():
    assert compare([GOOD], [replace(GOOD, group="y", tokens=3)], "accuracy").ties == 1


def test_bad_settings_are_refused():
    with pytest.raises(ConfigError, match="resamples must be at least 1 to compare two systems, got 0"):
        compare([GOOD], [GOOD], resamples=0)
    with pytest.raises(ConfigError, match="did you mean 'accuracy'"):
        compare([GOOD], [GOOD], "acuracy")
