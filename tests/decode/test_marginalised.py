"""Transducers with their alignments summed out, against marginal search and enumeration, in float64."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch.nn.utils.rnn import pad_sequence

from decoding import VARIANTS, all_outputs, random_model, random_sources, take
from ssnt.decode import EnsembleScorer, MarginalisedScorer, ModelScorer, SearchOptions, marginal_search
from ssnt.decode.marginalised import MarginalSource
from ssnt.decode.model_scorer import ModelSource
from ssnt.dp import AlignmentDistribution
from ssnt.errors import ConfigError
from ssnt.types import EOS_ID, Batch

LENGTHS = [4, 1, 3, 2]
WIDE = {"beam": 200, "max_length": 3, "nbest": 6}


def close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-8)


def next_symbol_probabilities(model, source: Batch, end: str) -> dict[tuple[int, ...], float]:
    """``p(y_j | y_<j, x)`` of every prefix of up to three symbols and of every end, from enumerated outputs' masses.

    The mass of a prefix is taken from the lattice of the prefix alone, where the last symbol may be written anywhere.
    """
    found = {}
    prefixes = {one.symbols for one in all_outputs([model], source, 3, end)}
    scorer = ModelScorer(model)
    with torch.no_grad():
        encoded = scorer.read(source)

        def log_mass(symbols: tuple[int, ...], is_output: bool) -> float:
            if not symbols:
                return 0.0
            tgt = torch.tensor([symbols])
            grid = scorer.grid(encoded, tgt, torch.tensor([len(symbols)]))
            own_end = end if is_output else "any"
            return float(AlignmentDistribution.of(grid, end=own_end).log_partition())

        for symbols in prefixes:
            before = log_mass(symbols, is_output=False)
            found[(*symbols, EOS_ID)] = log_mass((*symbols, EOS_ID), is_output=True) - before
            if symbols:
                found[symbols] = before - log_mass(symbols[:-1], is_output=False)
    return found


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("end", ["any", "last"])
@pytest.mark.parametrize("seed", range(2))
def test_alone_it_is_marginal_search(variant, end, seed):
    model, batch = random_model(seed, variant), random_sources(seed, LENGTHS)
    options = SearchOptions(**WIDE, end=end)
    expected = marginal_search(ModelScorer(model), batch, options)
    found = marginal_search(MarginalisedScorer(model, end=end), batch, options)
    for ours, theirs in zip(found, expected, strict=True):
        assert [one.symbols for one in ours] == [one.symbols for one in theirs]
        close([one.log_prob for one in ours], [one.log_prob for one in theirs])
        assert all(one.alignment.positions == () for one in ours)


@pytest.mark.parametrize("end", ["any", "last"])
def test_an_ensemble_averages_what_each_says_of_the_next_symbol(end):
    models, batch = [random_model(seed) for seed in (1, 2, 3)], random_sources(5, LENGTHS)
    ensemble = EnsembleScorer([MarginalisedScorer(model, end=end) for model in models])
    found = marginal_search(ensemble, batch, SearchOptions(**WIDE, end=end))
    for b, hypotheses in enumerate(found):
        alone = take(batch, b)
        tables = [next_symbol_probabilities(model, alone, end) for model in models]
        mean = {y: math.log(math.fsum(math.exp(table[y]) for table in tables) / len(tables)) for y in tables[0]}
        scores = {
            y[:-1]: math.fsum(mean[y[: j + 1]] for j in range(len(y)))
            for y in mean
            if y[-1] == EOS_ID
        }  # fmt: skip
        expected = sorted(scores, key=lambda y: -scores[y])[: len(hypotheses)]
        assert [one.symbols for one in hypotheses] == expected
        close([one.log_prob for one in hypotheses], [scores[y] for y in expected])


@pytest.mark.parametrize("end", ["any", "last"])
def test_given_outputs_have_their_exact_probabilities(end):
    model, batch = random_model(4), random_sources(6, LENGTHS)
    outputs = [(3,), (3, 1, 3), (), (1, 1)]
    tgt = pad_sequence([torch.tensor([*one, EOS_ID]) for one in outputs], batch_first=True)
    lens = torch.tensor([len(one) + 1 for one in outputs])
    scorer = MarginalisedScorer(model, end=end)
    with torch.no_grad():
        grid = scorer.grid(scorer.read(batch), tgt, lens)
        expected = model.loss(Batch(batch.src, batch.src_lens, tgt, lens), end=end, reduction="none")
    assert grid.src_lens.tolist() == [1] * len(outputs)
    for b, length in enumerate(lens.tolist()):
        close(-grid.log_word[b, :length, 0].sum(), expected[b])


@pytest.mark.parametrize("end", ["any", "last"])
def test_what_did_not_end_may_stop_anywhere(end):
    model, batch = random_model(4), random_sources(6, LENGTHS)
    tgt, lens = torch.tensor([[3, 1], [3, 3], [1, 0], [1, 3]]), torch.tensor([2, 2, 1, 2])
    scorer, plain = MarginalisedScorer(model, end=end), ModelScorer(model)
    with torch.no_grad():
        grid = scorer.grid(scorer.read(batch), tgt, lens)
        expected = AlignmentDistribution.of(plain.grid(plain.read(batch), tgt, lens), end="any").log_partition()
    for b, length in enumerate(lens.tolist()):
        close(grid.log_word[b, :length, 0].sum(), expected[b])


def test_rows_of_any_order_are_advanced_without_copies_of_their_sources(monkeypatch):
    model, batch = random_model(7), random_sources(8, LENGTHS)
    scorer = MarginalisedScorer(model)
    with torch.no_grad():
        source = scorer.read(batch)
        state = scorer.advance(
            source, scorer.start(source), torch.arange(4), torch.arange(4), torch.tensor([3, 1, 1, 3])
        )
        monkeypatch.setattr(ModelSource, "select", None)  # a source has logits for all its positions and symbols
        items, symbols = torch.tensor([3, 0, 3, 1, 3, 0]), torch.tensor([1, 3, 3, 1, 1, 1])  # and none of source 2
        found = scorer.advance(source, state, items, items, symbols)
        monkeypatch.undo()
        for n, (item, symbol) in enumerate(zip(items.tolist(), symbols.tolist(), strict=True)):
            own = MarginalSource(source.encoded.select(torch.tensor([item])))
            one, zero = torch.tensor([item]), torch.tensor([0])
            expected = scorer.advance(own, state, one, zero, torch.tensor([symbol]))
            close(found.log_inflow[n], expected.log_inflow[0])
            close(found.prefix.output[n], expected.prefix.output[0])


def test_a_wrong_end_is_named():
    with pytest.raises(ConfigError, match="end"):
        MarginalisedScorer(random_model(1), end="first")
