"""Perplexity, in total and over items."""

import math

import pytest

from ssnt.errors import DataError
from ssnt.metrics import Item, evaluate, perplexity, tabulate


def scored(nll, tokens):
    return Item((), (), "", (), nll=nll, tokens=tokens)


@pytest.mark.parametrize(
    ("nll", "tokens", "expected"),
    [
        (math.log(16), 4, 2.0),  # a fair coin for each of 4 symbols
        (0.0, 7, 1.0),
        (10 * math.log(30), 10, 30.0),
        (math.inf, 3, math.inf),
        (1e6, 1, math.inf),  # beyond the largest float
    ],
)
def test_total(nll, tokens, expected):
    assert perplexity(nll, tokens) == pytest.approx(expected)
    (score,) = evaluate([scored(nll, tokens)], "perplexity", resamples=10)
    assert (score.value, score.low, score.high) == (pytest.approx(expected),) * 3
    assert not score.is_higher_better


@pytest.mark.parametrize(
    ("nll", "tokens", "message"),
    [
        (math.nan, 1, "nll must be a number of at least 0, got nan"),
        (-3.0, 1, "change its sign"),
        (1.0, 0, "tokens must be a whole number of at least 1, got 0"),
    ],
)
def test_bad_totals_are_refused(nll, tokens, message):
    with pytest.raises(DataError, match=message):
        perplexity(nll, tokens)


def test_tokens_are_pooled():
    # exp(log 27 / 4), not the mean of the two items' perplexities, (3 + 1) / 2
    items = [scored(math.log(27), 3), scored(0.0, 1)]
    (score,) = evaluate(items, "perplexity")
    assert score.value == pytest.approx(27**0.25)
    assert score.value == pytest.approx(perplexity(math.log(27), 4))
    assert tabulate(items, "perplexity").values.tolist() == pytest.approx([3, 1])
    assert score.signature.startswith("perplexity|formula:exp(nll/tokens)|tokens:model-with-eos|bootstrap:1000|")


def test_an_impossible_item_makes_the_value_infinite_and_not_the_whole_interval():
    # 1 item of 2 is impossible: a quarter of the resamples have none of it
    (score,) = evaluate([scored(math.inf, 1), scored(math.log(5), 1)], "perplexity")
    assert (score.value, score.high) == (math.inf, math.inf)
    assert score.low == pytest.approx(5)
    assert score.to_record()["value"] is None
    assert score.to_record()["low"] == pytest.approx(5)


def test_items_must_have_a_likelihood():
    with pytest.raises(DataError, match=r"items\[1\]\.nll must be given for perplexity, got None; score the refer"):
        evaluate([scored(1.0, 1), Item.from_text("a", "a")], "perplexity")
