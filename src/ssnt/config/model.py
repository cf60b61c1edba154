"""The settings of a model."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import Field, PositiveInt, field_validator, model_validator

from ssnt.config.base import Settings
from ssnt.errors import ConfigError
from ssnt.types import UNK_ID

Transition = Literal["neural", "geometric"]

VARIANTS = ("uniSSNT", "biSSNT", "uniSSNT+", "biSSNT+")
"""The paper's four models: the encoder's direction, and ``+`` for the neural transition."""


class ArchitectureConfig(Settings):
    """What a model is like before it is known how many symbols there are.

    Attributes:
        embed_size: Size of source and target embeddings.
        hidden_size: Size of every LSTM layer, in each direction.
        encoder_layers: Number of encoder layers.
        decoder_layers: Number of decoder layers.
        bidirectional: Whether the encoder reads both ways; if it does, the model cannot work online.
        transition: ``neural`` (the paper's ``+`` models) or ``geometric``.
        transition_hidden_size: Hidden size of the neural transition; None for ``hidden_size``.
        feature_size: Size of the tag embeddings.
        input_dropout: Dropout on the input of every LSTM layer (paper: 0.2 words, 0.5 characters).
        output_dropout: Dropout on encoder and decoder states (paper: 0 words, 0.5 characters).
        tie_target_embedding: Whether the decoder's half of the output projection is the target embedding.
    """

    embed_size: PositiveInt = 128
    hidden_size: PositiveInt = 128
    encoder_layers: PositiveInt = 1
    decoder_layers: PositiveInt = 1
    bidirectional: bool = True
    transition: Transition = "neural"
    transition_hidden_size: PositiveInt | None = None
    feature_size: PositiveInt = 32
    input_dropout: float = Field(default=0.0, ge=0.0, lt=1.0)
    output_dropout: float = Field(default=0.0, ge=0.0, lt=1.0)
    tie_target_embedding: bool = False

    @model_validator(mode="after")
    def _check_tied_sizes(self) -> Self:
        if self.tie_target_embedding and self.embed_size != self.hidden_size:
            raise ValueError(
                "setting 'tie_target_embedding': expected embed_size equal to hidden_size, got "
                f"embed_size={self.embed_size} and hidden_size={self.hidden_size}; "
                "make them equal, or do not tie"
            )
        return self

    @property
    def name(self) -> str:
        """The paper's name for this kind of model, one of :data:`VARIANTS`."""
        return ("bi" if self.bidirectional else "uni") + "SSNT" + ("+" if self.transition == "neural" else "")


class ModelConfig(ArchitectureConfig):
    """The settings of an SSNT model; they and its state dict are the whole model.

    Attributes:
        src_vocab_size: Number of source symbols, the four special ones included.
        tgt_vocab_size: Number of target symbols, the four special ones included.
        feature_vocab_size: Number of tags, ``PAD_ID`` included; 0 for a model without tags.
    """

    src_vocab_size: int = Field(gt=UNK_ID)
    tgt_vocab_size: int = Field(gt=UNK_ID)
    feature_vocab_size: int = Field(default=0, ge=0)

    @field_validator("feature_vocab_size")
    @classmethod
    def _check_room_for_a_tag(cls, size: int) -> int:
        if size == 1:  # PAD_ID alone
            raise ValueError("expected 0 (no tags) or at least 2 (padding and one tag)")
        return size

    @classmethod
    def variant(cls, name: str, **settings: Any) -> Self:
        """Returns the settings of one of the paper's four models.

        Args:
            name: One of :data:`VARIANTS`; fixes ``bidirectional`` and ``transition``.
            **settings: Every other setting.

        Raises:
            ConfigError: The name is unknown, or a setting is wrong or already fixed by the name.
        """
        if name not in VARIANTS:
            raise ConfigError(f"unknown model variant {name!r}: expected one of {', '.join(VARIANTS)}")
        for key in ("bidirectional", "transition"):
            if key in settings:
                raise ConfigError(
                    f"setting {key!r}: expected none beside the variant {name!r}, which fixes it, "
                    f"got {settings[key]!r}; leave it out, or choose another variant"
                )
        transition: Transition = "neural" if name.endswith("+") else "geometric"
        return cls(bidirectional=name.startswith("bi"), transition=transition, **settings)
