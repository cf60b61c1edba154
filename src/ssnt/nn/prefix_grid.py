"""The logits of a model that attends to the source prefix that has been read.

Those of cell (i, j) are ``A_i + B_j + sum_{k <= i} w_jik C_k``, where ``w_jik`` is the softmax of the scores ``e_jk``
over ``k <= i``.

Axes: ``B`` batch, ``J`` target (or prefixes of a search), ``I`` source, ``T`` source states that may be attended to
(the same as ``I`` but in a stream, which is at one position and attends to all it has read), ``V`` vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from ssnt.nn.cell_grid import Chunk, cut_rows


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

    @property
    def parts(self) -> tuple[Tensor, ...]:
        """All tensors."""
        return self.scores, self.src, self.tgt, self.context, self.seen

    @classmethod
    def of_parts(cls, parts: tuple[Tensor, ...]) -> PrefixLogits:
        """From all tensors."""
        return cls(*parts)

    @property
    def dtype(self) -> torch.dtype:
        """Of the logits."""
        return self.src.dtype

    @property
    def vocab_size(self) -> int:
        """Number of symbols."""
        return self.src.shape[2]

    def chunks(self, chunk_bytes: int) -> Iterator[Chunk]:
        """Cuts the target rows of all pairs into chunks of some bytes of logits and weights, or of a single row."""
        batch, rows, states = self.scores.shape
        row_bytes = self.src.shape[1] * (self.vocab_size + states) * self.src.element_size()
        return cut_rows(batch, rows, row_bytes, chunk_bytes)

    def of_chunk(self, pairs: slice, rows: slice) -> tuple[Tensor, Tensor]:
        """The logits of a chunk, ``(b, j, I, V)``, and the attention of its cells, ``(b, j, I, T)``."""
        weights = self._weights(pairs, rows)
        plain = self.src[pairs, None] + self.tgt[pairs, rows, None]  # (b, j, I, V)
        products = torch.baddbmm(plain.flatten(1, 2), weights.flatten(1, 2), self.context[pairs])
        return products.view_as(plain), weights

    def gradients(self) -> PrefixGradients:
        """Gradients that are zero, or not computed yet."""
        return PrefixGradients(self)

    def _weights(self, pairs: slice, rows: slice) -> Tensor:
        places = torch.arange(self.scores.shape[2], device=self.scores.device)
        unseen = places >= self.seen[pairs, None, :, None]  # (b, 1, I, T)
        # Each cell has the maximum of its own prefix taken out, so that no score is too large or too small.
        return self.scores[pairs, rows, None, :].masked_fill(unseen, -math.inf).softmax(dim=3)


class PrefixGradients:
    """Those of all that the logits are made of, chunk by chunk."""

    def __init__(self, logits: PrefixLogits) -> None:
        self._logits = logits
        self._src, self._context = torch.zeros_like(logits.src), torch.zeros_like(logits.context)
        self._scores, self._tgt = torch.empty_like(logits.scores), torch.empty_like(logits.tgt)

    def add(self, pairs: slice, rows: slice, slopes: Tensor, weights: Tensor) -> None:
        """Takes what the cells of a chunk say, given their slopes ``(b, j, I, V)`` and attention ``(b, j, I, T)``."""
        self._src[pairs] += slopes.sum(dim=1)
        self._tgt[pairs, rows] = slopes.sum(dim=2)
        flat, flat_weights = slopes.flatten(1, 2), weights.flatten(1, 2)
        self._context[pairs] += torch.bmm(flat_weights.transpose(1, 2), flat)
        shares = torch.bmm(flat, self._logits.context[pairs].transpose(1, 2)).view_as(weights).mul_(weights)
        # The softmax's own gradient, for each cell, and then summed over the cells of a row.
        self._scores[pairs, rows] = (shares - weights * shares.sum(dim=3, keepdim=True)).sum(dim=2)

    def in_order(self) -> tuple[Tensor | None, ...]:
        """One for each part."""
        return self._scores, self._src, self._tgt, self._context, None
