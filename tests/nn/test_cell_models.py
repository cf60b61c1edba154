"""Models whose word logits do not split, against a loop over cells: gradients, chunks and extremes."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
import torch
from torch import Tensor

from ssnt.config import ModelConfig
from ssnt.errors import BackendError, ModelError
from ssnt.nn import SSNT, build_model
from ssnt.nn.cell_grid import cell_word_grid, cut_rows
from ssnt.nn.joint_network import JointLogits, JointWords
from ssnt.nn.prefix_attention import PrefixAttentionWords
from ssnt.nn.prefix_grid import PrefixLogits
from ssnt.types import Batch

ARCHITECTURES = ("prefix-attention", "joint-network")
EVERY = pytest.mark.parametrize("architecture", ARCHITECTURES)


def make(architecture: str, seed: int = 0, *, scale: float = 3.0, **settings) -> SSNT:
    torch.manual_seed(seed)
    sizes = {"src_vocab_size": 9, "tgt_vocab_size": 7, "embed_size": 4, "hidden_size": 5}
    model = build_model(ModelConfig(architecture=architecture, **{**sizes, **settings})).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(scale)
    assert isinstance(model, SSNT)
    return model


def cell(word: Any, h: Tensor, s: Tensor, i: int, j: int) -> Tensor:
    """The distribution of one cell, as the formulas have it."""
    logits = word.src_weight @ h[i] + word.tgt_weight @ s[j] + word.bias
    if isinstance(word, PrefixAttentionWords):
        scores = torch.stack([s[j] @ word.query_weight.T @ h[k] for k in range(i + 1)])
        context = sum(weight * h[k] for k, weight in enumerate(torch.softmax(scores, dim=0)))
        logits = logits + word.context_weight @ context
    else:
        assert isinstance(word, JointWords)
        inner = word.src_layer.weight @ h[i] + word.src_layer.bias + word.tgt_layer.weight @ s[j]
        logits = logits + word.output_layer.weight @ torch.tanh(inner)
    return torch.log_softmax(logits, 0)


def slow_words(model: SSNT, pair: Batch) -> Tensor:
    encoding = model.encode(pair)
    h, s = encoding.states[0], model.decoder(pair.tgt, encoding.condition)[0]
    rows = [[cell(model.word, h, s, i, j)[pair.tgt[0, j]] for i in range(len(h))] for j in range(len(s))]
    return torch.stack([torch.stack(row) for row in rows])


def slow_loss(model: SSNT, pair: Batch, end: str) -> Tensor:
    """Every alignment written out; the decisions are the plain SSNT's, which are tested elsewhere."""
    words, grid = slow_words(model, pair), model.grid(pair)
    emit, shift = grid.log_emit[0], grid.log_shift[0]
    scores = []
    for alignment in itertools.combinations_with_replacement(range(words.shape[1]), words.shape[0]):
        if end == "last" and alignment[-1] != words.shape[1] - 1:
            continue
        score, at = 0.0, 0
        for j, i in enumerate(alignment):
            score = score + sum(shift[j, d] for d in range(at, i)) + emit[j, i] + words[j, i]
            at = i
        scores.append(score)
    return -torch.logsumexp(torch.stack(scores), dim=0)


@EVERY
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
def test_loss_and_gradients_are_those_of_a_loop(make_batch, take_one, architecture, tags, settings):
    if tags:
        settings = settings | {"feature_vocab_size": 6, "feature_size": 3}
    model, batch = make(architecture, 1, **settings), make_batch(tags=tags)
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


def random_logits(
    architecture: str,
    seed: int,
    spread: float = 1.0,
    *,
    batch: int = 3,
    rows: int = 4,
    size: int = 5,
    vocab: int = 6,
    hidden: int = 3,
):
    """Parts of logits, of a type that is made of them, with targets and valid cells."""
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> Tensor:
        return (torch.randn(*shape, generator=generator, dtype=torch.float64) * spread).requires_grad_()

    src, tgt = draw(batch, size, vocab), draw(batch, rows, vocab)
    if architecture == "prefix-attention":
        parts = src, tgt, draw(batch, rows, size), draw(batch, size, vocab)
        seen = torch.arange(1, size + 1).expand(batch, -1)

        def kind(*given: Tensor) -> PrefixLogits:
            return PrefixLogits(*given, seen)
    else:
        parts = src, tgt, draw(batch, size, hidden), draw(batch, rows, hidden), draw(vocab, hidden)
        kind = JointLogits
    targets = torch.randint(vocab, (batch, rows), generator=generator)
    lens = (torch.randint(1, most + 1, (batch,), generator=generator) for most in (size, rows))
    columns, lines = (torch.arange(most) < one[:, None] for most, one in zip((size, rows), lens, strict=True))
    return kind, parts, targets, lines[:, :, None] & columns[:, None, :]


