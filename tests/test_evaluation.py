"""Models on examples: the metrics have their own tests, here it is what goes into them."""

import math

import pytest

from ssnt.config import Config
from ssnt.decode import Failure
from ssnt.errors import ConfigError, DataError, ModelError
from ssnt.evaluation import METRIC_NAMES, evaluate_model, scoring_unit
from ssnt.metrics import corpus_latency, latency
from ssnt.pipeline import Transducer
from ssnt.types import Example
from transducers import copying_transducer, make_config, make_transducer, make_vocabulary


@pytest.fixture
def copier() -> Transducer:
    return copying_transducer()


def test_right_and_wrong(copier):
    examples = [Example("ab", "gab"), Example("ba", "gba"), Example("cde", "gcd"), Example("f", "f")]
    found = evaluate_model(copier, examples, ["accuracy", "edit_distance", "per"], resamples=100)
    accuracy, distance, per = found.scores
    assert (accuracy.value, distance.value, per.value) == (0.5, 0.5, 2 / 10)
    assert accuracy.low is not None
    assert accuracy.low <= 0.5 <= accuracy.high
    assert "unit:characters" in accuracy.signature
    assert [one.text for one in found.predictions] == ["gab", "gba", "gcde", "gf"]
    assert [item.text for item in found.items] == ["gab", "gba", "gcde", "gf"]
    assert found.failures == []


def test_references_are_pooled(copier):
    examples = [Example("ab", "x"), Example("cd", "gcd"), Example("ab", "gab"), Example("ab", "x")]
    found = evaluate_model(copier, examples, ["accuracy"], resamples=0)
    assert (found.scores[0].value, found.scores[0].count) == (1.0, 2)
    assert found.items[0].reference_texts == ("x", "gab")
    assert len(found.predictions) == 2
    assert "refs:best-of-1..2" in found.scores[0].signature


def test_tag_sets_are_groups_in_any_order():
    tagger = copying_transducer(tags=("X", "Y"))
    examples = [Example("ab", "gxab", ("X", "Y")), Example("ab", "?", ("Y", "X")), Example("ab", "gab")]
    found = evaluate_model(tagger, examples, ["accuracy", "macro_accuracy"], resamples=0)
    assert [item.group for item in found.items] == ["X;Y", ""]
    assert [score.value for score in found.scores] == [1.0, 1.0]


def test_perplexity_is_over_all_targets(copier):
    examples = [Example("ab", "gab"), Example("ab", "gba"), Example("cd", "gcd"), Example("ab", "gab")]
    (score,) = evaluate_model(copier, examples, ["perplexity"], resamples=0).scores
    total = -sum(copier.score([(one.source, one.target) for one in examples]))
    assert score.value == pytest.approx(math.exp(total / 16))
    assert score.count == 2  # items


def test_perplexity_needs_no_search(copier, monkeypatch):
    monkeypatch.setattr(copier, "transduce_each", None)
    found = evaluate_model(copier, [Example("ab", "gab")], ["perplexity"], resamples=0)
    assert found.predictions == []


def test_failures_count_as_wrong_and_are_reported(copier):
    examples = [Example("ab", "gab"), Example("", "gx"), Example("a" * 2001, "g")]
    found = evaluate_model(copier, examples, ["accuracy", "perplexity"], resamples=0)
    assert found.scores[0].value == pytest.approx(1 / 3)
    assert found.scores[1].value == math.inf
    assert [isinstance(one, Failure) for one in found.predictions] == [False, True, True]
    assert [one.index for one in found.failures] == [1, 2]
    assert "is empty" in str(found.failures[0].error)
    assert found.items[1].prediction == ()


def test_references_are_normalised_like_the_data():
    trained = copying_transducer()
    transducer = Transducer(trained.model, make_vocabulary(lowercase=True), trained.config)
    found = evaluate_model(transducer, [Example("AB", "GAB"), Example("ab", "gab")], ["accuracy"], resamples=0)
    assert (found.scores[0].value, found.scores[0].count) == (1.0, 1)
    assert "unit:characters+lowercase|" in found.scores[0].signature
    assert scoring_unit(make_vocabulary(unit="tokens", digits_to_hash=True)) == "tokens+digits-to-hash"


def test_tokens_are_compared_as_tokens():
    copier = copying_transducer("tokens")
    found = evaluate_model(copier, [Example("a  b", " g a\tb "), Example("c", "g d")], ["accuracy", "per"], resamples=0)
    assert [score.value for score in found.scores] == [0.5, 1 / 5]
    assert found.items[0].reference_texts == ("g a b",)
    assert found.items[0].prediction == ("g", "a", "b")


def test_latency_is_measured_by_commits(copier):
    examples = [Example("abcd", "gabcd"), Example("ef", "gef"), Example("", "x")]
    slow = evaluate_model(copier, examples, ["latency"], resamples=50)
    fast = evaluate_model(copier, examples, ["latency"], resamples=50, stream={"max_delay": 0})
    assert [score.name for score in slow.scores] == ["ap", "al", "laal", "dal"]
    assert fast.scores[1].value < slow.scores[1].value
    streamed = copier.stream_each(examples[:2], max_delay=0)
    expected = corpus_latency(
        [
            latency(one.delays, one.src_len, ref_len=len(ex.target) + 1)
            for one, ex in zip(streamed, examples, strict=False)
        ]
    )
    assert [score.value for score in fast.scores] == pytest.approx(
        [expected.ap, expected.al, expected.laal, expected.dal]
    )
    assert "empty-left-out:1" in fast.scores[0].signature
    assert slow.predictions == []


