"""The columns of models whose word logits do not split into a source and a prefix part.

They are made of ``B x K x I x V`` numbers, which are computed in chunks and kept up to a limit; beyond it they are
computed again whenever they are asked for.

Axes: ``B`` sources, ``K`` prefixes, ``I`` source positions, ``V`` symbols, ``P`` single cells.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from ssnt.decode.columns import Decisions, FactoredSource, possible
from ssnt.decode.scorer import TopWords, top_words
from ssnt.nn.cell_grid import CHUNK_BYTES, CellLogits

KEPT_BYTES = 64 << 20
"""Log probabilities of columns that are kept for several questions about them."""


class CellColumns:
    """Columns of a model whose word logits do not split into a source and a prefix part.

    Args:
        logits: What the logits of all cells are made of.
        decisions: Both decisions of every prefix at every position, ``(B, K, I)``.
        source: The sources.
        live: Which prefixes there are, ``(B, K)``; the others have no probability. None: all.
        chunk_bytes: How many bytes of logits are handled at once.
        kept_bytes: Up to how many bytes of log probabilities are kept for several questions about them.
    """

    def __init__(
        self,
        logits: CellLogits,
        decisions: Decisions,
        source: FactoredSource,
        live: Tensor | None,
        chunk_bytes: int = CHUNK_BYTES,
        kept_bytes: int = KEPT_BYTES,
    ) -> None:
        self._logits, self._chunk_bytes = logits, chunk_bytes
        self.log_emit, self.log_shift = possible(decisions, source.src_lens, live)
        self._kept: list[_Chunk] | None = None
        if self.log_emit.numel() * self._vocab_size * self.log_emit.element_size() <= kept_bytes:
            self._kept = list(self._computed())

    @property
    def _vocab_size(self) -> int:
        return self._logits.vocab_size

    def _chunks(self) -> Iterator[_Chunk]:
        return self._computed() if self._kept is None else iter(self._kept)

    def _computed(self) -> Iterator[_Chunk]:
        for pairs, rows in self._logits.chunks(self._chunk_bytes):
            logits, _ = self._logits.of_chunk(pairs, rows)
            yield _Chunk(pairs, rows, logits.log_softmax(dim=3, dtype=self.log_emit.dtype))  # wide under autocast too

    def log_mixture(self, log_weights: Tensor) -> Tensor:
        """``log sum_i weight_i p(v | i)`` for all symbols, ``(B, K, V)``."""
        parts = log_weights.new_empty(*log_weights.shape[:2], self._vocab_size)
        for chunk in self._chunks():
            weighted = chunk.log_probs + log_weights[chunk.pairs, chunk.rows, :, None]
            parts[chunk.pairs, chunk.rows] = torch.logsumexp(weighted, dim=2)
        return parts

    def log_word(self, prefixes: Tensor, symbols: Tensor) -> Tensor:
        """``log p(symbol | i)`` at all positions, ``(B, M, I)``."""
        found = self.log_emit.new_empty(*prefixes.shape, self.log_emit.shape[2])
        for chunk in self._chunks():
            asked = prefixes[chunk.pairs]
            items, order = ((asked >= chunk.rows.start) & (asked < chunk.rows.stop)).nonzero(as_tuple=True)
            places = asked[items, order] - chunk.rows.start
            found[chunk.pairs][items, order] = chunk.log_probs[items, places, :, symbols[chunk.pairs][items, order]]
        return found

    def log_words(self, rows: Tensor, positions: Tensor) -> Tensor:
        """The whole distribution at single cells, ``(P, V)``."""
        found = self.log_emit.new_empty(len(rows), self._vocab_size)
        width = self.log_emit.shape[1]
        items, prefixes = rows // width, rows % width
        for chunk in self._chunks():
            is_here = (items >= chunk.pairs.start) & (items < chunk.pairs.stop)
            is_here &= (prefixes >= chunk.rows.start) & (prefixes < chunk.rows.stop)
            which = is_here.nonzero()[:, 0]
            at = items[which] - chunk.pairs.start, prefixes[which] - chunk.rows.start, positions[which]
            found[which] = chunk.log_probs[at]
        return found

    def log_top(self, rows: Tensor, positions: Tensor, blocked: Tensor, count: int) -> TopWords:
        """The ``count`` likeliest symbols at single cells."""
        return top_words(self.log_words(rows, positions), blocked, count)


@dataclass(frozen=True)
class _Chunk:
    """Some prefixes of some sources, with all their distributions, ``(b, k, I, V)``."""

    pairs: slice
    rows: slice
    log_probs: Tensor