def slow_grid(logits: PrefixLogits | JointLogits, targets: Tensor, valid: Tensor) -> Tensor:
    grid = torch.zeros(valid.shape, dtype=logits.src.dtype)
    for b, j, i in valid.nonzero().tolist():
        cells = logits.src[b, i] + logits.tgt[b, j]
        if isinstance(logits, PrefixLogits):
            weights = torch.softmax(logits.scores[b, j, : i + 1], dim=0)
            cells = cells + (weights[:, None] * logits.context[b, : i + 1]).sum(0)
        else:
            cells = cells + logits.weight @ torch.tanh(logits.src_hidden[b, i] + logits.tgt_hidden[b, j])
        grid[b, j, i] = torch.log_softmax(cells, 0)[targets[b, j]]
    return grid


@EVERY
@pytest.mark.parametrize("spread", [1.0, 30.0, 1e4])
@pytest.mark.parametrize("chunk_bytes", [1, 900, 1 << 20])
def test_chunks_of_any_size_and_numbers_of_any_size(architecture, spread, chunk_bytes):
    kind, parts, targets, valid = random_logits(architecture, 2, spread)
    found = cell_word_grid(kind(*parts), targets, valid, chunk_bytes)
    expected = slow_grid(kind(*parts), targets, valid)
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)
    upstream = torch.randn(valid.shape, dtype=torch.float64)
    gradients = [torch.autograd.grad((grid * upstream).sum(), parts) for grid in (found, expected)]
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-8 * spread)


def test_chunks_cover_every_row_once():
    for batch, rows in ((1, 1), (3, 4), (5, 2), (0, 3)):
        for chunk_bytes in (1, 500, 900, 1500, 4000, 1 << 20):
            count = torch.zeros(batch, rows)
            for chunk in cut_rows(batch, rows, 440, chunk_bytes):
                count[chunk.pairs, chunk.rows] += 1
                taken = (chunk.pairs.stop - chunk.pairs.start) * (chunk.rows.stop - chunk.rows.start)
                assert taken == 1 or taken * 440 <= chunk_bytes
            assert (count == 1).all()


@pytest.mark.parametrize(("architecture", "beside_logits"), [("prefix-attention", 5), ("joint-network", 3)])
def test_a_chunk_counts_the_bytes_of_its_logits_and_of_what_is_beside_them(architecture, beside_logits):
    kind, parts, _, _ = random_logits(architecture, 0)
    row = 5 * (6 + beside_logits) * 8  # I positions, V symbols, numbers of 8 bytes
    chunks = list(kind(*parts).chunks(2 * row))
    assert {chunk.rows.stop - chunk.rows.start for chunk in chunks} == {2}
    assert len(chunks) == 6


@EVERY
def test_gradcheck(architecture):
    kind, parts, targets, valid = random_logits(architecture, 3, batch=2, rows=2, size=3, vocab=4, hidden=2)
    for chunk_bytes in (1, 1 << 20):
        assert torch.autograd.gradcheck(
            lambda *given, size=chunk_bytes: cell_word_grid(kind(*given), targets, valid, size), parts
        )


@EVERY
@pytest.mark.parametrize("place", [0, 1, 2])  # source part, target part, scores or hidden units
def test_float32_with_large_numbers_is_as_precise_as_float32_can_be(architecture, place):
    kind, parts, targets, valid = random_logits(architecture, 4)
    values = [(part * (1e4 if at == place else 1.0)).detach().float() for at, part in enumerate(parts)]
    found = cell_word_grid(kind(*values), targets, valid)
    expected = slow_grid(kind(*(value.double() for value in values)), targets, valid)
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-5)


@EVERY
def test_a_banned_symbol_has_no_probability_and_no_gradient(architecture):
    kind, parts, targets, valid = random_logits(architecture, 5)
    src, tgt, *others = parts
    banned = tgt.detach().clone()
    banned[..., 0] = -math.inf
    parts = (src, banned.requires_grad_(), *others)
    grid = cell_word_grid(kind(*parts), targets.clamp(min=1), valid)
    assert grid.isfinite().all()
    for gradient in torch.autograd.grad(grid.sum(), parts):
        assert gradient.isfinite().all()
    grid = cell_word_grid(kind(*parts), torch.zeros_like(targets), valid)
    assert (grid[valid] == -math.inf).all()