def test_latency_of_a_model_that_reads_both_ways():
    transducer = make_transducer(config=make_config(bidirectional=True))
    with pytest.raises(ModelError, match=r"^latency: 'biSSNT\+' reads the whole input .* such as uniSSNT\+"):
        evaluate_model(transducer, [Example("a", "b")], ["latency"])


def test_a_beam_and_a_search_can_be_chosen(copier):
    examples = [Example("aZ", "gaZ")]
    found = evaluate_model(copier, examples, ["accuracy"], beam=1, search="path", resamples=0)
    assert found.predictions[0].log_prob == found.predictions[0].alignment.log_prob


def test_mistakes(copier):
    with pytest.raises(ConfigError, match=r"unknown metric 'acuracy'; did you mean 'accuracy'\?"):
        evaluate_model(copier, [Example("a", "b")], ["acuracy"])
    with pytest.raises(ConfigError, match="metrics must be a list of names"):
        evaluate_model(copier, [Example("a", "b")], "accuracy")
    with pytest.raises(ConfigError, match="metrics must be a list of names"):
        evaluate_model(copier, [Example("a", "b")], [])
    with pytest.raises(DataError, match="at least one example, got none"):
        evaluate_model(copier, [], ["accuracy"])
    with pytest.raises(DataError, match="line 3: expected a target"):
        evaluate_model(copier, [Example("a", line=3)], ["accuracy"])


def test_every_dev_metric_is_known():
    fields = Config().validation.__class__.model_fields
    assert set(fields["metric"].annotation.__args__) <= set(METRIC_NAMES)


def test_signatures_say_how_outputs_were_found(copier):
    examples = [Example("abc", "abc"), Example("ab", "aÿ")]

    def signatures(**settings):
        return [
            one.signature for one in evaluate_model(copier, examples, ["accuracy", "perplexity"], **settings).scores
        ]

    narrow, likelihood = signatures(beam=1)
    assert narrow.startswith("accuracy|search:marginal|beam:1|lennorm:0|end:any|formula:exact/items|")
    assert signatures(beam=2)[0] != narrow
    assert signatures(search="path")[0] != signatures(search="marginal")[0]
    assert likelihood.startswith("perplexity|end:any|unk:1/7|formula:exp(nll/tokens)|")
    assert signatures(beam=2)[1] == likelihood


def test_latency_says_how_was_streamed(copier):
    examples = [Example("abc", "abc")]
    bold = evaluate_model(copier, examples, ["latency"], stream={"max_delay": 1}).scores[0].signature
    plain = evaluate_model(copier, examples, ["latency"]).scores[0].signature
    assert "|max-delay:1|emit:search|end:last|" in bold
    assert "|max-delay:none|" in plain


def test_what_streams_have_committed_is_measured_and_nothing_else(copier, monkeypatch):
    examples = [Example("abcd", "gabcd"), Example("ef", "gef"), Example("fade", "gfade")]
    hasty = {"max_delay": 0, "beam": 1, "end": "any", "max_emissions": 1}  # too few to write the g as well
    written = copier.stream_each(examples, **hasty)
    texts = [one.text for one in written]
    assert texts != [one.text for one in copier.transduce_each(examples)]
    # One of the outputs is right if the references say so: that is not what the search would write.
    examples = [Example("abcd", texts[0]), *examples[1:]]
    monkeypatch.setattr(copier, "transduce_each", None)
    found = evaluate_model(copier, examples, ["accuracy", "latency"], stream=hasty, is_streamed=True, resamples=0)
    assert [item.text for item in found.items] == texts
    assert found.scores[0].value == pytest.approx(sum(t == e.target for t, e in zip(texts, examples, strict=True)) / 3)
    assert found.scores[0].value > 0
    assert found.predictions == []
    assert found.streamed == written
    assert [score.name for score in found.scores] == ["accuracy", "ap", "al", "laal", "dal"]
    assert found.scores[0].signature.startswith("accuracy|search:stream|beam:1|")
    assert "|max-delay:0|emit:search|end:any|" in found.scores[0].signature


def test_inputs_that_streams_cannot_use_count_as_wrong_and_are_reported(copier):
    examples = [Example("ab", "gab"), Example("", "gx")]
    found = evaluate_model(copier, examples, ["accuracy", "perplexity"], is_streamed=True, resamples=0)
    assert [score.value for score in found.scores] == [0.5, math.inf]
    assert [one.index for one in found.failures] == [1]
    assert "is empty" in str(found.failures[0].error)


def test_streams_are_not_searched(copier):
    for settings in ({"beam": 2}, {"search": "path"}, {"nbest": 2}):
        with pytest.raises(ConfigError, match=r"nbest: expected none of them with is_streamed.*stream=\{'beam': 4\}"):
            evaluate_model(copier, [Example("a", "ga")], ["accuracy"], is_streamed=True, **settings)
    transducer = make_transducer(config=make_config(bidirectional=True))
    with pytest.raises(ModelError, match=r"^stream: .* reads the whole input"):
        evaluate_model(transducer, [Example("a", "b")], ["accuracy"], is_streamed=True)
