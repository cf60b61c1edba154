"""The settings of a model."""

from __future__ import annotations

from typing import Any, Literal, Self, get_args

from pydantic import Field, PositiveInt, field_validator, model_validator

from ssnt.config.base import Settings
from ssnt.errors import ConfigError, nearest_name
from ssnt.types import UNK_ID

Transition = Literal["neural", "geometric"]

Architecture = Literal["ssnt", "seq2seq", "attention", "adapted-seq2seq", "rnnt", "prefix-attention", "joint-network"]
Attention = Literal["bahdanau", "luong"]

VARIANTS = ("uniSSNT", "biSSNT", "uniSSNT+", "biSSNT+")
"""The paper's four models: the encoder's direction, and ``+`` for the neural transition."""

MODEL_NAMES = (*VARIANTS, *get_args(Architecture)[1:])
"""The kinds of models by name: the paper's four, and every other architecture."""

_WITHOUT_ALIGNMENT = ("seq2seq", "attention", "adapted-seq2seq")


class ArchitectureConfig(Settings):
    """What a model is like before it is known how many symbols there are.

    Attributes:
        architecture: ``ssnt`` (the paper's model), ``rnnt``, ``prefix-attention`` or ``joint-network`` (others with an
            alignment), or ``seq2seq``, ``attention`` or ``adapted-seq2seq`` (encoders with decoders, which have none).
        attention: How ``attention`` scores source positions: ``bahdanau`` (additive) or ``luong`` (general).
        embed_size: Size of source and target embeddings.
        hidden_size: Size of every LSTM layer, in each direction, and of the hidden layer of ``joint-network``.
        encoder_layers: Number of encoder layers.
        decoder_layers: Number of decoder layers.
        bidirectional: Whether the encoder reads both ways; if it does, the model cannot work online. Encoder-decoders
            cannot, whatever it is.
        transition: ``neural`` (the paper's ``+`` models) or ``geometric``; without effect for ``rnnt`` and for models
            without an alignment.
        transition_hidden_size: Hidden size of the neural transition; None for ``hidden_size``. Without effect where
            ``transition`` is.
        feature_size: Size of the tag embeddings.
        input_dropout: Dropout on the input of every LSTM layer (paper: 0.2 words, 0.5 characters).
        output_dropout: Dropout on encoder and decoder states (paper: 0 words, 0.5 characters).
        tie_target_embedding: Whether the decoder's half of the output projection is the target embedding.
        source_skip: Whether a source state also holds the embedding of its own symbol, beside what the LSTM says of it:
            copying is then easy to learn. Not in the paper; for models with an alignment.
    """

    architecture: Architecture = "ssnt"
    attention: Attention = "bahdanau"
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
    source_skip: bool = False

    @field_validator("architecture", mode="before")
    @classmethod
    def _check_no_variant(cls, architecture: Any) -> Any:
        for name in VARIANTS:
            if isinstance(architecture, str) and architecture.lower() == name.lower():
                fixed = named_settings(name)
                direction = str(fixed["bidirectional"]).lower()
                raise ValueError(
                    f"expected 'ssnt', of which {name} is the kind with bidirectional={direction} and "
                    f"transition={fixed['transition']} (--model {name} sets all three)"
                )
        return architecture

    @model_validator(mode="after")
    def _check_tied_sizes(self) -> Self:
        if self.tie_target_embedding and self.embed_size != self.hidden_size:
            raise ValueError(
                "setting 'tie_target_embedding': expected embed_size equal to hidden_size, got "
                f"embed_size={self.embed_size} and hidden_size={self.hidden_size}; "
                "make them equal, or do not tie"
            )
        return self

    @model_validator(mode="after")
    def _check_skip(self) -> Self:
        if self.source_skip and not self.has_alignment:
            raise ValueError(
                f"setting 'source_skip': expected false for {self.architecture!r}, which has no alignment, got true; "
                "leave it out, or choose a model with an alignment, such as biSSNT+ (--model biSSNT+)"
            )
        return self

    @property
    def name(self) -> str:
        """What this kind of model is called: one of :data:`VARIANTS` for the paper's, otherwise the architecture."""
        direction = "bi" if self.bidirectional else "uni"
        if self.architecture == "ssnt":
            return direction + "SSNT" + ("+" if self.transition == "neural" else "")
        if self.architecture == "attention":
            return f"attention ({self.attention})"
        return f"{direction} {self.architecture}" if self.has_alignment else self.architecture

    @property
    def has_alignment(self) -> bool:
        """Whether the model walks along the source: if not, it cannot align, stream or search paths."""
        return self.architecture not in _WITHOUT_ALIGNMENT

    @property
    def has_transition(self) -> bool:
        """Whether emitting or reading on is decided as ``transition`` says."""
        return self.has_alignment and self.architecture != "rnnt"


def named_settings(name: str) -> dict[str, Any]:
    """The settings that the name of a kind of model fixes.

    Args:
        name: One of :data:`MODEL_NAMES`.

    Raises:
        ConfigError: The name is unknown.
    """
    if name not in MODEL_NAMES:
        nearest = nearest_name(name, MODEL_NAMES)
        hint = f"expected one of {', '.join(MODEL_NAMES)}" if nearest is None else f"did you mean {nearest!r}?"
        raise ConfigError(f"unknown model {name!r}: {hint}")
    if name not in VARIANTS:
        return {"architecture": name}
    transition = "neural" if name.endswith("+") else "geometric"
    return {"architecture": "ssnt", "bidirectional": name.startswith("bi"), "transition": transition}


class ModelConfig(ArchitectureConfig):
    """The settings of a model; they and its state dict are the whole model.

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
        fixed = named_settings(name)
        for key in fixed.keys() & settings.keys():
            raise ConfigError(
                f"setting {key!r}: expected none beside the variant {name!r}, which fixes it, "
                f"got {settings[key]!r}; leave it out, or choose another variant"
            )
        return cls(**fixed, **settings)
