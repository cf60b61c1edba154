"""Searches of models whose word logits do not split, against enumeration; their streams, and what these remember."""

from __future__ import annotations

import dataclasses
import io

import numpy as np
import pytest
import torch

from decoding import SRC_VOCAB, all_outputs, check_searches, random_model, random_sources, take
from ssnt.config import ModelConfig
from ssnt.decode import ModelScorer, SearchOptions, StreamOptions, decode, make_scorer, open_streams
from ssnt.decode.align import align
from ssnt.decode.cell_columns import CellColumns
from ssnt.decode.ensemble import EnsembleScorer
from ssnt.decode.joint_network import JointNetworkScorer
from ssnt.decode.marginal import marginal_search
from ssnt.decode.online import online_search
from ssnt.decode.prefix_attention import PrefixAttentionScorer
from ssnt.decode.rows import Growing, join
from ssnt.decode.sample import sample
from ssnt.errors import ModelError
from ssnt.nn import SSNT, build_model
from ssnt.pipeline import Transducer
from ssnt.types import EOS_ID, Batch
from transducers import make_config, make_vocabulary

LENGTHS = [4, 1, 3, 2]
EVERY = pytest.mark.parametrize("architecture", ["prefix-attention", "joint-network"])


def make(architecture: str, seed: int = 0, *, vocab: int = 4, scale: float = 3.0, **settings) -> SSNT:
    torch.manual_seed(seed)
    sizes = {"src_vocab_size": SRC_VOCAB, "tgt_vocab_size": vocab, "embed_size": 4, "hidden_size": 5}
    settings = {"architecture": architecture, "bidirectional": False, **sizes, **settings}
    model = build_model(ModelConfig(**settings)).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(scale)
    model.prepare([4, 3], [3, 3])
    assert isinstance(model, SSNT)
    return model


@EVERY
@pytest.mark.parametrize("end", ["any", "last"])
@pytest.mark.parametrize("settings", [{}, {"bidirectional": True}, {"transition": "geometric"}])
def test_searches_find_what_enumeration_finds(architecture, end, settings):
    for seed in range(3):
        check_searches(make(architecture, seed, **settings), random_sources(seed, LENGTHS), end)


@EVERY
@pytest.mark.parametrize("end", ["any", "last"])
def test_online_search_finds_what_enumeration_finds(architecture, end):
    for seed in range(3):
        model, batch = make(architecture, seed), random_sources(seed, LENGTHS)
        options = SearchOptions(beam=200, max_length=3, nbest=5, end=end)
        found = online_search(make_scorer(model), batch, options, max_emissions=3)
        for b, hypotheses in enumerate(found):
            truth = all_outputs([model], take(batch, b), 3, end)
            assert [h.symbols for h in hypotheses] == [t.symbols for t in truth[:5]]
            np.testing.assert_allclose([h.log_prob for h in hypotheses], [t.log_prob for t in truth[:5]], atol=1e-9)


@EVERY
@pytest.mark.parametrize("chunk_bytes", [1, 700, 1 << 20])
@pytest.mark.parametrize("kept_bytes", [0, 1 << 20])
def test_columns_are_the_same_in_chunks_and_kept_or_not(architecture, chunk_bytes, kept_bytes):
    model, batch = make(architecture, 4, vocab=6), random_sources(4, LENGTHS)
    scorer = make_scorer(model)
    source = scorer.read(batch)
    items = torch.arange(4).repeat_interleave(3)
    state = scorer.advance(source, scorer.start(source), items, items, torch.arange(12) % 6)
    live = torch.ones(4, 3, dtype=torch.bool)
    live[1, 2] = False
    whole = scorer.columns(source, state, live)
    decisions = model.transition.log_grid_from(source.transition, state.of_sources(source))
    parts = CellColumns(whole._logits, decisions, source, live, chunk_bytes, kept_bytes)
    assert (parts.log_emit[1, 2] == -torch.inf).all()
    weights = torch.randn(4, 3, 4, dtype=torch.float64)
    prefixes, symbols = torch.tensor([[2, 0, 1, 1]] * 4), torch.randint(6, (4, 4))
    rows, positions = torch.tensor([11, 0, 5, 5, 7]), torch.tensor([1, 3, 0, 2, 0])
    asked = [
        (one.log_mixture(weights), one.log_word(prefixes, symbols), one.log_words(rows, positions))
        for one in (whole, parts)
    ]
    for one, other in zip(*asked, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)
    every = torch.cat([parts.log_words(torch.full((4,), row), torch.arange(4))[None] for row in range(12)])
    torch.testing.assert_close(asked[1][0].flatten(0, 1), (every + weights.flatten(0, 1)[..., None]).logsumexp(1))
    best = parts.log_top(rows, positions, torch.tensor([EOS_ID]), 2)
    expected = asked[0][2].clone()
    expected[:, EOS_ID] = -torch.inf
    torch.testing.assert_close(best.log_probs, expected.topk(2, dim=1).values)


