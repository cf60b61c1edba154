"""Several models used like a single one."""

from __future__ import annotations

import copy
import math

import pytest
import torch

from ssnt.errors import ModelError
from ssnt.pipeline import EnsembleTransducer, Transducer
from transducers import copying_transducer

TEXTS = ["abc", "f", "deadbe", "bc"]


def shaken(transducer: Transducer, seed: int) -> Transducer:
    """A copy of the model with somewhat other weights."""
    transducer = copy.deepcopy(transducer)
    torch.manual_seed(seed)
    with torch.no_grad():
        for parameter in transducer.model.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    return transducer


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


def test_what_it_cannot_do_is_refused():
    ensemble = EnsembleTransducer([copying_transducer(), copying_transducer()])
    assert not ensemble.has_alignment
    assert not ensemble.is_online
    with pytest.raises(ModelError, match="align"):
        ensemble.align([("a", "ga")])
    with pytest.raises(ModelError, match="stream"):
        ensemble.stream()
    with pytest.raises(ModelError, match="members"):
        ensemble.save_pretrained("somewhere")


def test_models_of_other_vocabularies_are_refused():
    with pytest.raises(ModelError, match=r"members\[1\]"):
        EnsembleTransducer([copying_transducer(), copying_transducer(tags=("X", "Y"))])
    with pytest.raises(ModelError, match="at least one"):
        EnsembleTransducer([])
