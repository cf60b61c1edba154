"""Marginal search, sampling and ensembles against full enumeration."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
import torch

from decoding import VARIANTS, all_outputs, random_model, random_sources, take
from ssnt.decode import ModelScorer, SearchOptions
from ssnt.decode.columns import FactoredSource, LogDecisions, ModelColumns, SourceWords
from ssnt.decode.ensemble import EnsembleScorer
from ssnt.decode.marginal import marginal_search
from ssnt.decode.sample import sample
from ssnt.dp import AlignmentDistribution
from ssnt.errors import ConfigError, ModelError

LENGTHS = [4, 1, 3, 2]
WIDE = {"beam": 200, "max_length": 3}


def close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("end", ["any", "last"])
@pytest.mark.parametrize("seed", range(4))
def test_a_wide_beam_finds_what_enumeration_finds(variant, end, seed):
    model = random_model(seed, variant)
    batch = random_sources(seed, LENGTHS)
    found = marginal_search(ModelScorer(model), batch, SearchOptions(**WIDE, nbest=6, end=end))
    for b, hypotheses in enumerate(found):
        truth = all_outputs([model], take(batch, b), 3, end)
        assert [h.symbols for h in hypotheses] == [t.symbols for t in truth[:6]]
        close([h.log_prob for h in hypotheses], [t.log_prob for t in truth[:6]])
        for hypothesis, scored in zip(hypotheses, truth, strict=False):
            assert hypothesis.is_complete
            close(hypothesis.alignment.log_prob, scored.log_path)
            assert hypothesis.delays == tuple(i + 1 for i in hypothesis.alignment.positions)
            assert hypothesis.emit.shape == (len(hypothesis.symbols) + 1, LENGTHS[b])
            close(hypothesis.emit.sum(dim=1), 1.0)


def test_the_best_path_may_belong_to_another_output():
    differing = 0
    for seed in range(30):
        model, batch = random_model(seed), random_sources(seed, [4])
        truth = all_outputs([model], batch, 3)
        best_path = max(truth, key=lambda t: t.log_path)
        found = marginal_search(ModelScorer(model), batch, SearchOptions(**WIDE))[0][0]
        assert found.symbols == truth[0].symbols
        differing += best_path.symbols != found.symbols
    assert differing > 0


@pytest.mark.parametrize("beam", [1, 2, 5])
def test_batched_equals_one_at_a_time(beam):
    model = random_model(5, "biSSNT+", vocab=9)
    batch = random_sources(5, [6, 1, 4, 5, 2, 6])
    options = SearchOptions(beam=beam, nbest=beam, max_length=7)
    together = marginal_search(ModelScorer(model), batch, options)
    for b, hypotheses in enumerate(together):
        (alone,) = marginal_search(ModelScorer(model), take(batch, b), options)
        assert [h.symbols for h in alone] == [h.symbols for h in hypotheses]
        close([h.log_prob for h in alone], [h.log_prob for h in hypotheses])


def test_scores_are_exact_whatever_the_beam():
    model, batch = random_model(6, vocab=9), random_sources(6, [5, 3])
    for b, hypotheses in enumerate(marginal_search(ModelScorer(model), batch, SearchOptions(beam=3, nbest=3))):
        for hypothesis in hypotheses:
            from decoding import grid_of

            (grid,) = grid_of([model], take(batch, b), [hypothesis.symbols])
            close(hypothesis.log_prob, AlignmentDistribution.of(grid).log_partition().item())


def test_a_wider_beam_is_no_worse():
    model, batch = random_model(7, vocab=9), random_sources(7, [5, 6, 4])
    before = [-math.inf] * 3
    for beam in (1, 4, 16, 64):
        best = [
            h[0].log_prob for h in marginal_search(ModelScorer(model), batch, SearchOptions(beam=beam, max_length=5))
        ]
        assert all(now >= was - 1e-9 for now, was in zip(best, before, strict=True))
        before = best


def test_length_normalisation_ranks_by_score():
    model, batch = random_model(8), random_sources(8, [4])
    options = SearchOptions(**WIDE, nbest=5, length_normalisation=1.0)
    found = marginal_search(ModelScorer(model), batch, options)[0]
    truth = sorted(all_outputs([model], batch, 3), key=lambda t: -t.log_prob / (len(t.symbols) + 1))
    assert [h.symbols for h in found] == [t.symbols for t in truth[:5]]
    close([h.score for h in found], [t.log_prob / (len(t.symbols) + 1) for t in truth[:5]])


def test_banned_symbols_and_forced_prefixes():
    model, batch = random_model(9), random_sources(9, [4])
    truth = all_outputs([model], batch, 3)
    found = marginal_search(ModelScorer(model), batch, SearchOptions(**WIDE, nbest=4, banned=(3,)))[0]
    assert [h.symbols for h in found] == [t.symbols for t in truth if 3 not in t.symbols][:4]
    found = marginal_search(ModelScorer(model), batch, SearchOptions(**WIDE, nbest=4, prefix=(0, 3)))[0]
    assert [h.symbols for h in found] == [t.symbols for t in truth if t.symbols[:2] == (0, 3)][:4]


def test_what_cannot_end_in_time_is_marked():
    model, batch = random_model(10), random_sources(10, [4])
    with torch.no_grad():
        model.word.bias[2] = -math.inf  # the end symbol is impossible
    found = marginal_search(ModelScorer(model), batch, SearchOptions(beam=4, nbest=2, max_length=3))[0]
    assert len(found) == 2
    assert all(not h.is_complete and len(h.symbols) == 3 and len(h.alignment.positions) == 3 for h in found)
    empty = marginal_search(ModelScorer(model), batch, SearchOptions(beam=4, max_length=0))[0]
    assert [h.symbols for h in empty] == [()]


def test_thresholds_only_drop():
    model, batch = random_model(11, vocab=6), random_sources(11, [5])
    full = marginal_search(ModelScorer(model), batch, SearchOptions(beam=50, nbest=50, max_length=3))[0]
    bounded = marginal_search(
        ModelScorer(model), batch, SearchOptions(beam=50, nbest=50, max_length=3, min_log_prob=full[4].log_prob - 1e-9)
    )[0]
    assert [h.symbols for h in bounded] == [h.symbols for h in full[:5]]
    narrow = marginal_search(
        ModelScorer(model), batch, SearchOptions(beam=50, nbest=50, max_length=3, beam_threshold=0.0)
    )[0]
    assert len(narrow) < len(full)


@pytest.mark.usefixtures("denormals")
def test_large_vocabularies_with_disjoint_peaks():
    model, batch = random_model(12, vocab=40, scale=60.0), random_sources(12, [4, 3])
    model32 = random_model(12, vocab=40, scale=60.0).float()
    exact = marginal_search(ModelScorer(model), batch, SearchOptions(beam=4, max_length=6))
    rough = marginal_search(ModelScorer(model32), batch, SearchOptions(beam=4, max_length=6))
    for a, b in zip(exact, rough, strict=True):
        assert a[0].symbols == b[0].symbols
        np.testing.assert_allclose(a[0].log_prob, b[0].log_prob, rtol=1e-3, atol=1e-2)


@pytest.mark.usefixtures("denormals")
@pytest.mark.parametrize("seed", range(20))
def test_symbols_that_underflow_in_float32_are_not_lost(seed):
    batch = random_sources(seed, [4])
    model, model32 = (random_model(seed, vocab=6, scale=40.0) for _ in range(2))
    with torch.no_grad():
        for either in (model, model32):
            either.word.bias[2] -= 300.0  # so that ending at once is not the likeliest
    source, source32 = (ModelScorer(m).read(batch) for m in (model, model32.float()))
    for scorer, own in ((ModelScorer(model), source), (ModelScorer(model32), source32)):
        columns = scorer.columns(own, scorer.start(own))
        log_weights = torch.zeros(1, 1, 4, dtype=columns.log_emit.dtype)
        words = columns.log_words(torch.zeros(4, dtype=torch.int64), torch.arange(4))
        np.testing.assert_allclose(
            columns.log_mixture(log_weights)[0, 0].detach(), words.logsumexp(0).detach(), rtol=1e-4, atol=1e-4
        )


@pytest.mark.usefixtures("denormals")
@pytest.mark.parametrize("lower", [0.0, 80.0, 87.0, 95.0, 103.0, 200.0, 1000.0])
def test_a_symbol_that_a_cell_of_its_own_gives_little_is_not_lost(lower):
    # at the second position the sum over the vocabulary underflows in float32, and the last symbol is far below it
    source_logits = torch.tensor([[[0.0, -60.0, 0.0], [-200.0, 0.0, 0.0]]])
    prefix_logits = torch.tensor([[[0.0, -80.0, -80.0 - lower]]])
    half = torch.full((1, 1, 2), math.log(0.5))
    source = FactoredSource(torch.tensor([2]), SourceWords.of(source_logits))
    columns = ModelColumns(source, prefix_logits, lambda _: LogDecisions(half, half))
    exact = (source_logits.double() + prefix_logits.double()[:, 0, None]).log_softmax(-1).logsumexp(1) + math.log(0.5)
    torch.testing.assert_close(columns.log_mixture(half)[0], exact.float(), rtol=1e-5, atol=1e-4)


def test_top_k_breaks_ties():
    model, batch = random_model(0), random_sources(0, [3])
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()  # every symbol is as likely as the next
    drawn = sample(ModelScorer(model), batch, 50, SearchOptions(max_length=2), top_k=1)
    assert len({h.symbols for h in drawn[0]}) == 1


@pytest.mark.parametrize("end", ["any", "last"])
def test_an_ensemble_averages_probabilities(end):
    models = [random_model(seed, variant) for seed, variant in ((1, "uniSSNT+"), (2, "biSSNT+"), (3, "biSSNT"))]
    batch = random_sources(13, LENGTHS)
    scorer = EnsembleScorer([ModelScorer(model) for model in models])
    found = marginal_search(scorer, batch, SearchOptions(**WIDE, nbest=4, end=end))
    for b, hypotheses in enumerate(found):
        truth = all_outputs(models, take(batch, b), 3, end)
        assert [h.symbols for h in hypotheses] == [t.symbols for t in truth[:4]]
        close([h.log_prob for h in hypotheses], [t.log_prob for t in truth[:4]])
    assert not scorer.is_streaming


def test_an_ensemble_of_unlike_models_is_refused():
    with pytest.raises(ModelError, match="at least one model"):
        EnsembleScorer([])
    with pytest.raises(ModelError, match=r"one target vocabulary, got sizes \[4, 5\]"):
        EnsembleScorer([ModelScorer(random_model(0)), ModelScorer(random_model(0, vocab=5))])


def sampling_probability(model, source, symbols, longest, temperature=1.0):
    """The chance of drawing an output: a product of normalised marginal masses."""
    from decoding import grid_of

    def log_prefix_mass(prefix):
        grid = grid_of([model], source, [prefix])[0]
        rows = len(prefix)
        values = [g[:, :rows] for g in (grid.log_word, grid.log_emit, grid.log_shift)]
        lens = grid.src_lens, torch.tensor([rows])
        return AlignmentDistribution(*values, *lens).log_partition().item()

    chance = 1.0
    for j in range(len(symbols) + 1):
        options = {}
        for v in range(model.config.tgt_vocab_size):
            if v == 2 or len(symbols[:j]) < longest:
                options[v] = log_prefix_mass((*symbols[:j], v)) / temperature
        total = np.logaddexp.reduce(list(options.values()))
        chance *= math.exp(options[[*symbols, 2][j]] - total)
    return chance


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_samples_follow_the_marginal_distribution(temperature):
    model, batch = random_model(14, scale=2.0), random_sources(14, [3, 2])
    n = 4000
    drawn = sample(ModelScorer(model), batch, n, SearchOptions(max_length=2), temperature=temperature, seed=1)
    for b, hypotheses in enumerate(drawn):
        counts = Counter(h.symbols for h in hypotheses)
        for scored in all_outputs([model], take(batch, b), 2):
            p = sampling_probability(model, take(batch, b), scored.symbols, 2, temperature)
            assert abs(counts[scored.symbols] / n - p) <= 5 * math.sqrt(p * (1 - p) / n) + 1e-9
        for hypothesis in hypotheses[:5]:
            assert hypothesis.is_complete


def test_sampling_repeats_with_its_seed_and_obeys_its_options():
    model, batch = random_model(15, vocab=8), random_sources(15, [5, 3])
    scorer = ModelScorer(model)
    first, again, other = (sample(scorer, batch, 20, seed=seed) for seed in (3, 3, 4))
    assert [h.symbols for row in first for h in row] == [h.symbols for row in again for h in row]
    assert [h.symbols for row in first for h in row] != [h.symbols for row in other for h in row]
    greedy = sample(scorer, batch, 3, top_k=1)
    assert all(len({h.symbols for h in row}) == 1 for row in greedy)
    forced = sample(scorer, batch, 10, SearchOptions(prefix=(5, 6), banned=(4,)))
    assert all(h.symbols[:2] == (5, 6) and 4 not in h.symbols for row in forced for h in row)
    with pytest.raises(ConfigError, match="temperature must be a number above 0, got 0"):
        sample(scorer, batch, 1, temperature=0)
    with pytest.raises(ConfigError, match="top_k must be a whole number of at least 1, got 0"):
        sample(scorer, batch, 1, top_k=0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"beam": 0}, "beam must be a whole number of at least 1, got 0"),
        ({"nbest": 9}, r"nbest must be at most beam \(8\), got 9; widen the beam"),
        ({"max_length": -1}, "max_length must be a whole number of at least 0, got -1"),
        ({"max_length_ratio": math.nan}, "max_length_ratio must be at least 0, got nan"),
        ({"length_normalisation": -1.0}, "length_normalisation must be at least 0, got -1.0"),
        ({"beam_threshold": -1.0}, "beam_threshold must be at least 0, got -1.0"),
        ({"min_log_prob": 1.0}, "min_log_prob must be at most 0, got 1.0"),
        ({"end": "first"}, "end must be one of 'any', 'last', got 'first'"),
        ({"prefix": (2,)}, "prefix must not hold the end symbol"),
        ({"banned": (2,)}, "banned must not hold the end symbol"),
        ({"prefix": 5}, "prefix must be a tuple of symbols, which are whole numbers, got 5"),
        ({"banned": "ab"}, "banned must be a tuple of symbols, which are whole numbers, got 'ab'"),
        ({"prefix": (3,), "banned": (3,)}, r"prefix and banned must not share symbols, got \[3\] in both"),
    ],
)
def test_wrong_options_are_named(options, message):
    with pytest.raises(ConfigError, match=message):
        SearchOptions(**options)


@pytest.mark.parametrize("narrow", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("variant", VARIANTS)
def test_words_are_normalised_in_float32_under_autocast(variant, narrow):
    model = random_model(5, variant, vocab=30).float()
    scorer, batch = ModelScorer(model), random_sources(5, LENGTHS)
    with torch.no_grad(), torch.autocast("cpu", dtype=narrow):
        source = scorer.read(batch)
        columns = scorer.columns(source, scorer.start(source))
        mixture = columns.log_mixture(torch.full((4, 1, 4), -math.log(4)))
    assert mixture.dtype == torch.float32
    np.testing.assert_allclose(mixture.exp().sum(dim=2), 1.0, rtol=1e-5)


@pytest.mark.parametrize("narrow", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("scale", [1.0, 1e6])
def test_a_search_under_autocast_is_close_to_one_without(narrow, scale):
    model, batch = random_model(6, "biSSNT+").float(), random_sources(6, LENGTHS)
    model.word.src_weight.data *= scale  # logits that float16 cannot hold, and whose exponentials vanish
    options = SearchOptions(**WIDE)
    with torch.autocast("cpu", dtype=narrow):
        found = marginal_search(ModelScorer(model), batch, options)
    for (one,), (exact,) in zip(found, marginal_search(ModelScorer(model), batch, options), strict=True):
        assert math.isfinite(one.log_prob)
        if scale == 1.0:
            assert one.log_prob == pytest.approx(exact.log_prob, abs=0.02)
