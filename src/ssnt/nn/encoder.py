"""Encoders: source symbols to states ``h_i``."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from ssnt.errors import ModelError
from ssnt.nn.checks import check_lengths, check_symbols
from ssnt.nn.recurrent import LSTMState, StateT, Step, SymbolLSTM


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
    """

    @property
    def is_streaming(self) -> bool:
        """Whether the encoder can be stepped: only if it is unidirectional."""
        return not self.lstm.bidirectional

    def forward(self, src: Tensor, src_lens: Tensor, condition: Tensor | None = None) -> Tensor:
        """Maps symbols (B, I) to states (B, I, H), which mean nothing in padding; H doubles if bidirectional."""
        check_symbols("src", src, ("B", "I"), self.vocab_size)
        host_lens = src_lens.cpu()
        check_lengths("src_lens", host_lens, "src", src)
        return self._states(self._inputs(src, condition), host_lens.long())

    def initial_state(self, batch_size: int) -> LSTMState:
        """Returns the state before the first symbol: zeros."""
        self._check_streaming()
        return super().initial_state(batch_size)

    def step(self, symbols: Tensor, state: LSTMState, condition: Tensor | None = None) -> Step[LSTMState]:
        """Reads one symbol (B,) of each sequence; a chain of steps equals ``forward``."""
        self._check_streaming()
        return super().step(symbols, state, condition)

    def _check_streaming(self) -> None:
        if not self.is_streaming:
            raise ModelError(
                "a bidirectional encoder cannot read one symbol at a time: its states depend on the whole "
                "source; train a unidirectional model (uniSSNT or uniSSNT+, bidirectional=False)"
            )
