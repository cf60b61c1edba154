"""A model asked with other numbers than its own, against the same model asked with its own."""

from __future__ import annotations

import math

import pytest
import torch

from ssnt.config import ModelConfig
from ssnt.decode import EnsembleScorer, MarginalisedScorer, Numbering, RenumberedScorer, make_scorer
from ssnt.errors import ModelError
from ssnt.nn import build_model
from ssnt.types import EOS_ID, UNK_ID, Batch
from transducers import make_config

# The model's symbols 4, 5, 6 are the asker's 6, 4, 8, and its tags 1, 2 the asker's 3, 1.
NUMBERING = Numbering(
    source=torch.tensor([0, 1, 2, 3, 5, UNK_ID, 4, UNK_ID, 6]),
    target=torch.tensor([0, 1, 2, 3, 5, UNK_ID, 4, UNK_ID, 6]),
    tags=torch.tensor([0, 2, 0, 1]),
    known=torch.tensor([0, 1, 2, 3, 6, 4, 8]),
)
SRC = torch.tensor([[6, 4, 5, 8, EOS_ID], [7, EOS_ID, 0, 0, 0], [8, 8, 4, EOS_ID, 0]])
TGT = torch.tensor([[4, 6, EOS_ID, 0], [8, 5, 4, EOS_ID], [EOS_ID, 0, 0, 0]])
LENS = torch.tensor([5, 2, 4]), torch.tensor([3, 4, 1])
TAGS = torch.tensor([[3, 1], [2, 0], [1, 0]])


def make_inner(kind: str, end: str):
    config = make_config(architecture=kind)
    sizes = {"src_vocab_size": 7, "tgt_vocab_size": 7, "feature_vocab_size": 3}
    torch.manual_seed(1)
    model = build_model(ModelConfig(**config.model.model_dump(), **sizes)).double().eval()
    scorer = make_scorer(model)
    return MarginalisedScorer(scorer, end=end) if scorer.has_alignment else scorer


def asked_in_own_numbers() -> Batch:
    return Batch(NUMBERING.source[SRC], LENS[0], features=NUMBERING.tags[TAGS])


@torch.no_grad()
@pytest.mark.parametrize(("kind", "end"), [("ssnt", "any"), ("ssnt", "last"), ("attention", "any")])
def test_a_given_output_has_the_probability_that_the_model_gives_it(kind: str, end: str):
    inner = make_inner(kind, end)
    scorer = RenumberedScorer(inner, NUMBERING)
    got = scorer.grid(scorer.read(Batch(SRC, LENS[0], features=TAGS)), TGT, LENS[1])
    expected = inner.grid(inner.read(asked_in_own_numbers()), NUMBERING.target[TGT], LENS[1])
    for item, length in enumerate(LENS[1].tolist()):
        for j in range(length):
            if TGT[item, j] == 5:  # the model does not know it
                assert got.log_word[item, j, 0] == -math.inf
            else:
                assert got.log_word[item, j, 0] == expected.log_word[item, j, 0]


@torch.no_grad()
@pytest.mark.parametrize(("kind", "end"), [("ssnt", "any"), ("ssnt", "last"), ("attention", "any")])
def test_the_next_symbol_has_the_probability_that_the_model_gives_it(kind: str, end: str):
    inner = make_inner(kind, end)
    scorer = RenumberedScorer(inner, NUMBERING)
    source, own_source = scorer.read(Batch(SRC, LENS[0], features=TAGS)), inner.read(asked_in_own_numbers())
    state, own_state = scorer.start(source), inner.start(own_source)
    rows = torch.arange(3)
    for symbols in torch.tensor([[4, 6, 8], [5, 7, 4]]):  # in the second step two symbols that the model does not know
        columns, own = scorer.columns(source, state), inner.columns(own_source, own_state)
        zeros = torch.zeros(3, 1, 1, dtype=torch.float64)
        log_next, log_own = columns.log_mixture(zeros), own.log_mixture(zeros)
        assert log_next.shape == (3, 1, scorer.vocab_size)
        assert torch.equal(log_next[..., NUMBERING.known], log_own)
        assert (log_next[..., [5, 7]] == -math.inf).all()
        state = scorer.advance(source, state, rows, rows, symbols)
        own_state = inner.advance(own_source, own_state, rows, rows, NUMBERING.target[symbols])
    assert torch.equal(
        scorer.columns(source, state).log_words(rows, 0 * rows)[:, NUMBERING.known],
        inner.columns(own_source, own_state).log_words(rows, 0 * rows),
    )


@torch.no_grad()
def test_an_ensemble_takes_the_mean_where_all_know_a_symbol_and_a_share_where_one_does():
    inner = make_inner("ssnt", "any")
    same = Numbering(*(torch.arange(9) for _ in range(2)), torch.arange(4), torch.arange(9))
    config = make_config()
    sizes = {"src_vocab_size": 9, "tgt_vocab_size": 9, "feature_vocab_size": 4}
    torch.manual_seed(2)
    wide = MarginalisedScorer(build_model(ModelConfig(**config.model.model_dump(), **sizes)).double().eval())
    batch = Batch(SRC, LENS[0], features=TAGS)
    narrow = RenumberedScorer(inner, NUMBERING)
    ensemble = EnsembleScorer([RenumberedScorer(wide, same), narrow])
    log_words = [one.grid(one.read(batch), TGT, LENS[1]).log_word.exp() for one in (wide, narrow, ensemble)]
    within = torch.arange(TGT.shape[1]) < LENS[1][:, None]
    torch.testing.assert_close(log_words[2][within], ((log_words[0] + log_words[1]) / 2)[within])


def test_an_alignment_has_to_be_summed_out_first():
    model = build_model(ModelConfig(**make_config().model.model_dump(), src_vocab_size=7, tgt_vocab_size=7))
    with pytest.raises(ModelError, match="sum it out first"):
        RenumberedScorer(make_scorer(model), NUMBERING)
