"""Encoder-decoders against computations that go step by step, in float64."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from ssnt.config import MODEL_NAMES, VARIANTS, ModelConfig, named_settings
from ssnt.errors import ConfigError, DataError, ModelError, ShapeError
from ssnt.nn import SSNT, Model, build_model
from ssnt.nn.baselines import AttentionSeq2Seq, EncoderDecoder, output
from ssnt.nn.baselines.output import OutputDistribution
from ssnt.nn.protocol import Encoding
from ssnt.types import BOS_ID, PAD_ID, Batch

KINDS: dict[str, dict[str, Any]] = {
    "seq2seq": {"architecture": "seq2seq"},
    "bahdanau": {"architecture": "attention", "attention": "bahdanau"},
    "luong": {"architecture": "attention", "attention": "luong"},
    "adapted": {"architecture": "adapted-seq2seq"},
}
SIZES = {"src_vocab_size": 9, "tgt_vocab_size": 7, "embed_size": 4, "hidden_size": 5}
TAGS = 6  # as in the batches of conftest
MakeBatch = Callable[..., Batch]


def make(kind: str, *, tags: bool = False, **settings: Any) -> Any:
    if tags:
        settings |= {"feature_vocab_size": TAGS, "feature_size": 3}
    model = build_model(ModelConfig(**{**SIZES, **KINDS[kind], **settings})).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2.0)  # so that the models have opinions
    return model.eval()


def linear(layer: nn.Linear, values: Tensor) -> Tensor:
    result = layer.weight @ values
    return result if layer.bias is None else result + layer.bias


def lstm_like(lstm: nn.LSTM) -> nn.LSTM:
    """The same LSTM, built anew."""
    fresh = nn.LSTM(lstm.input_size, lstm.hidden_size, lstm.num_layers, bidirectional=lstm.bidirectional).double()
    fresh.load_state_dict(lstm.state_dict())
    return fresh


def step_by_step(model: Any, batch: Batch, b: int) -> list[float]:
    """``log p(y_j | y_1..y_{j-1}, x)`` of one pair, symbol by symbol, without padding."""
    src, tgt = batch.src[b, : batch.src_lens[b]], batch.tgt[b, : batch.tgt_lens[b]]  # type: ignore[index]
    tags = torch.zeros(0).double()
    if batch.features is not None:
        members = sorted(set(batch.features[b].tolist()) - {PAD_ID})
        tags = sum((model.features.embedding.weight[tag] for tag in members), torch.zeros(3).double())
    embedding = model.encoder.embedding.weight
    inputs = torch.stack([torch.cat([embedding[symbol], tags]) for symbol in src])
    states, (hidden, cell) = lstm_like(model.encoder.lstm)(inputs)  # (I, Hs), (L * D, H)
    decoder, layers = lstm_like(model.decoder.lstm), model.config.decoder_layers
    size = model.config.hidden_size
    if model.config.architecture == "adapted-seq2seq":
        now = torch.zeros(layers, size).double(), torch.zeros(layers, size).double()
        last = torch.cat([states[-1, :size], states[0, size:]])
        summary = linear(model.summary_layer, last)
    elif model.config.bidirectional or model.config.encoder_layers != layers:
        first = torch.tanh(linear(model.bridge.hidden, hidden.flatten())).view(layers, size)
        now = first, linear(model.bridge.cell, cell.flatten()).view(layers, size)
    else:
        now = hidden, cell
    found = []
    for j, symbol in enumerate(tgt.tolist()):
        before = BOS_ID if j == 0 else int(tgt[j - 1])
        seen = [model.decoder.embedding.weight[before]]
        if model.config.architecture == "adapted-seq2seq":
            seen.append(embedding[int(src[j]) if j < len(src) else PAD_ID])
        seen.append(tags)
        if model.config.architecture == "adapted-seq2seq":
            seen.append(summary)
        out, now = decoder(torch.cat(seen)[None], now)
        chosen_by = attended(model, out[0], states) if model.config.architecture == "attention" else out[0]
        logits = model.word.tgt_weight @ chosen_by + model.word.bias
        found.append((logits[symbol] - torch.logsumexp(logits, 0)).item())
    return found


def attended(model: Any, state: Tensor, states: Tensor) -> Tensor:
    score, scores = model.score, []
    for position in states:
        if model.config.attention == "luong":
            scores.append(state @ score.src_layer.weight @ position)
        else:
            both = linear(score.src_layer, position) + score.tgt_layer.weight @ state
            scores.append(score.vector @ torch.tanh(both))
    total = sum(math.exp(one) for one in scores)
    context = sum((math.exp(one) / total * h for one, h in zip(scores, states, strict=True)), torch.zeros(()).double())
    return torch.tanh(model.context_layer.weight @ context + linear(model.state_layer, state))


SHAPES = list(itertools.product((False, True), ((1, 1), (2, 2), (3, 3), (2, 1), (1, 2)), (False, True)))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("bidirectional", "layers", "tags"), SHAPES)
def test_probabilities_are_those_of_single_steps(
    kind: str, bidirectional: bool, layers: tuple[int, int], tags: bool, make_batch: MakeBatch
):
    settings = {"bidirectional": bidirectional, "encoder_layers": layers[0], "decoder_layers": layers[1]}
    model, batch = make(kind, tags=tags, **settings), make_batch(tags=tags)
    with torch.no_grad():
        grid = model(batch)
        assert grid.log_word.shape == (*batch.tgt.shape, 1)
        assert grid.src_lens.tolist() == [1] * len(batch.src)
        assert not grid.log_emit.any()
        assert bool((grid.log_shift == -math.inf).all())
        nll = model.loss(batch, reduction="none")
        for b, length in enumerate(batch.tgt_lens.tolist()):
            expected = step_by_step(model, batch, b)
            torch.testing.assert_close(grid.log_word[b, :length, 0], torch.tensor(expected).double())
            assert nll[b].item() == pytest.approx(-math.fsum(expected))


@pytest.mark.parametrize("kind", KINDS)
def test_neither_the_rest_of_the_batch_nor_padding_matters(kind: str, make_batch: MakeBatch):
    model, batch = make(kind), make_batch()
    with torch.no_grad():
        together = model.loss(batch, reduction="none")
        for padding in (PAD_ID, 5):
            wider = Batch(*(nn.functional.pad(one, (0, 2)) if one.dim() == 2 else one for one in _tensors(batch)))
            outside = torch.arange(wider.src.shape[1]) >= wider.src_lens[:, None]
            wider = replace(wider, src=torch.where(outside, padding, wider.src))
            torch.testing.assert_close(model.loss(wider, reduction="none"), together)
        for end in ("any", "last"):
            torch.testing.assert_close(model.loss(batch, end=end, reduction="none"), together)
        for b in range(len(batch.src)):
            alone = Batch(*(one[b : b + 1] for one in _tensors(batch)))
            i, j = int(alone.src_lens), int(alone.tgt_lens)
            alone = replace(alone, src=alone.src[:, :i], tgt=alone.tgt[:, :j])
            torch.testing.assert_close(model.loss(alone, reduction="none"), together[b : b + 1])


def _tensors(batch: Batch) -> list[Tensor]:
    return [batch.src, batch.src_lens, batch.tgt, batch.tgt_lens]  # type: ignore[list-item]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bidirectional", [False, True])
def test_gradients_are_those_of_finite_differences(kind: str, bidirectional: bool, make_batch: MakeBatch):
    model, batch = make(kind, bidirectional=bidirectional, tags=True), make_batch(tags=True)
    model.loss(batch).backward()
    generator = torch.Generator().manual_seed(3)
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        direction = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
        step = 1e-6
        with torch.no_grad():
            parameter.add_(direction, alpha=step)
            above = model.loss(batch).item()
            parameter.add_(direction, alpha=-2 * step)
            below = model.loss(batch).item()
            parameter.add_(direction, alpha=step)
        slope = (parameter.grad * direction).sum().item()
        assert slope == pytest.approx((above - below) / (2 * step), rel=1e-4, abs=1e-7), name


def test_probabilities_of_all_symbols_sum_to_one(make_batch: MakeBatch):
    batch = make_batch([(4, 1)])
    for kind in KINDS:
        model = make(kind)
        chances = []
        for symbol in range(SIZES["tgt_vocab_size"]):
            one = replace(batch, tgt=torch.tensor([[symbol]]))
            chances.append(math.exp(-model.loss(one).item()))
        assert math.fsum(chances) == pytest.approx(1.0)


@pytest.mark.parametrize("kind", KINDS)
def test_models_of_one_layer_and_two_learn(kind: str, make_batch: MakeBatch):
    for layers in (1, 2):
        torch.manual_seed(1)
        settings = {**SIZES, **KINDS[kind], "encoder_layers": layers, "decoder_layers": layers, "hidden_size": 16}
        model, batch = build_model(ModelConfig(**settings, input_dropout=0.1)), make_batch()
        optimiser = torch.optim.Adam(model.parameters(), lr=0.05)
        before = model.eval().loss(batch).item()
        model.train()
        for _ in range(25):
            optimiser.zero_grad()
            model.loss(batch).backward()
            optimiser.step()
        assert model.eval().loss(batch).item() < before / 2


@torch.no_grad()
@pytest.mark.parametrize("kind", KINDS)
def test_dropout_is_on_in_training_only(kind: str, make_batch: MakeBatch):
    batch = make_batch()
    for name in ("input_dropout", "output_dropout"):
        model = make(kind, **{name: 0.5})
        assert model.loss(batch).item() == model.loss(batch).item()
        model.train()
        assert model.loss(batch).item() != model.loss(batch).item()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("layers", [(1, 1, True), (2, 1, True), (2, 2, False)])
def test_bfloat16_is_close_on_ragged_batches(kind: str, layers: tuple[int, int, bool], make_batch: MakeBatch):
    encoder, decoder, bidirectional = layers
    settings = {"encoder_layers": encoder, "decoder_layers": decoder, "bidirectional": bidirectional}
    model, batch = make(kind, tags=True, **settings).float(), make_batch(tags=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = model.loss(batch)
    loss.backward()
    assert loss.dtype == torch.float32
    assert loss.item() == pytest.approx(model.loss(batch).item(), rel=0.03)
    assert all(one.grad is not None and one.grad.isfinite().all() for one in model.parameters())


def test_large_vocabularies_are_done_in_chunks(monkeypatch: pytest.MonkeyPatch):
    distribution = OutputDistribution(5, 300).double()
    states = (3.0 * torch.randn(3, 4, 5).double()).requires_grad_()
    targets, lens = torch.randint(0, 300, (3, 4)), torch.tensor([4, 1, 2])
    found = []
    for few in (1 << 40, 0):
        monkeypatch.setattr(output, "_FEW_LOGITS", few)
        log_word = distribution.log_word(states, targets, lens)
        gradients = torch.autograd.grad((log_word * torch.arange(4)).sum(), [states, *distribution.parameters()])
        found.append([log_word.detach(), *gradients])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other)
    assert not found[0][0][1, 1:].any()  # padding
    many = OutputDistribution(2, 50_000)
    many.log_word(torch.randn(8, 50, 2), torch.randint(0, 50_000, (8, 50)), torch.full((8,), 50))


@torch.no_grad()
def test_a_tied_embedding_is_the_output_projection(make_batch: MakeBatch):
    for kind in KINDS:
        model, batch = make(kind, embed_size=5, tie_target_embedding=True), make_batch()
        assert model.word.tgt_weight is model.decoder.embedding.weight
        expected = math.fsum(step_by_step(model, batch, 1))
        assert model.loss(batch, reduction="none")[1].item() == pytest.approx(-expected)


def test_attention_looks_at_valid_positions_only(make_batch: MakeBatch):
    for kind in ("bahdanau", "luong"):
        model: AttentionSeq2Seq = make(kind)
        batch = make_batch()
        memory = model.encode(batch)
        weights = model.attend(memory, torch.randn(len(batch.src), 2, 5).double())
        torch.testing.assert_close(weights.sum(dim=2), torch.ones(len(batch.src), 2).double())
        for b, length in enumerate(batch.src_lens.tolist()):
            assert not weights[b, :, length:].any()
        positions = model.most_attended(batch)
        assert positions.shape == batch.tgt.shape
        assert bool((positions < batch.src_lens[:, None]).all())


def test_every_name_builds_its_model(make_batch: MakeBatch):
    batch = make_batch()
    for name in MODEL_NAMES:
        model = build_model(ModelConfig(**SIZES, **named_settings(name)))
        assert isinstance(model, Model)
        assert model.has_alignment == model.config.has_alignment
        assert isinstance(model, EncoderDecoder) == (not model.has_alignment)
        assert model.is_streaming == (model.has_alignment and not model.config.bidirectional)
        model.prepare(batch.src_lens, batch.tgt_lens)
        assert torch.isfinite(model.loss(batch))
        assert not model.has_tags
        assert model.device == torch.device("cpu")
        if name in VARIANTS:
            assert type(model) is SSNT
            assert model.config.name == name
    assert make("luong").config.name == "attention (luong)"
    assert make("adapted").config.name == "adapted-seq2seq"
    assert ModelConfig(**SIZES, architecture="rnnt", bidirectional=False).name == "uni rnnt"


def test_what_is_wrong_is_told(make_batch: MakeBatch):
    model, batch = make("seq2seq"), make_batch()
    with pytest.raises(ConfigError, match=r"fastemit: expected 0 for seq2seq, which has no alignment to move, got 0.1"):
        model.loss(batch, fastemit=0.1)
    with pytest.raises(ModelError, match="tgt and tgt_lens: expected the targets"):
        model.loss(Batch(batch.src, batch.src_lens))
    with pytest.raises(ModelError, match="features: expected None"):
        model.loss(make_batch(tags=True))
    with pytest.raises(DataError, match="src: expected symbols from 0 to 8"):
        model.loss(replace(batch, src=batch.src + 9))
    with pytest.raises(ShapeError, match="tgt: expected at least one pair and one symbol"):
        model.decoder(torch.empty(0, 3, dtype=torch.int64))
    with pytest.raises(ModelError, match="encoding: expected what encode"):
        model.grid_of(Encoding(torch.zeros(1), None), batch.src_lens, batch.tgt, batch.tgt_lens)
    for build in (build_model, type(model)):
        with pytest.raises(ConfigError, match="config: expected a ModelConfig, got dict"):
            build({})
    with pytest.raises(ConfigError, match="unknown model 'ssmt': did you mean"):
        named_settings("ssmt")
