"""The segment to segment neural transducer: a batch to a grid, and to a loss.

Axes: ``B`` batch, ``I`` source, ``J`` target, ``Hs`` and ``Ht`` the sizes of their states, ``C`` condition.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from torch import Tensor

from ssnt.config import ModelConfig
from ssnt.config.model import Architecture
from ssnt.errors import ModelError
from ssnt.nn.decoder import PrefixDecoder
from ssnt.nn.encoder import Encoder
from ssnt.nn.joint import WordDistribution
from ssnt.nn.protocol import Encoding, Model
from ssnt.nn.transition import GeometricTransition, LogTransition, NeuralTransition, Transition
from ssnt.types import Grid

__all__ = ["SSNT", "Encoding"]


class SSNT(Model):
    """The paper's transducer: encoder, prefix decoder, word distribution and transition.

    Args:
        config: The settings.
        encoder: An encoder to use instead of the paper's LSTM; ``src_vocab_size``, ``encoder_layers``
            and ``bidirectional`` then have no effect. Must be an ``nn.Module``.

    Attributes:
        encoder: Source symbols to states; a unidirectional one can be stepped.
        decoder: Output prefixes to states, at once or by steps.
        features: The tag encoder, None in a model without tags.
        word: States to the distribution over the next symbol.
        transition: States to the decision between emitting and shifting.
    """

    architecture: ClassVar[Architecture] = "ssnt"
    transition: Transition
    _word_class: ClassVar[type[WordDistribution]] = WordDistribution

    def __init__(self, config: ModelConfig, *, encoder: Encoder | None = None) -> None:
        super().__init__(config, encoder=encoder)
        self.decoder = PrefixDecoder(
            config.tgt_vocab_size,
            config.embed_size,
            config.hidden_size,
            layers=config.decoder_layers,
            condition_size=self.condition_size,
            dropout=config.input_dropout,
        )
        self.word = self._build_word(self.encoder.output_size)
        self.transition = self._build_transition(self.encoder.output_size)

    def grid_of(self, encoding: Encoding, src_lens: Tensor, tgt: Tensor, tgt_lens: Tensor) -> Grid:
        """Returns the lattice of sources that are encoded already, with targets (B, J)."""
        src_states = self.output_dropout(encoding.states)  # (B, I, Hs)
        tgt_states = self.output_dropout(self.decoder(tgt, encoding.condition))  # (B, J, Ht)
        log_word = self.word.log_grid(src_states, tgt_states, tgt, src_lens, tgt_lens)  # (B, J, I)
        decisions = self.transition.log_grid(src_states, tgt_states)  # (B, J, I), both
        return Grid(log_word, decisions.log_emit, decisions.log_shift, src_lens, tgt_lens)

    def decisions_from(self, src_half: Any, prefix_states: Tensor, log_norm: Tensor) -> LogTransition:
        """Returns both decisions of prefixes (B, K, Ht) at every position, (B, K, I), for a search.

        Args:
            src_half: What the transition has made of the source.
            prefix_states: ``(B, K, Ht)``.
            log_norm: The log of the sum over all word logits' exponentials, ``(B, K, I)``; some models look at it.
        """
        return self.transition.log_grid_from(src_half, prefix_states)

    def prepare(self, src_lens: Tensor | Iterable[int], tgt_lens: Tensor | Iterable[int]) -> None:
        """Estimates a geometric transition, if the model has one, from the lengths of all training pairs."""
        if isinstance(self.transition, GeometricTransition):
            self.transition.estimate(src_lens, tgt_lens)

    def estimate_transition(self, src_lens: Tensor | Iterable[int], tgt_lens: Tensor | Iterable[int]) -> None:
        """Estimates the geometric transition from the lengths of all training pairs, before any loss."""
        if not isinstance(self.transition, GeometricTransition):
            raise ModelError(
                "only a geometric transition is estimated from lengths, and this model's is learnt; "
                "leave the call out, or set transition='geometric'"
            )
        self.transition.estimate(src_lens, tgt_lens)

    def _build_word(self, src_size: int) -> WordDistribution:
        config = self.config
        embedding = self.decoder.embedding_for_output() if config.tie_target_embedding else None
        return self._word_class(src_size, config.hidden_size, config.tgt_vocab_size, tie_to=embedding)

    def _build_transition(self, src_size: int) -> Transition:
        if self.config.transition == "geometric":
            return GeometricTransition()
        hidden_size = self.config.transition_hidden_size or self.config.hidden_size
        return NeuralTransition(src_size, self.config.hidden_size, hidden_size)
