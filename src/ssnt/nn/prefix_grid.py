"""The logits of a model that attends to the source prefix that has been read.

Those of cell (i, j) are ``A_i + B_j + sum_{k <= i} w_jik C_k``, where ``w_jik`` is the softmax of the scores ``e_jk``
over ``k <= i``.

Axes: ``B`` batch, ``J`` target (or prefixes of a search), ``I`` source, ``T`` source states that may be attended to
(the same as ``I`` but in a stream, which is at one position and attends to all it has read), ``V`` vocabulary.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from ssnt.nn.cell_grid import CellGradients, CellLogits, Cells, Chunk


@dataclass(frozen=True)
class PrefixLogits(CellLogits):
    """What the logits of all cells are made of; a cell's inner numbers are its attention, ``(b, j, I, T)``.

    Attributes:
        scores: Of attending to each state, ``(B, J, T)``.
        context: What each state adds as far as it is attended to, ``(B, T, V)``.
        seen: How many states each position may attend to, the first ones, at least one, ``(B, I)``.
    """

    scores: Tensor
    context: Tensor
    seen: Tensor

    @property
    def inner_size(self) -> int:
        """Number of states that may be attended to."""
        return self.scores.shape[2]

    def of_chunk(self, chunk: Chunk) -> Cells:
        """The cells of a chunk."""
        weights = self._weights(chunk)
        plain = self.src[chunk.pairs, None] + self.tgt[chunk.pairs, chunk.rows, None]  # (b, j, I, V)
        products = torch.baddbmm(plain.flatten(1, 2), weights.flatten(1, 2), self.context[chunk.pairs])
        return Cells(products.view_as(plain), weights)

    def gradients(self) -> CellGradients:
        """Gradients that are zero, or not computed yet."""
        return _PrefixGradients(self)

    def _weights(self, chunk: Chunk) -> Tensor:
        places = torch.arange(self.inner_size, device=self.scores.device)
        unseen = places >= self.seen[chunk.pairs, None, :, None]  # (b, 1, I, T)
        # Each cell has the maximum of its own prefix taken out, so that no score is too large or too small.
        return self.scores[chunk.pairs, chunk.rows, None, :].masked_fill(unseen, -math.inf).softmax(dim=3)


class _PrefixGradients(CellGradients):
    def __init__(self, logits: PrefixLogits) -> None:
        self._logits = logits
        self._src, self._context = torch.zeros_like(logits.src), torch.zeros_like(logits.context)
        self._scores, self._tgt = torch.empty_like(logits.scores), torch.empty_like(logits.tgt)

    def add(self, chunk: Chunk, of_logits: Tensor, inner: Tensor) -> None:
        self._src[chunk.pairs] += of_logits.sum(dim=1)
        self._tgt[chunk.pairs, chunk.rows] = of_logits.sum(dim=2)
        flat, flat_weights = of_logits.flatten(1, 2), inner.flatten(1, 2)
        self._context[chunk.pairs] += torch.bmm(flat_weights.transpose(1, 2), flat)
        shares = torch.bmm(flat, self._logits.context[chunk.pairs].transpose(1, 2)).view_as(inner).mul_(inner)
        # The softmax's own gradient, for each cell, and then summed over the cells of a row.
        self._scores[chunk.pairs, chunk.rows] = (shares - inner * shares.sum(dim=3, keepdim=True)).sum(dim=2)

    def in_order(self) -> tuple[Tensor | None, ...]:
        return self._src, self._tgt, self._scores, self._context, None
