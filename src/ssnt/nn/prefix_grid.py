"""The word grid of a model that attends to the source prefix that has been read.

The logits of cell (i, j) are ``A_i + B_j + sum_{k <= i} w_jik C_k``, where ``w_jik`` is the softmax of the scores
``e_jk`` over ``k <= i``. They do not split into a source and a target part, so that ``J x I x V`` numbers have to be
computed; they are held for a chunk of target rows at a time, and computed again in the backward pass.

Axes: ``B`` batch, ``J`` target (or prefixes of a search), ``I`` source, ``T`` source states that may be attended to
(the same as ``I`` but in a stream, which is at one position and attends to all it has read), ``V`` vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ssnt.dp.autograd import refuse_second_order

CHUNK_BYTES = 4 << 20
"""Logits and attention weights of one chunk: they nearly fit the caches, and the products are large enough."""


@dataclass(frozen=True)
class PrefixLogits:
    """What the logits of all cells are made of.

    Attributes:
        scores: Of attending to each state, ``(B, J, T)``.
        src: Source part, ``(B, I, V)``.
        tgt: Target part with the bias, ``(B, J, V)``.
        context: What each state adds as far as it is attended to, ``(B, T, V)``.
        seen: How many states each position may attend to, the first ones, at least one, ``(B, I)``.
    """

    scores: Tensor
    src: Tensor
    tgt: Tensor
    context: Tensor
    seen: Tensor

    def chunks(self, chunk_bytes: int) -> Iterator[tuple[slice, slice]]:
        """Cuts the target rows of all pairs into chunks of some bytes, or of a single row: pairs, and rows of them."""
        batch, rows, states = self.scores.shape
        positions, vocab_size = self.src.shape[1:]
        row_bytes = positions * (vocab_size + states) * self.src.element_size()
        fitting = max(1, chunk_bytes // max(1, row_bytes))
        if fitting >= rows:
            count = fitting // max(1, rows)
            for first in range(0, batch, count):
                yield slice(first, min(first + count, batch)), slice(0, rows)
            return
        for pair in range(batch):
            for first in range(0, rows, fitting):
                yield slice(pair, pair + 1), slice(first, min(first + fitting, rows))

    def weights(self, pairs: slice, rows: slice) -> Tensor:
        """The attention of each cell of a chunk, ``(b, j, I, T)``."""
        places = torch.arange(self.scores.shape[2], device=self.scores.device)
        unseen = places >= self.seen[pairs, None, :, None]  # (b, 1, I, T)
        # Each cell has the maximum of its own prefix taken out, so that no score is too large or too small.
        return self.scores[pairs, rows, None, :].masked_fill(unseen, -math.inf).softmax(dim=3)

    def of_chunk(self, pairs: slice, rows: slice, weights: Tensor) -> Tensor:
        """The logits of a chunk from its attention, ``(b, j, I, V)``."""
        plain = self.src[pairs, None] + self.tgt[pairs, rows, None]  # (b, j, I, V)
        products = torch.baddbmm(plain.flatten(1, 2), weights.flatten(1, 2), self.context[pairs])
        return products.view_as(plain)


def prefix_word_grid(logits: PrefixLogits, targets: Tensor, valid: Tensor, chunk_bytes: int = CHUNK_BYTES) -> Tensor:
    """Log probability of each target at each position, ``(B, J, I)``; zero where a cell is not ``valid``.

    Exact for any finite scores and logits, minus infinity in ``tgt`` bans a symbol. Runs on any device; differentiable
    once. Its working memory is some four times ``chunk_bytes`` (16 MiB), or what a single target row takes, and between
    forward and backward it keeps its arguments and ``log Z`` of each cell.

    Args:
        logits: Of one dtype, float32 or float64, finite in padding.
        targets: Symbols ``(B, J)`` of the vocabulary, also in padding.
        valid: Cells of the pairs, ``(B, J, I)``.
        chunk_bytes: How many bytes of logits and weights are handled at once.
    """
    parts = logits.scores, logits.src, logits.tgt, logits.context
    grid: Tensor = _PrefixLogSoftmax.apply(*parts, logits.seen, targets, valid, chunk_bytes)  # type: ignore[no-untyped-call]
    return grid


class _PrefixLogSoftmax(torch.autograd.Function):
    """Forward and backward in chunks."""

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> Tensor:
        *tensors, chunk_bytes = arguments
        *parts, targets, valid = tensors
        logits = PrefixLogits(*parts)
        log_word, log_norm = (torch.empty_like(valid, dtype=logits.src.dtype) for _ in range(2))
        with torch.autocast(logits.src.device.type, enabled=False):
            for pairs, rows in logits.chunks(chunk_bytes):
                cells = logits.of_chunk(pairs, rows, logits.weights(pairs, rows))
                index = targets[pairs, rows, None, None].expand(*cells.shape[:3], 1)
                log_norm[pairs, rows] = torch.logsumexp(cells, dim=3)
                log_word[pairs, rows] = cells.gather(3, index)[..., 0]
        ctx.save_for_backward(*tensors, log_norm)
        ctx.chunk_bytes = chunk_bytes
        return log_word.sub_(log_norm).masked_fill_(~valid, 0.0)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        refuse_second_order("the word grid")
        *parts, targets, valid, log_norm = ctx.saved_tensors
        logits = PrefixLogits(*parts)
        upstream = torch.where(valid, upstream, 0.0)
        found = _Gradients(logits)
        with torch.autocast(upstream.device.type, enabled=False):
            for pairs, rows in logits.chunks(ctx.chunk_bytes):
                found.add(pairs, rows, targets, upstream, log_norm)
        return found.scores, found.src, found.tgt, found.context, None, None, None, None


class _Gradients:
    """Those of all that the logits are made of, chunk by chunk."""

    def __init__(self, logits: PrefixLogits) -> None:
        self._logits = logits
        self.src, self.context = torch.zeros_like(logits.src), torch.zeros_like(logits.context)
        self.scores, self.tgt = torch.empty_like(logits.scores), torch.empty_like(logits.tgt)

    def add(self, pairs: slice, rows: slice, targets: Tensor, upstream: Tensor, log_norm: Tensor) -> None:
        """Computes a chunk's logits again, and takes what its cells say."""
        weights = self._logits.weights(pairs, rows)  # (b, j, I, T)
        cells = self._logits.of_chunk(pairs, rows, weights)  # (b, j, I, V)
        slopes = upstream[pairs, rows, :, None]
        cells.sub_(log_norm[pairs, rows, :, None]).exp_().mul_(-slopes)
        cells.scatter_add_(3, targets[pairs, rows, None, None].expand_as(slopes), slopes)
        self.src[pairs] += cells.sum(dim=1)
        self.tgt[pairs, rows] = cells.sum(dim=2)
        flat, flat_weights = cells.flatten(1, 2), weights.flatten(1, 2)
        self.context[pairs] += torch.bmm(flat_weights.transpose(1, 2), flat)
        shares = torch.bmm(flat, self._logits.context[pairs].transpose(1, 2)).view_as(weights).mul_(weights)
        # The softmax's own gradient, for each cell, and then summed over the cells of a row.
        self.scores[pairs, rows] = (shares - weights * shares.sum(dim=3, keepdim=True)).sum(dim=2)
