"""The columns of models whose word logits do not split into a source and a prefix part.

They are made of ``B x K x I x V`` numbers, which are computed in chunks and kept up to a limit; beyond it they are
computed again whenever they are asked for.

Axes: ``B`` sources, ``K`` prefixes, ``I`` source positions, ``V`` symbols, ``P`` single cells.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from ssnt.decode.columns import Decisions, FactoredSource, possible_decisions
from ssnt.decode.model_scorer import ModelScorer, ModelSource, PrefixState
from ssnt.decode.scorer import TopWords, top_words
from ssnt.errors import ModelError
from ssnt.nn import SSNT
from ssnt.nn.cell_grid import CHUNK_BYTES, CellLogits, Chunk

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
        self._logits = logits
        decisions = possible_decisions(decisions, source.src_lens, live)
        self.log_emit, self.log_shift = decisions.log_emit, decisions.log_shift
        self._chunks = list(logits.chunks(chunk_bytes))
        self._kept: list[Tensor] | None = None
        if self.log_emit.numel() * self._vocab_size * self.log_emit.element_size() <= kept_bytes:
            self._kept = [self._computed(chunk) for chunk in self._chunks]

    @property
    def _vocab_size(self) -> int:
        return self._logits.src.shape[2]

    def _log_probs(self, number: int) -> Tensor:
        """All distributions of a chunk, ``(b, k, I, V)``."""
        return self._computed(self._chunks[number]) if self._kept is None else self._kept[number]

    def _computed(self, chunk: Chunk) -> Tensor:
        with torch.autocast(self.log_emit.device.type, enabled=False):  # as precise as in training
            return self._logits.of_chunk(chunk).logits.log_softmax(dim=3)

    def log_mixture(self, log_weights: Tensor) -> Tensor:
        """``log sum_i weight_i p(v | i)`` for all symbols, ``(B, K, V)``."""
        parts = log_weights.new_empty(*log_weights.shape[:2], self._vocab_size)
        for number, chunk in enumerate(self._chunks):
            weighted = self._log_probs(number) + log_weights[chunk.pairs, chunk.rows, :, None]
            parts[chunk.pairs, chunk.rows] = torch.logsumexp(weighted, dim=2)
        return parts

    def log_word(self, prefixes: Tensor, symbols: Tensor) -> Tensor:
        """``log p(symbol | i)`` at all positions, ``(B, M, I)``."""
        found = self.log_emit.new_empty(*prefixes.shape, self.log_emit.shape[2])
        for number, chunk in enumerate(self._chunks):
            asked = prefixes[chunk.pairs]
            items, order = ((asked >= chunk.rows.start) & (asked < chunk.rows.stop)).nonzero(as_tuple=True)
            if len(items):
                places = asked[items, order] - chunk.rows.start
                words = symbols[chunk.pairs][items, order]
                found[chunk.pairs][items, order] = self._log_probs(number)[items, places, :, words]
        return found

    def log_words(self, rows: Tensor, positions: Tensor) -> Tensor:
        """The whole distribution at single cells, ``(P, V)``."""
        found = self.log_emit.new_empty(len(rows), self._vocab_size)
        width = self.log_emit.shape[1]
        items, prefixes = rows // width, rows % width
        for number, chunk in enumerate(self._chunks):
            is_here = (items >= chunk.pairs.start) & (items < chunk.pairs.stop)
            is_here &= (prefixes >= chunk.rows.start) & (prefixes < chunk.rows.stop)
            which = is_here.nonzero()[:, 0]
            if len(which):
                at = items[which] - chunk.pairs.start, prefixes[which] - chunk.rows.start, positions[which]
                found[which] = self._log_probs(number)[at]
        return found

    def log_top(self, rows: Tensor, positions: Tensor, blocked: Tensor, count: int) -> TopWords:
        """The ``count`` likeliest symbols at single cells."""
        return top_words(self.log_words(rows, positions), blocked, count)


class CellScorer(ModelScorer):
    """A model whose word logits do not split, as the searches see it; each kind of model has its own."""

    _kind: ClassVar[type[SSNT]]
    model: SSNT

    def __init__(self, model: Any) -> None:
        if not isinstance(model, self._kind):
            raise ModelError(f"model: expected a {self._kind.__name__}, got {type(model).__name__}")
        super().__init__(model)

    def columns(  # type: ignore[override]  # columns of its own
        self, source: ModelSource, state: PrefixState, live: Tensor | None = None
    ) -> CellColumns:
        """The columns of the ``B * K`` rows of a state; rows that are not ``live`` ``(B, K)`` have no probability."""
        states = state.of_sources(source)
        decisions = self.model.transition.log_grid_from(source.transition, states)
        return CellColumns(self._cell_logits(source, states), decisions, source, live)

    def _cell_logits(self, source: Any, prefix_states: Tensor) -> CellLogits:
        """What the logits of all cells are made of, for a source of its own and states of prefixes (B, K, Ht)."""
        raise NotImplementedError
