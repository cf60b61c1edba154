"""The SSNT with attention over the source prefix, as the searches see it.

Its logits do not split, so that columns are made of ``B x K x I x V`` numbers. They are computed in chunks and kept up
to a limit; beyond it they are computed again whenever they are asked for.

A stream keeps every state it has read, because a later prefix may attend to any of them: its memory, and its time for
an input symbol, grow with what has been read. Those of the other models do not.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ssnt.decode.model_scorer import Hearing, ModelScorer, ModelSource, PrefixState
from ssnt.decode.rows import Growing
from ssnt.decode.scorer import TopWords, top_words
from ssnt.errors import ModelError
from ssnt.nn.prefix_attention import PrefixAttentionSSNT
from ssnt.nn.prefix_grid import CHUNK_BYTES

KEPT_BYTES = 64 << 20
"""Log probabilities of columns that are kept for several questions about them."""


@dataclass(frozen=True)
class PrefixAttentionSource(ModelSource):
    """Encoded sources, with what can be attended to at each position.

    Attributes:
        keys: States, ``(B, T, Hs)``; in a stream those of all positions read, otherwise ``states``.
        values: What they add to the logits, ``(B, T, V)``.
        seen: How many of them each position may attend to, ``(B, I)``.
    """

    keys: Tensor
    values: Tensor
    seen: Tensor

    @classmethod
    def of(cls, source: ModelSource, keys: Tensor, values: Tensor, seen: Tensor) -> PrefixAttentionSource:
        """Adds them to what every model has."""
        return cls(**vars(source), keys=keys, values=values, seen=seen)


@dataclass(frozen=True)
class PrefixAttentionHearing(Hearing):
    """What a model remembers of the sources of streams: everything that may be attended to.

    Attributes:
        keys: The states read so far, ``(S, T, Hs)``.
        values: What they add to the logits, ``(S, T, V)``.
    """

    keys: Growing
    values: Growing


class PrefixAttentionColumns:
    """Columns of one model."""

    def __init__(
        self,
        model: PrefixAttentionSSNT,
        source: PrefixAttentionSource,
        output: Tensor,
        live: Tensor | None,
        chunk_bytes: int = CHUNK_BYTES,
        kept_bytes: int = KEPT_BYTES,
    ) -> None:
        batch, src_size, _ = source.states.shape
        prefix_states = output.view(batch, -1, output.shape[1])  # (B, K, Ht)
        decisions = model.transition.log_grid_from(source.transition, prefix_states)  # (B, K, I)
        impossible = torch.arange(src_size, device=output.device) >= source.src_lens[:, None, None]
        if live is not None:
            impossible = impossible | ~live[..., None]
        self.log_emit = decisions.log_emit.masked_fill(impossible, -math.inf)
        self.log_shift = decisions.log_shift.masked_fill(impossible, -math.inf)
        self._logits = model.word.logits(source.logits, source.values, source.keys, prefix_states, source.seen)
        self._chunk_bytes = chunk_bytes
        cells = self.log_emit.numel() * self._vocab_size
        self._kept: list[_Chunk] | None = None
        if cells * output.element_size() <= kept_bytes:
            self._kept = list(self._computed())

    @property
    def _vocab_size(self) -> int:
        return self._logits.src.shape[2]

    def _chunks(self) -> Iterator[_Chunk]:
        return self._computed() if self._kept is None else iter(self._kept)

    def _computed(self) -> Iterator[_Chunk]:
        for pairs, rows in self._logits.chunks(self._chunk_bytes):
            logits = self._logits.of_chunk(pairs, rows, self._logits.weights(pairs, rows))
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


class PrefixAttentionScorer(ModelScorer):
    """A :class:`~ssnt.nn.prefix_attention.PrefixAttentionSSNT` as the searches see it."""

    model: PrefixAttentionSSNT

    def __init__(self, model: Any) -> None:
        if not isinstance(model, PrefixAttentionSSNT):
            raise ModelError(f"model: expected a PrefixAttentionSSNT, got {type(model).__name__}")
        super().__init__(model)

    def source_of(self, states: Tensor, src_lens: Tensor, condition: Tensor | None) -> PrefixAttentionSource:
        """Wraps the encoder states ``(B, I, Hs)`` of whole sources."""
        source = super().source_of(states, src_lens, condition)
        seen = torch.arange(1, states.shape[1] + 1, device=states.device).expand(len(states), -1)
        return PrefixAttentionSource.of(source, source.states, self.model.word.values(source.states), seen)

    def columns(  # type: ignore[override]  # its own sources only
        self, source: PrefixAttentionSource, state: PrefixState, live: Tensor | None = None
    ) -> PrefixAttentionColumns:
        """The columns of the ``B * K`` rows of a state; rows that are not ``live`` ``(B, K)`` have no probability."""
        return PrefixAttentionColumns(self.model, source, state.output, live)

    def listen(self, count: int, features: Tensor | None = None) -> PrefixAttentionHearing:
        """What ``count`` streams remember before the first symbol."""
        hearing, bias = super().listen(count, features), self.model.word.bias
        sizes = self.model.encoder.output_size, self.vocab_size
        nothing = torch.zeros(count, dtype=torch.int64, device=bias.device)
        keys, values = (Growing(bias.new_zeros(count, 0, size), nothing) for size in sizes)
        return PrefixAttentionHearing(hearing.encoder, hearing.condition, keys, values)

    def hear(  # type: ignore[override]  # its own memory only
        self, symbols: Tensor, hearing: PrefixAttentionHearing
    ) -> tuple[PrefixAttentionSource, PrefixAttentionHearing]:
        """Reads one symbol (S,) of each stream."""
        output, state = self._streaming_encoder().step(symbols, hearing.encoder, hearing.condition)
        keys = hearing.keys.with_one_more(output)
        values = hearing.values.with_one_more(self.model.word.values(output))
        here = ModelScorer.source_of(self, output[:, None], torch.ones_like(symbols), hearing.condition)
        source = PrefixAttentionSource.of(here, keys.values, values.values, keys.lens[:, None])
        return source, PrefixAttentionHearing(state, hearing.condition, keys, values)
