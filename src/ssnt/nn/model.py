"""The segment to segment neural transducer: a batch to a grid, and to a loss.

Axes: ``B`` batch, ``I`` source, ``J`` target, ``Hs`` and ``Ht`` the sizes of their states, ``C`` condition.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ssnt.config import ModelConfig
from ssnt.dp.checks import require_tensor
from ssnt.errors import ConfigError, ModelError, ShapeError
from ssnt.loss import Reduction, ssnt_loss
from ssnt.nn.checks import check_device, check_lengths, check_same_batch
from ssnt.nn.decoder import PrefixDecoder
from ssnt.nn.dropout import Dropout
from ssnt.nn.encoder import Encoder, LSTMEncoder
from ssnt.nn.features import FeatureEncoder
from ssnt.nn.joint import WordDistribution
from ssnt.nn.transition import GeometricTransition, NeuralTransition, Transition
from ssnt.types import Batch, End, Grid


@dataclass(frozen=True)
class Encoding:
    """What a model knows of a batch before any output.

    Attributes:
        states: Source states ``h_i``, ``(B, I, Hs)``; zero in padding.
        condition: The encoded tags ``(B, C)``, None in a model without tags.
    """

    states: Tensor
    condition: Tensor | None


class SSNT(nn.Module):
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

    encoder: Encoder
    transition: Transition

    def __init__(self, config: ModelConfig, *, encoder: Encoder | None = None) -> None:
        super().__init__()
        if not isinstance(config, ModelConfig):
            raise ConfigError(f"config: expected a ModelConfig, got {type(config).__name__}; use ModelConfig(...)")
        self.config = config
        has_tags = config.feature_vocab_size > 0
        self.features = FeatureEncoder(config.feature_vocab_size, config.feature_size) if has_tags else None
        condition_size = config.feature_size if has_tags else 0
        if encoder is None:
            encoder = LSTMEncoder(
                config.src_vocab_size,
                config.embed_size,
                config.hidden_size,
                layers=config.encoder_layers,
                bidirectional=config.bidirectional,
                condition_size=condition_size,
                dropout=config.input_dropout,
            )
        elif not isinstance(encoder, nn.Module):
            raise ModelError(
                f"encoder: expected an nn.Module, got {type(encoder).__name__}; "
                "anything else would have no parameters to train or save"
            )
        self.encoder = encoder
        self.decoder = PrefixDecoder(
            config.tgt_vocab_size,
            config.embed_size,
            config.hidden_size,
            layers=config.decoder_layers,
            condition_size=condition_size,
            dropout=config.input_dropout,
        )
        self.output_dropout = Dropout(config.output_dropout)
        self.word = self._build_word(encoder.output_size)
        self.transition = self._build_transition(encoder.output_size)

    def forward(self, batch: Batch) -> Grid:
        """Returns the alignment lattice of a batch, from which loss and posteriors follow."""
        return self.grid(batch)

    def encode(self, batch: Batch) -> Encoding:
        """Encodes the source and the tags; the target is not looked at."""
        self._check_source(batch)
        condition = None if self.features is None else self.features(batch.features)  # (B, C)
        states = self.encoder(batch.src, batch.src_lens, condition)  # (B, I, Hs)
        expected = (*batch.src.shape[:2], self.encoder.output_size)
        if states.shape != expected:
            raise ShapeError(
                f"encoder: expected states of shape {expected}, got {tuple(states.shape)}; "
                "an encoder gives one state of its output_size for each source position"
            )
        return Encoding(_zero_in_padding(states, batch.src_lens), condition)

    def grid(self, batch: Batch) -> Grid:
        """Returns the alignment lattice of a batch."""
        encoding = self.encode(batch)
        tgt, tgt_lens = self._checked_target(batch)
        return self.grid_of(encoding, batch.src_lens, tgt, tgt_lens)

    def grid_of(self, encoding: Encoding, src_lens: Tensor, tgt: Tensor, tgt_lens: Tensor) -> Grid:
        """Returns the lattice of sources that are encoded already, with targets (B, J)."""
        src_states = self.output_dropout(encoding.states)  # (B, I, Hs)
        tgt_states = self.output_dropout(self.decoder(tgt, encoding.condition))  # (B, J, Ht)
        log_word = self.word.log_grid(src_states, tgt_states, tgt, src_lens, tgt_lens)  # (B, J, I)
        decisions = self.transition.log_grid(src_states, tgt_states)  # (B, J, I), both
        return Grid(log_word, decisions.log_emit, decisions.log_shift, src_lens, tgt_lens)

    def loss(
        self,
        batch: Batch,
        *,
        end: End = "any",
        reduction: Reduction = "mean",
        backend: str = "auto",
        fastemit: float = 0.0,
    ) -> Tensor:
        """Returns ``-log p(y | x)``, summed over all alignments; see :func:`ssnt.ssnt_loss`."""
        grid = self.grid(batch)
        return ssnt_loss(
            grid.log_word,
            grid.log_emit,
            grid.log_shift,
            grid.src_lens,
            grid.tgt_lens,
            end=end,
            reduction=reduction,
            backend=backend,
            fastemit=fastemit,
        )

    def estimate_transition(self, src_lens: Tensor | Iterable[int], tgt_lens: Tensor | Iterable[int]) -> None:
        """Estimates the geometric transition from the lengths of all training pairs, before any loss."""
        if not isinstance(self.transition, GeometricTransition):
            raise ModelError(
                "only a geometric transition is estimated from lengths, and this model's is learnt; "
                "leave the call out, or set transition='geometric'"
            )
        self.transition.estimate(src_lens, tgt_lens)

    def _build_word(self, src_size: int) -> WordDistribution:
        config, embedding = self.config, None
        if config.tie_target_embedding:
            embedding = self.decoder.embedding
            # embeddings start with variance one, far too much for an output projection
            nn.init.normal_(embedding.weight, std=config.hidden_size**-0.5)
        return WordDistribution(src_size, config.hidden_size, config.tgt_vocab_size, tie_to=embedding)

    def _build_transition(self, src_size: int) -> Transition:
        if self.config.transition == "geometric":
            return GeometricTransition()
        hidden_size = self.config.transition_hidden_size or self.config.hidden_size
        return NeuralTransition(src_size, self.config.hidden_size, hidden_size)

    def _check_source(self, batch: Batch) -> None:
        if not isinstance(batch, Batch):
            raise ShapeError(f"batch: expected an ssnt.Batch, got {type(batch).__name__}")
        device = self.word.bias.device
        check_device("src", batch.src, device)
        require_tensor("src_lens", batch.src_lens)
        check_lengths("src_lens", batch.src_lens, "src", batch.src)
        self._check_features(batch)

    def _check_features(self, batch: Batch) -> None:
        if batch.features is None:
            if self.features is not None:
                raise ModelError(
                    "features: expected the tags of every pair, (B, F), got None; give them, "
                    "or build the model with feature_vocab_size=0"
                )
            return
        if self.features is None:
            raise ModelError(
                "features: expected None, as this model was built without tags, got shape "
                f"{tuple(batch.features.shape)}; leave them out, or set feature_vocab_size"
            )
        check_device("features", batch.features, self.word.bias.device)
        check_same_batch("features", batch.features, "src", batch.src.size(0))

    def _checked_target(self, batch: Batch) -> tuple[Tensor, Tensor]:
        tgt, tgt_lens = batch.tgt, batch.tgt_lens
        if tgt is None or tgt_lens is None:
            raise ModelError("tgt and tgt_lens: expected the targets of every pair, got None; give both with the batch")
        device = self.word.bias.device
        check_device("tgt", tgt, device)
        require_tensor("tgt_lens", tgt_lens)
        check_lengths("tgt_lens", tgt_lens, "tgt", tgt)
        check_same_batch("tgt", tgt, "src", batch.src.size(0))
        return tgt, tgt_lens


def _zero_in_padding(states: Tensor, src_lens: Tensor) -> Tensor:
    """Whatever an encoder leaves in padding, even NaN, must reach no product: NaN times zero is NaN."""
    if src_lens.device.type == "cpu" and int(src_lens.min()) == states.size(1):
        return states
    inside = torch.arange(states.size(1), device=states.device) < src_lens.to(states.device)[:, None]  # (B, I)
    return torch.where(inside[..., None], states, 0.0)
