"""Scores, signatures, names, and what scoring does not import."""

import json
import math
import subprocess
import sys

import pytest

from ssnt.__about__ import __version__
from ssnt.errors import ConfigError, DataError
from ssnt.metrics import METRICS, Item, Score, evaluate, find_metric, latency, latency_scores, tabulate

ITEM = Item.from_text("a", "a")


def test_the_score_of_a_known_set():
    items = [ITEM] * 931 + [Item.from_text("a", "b")] * 69
    (score,) = evaluate(items, ["accuracy"])
    assert score.value == 0.931
    # +- 1.96 standard errors of 0.8 percentage points
    assert (score.low, score.high) == (pytest.approx(0.915, abs=0.003), pytest.approx(0.947, abs=0.003))
    assert str(score) == f"accuracy 0.9310 [{score.low:.4f}, {score.high:.4f}] (n=1000)"
    assert score.is_higher_better


def test_text_and_record_without_an_interval():
    score = Score("per", 0.25, 3, "per|v:0", is_higher_better=False)
    assert str(score) == "per 0.2500 (n=3)"
    assert score.to_record() == {
        "name": "per",
        "value": 0.25,
        "low": None,
        "high": None,
        "count": 3,
        "is_higher_better": False,
        "signature": "per|v:0",
    }


def test_every_record_is_json():
    items = [Item.from_text("a b", ["a c"], nll=1.0, tokens=2), Item.from_text("a", ["a"], nll=math.inf, tokens=2)]
    for score in evaluate(items, METRICS, resamples=20):
        assert json.loads(json.dumps(score.to_record(), allow_nan=False))["signature"] == score.signature
    for name in METRICS:
        for record in tabulate(items, name).to_records():
            assert json.loads(json.dumps(record, allow_nan=False)) == record


SIGNATURES = {
    "accuracy": "formula:exact/items|refs:best-of-2|unit:phones|norm:NFC",
    "macro_accuracy": "formula:mean-over-groups(exact/items)|refs:best-of-2|unit:phones|norm:NFC|groups:2",
    "item_error_rate": "formula:1-exact/items|refs:best-of-2|unit:phones|norm:NFC",
    "edit_distance": "formula:edits/items|refs:best-of-2|unit:phones|norm:NFC",
    "per": "formula:edits/reference-symbols|refs:best-of-2|unit:phones|norm:NFC",
    "wer": "formula:edits/reference-tokens|refs:best-of-2|tok:whitespace|norm:NFC",
    "rouge_1": "formula:mean-F1|refs:best-of-2|tok:whitespace|case:lower|stem:none|norm:NFC",
    "rouge_2": "formula:mean-F1|refs:best-of-2|tok:whitespace|case:lower|stem:none|norm:NFC",
    "rouge_l": "formula:mean-F1|refs:best-of-2|tok:whitespace|case:lower|stem:none|norm:NFC",
    "perplexity": "formula:exp(nll/tokens)|tokens:model-with-eos",
}


def test_signatures():
    assert SIGNATURES.keys() == METRICS.keys()
    items = [Item.from_text("a", ["a", "b"], group=group, nll=1.0, tokens=2) for group in "xy"]
    scores = evaluate(items, SIGNATURES, unit="phones", resamples=10, seed=3, confidence=0.9)
    for score, (name, fields) in zip(scores, SIGNATURES.items(), strict=True):
        assert score.name == name
        assert score.signature == f"{name}|{fields}|bootstrap:10|seed:3|conf:0.9|v:{__version__}"


@pytest.mark.parametrize(
    ("numbers", "field"), [([1, 1], "refs:1"), ([3, 3], "refs:best-of-3"), ([2, 1, 4], "refs:best-of-1..4")]
)
def test_the_number_of_references_is_in_the_signature(numbers, field):
    items = [Item.from_text("a", ["a"] * number) for number in numbers]
    assert field in evaluate(items, "accuracy", resamples=0)[0].signature.split("|")


def test_higher_is_better_for_these():
    better = {name for name, metric in METRICS.items() if metric.is_higher_better}
    assert better == {"accuracy", "macro_accuracy", "rouge_1", "rouge_2", "rouge_l"}


def test_metrics_in_any_form():
    names = [score.name for score in evaluate([ITEM], ("wer", METRICS["accuracy"]), resamples=0)]
    assert names == ["wer", "accuracy"]
    assert [score.name for score in evaluate(iter([ITEM]), METRICS["per"], resamples=0)] == ["per"]
    assert [score.name for score in evaluate([ITEM])] == ["accuracy", "edit_distance"]


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("acuracy", "unknown metric 'acuracy'; did you mean 'accuracy'?"),
        ("rouge_L", "unknown metric 'rouge_L'; did you mean 'rouge_l'?"),
        ("word_error_rate", "unknown metric 'word_error_rate'; did you mean 'item_error_rate'?"),
        (None, "unknown metric None; expected one of accuracy"),
        ("zzz", "unknown metric 'zzz'; expected one of accuracy, macro_accuracy, item_error_rate, edit_distance"),
    ],
)
def test_an_unknown_metric_is_refused(name, hint):
    for action in (find_metric, lambda one: evaluate([ITEM], one), lambda one: tabulate([ITEM], one)):
        with pytest.raises(ConfigError) as caught:
            action(name)
        assert str(caught.value).startswith(hint)


