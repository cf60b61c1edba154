"""What encoder-decoders share: from a source and the symbols so far to the next symbol.

Axes: ``B`` batch, ``I`` source, ``J`` target, ``K`` prefixes of a source, ``H`` hidden size, ``C`` condition.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from ssnt.config import ModelConfig
from ssnt.errors import ConfigError, ModelError
from ssnt.loss import Reduction
from ssnt.nn.baselines.decoder import StartedDecoder
from ssnt.nn.baselines.encoder import ReadSource, SummarisingEncoder
from ssnt.nn.baselines.output import OutputDistribution
from ssnt.nn.padding import inside
from ssnt.nn.protocol import Encoding, Model
from ssnt.nn.recurrent import LSTMState
from ssnt.types import Batch, End, Grid


@dataclass(frozen=True)
class SourceMemory(Encoding):
    """What an encoder-decoder knows of sources; every tensor has a row for each of them.

    Attributes:
        states: Source states ``h_i``, ``(B, I, Hs)``; zero in padding.
        condition: The encoded tags ``(B, C)``, None in a model without tags.
        src_lens: Source lengths, ``(B,)``.
        start: What the decoder begins with.
        keys: What attention compares its queries with, ``(B, I, A)``; None without attention.
        summary: The source as one vector ``(B, H)`` that every step sees; None where only the first one does.
        embeddings: Of the source symbols, ``(B, I + 1, E)``, the last of them that of no symbol; None where the decoder
            does not see them.
    """

    src_lens: Tensor
    start: LSTMState
    keys: Tensor | None = None
    summary: Tensor | None = None
    embeddings: Tensor | None = None


class EncoderDecoder(Model):
    """An encoder-decoder, as a lattice that has one column.

    A kind of it says what the decoder starts from (:meth:`remember`), what it sees beside the symbols so far
    (:meth:`beside`), and what becomes of its states before a symbol is chosen (:meth:`outputs`).

    Args:
        config: The settings; those of transitions have no effect.

    Attributes:
        encoder: Source symbols to states.
        decoder: Output prefixes to states, at once or by steps.
        features: The tag encoder, None in a model without tags.
        word: States to the distribution over the next symbol.
    """

    has_alignment: ClassVar[bool] = False
    encoder: SummarisingEncoder

    def __init__(self, config: ModelConfig) -> None:
        if not isinstance(config, ModelConfig):
            raise ConfigError(f"config: expected a ModelConfig, got {type(config).__name__}; use ModelConfig(...)")
        encoder = SummarisingEncoder(
            config.src_vocab_size,
            config.embed_size,
            config.hidden_size,
            layers=config.encoder_layers,
            bidirectional=config.bidirectional,
            condition_size=config.feature_size if config.feature_vocab_size else 0,
            dropout=config.input_dropout,
        )
        super().__init__(config, encoder=encoder)
        self.decoder = StartedDecoder(
            config.tgt_vocab_size,
            config.embed_size,
            config.hidden_size,
            layers=config.decoder_layers,
            condition_size=self.beside_size,
            dropout=config.input_dropout,
        )
        embedding = self.decoder.embedding_for_output() if config.tie_target_embedding else None
        self.word = OutputDistribution(config.hidden_size, config.tgt_vocab_size, tie_to=embedding)

    @property
    def beside_size(self) -> int:
        """Size of what the decoder sees beside each symbol."""
        return self.condition_size

    def remember(self, source: ReadSource, batch: Batch, condition: Tensor | None) -> SourceMemory:
        """Returns what is kept of sources that were read."""
        raise NotImplementedError

    def beside(self, memory: SourceMemory, items: Tensor, positions: Tensor) -> Tensor | None:
        """Returns what the decoder sees beside the symbol before ``y_j``.

        Args:
            memory: The sources.
            items: Which of them, ``(N,)``.
            positions: ``j``, counted from 0, ``(N, T)``; the next steps of each.

        Returns:
            ``(N, C)`` if it is the same at every step, otherwise ``(N, T, C)``; None for nothing.
        """
        del positions
        return None if memory.condition is None else memory.condition[items]

    def outputs(self, memory: SourceMemory, states: Tensor) -> Tensor:
        """Returns what symbols are chosen by, (B, K, H), from decoder states (B, K, H) of each source."""
        del memory
        return states

    def encode(self, batch: Batch) -> SourceMemory:
        """Reads the source and the tags; the target is not looked at."""
        self._check_source(batch)
        condition = None if self.features is None else self.features(batch.features)  # (B, C)
        source = self.encoder.read(batch.src, batch.src_lens, condition)
        states = torch.where(inside(batch.src, batch.src_lens)[..., None], source.states, 0.0)
        return self.remember(ReadSource(states, source.final), batch, condition)

    def grid_of(self, encoding: Encoding, src_lens: Tensor, tgt: Tensor, tgt_lens: Tensor) -> Grid:
        """Returns lattices with one column, whose words have the model's probabilities, with targets (B, J)."""
        memory = _as_memory(encoding)
        items = torch.arange(len(tgt), device=tgt.device)
        positions = torch.arange(tgt.shape[1], device=tgt.device).expand(len(tgt), -1)
        states = self.decoder(tgt, self.beside(memory, items, positions), memory.start)  # (B, J, H)
        outputs = self.outputs(memory, self.output_dropout(states))  # (B, J, H)
        log_word = self.word.log_word(outputs, tgt, tgt_lens)[..., None]  # (B, J, 1)
        log_emit = torch.zeros_like(log_word)
        return Grid(log_word, log_emit, torch.full_like(log_emit, -math.inf), torch.ones_like(src_lens), tgt_lens)

    def loss(
        self,
        batch: Batch,
        *,
        end: End = "any",
        reduction: Reduction = "mean",
        backend: str = "auto",
        fastemit: float = 0.0,
        delay_weight: float = 0.0,
    ) -> Tensor:
        """Returns ``-log p(y | x)``; ``end`` has no meaning here, and ``fastemit`` and ``delay_weight`` must be 0.

        Raises:
            ConfigError: ``fastemit`` or ``delay_weight`` is not 0.
        """
        for name, value in (("fastemit", fastemit), ("delay_weight", delay_weight)):
            if value:
                raise ConfigError(
                    f"{name}: expected 0 for {self.config.name}, which has no alignment to move, got {value!r}; "
                    "leave it out"
                )
        return super().loss(batch, end=end, reduction=reduction, backend=backend)


def _as_memory(encoding: Encoding) -> SourceMemory:
    if not isinstance(encoding, SourceMemory):
        raise ModelError(
            f"encoding: expected what encode() of this model gives, got {type(encoding).__name__}; call encode(batch)"
        )
    return encoding
