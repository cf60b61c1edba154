"""The SSNT with attention over the source prefix, as the searches see it.

Its logits do not split: see :mod:`ssnt.decode.cell_columns`.

A stream keeps every state it has read, because a later prefix may attend to any of them: its memory, and its time for
an input symbol, grow with what has been read. Those of the other models do not.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ssnt.decode.cell_columns import CellScorer
from ssnt.decode.model_scorer import Hearing, ModelScorer, ModelSource
from ssnt.decode.rows import Growing
from ssnt.nn.prefix_attention import PrefixAttentionSSNT
from ssnt.nn.prefix_grid import PrefixLogits


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


class PrefixAttentionScorer(CellScorer):
    """A :class:`~ssnt.nn.prefix_attention.PrefixAttentionSSNT` as the searches see it."""

    _kind = PrefixAttentionSSNT
    model: PrefixAttentionSSNT

    def source_of(self, states: Tensor, src_lens: Tensor, condition: Tensor | None) -> PrefixAttentionSource:
        """Wraps the encoder states ``(B, I, Hs)`` of whole sources."""
        source = super().source_of(states, src_lens, condition)
        seen = torch.arange(1, states.shape[1] + 1, device=states.device).expand(len(states), -1)
        return PrefixAttentionSource.of(source, source.states, self.model.word.values(source.states), seen)

    def listen(self, count: int, features: Tensor | None = None) -> PrefixAttentionHearing:
        """What ``count`` streams remember before the first symbol."""
        hearing, bias = super().listen(count, features), self.model.word.wide(self.model.word.bias)
        sizes = self.model.encoder.output_size, self.vocab_size
        nothing = torch.zeros(count, dtype=torch.int64, device=bias.device)
        keys, values = (Growing(bias.new_zeros(count, 0, size), nothing) for size in sizes)
        return PrefixAttentionHearing(hearing.encoder, hearing.condition, keys, values)

    def hear(  # type: ignore[override]  # its own memory only
        self, symbols: Tensor, hearing: PrefixAttentionHearing
    ) -> tuple[PrefixAttentionSource, PrefixAttentionHearing]:
        """Reads one symbol (S,) of each stream."""
        output, state = self._streaming_encoder().step(symbols, hearing.encoder, hearing.condition)
        keys = hearing.keys.with_one_more(self.model.word.wide(output))
        values = hearing.values.with_one_more(self.model.word.values(output))
        here = ModelScorer.source_of(self, output[:, None], torch.ones_like(symbols), hearing.condition)
        source = PrefixAttentionSource.of(here, keys.values, values.values, keys.lens[:, None])
        return source, PrefixAttentionHearing(state, hearing.condition, keys, values)

    def _cell_logits(self, source: PrefixAttentionSource, prefix_states: Tensor) -> PrefixLogits:
        return self.model.word.logits(source.logits, source.values, source.keys, prefix_states, source.seen)