def test_no_metric_is_refused():
    with pytest.raises(ConfigError, match="metrics must name at least one metric, got none"):
        evaluate([ITEM], [])


@pytest.mark.parametrize("unit", ["", "a|b", "two words", 3])
def test_a_unit_must_be_a_word(unit):
    for action in (lambda: evaluate([ITEM], unit=unit), lambda: tabulate([ITEM], "accuracy", unit=unit)):
        with pytest.raises(ConfigError, match="unit must be a word without"):
            action()


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ([], "items must hold at least one item, got none; is the file of outputs empty"),
        (None, "items must be a list of items, got NoneType"),
        (ITEM, "items must be a list of items, got Item; put a single item in a list"),
        ([ITEM, "a"], r"items\[1\] must be an Item, got str; see Item.from_text"),
        (
            [ITEM, Item((), (), "", ())],
            r"items\[1\]\.references must hold at least one reference for accuracy, got non",
        ),
    ],
)
def test_bad_items_are_refused(items, message):
    for action in (evaluate, lambda one: tabulate(one, "accuracy")):
        with pytest.raises(DataError, match=message):
            action(items)


def loaded_after(code):
    script = f"{code}; import json, sys; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    return set(json.loads(done.stdout))


def test_only_what_is_computed_is_imported():
    heavy = {"torch", "rouge_score", "nltk", "rapidfuzz", "pydantic"}
    start = "from ssnt.metrics import Item, evaluate; items = [Item.from_text('a', 'a')]"
    assert not loaded_after(f"{start}; evaluate(items, ['accuracy', 'macro_accuracy', 'item_error_rate'])") & heavy
    assert loaded_after(f"{start}; evaluate(items, ['edit_distance', 'per', 'wer'])") & heavy == {"rapidfuzz"}
    assert "torch" not in loaded_after(f"{start}; evaluate(items, 'rouge_1')")


SENTENCES = [latency([1, 2], 2), latency([4, 4, 4], 4), latency([2, 4], 4), latency([], 3)]


def test_latency_as_scores():
    scores = {score.name: score for score in latency_scores(SENTENCES, resamples=500, confidence=0.99)}
    assert list(scores) == ["ap", "al", "laal", "dal"]
    assert scores["ap"].value == pytest.approx((0.75 + 1 + 0.75) / 3)
    assert scores["al"].value == pytest.approx((1 + 4 + 2) / 3)
    assert (scores["al"].low, scores["al"].high) == (1, 4)  # one sentence three times: 1 way of 27, more than 0.5 %
    for score in scores.values():
        assert (score.count, score.is_higher_better) == (3, False)
    start = "formula:mean-over-sentences|unit:symbol|empty-left-out:1"
    end = f"bootstrap:500|seed:1|conf:0.99|v:{__version__}"
    assert scores["dal"].signature == f"dal|{start}|{end}"
    for name in ("al", "laal"):
        assert scores[name].signature == f"{name}|{start}|pace:output|{end}"


def test_latency_paced_by_references():
    scores = {score.name: score for score in latency_scores(SENTENCES, paced_by="reference", resamples=0)}
    assert "|pace:reference|bootstrap:none|" in scores["al"].signature
    assert "|pace:longer-of-output-and-reference|" in scores["laal"].signature
    assert "pace" not in scores["ap"].signature
    with pytest.raises(ConfigError, match="paced_by must be 'output' or 'reference', got 'x'"):
        latency_scores(SENTENCES, paced_by="x")


def test_latency_of_pooled_scores():
    from ssnt.metrics import corpus_latency

    pooled = [corpus_latency(SENTENCES), latency([1], 1)]
    scores = latency_scores(pooled, resamples=0)
    assert scores[1].value == pytest.approx((1 + 4 + 2 + 1) / 4)
    assert (scores[1].count, scores[1].low) == (4, None)
    with pytest.raises(DataError, match="one score a sentence to be resampled, got one of 3 sentences"):
        latency_scores(pooled)


def test_latency_of_nothing():
    for score in latency_scores([latency([], 3)]):
        assert math.isnan(score.value)
        assert (score.count, score.low, score.high) == (0, None, None)
        assert score.to_record()["value"] is None
        assert "|empty-left-out:1|" in score.signature
    with pytest.raises(DataError, match="at least one sentence"):
        latency_scores([])
