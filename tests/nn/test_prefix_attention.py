"""Attention over the source prefix against a loop over cells, its gradients, chunks and extremes."""

from __future__ import annotations

import math
from itertools import combinations_with_replacement

import pytest
import torch
from torch import Tensor

from ssnt.config import ModelConfig
from ssnt.errors import BackendError, ModelError
from ssnt.nn import build_model
from ssnt.nn.cell_grid import cell_word_grid
from ssnt.nn.prefix_attention import PrefixAttentionSSNT, PrefixAttentionWords
from ssnt.nn.prefix_grid import PrefixLogits
from ssnt.types import Batch


def make(seed: int = 0, *, scale: float = 3.0, **settings) -> PrefixAttentionSSNT:
    torch.manual_seed(seed)
    sizes = {"src_vocab_size": 9, "tgt_vocab_size": 7, "embed_size": 4, "hidden_size": 5}
    model = build_model(ModelConfig(architecture="prefix-attention", **{**sizes, **settings})).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(scale)
    assert isinstance(model, PrefixAttentionSSNT)
    return model


def cell(word: PrefixAttentionWords, h: Tensor, s: Tensor, i: int, j: int) -> Tensor:
    """The distribution of one cell, as the formula has it."""
    scores = torch.stack([s[j] @ word.query_weight.T @ h[k] for k in range(i + 1)])
    context = sum(weight * h[k] for k, weight in enumerate(torch.softmax(scores, dim=0)))
    return torch.log_softmax(
        word.src_weight @ h[i] + word.tgt_weight @ s[j] + word.context_weight @ context + word.bias, 0
    )


def slow_words(model: PrefixAttentionSSNT, pair: Batch) -> Tensor:
    encoding = model.encode(pair)
    h, s = encoding.states[0], model.decoder(pair.tgt, encoding.condition)[0]
    rows = [[cell(model.word, h, s, i, j)[pair.tgt[0, j]] for i in range(len(h))] for j in range(len(s))]
    return torch.stack([torch.stack(row) for row in rows])


def slow_loss(model: PrefixAttentionSSNT, pair: Batch, end: str) -> Tensor:
    """Every alignment written out; the decisions are the plain SSNT's, which are tested elsewhere."""
    words, grid = slow_words(model, pair), model.grid(pair)
    emit, shift = grid.log_emit[0], grid.log_shift[0]
    scores = []
    for alignment in combinations_with_replacement(range(words.shape[1]), words.shape[0]):
        if end == "last" and alignment[-1] != words.shape[1] - 1:
            continue
        score, at = 0.0, 0
        for j, i in enumerate(alignment):
            score = score + sum(shift[j, d] for d in range(at, i)) + emit[j, i] + words[j, i]
            at = i
        scores.append(score)
    return -torch.logsumexp(torch.stack(scores), dim=0)


@pytest.mark.parametrize("tags", [False, True])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"bidirectional": False, "encoder_layers": 2},
        {"transition": "geometric"},
        {"tie_target_embedding": True, "embed_size": 5},
    ],
)
def test_loss_and_gradients_are_those_of_a_loop(make_batch, take_one, tags, settings):
    if tags:
        settings = settings | {"feature_vocab_size": 6, "feature_size": 3}
    model, batch = make(1, **settings), make_batch(tags=tags)
    model.prepare([4, 2], [3, 4])
    grid = model.grid(batch)
    for b in range(len(batch.src)):
        pair = take_one(batch, b)
        rows, columns = pair.tgt.shape[1], pair.src.shape[1]
        torch.testing.assert_close(grid.log_word[b, :rows, :columns], slow_words(model, pair), rtol=1e-10, atol=1e-10)
        assert not grid.log_word[b, rows:].any()
        assert not grid.log_word[b, :, columns:].any()
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    for end in ("any", "last"):
        slow = sum(slow_loss(model, take_one(batch, b), end) for b in range(len(batch.src)))
        fast = model.loss(batch, end=end, reduction="sum")
        torch.testing.assert_close(fast, slow, rtol=1e-10, atol=1e-10)
        gradients = [torch.autograd.grad(loss, parameters) for loss in (fast, slow)]
        for one, other in zip(*gradients, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-9)


def random_logits(seed: int, spread: float = 1.0, *, batch: int = 3, rows: int = 4, size: int = 5, vocab: int = 6):
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> Tensor:
        return (torch.randn(*shape, generator=generator, dtype=torch.float64) * spread).requires_grad_()

    parts = draw(batch, rows, size), draw(batch, size, vocab), draw(batch, rows, vocab), draw(batch, size, vocab)
    seen = torch.arange(1, size + 1).expand(batch, -1)
    targets = torch.randint(vocab, (batch, rows), generator=generator)
    lens = torch.randint(1, size + 1, (batch,), generator=generator), torch.randint(1, rows + 1, (batch,))
    valid = (torch.arange(rows)[:, None] < lens[1][:, None, None]) & (torch.arange(size) < lens[0][:, None, None])
    return parts, seen, targets, valid


def slow_grid(parts, targets, valid) -> Tensor:
    scores, src, tgt, context = parts
    grid = torch.zeros(valid.shape, dtype=src.dtype)
    for b, j, i in valid.nonzero().tolist():
        weights = torch.softmax(scores[b, j, : i + 1], dim=0)
        logits = src[b, i] + tgt[b, j] + (weights[:, None] * context[b, : i + 1]).sum(0)
        grid[b, j, i] = torch.log_softmax(logits, 0)[targets[b, j]]
    return grid


