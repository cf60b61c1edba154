"""Searches with models that have no alignment, against enumeration of all outputs, in float64."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch.nn.utils.rnn import pad_sequence

from decoding import random_model, random_sources, take
from ssnt.config import ModelConfig
from ssnt.decode import (
    EnsembleScorer,
    ModelScorer,
    SearchOptions,
    align,
    copy_unknowns,
    decode,
    make_scorer,
    marginal_search,
    online_search,
    open_streams,
    path_search,
    sample,
)
from ssnt.decode.one_column import OneColumnScorer
from ssnt.errors import ModelError
from ssnt.nn import build_model
from ssnt.types import EOS_ID, UNK_ID, Alignment, Batch, Hypothesis

KINDS = [("seq2seq", "luong"), ("attention", "bahdanau"), ("attention", "luong"), ("adapted-seq2seq", "luong")]
VOCAB, LONGEST = 5, 3
OPTIONS = SearchOptions(beam=400, nbest=12, max_length=LONGEST)


def encoder_decoder(seed: int, architecture: str, attention: str = "luong", **settings):
    torch.manual_seed(seed)
    sizes = {"src_vocab_size": 6, "tgt_vocab_size": VOCAB, "embed_size": 4, "hidden_size": 5}
    config = ModelConfig(**sizes, architecture=architecture, attention=attention, **settings)
    model = build_model(config).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3.0)
    return model


def all_outputs() -> list[tuple[int, ...]]:
    symbols = [symbol for symbol in range(VOCAB) if symbol != EOS_ID]
    return [one for length in range(LONGEST + 1) for one in itertools.product(symbols, repeat=length)]


def log_words(model, source: Batch, outputs: list[tuple[int, ...]]) -> list[list[float]]:
    """The log probability of each symbol of each output, the end symbol included."""
    lens = torch.tensor([len(symbols) + 1 for symbols in outputs])
    tgt = pad_sequence([torch.tensor([*symbols, EOS_ID]) for symbols in outputs], batch_first=True)
    count = len(outputs)
    with torch.no_grad():
        grid = model.grid(Batch(source.src.expand(count, -1), source.src_lens.expand(count), tgt, lens))
    return [row[:length].tolist() for row, length in zip(grid.log_word[..., 0], lens, strict=True)]


@pytest.mark.parametrize(("architecture", "attention"), KINDS)
def test_a_wide_beam_finds_the_best_outputs_of_all(architecture: str, attention: str):
    sources, outputs = random_sources(3, [4, 1, 3]), all_outputs()
    for seed, bidirectional in ((0, True), (1, False)):
        model = encoder_decoder(seed, architecture, attention, bidirectional=bidirectional, decoder_layers=2)
        found = marginal_search(make_scorer(model), sources, OPTIONS)
        for b, hypotheses in enumerate(found):
            alone = take(sources, b)
            scored = {y: math.fsum(words) for y, words in zip(outputs, log_words(model, alone, outputs), strict=True)}
            expected = sorted(scored, key=lambda y: -scored[y])[:12]
            assert [one.symbols for one in hypotheses] == expected
            for one in hypotheses:
                assert one.log_prob == pytest.approx(scored[one.symbols])
                assert one.alignment == Alignment((), one.log_prob)
                assert one.delays == (int(sources.src_lens[b]),) * (len(one.symbols) + 1)
                assert one.emit is None


@pytest.mark.parametrize(("architecture", "attention"), KINDS)
def test_a_batch_is_searched_as_each_source_alone(architecture: str, attention: str):
    model, sources = encoder_decoder(2, architecture, attention), random_sources(5, [5, 2, 3, 1])
    for options in (SearchOptions(beam=1), SearchOptions(beam=3, nbest=2), SearchOptions(beam=4, end="last")):
        together = marginal_search(make_scorer(model), sources, options)
        for b, hypotheses in enumerate(together):
            (alone,) = marginal_search(make_scorer(model), take(sources, b), options)
            assert [one.symbols for one in alone] == [one.symbols for one in hypotheses]
            assert [one.log_prob for one in alone] == pytest.approx([one.log_prob for one in hypotheses])


def test_outputs_may_be_as_long_as_the_source_allows():
    """The limit is by the length of the source, not by that of the lattice."""
    model = encoder_decoder(0, "seq2seq")
    with torch.no_grad():
        model.word.bias[EOS_ID] = -math.inf
    sources = random_sources(1, [9, 3])
    options = SearchOptions(beam=2, max_length_ratio=2.0, max_length_margin=1)
    found = marginal_search(make_scorer(model), sources, options)
    assert [len(one[0].symbols) for one in found] == [19, 7]
    assert not found[0][0].is_complete
    drawn = sample(make_scorer(model), sources, 2, options)
    assert [len(one.symbols) for draws in drawn for one in draws] == [19, 19, 7, 7]


def test_samples_have_their_exact_probabilities():
    for architecture, attention in KINDS:
        model, sources = encoder_decoder(4, architecture, attention), random_sources(2, [3, 2])
        for b, draws in enumerate(sample(make_scorer(model), sources, 40, SearchOptions(max_length=20), seed=1)):
            for one in {draw.symbols: draw for draw in draws if draw.is_complete}.values():
                (words,) = log_words(model, take(sources, b), [one.symbols])
                assert one.log_prob == pytest.approx(math.fsum(words))
            assert all(draw.alignment.positions == () for draw in draws)


def test_ensembles_average_the_probabilities_of_symbols():
    models = [encoder_decoder(seed, *kind) for seed, kind in enumerate(KINDS)]
    sources = random_sources(6, [4, 2])
    found = marginal_search(EnsembleScorer(models), sources, OPTIONS)
    for b, hypotheses in enumerate(found):
        tables = [log_words(model, take(sources, b), all_outputs()) for model in models]
        scored = {}
        for y, rows in zip(all_outputs(), zip(*tables, strict=True), strict=True):
            means = [sum(map(math.exp, each)) / len(models) for each in zip(*rows, strict=True)]
            scored[y] = math.fsum(map(math.log, means))
        assert [one.symbols for one in hypotheses] == sorted(scored, key=lambda y: -scored[y])[:12]
        assert hypotheses[0].log_prob == pytest.approx(scored[hypotheses[0].symbols])
        assert hypotheses[0].alignment.positions == ()


def test_models_with_and_without_alignments_do_not_mix():
    plain = encoder_decoder(0, "seq2seq")
    with pytest.raises(
        ModelError, match=r"members: expected models with an alignment.* got both.*MarginalisedScorer\("
    ):
        EnsembleScorer([plain, random_model(0, vocab=VOCAB)])
    assert not EnsembleScorer([plain]).has_alignment
    assert EnsembleScorer([random_model(0)]).has_alignment


@pytest.mark.parametrize("architecture", ["seq2seq", "attention", "adapted-seq2seq"])
def test_what_needs_an_alignment_is_refused(architecture: str):
    model = encoder_decoder(0, architecture, bidirectional=False)
    scorer, batch = make_scorer(model), random_sources(0, [3])
    pair = Batch(batch.src, batch.src_lens, batch.src, batch.src_lens)
    for what, refused in (
        ("align", lambda: align(scorer, pair)),
        ("path search", lambda: path_search(scorer, batch)),
        ("online search", lambda: online_search(scorer, batch)),
        ("stream", lambda: open_streams(scorer)),
        ("search='path'", lambda: decode(model, [[4]], "path")),
        ("search='online'", lambda: decode(EnsembleScorer([model]), [[4]], "online")),
    ):
        with pytest.raises(ModelError, match=f"^{what}: expected a model with an alignment"):
            refused()


def test_scorers_are_chosen_by_the_model():
    assert isinstance(make_scorer(random_model(0)), ModelScorer)
    assert isinstance(make_scorer(encoder_decoder(0, "seq2seq")), OneColumnScorer)
    with pytest.raises(ModelError, match=r"model: expected an ssnt\.nn\.Model, such as an SSNT, got dict"):
        make_scorer({})
    with pytest.raises(ModelError, match="model: expected an EncoderDecoder, such as a Seq2Seq, got SSNT"):
        OneColumnScorer(random_model(0))
    with pytest.warns(UserWarning, match="training mode"):
        make_scorer(encoder_decoder(0, "seq2seq", output_dropout=0.5).train()).read(random_sources(0, [3]))


def test_single_cells_are_those_of_the_column():
    model, sources = encoder_decoder(0, "attention"), random_sources(0, [3, 2])
    scorer = make_scorer(model)
    source = scorer.read(sources)
    columns = scorer.columns(source, scorer.start(source), torch.tensor([[True], [False]]))
    rows = torch.tensor([1, 0])
    words = columns.log_words(rows, torch.zeros(2, dtype=torch.int64))
    torch.testing.assert_close(words.exp().sum(dim=1), torch.ones(2).double())
    torch.testing.assert_close(columns.log_mixture(source.log_start(1))[:, 0], words[[1, 0]])
    assert columns.log_emit.flatten().tolist() == [0.0, -math.inf]
    blocked = torch.tensor([int(words[0].argmax())])
    top = columns.log_top(rows, torch.zeros(2, dtype=torch.int64), blocked, 2)
    assert blocked.item() not in top.symbols[0]
    torch.testing.assert_close(top.log_probs[:, 0], words.index_fill(1, blocked, -math.inf).amax(dim=1))


def test_unknown_symbols_are_copied_from_given_positions_only():
    hypothesis = Hypothesis((UNK_ID, 4, UNK_ID), -1.0, -1.0, Alignment((), -1.0), (3, 3, 3, 3))
    names = ["", "", "", "<unk>", "b"]
    assert copy_unknowns(hypothesis, ["x", "y"], names) == ["<unk>", "b", "<unk>"]
    assert copy_unknowns(hypothesis, ["x", "y"], names, (1, 0, 2, 2)) == ["y", "b", "<unk>"]
