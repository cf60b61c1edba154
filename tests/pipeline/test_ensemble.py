"""Several models used like a single one."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

import ssnt
from ssnt.config import ModelConfig
from ssnt.errors import ModelError
from ssnt.evaluation import evaluate_model
from ssnt.nn import build_model
from ssnt.pipeline import EnsembleTransducer, PerTagTransducer, Transducer
from ssnt.types import Example
from transducers import copying_transducer, make_config, shaken

TEXTS = ["abc", "f", "deadbe", "bc"]


def test_one_member_answers_as_it_does_alone():
    alone = copying_transducer()
    found = EnsembleTransducer([alone]).transduce(TEXTS, nbest=3)
    for one, expected in zip(found, alone.transduce(TEXTS, nbest=3), strict=True):
        assert one.text == expected.text
        assert one.log_prob == pytest.approx(expected.log_prob, abs=1e-5)
        assert [other.text for other in one.alternatives] == [other.text for other in expected.alternatives]


def test_a_log_prob_is_that_of_the_pair_and_between_those_of_the_members():
    members = [shaken(copying_transducer(), seed) for seed in (1, 2, 3)]
    ensemble = EnsembleTransducer(members)
    found = ensemble.transduce(TEXTS)
    pairs = [(text, one.text) for text, one in zip(TEXTS, found, strict=True)]
    assert ensemble.score(pairs) == pytest.approx([one.log_prob for one in found], abs=1e-5)
    for place, pair in enumerate(pairs):
        own = [math.exp(one.score([pair])[0]) for one in members]
        assert min(own) - 1e-4 <= found[place].probability <= max(own) + 1e-4


def test_an_ensemble_of_ensembles_asks_all_of_them():
    members = [shaken(copying_transducer(), seed) for seed in (1, 2, 3)]
    pairs = [(text, "g" + text) for text in TEXTS]
    flat = EnsembleTransducer(members)
    assert EnsembleTransducer([flat]).score(pairs) == pytest.approx(flat.score(pairs), rel=1e-5)
    assert [one.text for one in EnsembleTransducer([flat, flat]).transduce(TEXTS)] == [
        one.text for one in flat.transduce(TEXTS)
    ]


def test_models_of_different_kinds_are_joined():
    ours = copying_transducer()
    config = make_config(architecture="seq2seq")
    torch.manual_seed(1)
    model = build_model(ModelConfig(**config.model.model_dump(), **ours.vocabulary.model_sizes())).eval()
    other = Transducer(model, ours.vocabulary, config)
    ensemble = EnsembleTransducer([ours, other])
    ((first,), (second,), (both,)) = (one.score([("a", "")]) for one in (ours, other, ensemble))
    # Of an empty output there is but one symbol to be averaged, the end.
    assert math.exp(both) == pytest.approx((math.exp(first) + math.exp(second)) / 2, rel=1e-5)
    (best,) = ensemble.transduce(["abc"])
    assert ensemble.score([("abc", best.text)])[0] == pytest.approx(best.log_prob, abs=1e-5)


def test_per_tag_models_are_joined_tag_set_by_tag_set():
    members = [shaken(copying_transducer(), seed) for seed in (1, 2)]
    config = members[0].config
    with pytest.raises(ModelError, match=r"members\[1\]: expected one model, got one for each tag set"):
        EnsembleTransducer([members[0], PerTagTransducer({("X",): members[1]}, config)])
    joined = PerTagTransducer({("X",): EnsembleTransducer(members)}, config)
    (expected,) = EnsembleTransducer(members).transduce(["abc"])
    assert joined.transduce(["abc"], [["X"]])[0].text == expected.text


def test_what_it_cannot_do_is_refused():
    ensemble = EnsembleTransducer([copying_transducer(), copying_transducer()])
    assert not ensemble.has_alignment
    assert not ensemble.is_online
    with pytest.raises(ModelError, match="align: expected a single model, got an ensemble"):
        ensemble.align([("a", "ga")])
    with pytest.raises(ModelError, match=r"^stream: expected a single model, .* use a single one"):
        ensemble.stream()
    with pytest.raises(ModelError, match=r"^search 'online': expected a single model"):
        ensemble.transduce(["a"], search="online")
    with pytest.raises(ModelError, match=r"^latency: expected a single model"):
        evaluate_model(ensemble, [Example("a", "ga")], ["latency"])
    by_tag = PerTagTransducer({("X",): ensemble}, ensemble.config)
    with pytest.raises(ModelError, match=r"^latency: expected a single model"):
        evaluate_model(by_tag, [Example("a", "ga", ("X",))], ["latency"])
    with pytest.raises(ModelError, match="members"):
        ensemble.save_pretrained("somewhere")


def test_models_of_other_vocabularies_are_refused():
    with pytest.raises(ModelError, match=r"members\[1\]"):
        EnsembleTransducer([copying_transducer(), copying_transducer(tags=("X", "Y"))])
    with pytest.raises(ModelError, match="at least one"):
        EnsembleTransducer([])


def test_models_have_to_be_loaded():
    how = r"load it with Transducer\.from_pretrained\('two'\)"
    for name in ("two", Path("two")):
        with pytest.raises(ModelError, match=rf"^members\[1\]: expected a model, got .*; {how}$"):
            EnsembleTransducer([copying_transducer(), name])
    for no_list in ("two", Path("two"), copying_transducer()):
        with pytest.raises(
            ModelError, match=r"^members: expected a list of models, got .*Transducer\.from_pretrained$"
        ):
            EnsembleTransducer(no_list)
    with pytest.raises(ModelError, match=r"^members\[0\]: expected a model, got SSNT; load it"):
        EnsembleTransducer([copying_transducer().model])
    assert ssnt.EnsembleTransducer is EnsembleTransducer
