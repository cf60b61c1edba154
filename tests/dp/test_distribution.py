"""The alignment distribution against full enumeration."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ssnt import AlignmentDistribution, BackendError, ConfigError, DataError

from oracles import random_lattices

SEEDS = st.integers(0, 2**32 - 1)
ENDS = st.sampled_from(["any", "last"])


def distribution_of(values, end, requires_grad=False) -> AlignmentDistribution:
    grids = [
        torch.tensor(g).requires_grad_(requires_grad) for g in (values.log_word, values.log_emit, values.log_shift)
    ]
    return AlignmentDistribution(*grids, torch.tensor(values.src_lens), torch.tensor(values.tgt_lens), end=end)


def possible_lattices(seed, end, **sizes):
    """Like random_lattices, but every pair has a path: -inf is replaced where a pair has none."""
    values = random_lattices(seed, **sizes)
    for b, truth in enumerate(values.enumerate(end)):
        if truth.log_total == -math.inf:
            for g in (values.log_word, values.log_emit, values.log_shift):
                g[b][np.isneginf(g[b])] = -3.0
    return values


@given(seed=SEEDS, end=ENDS)
def test_log_partition_and_posteriors(seed, end):
    values = random_lattices(seed)
    distribution = distribution_of(values, end)
    log_partition, posteriors = distribution.log_partition(), distribution.posteriors()
    for b, truth in enumerate(values.enumerate(end)):
        tgt_len, src_len = values.tgt_lens[b], values.src_lens[b]
        np.testing.assert_allclose(log_partition[b], truth.log_total, rtol=1e-9)
        emit, shift = posteriors.emit[b, :tgt_len, :src_len], posteriors.shift[b, :tgt_len, :src_len]
        np.testing.assert_allclose(emit, truth.expectation(truth.emits), atol=1e-9)
        np.testing.assert_allclose(shift, truth.expectation(truth.shifts), atol=1e-9)


@given(seed=SEEDS, end=ENDS, k=st.integers(1, 7))
def test_kbest_is_the_head_of_the_sorted_enumeration(seed, end, k):
    values = random_lattices(seed)
    for b, (found, truth) in enumerate(zip(distribution_of(values, end).kbest(k), values.enumerate(end), strict=True)):
        scores = dict(zip(truth.alignments, truth.log_scores, strict=True))
        best = sorted((s for s in scores.values() if s > -math.inf), reverse=True)[:k]
        np.testing.assert_allclose([a.log_prob for a in found], best, rtol=1e-9, atol=1e-9)
        assert len({a.positions for a in found}) == len(found), f"pair {b} lists an alignment twice"
        for alignment in found:  # the score is that of the path which is shown
            np.testing.assert_allclose(alignment.log_prob, scores[alignment.positions], rtol=1e-9, atol=1e-9)


@given(seed=SEEDS, end=ENDS)
def test_viterbi_is_the_best_alignment(seed, end):
    values = possible_lattices(seed, end)
    for found, truth in zip(distribution_of(values, end).viterbi(), values.enumerate(end), strict=True):
        np.testing.assert_allclose(found.log_prob, truth.log_scores.max(), rtol=1e-9, atol=1e-9)
        at = truth.alignments.index(found.positions)
        np.testing.assert_allclose(truth.log_scores[at], truth.log_scores.max(), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("end", ["any", "last"])
def test_ties_fall_the_same_way_for_one_and_for_several(end):
    certain = torch.zeros(3, 4, 5)
    lens = torch.tensor([5, 2, 4]), torch.tensor([4, 3, 1])
    distribution = AlignmentDistribution(certain, certain, certain, *lens, end=end)
    assert [best[0] for best in distribution.kbest(3)] == distribution.viterbi()


@given(seed=SEEDS, end=ENDS)
def test_entropy_and_delay(seed, end):
    values = random_lattices(seed)
    distribution = distribution_of(values, end)
    entropy, delay = distribution.entropy(), distribution.expected_delay()
    for b, truth in enumerate(values.enumerate(end)):
        tgt_len = values.tgt_lens[b]
        np.testing.assert_allclose(entropy[b], truth.entropy, atol=1e-7)
        expected = truth.expectation(np.array(truth.alignments, dtype=float) + 1)
        np.testing.assert_allclose(delay[b, :tgt_len], expected, atol=1e-8)
        assert not delay[b, tgt_len:].any()


def finite_lattices(seed, **sizes):
    """Mild lattices without infinities and with clean padding, for derivatives."""
    rng = np.random.default_rng(seed)
    shape = (2, rng.integers(1, 5), rng.integers(1, 5))
    lens = [torch.tensor(rng.integers(1, n + 1, size=2)) for n in (shape[2], shape[1])]
    return [torch.tensor(-rng.exponential(size=shape), requires_grad=True) for _ in range(3)], lens


@settings(max_examples=25)
@given(seed=SEEDS, end=ENDS)
def test_delay_entropy_and_posteriors_are_differentiable(seed, end):
    grids, lens = finite_lattices(seed)

    def answers(*grids):
        distribution = AlignmentDistribution(*grids, *lens, end=end)
        posteriors = distribution.posteriors()
        return distribution.expected_delay(), distribution.entropy(), posteriors.emit, posteriors.shift

    assert torch.autograd.gradcheck(answers, grids)


@given(seed=SEEDS, end=ENDS)
def test_delay_gradient_with_infinities_is_a_covariance(seed, end):
    values = random_lattices(seed)
    distribution = distribution_of(values, end, requires_grad=True)
    distribution.expected_delay().sum().backward()
    grid = distribution.grid
    for b, truth in enumerate(values.enumerate(end)):
        tgt_len, src_len = values.tgt_lens[b], values.src_lens[b]
        cost = (np.array(truth.alignments, dtype=float) + 1).sum(axis=1)
        excess = (cost - truth.expectation(cost))[:, None, None]
        for got, taken in ((grid.log_word.grad, truth.emits), (grid.log_shift.grad, truth.shifts)):
            np.testing.assert_allclose(got[b, :tgt_len, :src_len], truth.expectation(taken * excess), atol=1e-8)


def test_samples_follow_the_posterior():
    values = possible_lattices(11, "any", batch=6, longest=4)
    distribution = distribution_of(values, "any")
    n = 20_000
    samples = distribution.sample(n, generator=torch.Generator().manual_seed(0))
    assert samples.shape == (6, n, values.log_word.shape[1])
    for b, truth in enumerate(values.enumerate("any")):
        drawn = samples[b].numpy()
        assert (drawn[:, values.tgt_lens[b] :] == -1).all()
        counts = dict.fromkeys(truth.alignments, 0)
        for path, count in zip(*np.unique(drawn[:, : values.tgt_lens[b]], axis=0, return_counts=True), strict=True):
            counts[tuple(path.tolist())] = count
        p = truth.probabilities
        frequencies = np.array([counts[a] for a in truth.alignments]) / n
        # Five standard deviations, and nothing at all where the probability is nil.
        assert (np.abs(frequencies - p) <= 5 * np.sqrt(p * (1 - p) / n) + 1e-12).all()


@given(seed=SEEDS, end=ENDS)
def test_samples_are_possible_paths_and_repeat_with_the_seed(seed, end):
    values = possible_lattices(seed, end)
    distribution = distribution_of(values, end)
    first = distribution.sample(8, generator=torch.Generator().manual_seed(seed))
    again = distribution.sample(8, generator=torch.Generator().manual_seed(seed))
    assert torch.equal(first, again)
    for b, truth in enumerate(values.enumerate(end)):
        scores = dict(zip(truth.alignments, truth.log_scores, strict=True))
        for path in first[b, :, : values.tgt_lens[b]].tolist():
            assert scores[tuple(path)] > -math.inf


def test_a_pair_without_a_path():
    grids = [torch.full((2, 2, 3), -1.0, dtype=torch.float64) for _ in range(3)]
    grids[0][1, 0] = -math.inf
    for g in grids:
        g.requires_grad_()
    lens = torch.tensor([3, 3]), torch.tensor([2, 2])
    distribution = AlignmentDistribution(*grids, *lens)
    assert distribution.log_partition()[1] == -math.inf
    assert distribution.kbest(3)[1] == []
    assert len(distribution.kbest(3)[0]) == 3
    for answer in (distribution.entropy(), distribution.expected_delay(), distribution.posteriors().emit):
        assert not answer[1].any()
        for gradient in torch.autograd.grad(answer.sum(), grids, allow_unused=True):
            assert gradient is None or not gradient[1].any()
    for raises in (distribution.viterbi, lambda: distribution.sample(1)):
        with pytest.raises(DataError, match="pair 1 has no possible alignment"):
            raises()


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_improper_values_raise_everywhere(value):
    grids = [torch.full((1, 2, 3), -1.0) for _ in range(3)]
    grids[2][0, 1, 2] = value
    distribution = AlignmentDistribution(*grids, torch.tensor([3]), torch.tensor([2]))
    calls = ["log_partition", "posteriors", "viterbi", "entropy", "expected_delay"]
    for call in [getattr(distribution, name) for name in calls] + [lambda: distribution.sample(1)]:
        with pytest.raises(DataError, match=r"log_shift\[0, 1, 2\] must be a log probability"):
            call()


def test_bad_arguments():
    grids = [torch.full((1, 2, 3), -1.0) for _ in range(3)]
    lens = torch.tensor([3]), torch.tensor([2])
    with pytest.raises(ConfigError, match="end must be one of 'any', 'last', got 'first'"):
        AlignmentDistribution(*grids, *lens, end="first")
    distribution = AlignmentDistribution(*grids, *lens)
    with pytest.raises(ConfigError, match="k must be a whole number of at least 1, got 0"):
        distribution.kbest(0)
    with pytest.raises(ConfigError, match="n must be a whole number of at least 1, got 0"):
        distribution.sample(0)


def test_derivatives_of_derivatives_raise():
    grids, lens = finite_lattices(0)
    delay = AlignmentDistribution(*grids, *lens).expected_delay().sum()
    with pytest.raises(BackendError, match="the alignment posterior can be differentiated once only"):
        torch.autograd.grad(delay, grids[:1], create_graph=True)


def test_autocast_does_not_lower_the_precision():
    grids, lens = finite_lattices(1)
    grids = [g.detach().float() for g in grids]
    distribution = AlignmentDistribution(*grids, *lens)
    plain = distribution.expected_delay(), distribution.entropy()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        cast = distribution.expected_delay(), distribution.entropy()
    for a, b in zip(plain, cast, strict=True):
        assert b.dtype == torch.float32
        assert torch.equal(a, b)


def test_entropy_of_large_scores_in_float32():
    generator = torch.Generator().manual_seed(0)
    word = torch.rand(1, 50, 80, generator=generator, dtype=torch.float64).mul(-3e3).float()
    other = torch.full_like(word, -0.7)
    lens = torch.tensor([80]), torch.tensor([50])
    rough = AlignmentDistribution(word, other, other, *lens).entropy()
    exact = AlignmentDistribution(word.double(), other.double(), other.double(), *lens).entropy()
    torch.testing.assert_close(rough.double(), exact, rtol=1e-5, atol=1e-5)