def push_all(streams, sources):
    """Pushes sources of different lengths into streams, unevenly, and returns all that is committed, and the rest."""
    written = [[] for _ in sources]
    left = [list(source) for source in sources]
    generator = np.random.default_rng(0)
    while any(left):
        symbols = [one.pop(0) if one and generator.random() < 0.6 else None for one in left]
        for mine, update in zip(written, streams.push(symbols), strict=True):
            mine.extend(update.committed)
    return written


@EVERY
@pytest.mark.parametrize("end", ["any", "last"])
def test_streams_write_what_online_search_finds(architecture, end):
    model, batch = make(architecture, 5, vocab=6), random_sources(5, [7, 3, 1, 9])
    scorer = make_scorer(model)
    expected = online_search(scorer, batch, SearchOptions(beam=4, max_length_ratio=100.0, end=end))
    streams = open_streams(scorer, 4, StreamOptions(beam=4, end=end))
    sources = [batch.src[b, : length - 1].tolist() for b, length in enumerate(batch.src_lens.tolist())]
    written = push_all(streams, sources)
    for b, hypotheses in enumerate(streams.finish()):
        assert (*written[b], *hypotheses[0].symbols) == expected[b][0].symbols
        assert hypotheses[0].log_prob == pytest.approx(expected[b][0].log_prob, abs=1e-9)


@EVERY
def test_a_stream_goes_on_from_what_was_saved(architecture):
    model, source = make(architecture, 6, vocab=6), random_sources(6, [9]).src[0, :-1].tolist()
    scorer = make_scorer(model)
    first, second = (open_streams(scorer, 1, StreamOptions(beam=3)) for _ in range(2))
    for symbol in source[:5]:
        first.push([symbol])
    file = io.BytesIO()
    torch.save(first.state_dict(), file)
    file.seek(0)
    second.push([source[0]])  # what it has read is forgotten
    second.load_state_dict(torch.load(file, weights_only=True))
    for symbol in source[5:]:
        assert first.push([symbol]) == second.push([symbol])
    one, other = first.finish()[0][0], second.finish()[0][0]
    assert (one.symbols, one.log_prob) == (other.symbols, other.log_prob)


def test_a_stream_of_a_joint_network_remembers_no_more_as_it_reads():
    scorer = make_scorer(make("joint-network", 6))
    hearing = scorer.listen(2)
    sizes = []
    for _ in range(3):
        _, hearing = scorer.hear(torch.tensor([4, 5]), hearing)
        sizes.append([one.numel() for one in (hearing.encoder.hidden, hearing.encoder.cell)])
    assert sizes[0] == sizes[2]
    assert {field.name for field in dataclasses.fields(hearing)} == {"encoder", "condition"}


@EVERY
def test_columns_are_those_of_training_under_autocast(architecture):
    model, batch = make(architecture, 4, vocab=6).float(), random_sources(4, [4])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        scorer = make_scorer(model)
        source = scorer.read(batch)
        columns = scorer.columns(source, scorer.start(source))
        found = columns.log_word(torch.zeros(1, 6, dtype=torch.int64), torch.arange(6)[None])
        empty = model.decoder(torch.zeros(1, 1, dtype=torch.int64))
        for symbol in range(6):
            tgt = torch.tensor([[symbol]])
            expected = model.word.log_grid(source.states, empty, tgt, batch.src_lens, torch.tensor([1]))
            torch.testing.assert_close(found[0, symbol], expected[0, 0], rtol=1e-5, atol=1e-5)


def test_a_stream_refuses_what_another_model_has_read():
    first = open_streams(make_scorer(make("prefix-attention", 6, vocab=6)), 1, StreamOptions(beam=3))
    first.push([4])
    fewer_words, without_attention = make("prefix-attention", 6, vocab=5), random_model(6, vocab=6)
    for other in (fewer_words, without_attention):
        with pytest.raises(ModelError, match="do not fit"):
            open_streams(make_scorer(other), 1, StreamOptions(beam=3)).load_state_dict(first.state_dict())


