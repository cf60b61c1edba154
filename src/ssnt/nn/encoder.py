"""Encoders: source symbols to states ``h_i``."""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor

from ssnt.errors import ModelError
from ssnt.nn.checks import check_lengths
from ssnt.nn.recurrent import LSTMState, StateT, Step, SymbolLSTM
from ssnt.symbols import check_symbols


class Encoder(Protocol):
    """What a model needs of its encoder, which must also be an ``nn.Module``."""

    @property
    def output_size(self) -> int:
        """Size ``Hs`` of the states."""
        ...

    @property
    def is_streaming(self) -> bool:
        """Whether ``h_i`` depends on ``x_1..x_i`` only, and the encoder is a :class:`StreamingEncoder`."""
        ...

    def __call__(self, src: Tensor, src_lens: Tensor, condition: Tensor | None = None) -> Tensor:
        """Maps the source (B, I) to states (B, I, Hs); a module implements it as ``forward``.

        Args:
            src: Source symbols ``(B, I)``, or whatever else the encoder reads, as ``(B, I, ...)``.
            src_lens: Lengths ``(B,)``; the states of a pair must not depend on its padding, and what they are in
                padding does not matter: the model replaces it by zeros.
            condition: Tags ``(B, C)`` from a FeatureEncoder, None in a model without tags.
        """
        ...


class StreamingEncoder(Encoder, Protocol[StateT]):
    """An encoder that can also read one symbol at a time."""

    def initial_state(self, batch_size: int) -> StateT:
        """Returns the state before the first symbol."""
        ...

    def step(self, symbols: Tensor, state: StateT, condition: Tensor | None = None) -> Step[StateT]:
        """Reads one symbol (B,) of each sequence; a chain of steps equals ``forward``."""
        ...


class LSTMEncoder(SymbolLSTM):
    """The paper's encoder: an LSTM over the source, forward only or in both directions.

    ``forward`` waits once for the lengths if they are on a GPU, since torch packs by lengths on the host.

    Args:
        vocab_size: Number of source symbols.
        embed_size: Size of their embeddings.
        hidden_size: Size of every layer, in each direction.
        has_skip: Whether the embedding of a position's own symbol is appended to its state: what is only to be copied
            then need not be learnt by the LSTM. Not in the paper.
        **settings: See :class:`~ssnt.nn.recurrent.SymbolLSTM`.
    """

    def __init__(
        self, vocab_size: int, embed_size: int, hidden_size: int, *, has_skip: bool = False, **settings: Any
    ) -> None:
        super().__init__(vocab_size, embed_size, hidden_size, **settings)
        self.has_skip = has_skip
        self.output_size += embed_size if has_skip else 0

    @property
    def is_streaming(self) -> bool:
        """Whether the encoder can be stepped: only if it is unidirectional."""
        return not self.lstm.bidirectional

    def forward(self, src: Tensor, src_lens: Tensor, condition: Tensor | None = None) -> Tensor:
        """Maps symbols (B, I) to states (B, I, H), which mean nothing in padding; H doubles if bidirectional."""
        check_symbols("src", src, ("B", "I"), self.vocab_size)
        host_lens = src_lens.cpu()
        check_lengths("src_lens", host_lens, "src", src)
        return self._with_skip(src, self._states(self._inputs(src, condition), host_lens.long()))

    def initial_state(self, batch_size: int) -> LSTMState:
        """Returns the state before the first symbol: zeros."""
        self._check_streaming()
        return super().initial_state(batch_size)

    def step(self, symbols: Tensor, state: LSTMState, condition: Tensor | None = None) -> Step[LSTMState]:
        """Reads one symbol (B,) of each sequence; a chain of steps equals ``forward``."""
        self._check_streaming()
        output, after = super().step(symbols, state, condition)
        return Step(self._with_skip(symbols, output), after)

    def _with_skip(self, symbols: Tensor, states: Tensor) -> Tensor:
        return torch.cat([states, self.embedding(symbols)], dim=-1) if self.has_skip else states

    def _check_streaming(self) -> None:
        if not self.is_streaming:
            raise ModelError(
                "a bidirectional encoder cannot read one symbol at a time: its states depend on the whole "
                "source; train a unidirectional model (uniSSNT or uniSSNT+, bidirectional=False)"
            )
