"""Several models used like a single one."""

from __future__ import annotations

import copy
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import ssnt
from ssnt.config import ModelConfig
from ssnt.data.vocab import SymbolTable
from ssnt.errors import ModelError
from ssnt.evaluation import evaluate_model
from ssnt.nn import build_model
from ssnt.pipeline import EnsembleTransducer, PerTagTransducer, Transducer
from ssnt.types import EOS_ID, Batch, Example
from transducers import copying_transducer, make_config, make_transducer, make_vocabulary, shaken

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
    for one in (ensemble, by_tag):
        with pytest.raises(ModelError, match=r"an ensemble has no directory of its own: save each of \.members"):
            one.save_pretrained("somewhere")


def test_other_numbers_for_the_same_symbols_change_nothing():
    alone = copying_transducer()
    expected = alone.transduce(TEXTS, nbest=3)
    pairs = [(text, "g" + text) for text in TEXTS]
    for members in ([alone, renumbered(alone)], [renumbered(alone), alone], [renumbered(alone), renumbered(alone)]):
        ensemble = EnsembleTransducer(members)
        assert ensemble.score(pairs) == pytest.approx(alone.score(pairs), abs=1e-5)
        for one, other in zip(ensemble.transduce(TEXTS, nbest=3), expected, strict=True):
            assert [each.text for each in one.alternatives] == [each.text for each in other.alternatives]
            assert one.log_prob == pytest.approx(other.log_prob, abs=1e-5)


def renumbered(transducer: Transducer) -> Transducer:
    """The same model with its symbols in the opposite order."""
    other, old = copy.deepcopy(transducer), transducer.vocabulary
    tables = [SymbolTable.of(reversed(table.symbols)) for table in (old.source, old.target)]
    other.vocabulary = replace(old, source=tables[0], target=tables[1])
    sources, targets = ([0, 1, 2, 3, *range(len(table) - 1, 3, -1)] for table in tables)
    with torch.no_grad():
        for name, parameter in other.model.named_parameters():
            if len(parameter) == len(old.source) and "embedding" in name and "encoder" in name:
                parameter.copy_(parameter[sources].clone())
            elif len(parameter) == len(old.target):
                parameter.copy_(parameter[targets].clone())
    return other


def test_a_symbol_that_a_model_does_not_know_has_no_probability_in_it():
    wide, narrow = make_transducer(1), make_transducer(2, make_vocabulary(source="ab", target="cbg"))
    for members in ([wide, narrow], [narrow, wide]):
        ensemble = EnsembleTransducer(members)
        for source, target in [("ab", "bc"), ("ef", "c"), ("a", "x"), ("bé", "gxb"), ("a", "")]:
            chances = [next_chances(one, source, target) for one in (wide, narrow)]
            expected = math.prod((first + second) / 2 for first, second in zip(*chances, strict=True))
            assert ensemble.score([(source, target)])[0] == pytest.approx(math.log(expected), abs=1e-5)
        (found,) = ensemble.transduce(["abf"], beam=8)
        assert ensemble.score([("abf", found.text)])[0] == pytest.approx(found.log_prob, abs=1e-5)


def next_chances(one: Transducer, source: str, target: str) -> list[float]:
    """The probability of each symbol and of the end after those before, from sums over all lattice paths."""
    vocabulary = one.vocabulary
    numbers = [*vocabulary.target.numbers(target), EOS_ID]
    src = torch.tensor([[*vocabulary.source.numbers(source), EOS_ID]])
    chances, before = [], 1.0
    for count, symbol in enumerate([*target, ""], start=1):
        tgt = torch.tensor([numbers[:count]])
        with torch.no_grad():
            batch = Batch(src, torch.tensor([src.shape[1]]), tgt, torch.tensor([count]))
            until = math.exp(-float(one.model.loss(batch, reduction="none")))
        chances.append(until / before if not symbol or symbol in vocabulary.target.table else 0.0)
        before = until
    return chances


def test_models_for_one_tag_set_go_with_one_for_all():
    everything = copying_transducer(tags=("X", "Y"))
    own = {tag: shaken(copying_transducer(), seed) for seed, tag in enumerate("XY")}
    joined = PerTagTransducer(
        {(tag,): EnsembleTransducer([one, everything]) for tag, one in own.items()}, everything.config
    )
    pairs = [("ab", "gab"), ("ab", "gxab")]
    for tag, one in own.items():
        for pair in pairs:
            (got,) = joined.score([pair], [[tag]])
            expected = EnsembleTransducer([everything, one]).score([pair], [[tag]])[0]
            assert got == pytest.approx(expected, abs=1e-6)
    # The model for all of them is told the tag, which makes it write an x.
    (with_x, without) = joined.score([pairs[1]] * 2, [["X"], ["Y"]])
    assert with_x > without + 1.0


def test_vocabularies_that_do_not_fit_are_refused():
    lacking = r"members\[1\], which lacks the fewest, lacks 1, such as the source symbol 'q'"
    with pytest.raises(ModelError, match=rf"^members: expected one that knows all .* {lacking}"):
        EnsembleTransducer(
            [make_transducer(1, make_vocabulary(source="q", target="c")), make_transducer(2, make_vocabulary())]
        )
    with pytest.raises(ModelError, match=r"^members\[1\]: expected .* members\[0\], got another data.lowercase"):
        EnsembleTransducer([copying_transducer(), make_transducer(1, make_vocabulary(lowercase=True))])
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