def test_rows_that_grow():
    rows = Growing(torch.zeros(2, 0, 1), torch.zeros(2, dtype=torch.int64))
    rows = rows.with_one_more(torch.tensor([[1.0], [2.0]]))
    longer = rows.with_one_more(torch.tensor([[3.0], [4.0]]))
    assert rows.values.flatten().tolist() == [1.0, 2.0]  # unchanged
    both = join((rows, longer), torch.tensor([3, 0]))
    assert both.lens.tolist() == [2, 1]
    assert both.with_one_more(torch.tensor([[5.0], [6.0]])).values[..., 0].tolist() == [
        [2.0, 4.0, 5.0],
        [1.0, 6.0, 0.0],
    ]


@EVERY
def test_samples_alignments_and_ensembles(architecture):
    model, batch = make(architecture, 8), random_sources(8, [3, 2])
    scorer = make_scorer(model)
    for row in sample(scorer, batch, 20, SearchOptions(max_length=3), seed=1):
        assert len({h.symbols for h in row}) > 1
    pair = Batch(batch.src[:1], batch.src_lens[:1], torch.tensor([[3, EOS_ID]]), torch.tensor([2]))
    (truth,) = (t for t in all_outputs([model], take(batch, 0), 1) if t.symbols == (3,))
    (aligned,) = align(scorer, pair)
    assert aligned.path.positions == truth.path
    other = random_model(9)
    ensemble = EnsembleScorer([model, other])
    found = marginal_search(ensemble, batch, SearchOptions(beam=200, max_length=3, nbest=3))
    online = online_search(ensemble, batch, SearchOptions(beam=200, max_length=3, nbest=3))
    for b in range(2):
        truth = all_outputs([model, other], take(batch, b), 3)
        for hypotheses in (found[b], online[b]):
            assert [h.symbols for h in hypotheses] == [t.symbols for t in truth[:3]]


@EVERY
def test_tags_reach_streams(architecture):
    model = make(architecture, 10, feature_vocab_size=5, feature_size=3)
    source = random_sources(10, [4])
    tags = torch.tensor([[1, 3]])
    batch = Batch(source.src, source.src_lens, features=tags)
    scorer = make_scorer(model)
    expected = online_search(scorer, batch, SearchOptions(beam=3, max_length_ratio=100.0, end="last"))[0][0]
    streams = open_streams(scorer, 1, StreamOptions(beam=3), features=tags)
    written = push_all(streams, [source.src[0, :-1].tolist()])[0]
    assert (*written, *streams.finish()[0][0].symbols) == expected.symbols


@EVERY
def test_the_plain_scorer_refuses_it(architecture):
    model, batch = make(architecture), random_sources(0, [3])
    scorer = ModelScorer(model)
    source = scorer.read(batch)
    with pytest.raises(ModelError, match="make_scorer"):
        scorer.columns(source, scorer.start(source))
    with pytest.raises(ModelError, match="PrefixAttentionSSNT"):
        PrefixAttentionScorer(random_model(0))
    with pytest.raises(ModelError, match="JointNetworkSSNT"):
        JointNetworkScorer(random_model(0))
    with pytest.raises(ModelError, match="one symbol at a time"):
        make_scorer(make(architecture, bidirectional=True)).listen(1)
    assert decode(model, [[4, 5]], search="online")[0][0].is_complete


@EVERY
@pytest.mark.parametrize("settings", [{}, {"bidirectional": True}, {"tie_target_embedding": True, "embed_size": 6}])
def test_a_model_directory_gives_the_same_model_back(architecture, tmp_path, settings):
    vocabulary, config = make_vocabulary(), make_config(architecture=architecture, **settings)
    model = build_model(ModelConfig(**config.model.model_dump(), **vocabulary.model_sizes())).eval()
    before = Transducer(model, vocabulary, config, {"scores": {"dev": []}, "data": {}})
    before.save_pretrained(tmp_path / "model")
    after = Transducer.from_pretrained(tmp_path / "model")
    assert type(after.model) is type(model)
    for one, other in zip(before.transduce(["abc", "fed"]), after.transduce(["abc", "fed"]), strict=True):
        assert (one.text, one.log_prob) == (other.text, other.log_prob)


@EVERY
@pytest.mark.parametrize("search", ["marginal", "path", "online"])
def test_a_search_goes_on_under_autocast(architecture, search):
    model = make(architecture, 3).float()
    options = SearchOptions(beam=3, max_length=4, nbest=2)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = decode(model, [[3, 4, 3], [4]], search, options)
    for ours, expected in zip(found, decode(model, [[3, 4, 3], [4]], search, options), strict=True):
        assert ours[0].log_prob == pytest.approx(expected[0].log_prob, abs=0.2)
