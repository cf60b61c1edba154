"""The RNN transducer against one softmax over symbols and null, with every path written out, and its searches."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from decoding import all_outputs, check_searches, random_model, random_sources, take
from ssnt.config import ModelConfig
from ssnt.decode import SearchOptions, StreamOptions, make_scorer, open_streams
from ssnt.decode.align import align
from ssnt.decode.ensemble import EnsembleScorer
from ssnt.decode.marginal import marginal_search
from ssnt.decode.online import online_search
from ssnt.decode.sample import sample
from ssnt.errors import ModelError
from ssnt.nn import build_model
from ssnt.nn.rnnt import RNNT
from ssnt.pipeline import Transducer
from ssnt.types import EOS_ID, Batch
from transducers import make_config, make_vocabulary

LENGTHS = [4, 1, 3, 2]


def make(seed: int = 0, *, scale: float = 3.0, vocab: int = 4, **settings) -> RNNT:
    torch.manual_seed(seed)
    sizes = {"src_vocab_size": 9, "tgt_vocab_size": vocab, "embed_size": 4, "hidden_size": 5, "bidirectional": False}
    model = build_model(ModelConfig(architecture="rnnt", **{**sizes, **settings})).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(scale)
    assert isinstance(model, RNNT)
    return model


def joint_log_probs(model: RNNT, pair: Batch) -> Tensor:
    """One softmax over all symbols and, last, the null symbol: (I, J, V + 1)."""
    encoding = model.encode(pair)
    h, s = encoding.states[0], model.decoder(pair.tgt, encoding.condition)[0]
    rows = torch.cat([model.word.src_weight, model.transition.src_weight[None]])
    columns = torch.cat([model.word.tgt_weight, model.transition.tgt_weight[None]])
    bias = torch.cat([model.word.bias, model.transition.bias])
    cells = [[torch.log_softmax(rows @ h_i + columns @ s_j + bias, dim=0) for s_j in s] for h_i in h]
    return torch.stack([torch.stack(row) for row in cells])


def path_scores(log_probs: Tensor, tgt: list[int], end: str, i: int = 0, j: int = 0) -> list[Tensor]:
    """The log probabilities of all sequences of symbols and nulls that write the target."""
    if j == len(tgt):
        return [log_probs.new_zeros(())] if end == "any" or i == len(log_probs) - 1 else []
    found = [log_probs[i, j, tgt[j]] + rest for rest in path_scores(log_probs, tgt, end, i, j + 1)]
    if i + 1 < len(log_probs):
        found += [log_probs[i, j, -1] + rest for rest in path_scores(log_probs, tgt, end, i + 1, j)]
    return found


def brute_force(model: RNNT, batch: Batch, take_one, end: str) -> Tensor:
    losses = []
    for b in range(len(batch.src)):
        pair = take_one(batch, b)
        scores = path_scores(joint_log_probs(model, pair), pair.tgt[0].tolist(), end)
        losses.append(-torch.logsumexp(torch.stack(scores), dim=0))
    return torch.stack(losses)


@pytest.mark.parametrize("end", ["any", "last"])
@pytest.mark.parametrize("tags", [False, True])
@pytest.mark.parametrize("scale", [0.5, 3.0, 12.0])
@pytest.mark.parametrize("settings", [{"bidirectional": True}, {"tie_target_embedding": True, "embed_size": 5}])
def test_loss_and_gradients_are_those_of_a_joint_softmax(make_batch, take_one, end, tags, scale, settings):
    if tags:
        settings = settings | {"feature_vocab_size": 6, "feature_size": 3}
    model, batch = make(1, vocab=7, scale=scale, **settings), make_batch(tags=tags)
    found, expected = model.loss(batch, end=end, reduction="none"), brute_force(model, batch, take_one, end)
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)
    parameters = list(model.parameters())
    gradients = [torch.autograd.grad(loss.sum(), parameters) for loss in (found, expected)]
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-7, atol=1e-9)


def test_every_decision_is_one_symbol_of_the_softmax(make_batch, take_one):
    model, pair = make(2, vocab=7), take_one(make_batch(), 0)
    grid, joint = model.grid(pair), joint_log_probs(model, pair)
    torch.testing.assert_close(grid.log_shift[0], joint[..., -1].T)
    wanted = torch.stack([joint[:, j, y] for j, y in enumerate(pair.tgt[0].tolist())])
    torch.testing.assert_close((grid.log_emit + grid.log_word)[0], wanted)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_extreme_logits(make_batch, take_one, dtype):
    model, batch = make(3, vocab=7, scale=1.0), make_batch()
    with torch.no_grad():
        for weight in (model.word.src_weight, model.word.tgt_weight, model.transition.src_weight):
            weight.mul_(2000.0)
    expected = brute_force(model, batch, take_one, "any").detach()
    found = model.to(dtype).loss(batch, reduction="none")
    assert expected.max() > 300
    torch.testing.assert_close(found.double(), expected, rtol=1e-9 if dtype == torch.float64 else 1e-4, atol=1e-3)
    found.sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())


def test_a_banned_symbol_leaves_the_decisions_as_they_are(make_batch, take_one):
    model, batch = make(4, vocab=7), make_batch()
    pair = take_one(batch, 0)
    banned = int(pair.tgt[0, 0])
    with torch.no_grad():
        model.word.bias[banned] = -math.inf
    grid, joint = model.grid(pair), joint_log_probs(model, pair)
    torch.testing.assert_close(grid.log_shift[0], joint[..., -1].T)
    assert (grid.log_word[0, 0] == -math.inf).all()
    loss = model.loss(pair)
    assert loss == math.inf
    loss.backward()
    finite = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    assert all(gradient.isfinite().all() for gradient in finite)


def test_bfloat16_states_decide_in_float32(make_batch):
    model, batch = make(5, vocab=7, scale=1.0).float(), make_batch()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        grid = model.grid(batch)
    assert grid.log_emit.dtype == torch.float32
    torch.testing.assert_close(grid.log_emit.exp() + grid.log_shift.exp(), torch.ones_like(grid.log_emit))


@pytest.mark.parametrize("end", ["any", "last"])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_searches_find_what_enumeration_finds(end, bidirectional):
    for seed in range(3):
        check_searches(make(seed, bidirectional=bidirectional), random_sources(seed, LENGTHS), end)


@pytest.mark.usefixtures("denormals")
def test_columns_are_the_grid_where_the_factored_product_underflows(make_batch):
    model, batch = make(6, vocab=7, scale=1.0), make_batch()
    with torch.no_grad():
        for weight in (model.word.src_weight, model.word.tgt_weight, model.transition.src_weight):
            weight.mul_(1000.0)
        for dtype, tolerance in ((torch.float64, 1e-9), (torch.float32, 2e-3)):
            scorer = make_scorer(model.to(dtype))
            source = scorer.read(batch)
            columns, grid = scorer.columns(source, scorer.start(source)), model.grid(batch)
            inside = torch.arange(batch.src.shape[1]) < batch.src_lens[:, None]
            for name in ("log_emit", "log_shift"):
                found, expected = getattr(columns, name)[:, 0][inside], getattr(grid, name)[:, 0][inside]
                torch.testing.assert_close(found, expected, rtol=1e-4, atol=tolerance)


@pytest.mark.parametrize("end", ["any", "last"])
def test_online_search_and_streams(end):
    model, batch = make(7), random_sources(7, [4, 3])
    scorer = make_scorer(model)
    found = online_search(scorer, batch, SearchOptions(beam=200, max_length=3, nbest=5, end=end), max_emissions=3)
    for b, hypotheses in enumerate(found):
        truth = all_outputs([model], take(batch, b), 3, end)
        assert [h.symbols for h in hypotheses] == [t.symbols for t in truth[:5]]
        np.testing.assert_allclose([h.log_prob for h in hypotheses], [t.log_prob for t in truth[:5]], atol=1e-9)
    options = SearchOptions(beam=4, nbest=1, max_length=100, max_length_ratio=100.0, end=end)
    expected = online_search(scorer, batch, options)
    for b in range(2):
        stream = open_streams(scorer, 1, StreamOptions(beam=4, end=end))
        written = [s for x in batch.src[b, : batch.src_lens[b] - 1].tolist() for s in stream.push([x])[0].committed]
        last = stream.finish()[0][0]
        assert (*written, *last.symbols) == expected[b][0].symbols
        assert last.log_prob == pytest.approx(expected[b][0].log_prob, abs=1e-9)


def test_samples_alignments_and_ensembles():
    model, batch = make(8), random_sources(8, [3, 2])
    scorer = make_scorer(model)
    drawn = sample(scorer, batch, 2000, SearchOptions(max_length=2), seed=1)
    best = marginal_search(scorer, batch, SearchOptions(beam=50, max_length=2))
    for row, hypotheses in zip(drawn, best, strict=True):
        share = sum(h.symbols == hypotheses[0].symbols for h in row) / len(row)
        assert share >= math.exp(hypotheses[0].log_prob) - 0.06  # an output that is cut short adds to the others
    pair = Batch(batch.src[:1], batch.src_lens[:1], torch.tensor([[3, EOS_ID]]), torch.tensor([2]))
    (truth,) = (t for t in all_outputs([model], take(batch, 0), 1) if t.symbols == (3,))
    (aligned,) = align(scorer, pair)
    assert aligned.path.positions == truth.path
    assert aligned.log_prob == pytest.approx(truth.log_prob, abs=1e-9)
    other = random_model(9)
    found = marginal_search(EnsembleScorer([model, other]), batch, SearchOptions(beam=200, max_length=3, nbest=3))
    for b in range(2):
        truth = all_outputs([model, other], take(batch, b), 3)
        assert [h.symbols for h in found[b]] == [t.symbols for t in truth[:3]]


def test_what_it_does_not_have():
    model = make()
    with pytest.raises(ModelError, match="only a geometric transition"):
        model.estimate_transition([1], [1])
    assert model.is_streaming
    assert model.has_alignment
    again = build_model(model.config).double()
    again.load_state_dict(model.state_dict())
    assert {name.split(".")[-1] for name in again.transition.state_dict()} == {"src_weight", "tgt_weight", "bias"}


@pytest.mark.parametrize("settings", [{}, {"bidirectional": True}, {"tie_target_embedding": True, "embed_size": 6}])
def test_a_model_directory_gives_the_same_model_back(tmp_path, settings):
    vocabulary, config = make_vocabulary(), make_config(architecture="rnnt", **settings)
    model = build_model(ModelConfig(**config.model.model_dump(), **vocabulary.model_sizes())).eval()
    before = Transducer(model, vocabulary, config, {"scores": {"dev": []}, "data": {}})
    before.save_pretrained(tmp_path / "model")
    after = Transducer.from_pretrained(tmp_path / "model")
    assert type(after.model) is type(model)
    for one, other in zip(before.transduce(["abc", "fed"]), after.transduce(["abc", "fed"]), strict=True):
        assert (one.text, one.log_prob) == (other.text, other.log_prob)