@pytest.mark.parametrize("spread", [1.0, 30.0, 1e4])
@pytest.mark.parametrize("chunk_bytes", [1, 900, 1 << 20])
def test_chunks_of_any_size_and_scores_of_any_size(spread, chunk_bytes):
    parts, seen, targets, valid = random_logits(2, spread)
    found = cell_word_grid(PrefixLogits(*parts, seen), targets, valid, chunk_bytes)
    expected = slow_grid(parts, targets, valid)
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)
    upstream = torch.randn(valid.shape, dtype=torch.float64)
    gradients = [torch.autograd.grad((grid * upstream).sum(), parts) for grid in (found, expected)]
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-8 * spread)


def test_chunks_cover_every_row_once():
    for batch, rows in ((1, 1), (3, 4), (5, 2)):
        parts, seen, _, _ = random_logits(0, batch=batch, rows=rows)
        for chunk_bytes in (1, 500, 900, 1500, 4000, 1 << 20):
            count = torch.zeros(batch, rows)
            for pairs, some in PrefixLogits(*parts, seen).chunks(chunk_bytes):
                count[pairs, some] += 1
                cells = (pairs.stop - pairs.start) * (some.stop - some.start)
                assert cells == 1 or cells * 5 * (6 + 5) * 8 <= chunk_bytes  # I (V + T) numbers of 8 bytes a row
            assert (count == 1).all()


def test_gradcheck():
    parts, seen, targets, valid = random_logits(3, batch=2, rows=2, size=3, vocab=4)
    for chunk_bytes in (1, 1 << 20):
        assert torch.autograd.gradcheck(
            lambda *given, size=chunk_bytes: cell_word_grid(PrefixLogits(*given, seen), targets, valid, size), parts
        )


def test_float32_with_large_scores_is_as_precise_as_float32_can_be():
    parts, seen, targets, valid = random_logits(4, 1.0)
    scores = (parts[0] * 1e4).detach().float()
    values = [scores, *(part.detach().float() for part in parts[1:])]
    found = cell_word_grid(PrefixLogits(*values, seen), targets, valid)
    expected = slow_grid([value.double() for value in values], targets, valid)
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-5)


def test_a_banned_symbol_has_no_probability_and_no_gradient():
    parts, seen, targets, valid = random_logits(5)
    banned = parts[2].detach().clone()
    banned[..., 0] = -math.inf
    parts = (parts[0], parts[1], banned.requires_grad_(), parts[3])
    grid = cell_word_grid(PrefixLogits(*parts, seen), targets.clamp(min=1), valid)
    assert grid.isfinite().all()
    for gradient in torch.autograd.grad(grid.sum(), parts):
        assert gradient.isfinite().all()
    grid = cell_word_grid(PrefixLogits(*parts, seen), torch.zeros_like(targets), valid)
    assert (grid[valid] == -math.inf).all()


def test_later_source_symbols_change_no_earlier_cell(make_batch):
    model = make(6, bidirectional=False)
    batch = make_batch([(5, 3), (5, 3)])
    other = batch.src.clone()
    other[:, 3] = (other[:, 3] - 3) % 5 + 4  # another symbol
    assert (other[:, 3] != batch.src[:, 3]).all()
    before = model.grid(batch)
    after = model.grid(Batch(other, batch.src_lens, batch.tgt, batch.tgt_lens))
    for name in ("log_word", "log_emit", "log_shift"):
        torch.testing.assert_close(getattr(before, name)[..., :3], getattr(after, name)[..., :3], rtol=0, atol=0)
        assert (getattr(before, name)[..., 3:] != getattr(after, name)[..., 3:]).any()


def test_earlier_source_symbols_are_attended_to(make_batch):
    model, batch = make(7), make_batch([(5, 3)])
    encoding = model.encode(batch)
    states = encoding.states.clone()
    states[:, 0] += 1.0
    grids = [
        model.word.log_grid(one, model.decoder(batch.tgt), batch.tgt, batch.src_lens, batch.tgt_lens)
        for one in (encoding.states, states)
    ]
    assert (grids[0] != grids[1]).all()


def test_padding_may_hold_anything(make_batch):
    model, batch = make(8), make_batch()
    encoding = model.encode(batch)
    tgt_states = model.decoder(batch.tgt)
    dirty = encoding.states.clone()
    dirty[torch.arange(dirty.shape[1]) >= batch.src_lens[:, None]] = math.nan
    clean, found = (
        model.word.log_grid(one, tgt_states, batch.tgt, batch.src_lens, batch.tgt_lens)
        for one in (encoding.states, dirty)
    )
    torch.testing.assert_close(found, clean, rtol=0, atol=0)


def test_bfloat16_words_are_computed_in_float32(make_batch):
    model, batch = make(9, scale=1.0).float(), make_batch()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        grid = model.grid(batch)
    assert grid.log_word.dtype == torch.float32
    torch.testing.assert_close(grid.log_word, model.grid(batch).log_word, rtol=0.05, atol=0.05)


def test_what_it_cannot_do(make_batch):
    model, batch = make(), make_batch()
    with pytest.raises(ModelError, match="single source state"):
        model.word.log_probs(torch.zeros(5), torch.zeros(5))
    with pytest.raises(BackendError, match="once only"):
        torch.autograd.grad(model.grid(batch).log_word.sum(), list(model.word.parameters()), create_graph=True)