@EVERY
def test_later_source_symbols_change_no_earlier_cell(make_batch, architecture):
    model = make(architecture, 6, bidirectional=False)
    batch = make_batch([(5, 3), (5, 3)])
    other = batch.src.clone()
    other[:, 3] = (other[:, 3] - 3) % 5 + 4  # another symbol
    assert (other[:, 3] != batch.src[:, 3]).all()
    before = model.grid(batch)
    after = model.grid(Batch(other, batch.src_lens, batch.tgt, batch.tgt_lens))
    for name in ("log_word", "log_emit", "log_shift"):
        torch.testing.assert_close(getattr(before, name)[..., :3], getattr(after, name)[..., :3], rtol=0, atol=0)
        assert (getattr(before, name)[..., 3:] != getattr(after, name)[..., 3:]).any()


@pytest.mark.parametrize(("architecture", "looks_back"), [("prefix-attention", True), ("joint-network", False)])
def test_earlier_source_states_are_attended_to_or_not(make_batch, architecture, looks_back):
    model, batch = make(architecture, 7), make_batch([(5, 3)])
    encoding = model.encode(batch)
    states = encoding.states.clone()
    states[:, 0] += 1.0
    grids = [
        model.word.log_grid(one, model.decoder(batch.tgt), batch.tgt, batch.src_lens, batch.tgt_lens)
        for one in (encoding.states, states)
    ]
    assert (grids[0][..., 0] != grids[1][..., 0]).all()
    assert ((grids[0] != grids[1])[..., 1:] == looks_back).all()


def test_single_states_give_what_the_grid_has(make_batch):
    model, batch = make("joint-network", 7), make_batch([(5, 3), (5, 3)])
    h, s = model.encode(batch).states, model.decoder(batch.tgt)
    for b, i, j in itertools.product(range(2), range(5), range(3)):
        torch.testing.assert_close(model.word.log_probs(h[b, i], s[b, j]), cell(model.word, h[b], s[b], i, j))


def test_what_a_prefix_says_depends_on_the_position(make_batch):
    """Odds between two prefixes are the same at all positions where logits split, and here they are not."""
    plain, joint = (make(name, 7) for name in ("ssnt", "joint-network"))
    batch = make_batch([(5, 3)])
    for model, is_same in ((plain, True), (joint, False)):
        states, tgt_states = model.encode(batch).states, model.decoder(batch.tgt)
        logs = model.word.log_probs(states[:, None], tgt_states[:, :, None])[0]  # (J, I, V)
        odds = (logs[..., 4] - logs[..., 5]).diff(dim=0)  # (J - 1, I)
        assert torch.allclose(odds, odds[:, :1], atol=1e-9) == is_same


@EVERY
@pytest.mark.parametrize("side", ["source", "target"])
def test_padding_may_hold_anything(make_batch, architecture, side):
    model, batch = make(architecture, 8), make_batch()
    states = {"source": model.encode(batch).states, "target": model.decoder(batch.tgt)}
    lens = {"source": batch.src_lens, "target": batch.tgt_lens}[side]
    dirty = states[side].clone()
    dirty[torch.arange(dirty.shape[1]) >= lens[:, None]] = math.nan
    grids, gradients = [], []
    for one in (states, states | {side: dirty}):
        given = [part.detach().requires_grad_() for part in (one["source"], one["target"])]
        grids.append(model.word.log_grid(*given, batch.tgt, batch.src_lens, batch.tgt_lens))
        gradients.append(torch.autograd.grad(grids[-1].sum(), [*given, *model.word.parameters()]))
    torch.testing.assert_close(*grids, rtol=0, atol=0)
    for clean, found in zip(*gradients, strict=True):
        torch.testing.assert_close(found, clean, rtol=0, atol=0)


@EVERY
@pytest.mark.parametrize("narrow", [torch.bfloat16, torch.float16])
def test_words_are_computed_in_float32_under_autocast(make_batch, architecture, narrow):
    model, batch = make(architecture, 9).float(), make_batch()
    model.word.src_weight.data *= 1e6  # logits that float16 cannot hold
    states = model.encode(batch).states, model.decoder(batch.tgt)
    given = batch.tgt, batch.src_lens, batch.tgt_lens
    with torch.autocast("cpu", dtype=narrow):
        found = model.word.log_grid(*states, *given)
        cells = model.word.cell_logits(*states)
    assert {part.dtype for part in cells.parts} <= {torch.float32, torch.int64}
    torch.testing.assert_close(found, model.word.log_grid(*states, *given), rtol=0, atol=0)


@EVERY
def test_gradients_of_gradients_are_refused(make_batch, architecture):
    model, batch = make(architecture), make_batch()
    with pytest.raises(BackendError, match="once only"):
        torch.autograd.grad(model.grid(batch).log_word.sum(), list(model.word.parameters()), create_graph=True)


def test_a_single_state_does_not_say_what_is_attended_to():
    with pytest.raises(ModelError, match="single source state"):
        make("prefix-attention").word.log_probs(torch.zeros(5), torch.zeros(5))
