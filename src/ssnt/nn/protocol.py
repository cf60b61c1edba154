"""What training, searches and model directories see of a model, and what all models have in common.

Axes: ``B`` batch, ``I`` source, ``J`` target, ``Hs`` the size of source states, ``C`` condition.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from ssnt.config import ModelConfig
from ssnt.config.model import Architecture
from ssnt.dp.autograd import LikelihoodAndDelay
from ssnt.dp.checks import require_tensor
from ssnt.errors import ConfigError, ModelError, ShapeError
from ssnt.loss import Reduction, loss_terms, ssnt_loss
from ssnt.nn.checks import check_device, check_lengths, check_same_batch
from ssnt.nn.dropout import Dropout
from ssnt.nn.encoder import Encoder, LSTMEncoder
from ssnt.nn.features import FeatureEncoder
from ssnt.nn.padding import inside
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


class Model(nn.Module):
    """A model of any architecture: an encoder with tags, and lattices whose paths have probabilities.

    Args:
        config: The settings.
        encoder: An encoder to use instead of the paper's LSTM; ``src_vocab_size``, ``encoder_layers``
            and ``bidirectional`` then have no effect. Must be an ``nn.Module``.

    Raises:
        ConfigError: The settings are of another architecture.

    Attributes:
        config: The settings.
        encoder: Source symbols to states.
        features: The tag encoder, None in a model without tags.
        output_dropout: Dropout on encoder and decoder states.
        architecture: The ``config.architecture`` that the class is for.
        has_alignment: Whether the columns of its lattices are source positions. If not, they have one column, whose
            words have the model's probabilities: then there is nothing to align, and nothing to write early.
    """

    architecture: ClassVar[Architecture]
    has_alignment: ClassVar[bool] = True
    encoder: Encoder

    def __init__(self, config: ModelConfig, *, encoder: Encoder | None = None) -> None:
        super().__init__()
        if not isinstance(config, ModelConfig):
            raise ConfigError(f"config: expected a ModelConfig, got {type(config).__name__}; use ModelConfig(...)")
        if not hasattr(self, "architecture"):
            raise ModelError(
                f"{type(self).__name__}: expected a class attribute 'architecture', naming the settings it is for, "
                "got none; set it, or derive from a class that has it, such as ssnt.SSNT"
            )
        if config.architecture != self.architecture:
            raise ConfigError(
                f"config: expected architecture={self.architecture!r} for {type(self).__name__}, got "
                f"{config.architecture!r}; use ssnt.nn.build_model(config), which builds what the settings name"
            )
        self.config = config
        has_tags = config.feature_vocab_size > 0
        self.features = FeatureEncoder(config.feature_vocab_size, config.feature_size) if has_tags else None
        if encoder is None:
            encoder = LSTMEncoder(
                config.src_vocab_size,
                config.embed_size,
                config.hidden_size,
                layers=config.encoder_layers,
                bidirectional=config.bidirectional,
                condition_size=self.condition_size,
                dropout=config.input_dropout,
                has_skip=config.source_skip,
            )
        elif not isinstance(encoder, nn.Module):
            raise ModelError(
                f"encoder: expected an nn.Module, got {type(encoder).__name__}; "
                "anything else would have no parameters to train or save"
            )
        self.encoder = encoder
        self.output_dropout = Dropout(config.output_dropout)

    @property
    def condition_size(self) -> int:
        """Size ``C`` of the encoded tags; 0 in a model without tags."""
        return 0 if self.features is None else self.features.output_size

    @property
    def has_tags(self) -> bool:
        """Whether every source comes with tags."""
        return self.features is not None

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return next(self.parameters()).device

    @property
    def is_streaming(self) -> bool:
        """Whether the model can write while it reads."""
        return self.has_alignment and self.encoder.is_streaming

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

    @abstractmethod
    def grid_of(self, encoding: Encoding, src_lens: Tensor, tgt: Tensor, tgt_lens: Tensor) -> Grid:
        """Returns the lattice of sources that are encoded already, with targets (B, J)."""
        raise NotImplementedError

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
            delay_weight=delay_weight,
        )

    def loss_terms(
        self, batch: Batch, *, end: End = "any", backend: str = "auto", fastemit: float = 0.0
    ) -> LikelihoodAndDelay:
        """Returns ``-log p(y | x)`` and the expected delay of each pair; see :func:`ssnt.loss.loss_terms`.

        Raises:
            ModelError: The model has no alignment, so nothing has a delay.
        """
        if not self.has_alignment:
            raise ModelError(
                f"expected a model with an alignment, got {self.config.name}, whose outputs have no delay; use loss()"
            )
        return loss_terms(self.grid(batch), end=end, backend=backend, fastemit=fastemit)

    def prepare(self, src_lens: Tensor | Iterable[int], tgt_lens: Tensor | Iterable[int]) -> None:
        """Takes what can be told from the lengths of all training pairs before training; here nothing."""

    def _check_source(self, batch: Batch) -> None:
        if not isinstance(batch, Batch):
            raise ShapeError(f"batch: expected an ssnt.Batch, got {type(batch).__name__}")
        check_device("src", batch.src, self.device)
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
        check_device("features", batch.features, self.device)
        check_same_batch("features", batch.features, "src", batch.src.size(0))

    def _checked_target(self, batch: Batch) -> tuple[Tensor, Tensor]:
        tgt, tgt_lens = batch.tgt, batch.tgt_lens
        if tgt is None or tgt_lens is None:
            raise ModelError("tgt and tgt_lens: expected the targets of every pair, got None; give both with the batch")
        check_device("tgt", tgt, self.device)
        require_tensor("tgt_lens", tgt_lens)
        check_lengths("tgt_lens", tgt_lens, "tgt", tgt)
        check_same_batch("tgt", tgt, "src", batch.src.size(0))
        return tgt, tgt_lens


def _zero_in_padding(states: Tensor, src_lens: Tensor) -> Tensor:
    """Whatever an encoder leaves in padding, even NaN, must reach no product: NaN times zero is NaN."""
    if src_lens.device.type == "cpu" and int(src_lens.min()) == states.size(1):
        return states
    return torch.where(inside(states, src_lens)[..., None], states, 0.0)
