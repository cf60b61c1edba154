"""Validated settings: a wrong or unknown one is a ConfigError that says what was expected."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PositiveInt,
    ValidationError,
    field_validator,
    model_validator,
)

from ssnt.errors import ConfigError
from ssnt.types import UNK_ID

Transition = Literal["neural", "geometric"]

VARIANTS = ("uniSSNT", "biSSNT", "uniSSNT+", "biSSNT+")
"""The paper's four models: the encoder's direction, and ``+`` for the neural transition."""


class Settings(BaseModel):
    """Base of all settings: frozen, no conversions between types, no unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    if not TYPE_CHECKING:  # hidden from static checkers, which keep the exact signatures that way

        def __init__(self, /, **settings: Any) -> None:
            with _config_errors(type(self)):
                super().__init__(**settings)

        @classmethod
        def model_validate(cls, obj: Any, **options: Any) -> Self:
            """Returns checked settings from a mapping."""
            with _config_errors(cls):
                return super().model_validate(obj, **options)

        def model_copy(self, *, update: dict[str, Any] | None = None, deep: bool = False) -> Self:
            """Returns a checked copy with some settings changed."""
            # pydantic would take over the changes unchecked
            return type(self)(**{**self.model_dump(), **(update or {})})


class ModelConfig(Settings):
    """The settings of an SSNT model; they and its state dict are the whole model.

    Attributes:
        src_vocab_size: Number of source symbols, the four special ones included.
        tgt_vocab_size: Number of target symbols, the four special ones included.
        feature_vocab_size: Number of tags, ``PAD_ID`` included; 0 for a model without tags.
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

    src_vocab_size: int = Field(gt=UNK_ID)
    tgt_vocab_size: int = Field(gt=UNK_ID)
    feature_vocab_size: int = Field(default=0, ge=0)
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

    @field_validator("feature_vocab_size")
    @classmethod
    def _check_room_for_a_tag(cls, size: int) -> int:
        if size == 1:  # PAD_ID alone
            raise ValueError("expected 0 (no tags) or at least 2 (padding and one tag)")
        return size

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


@contextmanager
def _config_errors(cls: type[BaseModel]) -> Iterator[None]:
    """Turns pydantic's errors into one ConfigError, a line for each wrong setting."""
    try:
        yield
    except ValidationError as error:
        lines = [_explain(details, cls.model_fields) for details in error.errors(include_url=False)]
        raise ConfigError("\n".join(lines)) from None


def _explain(details: Any, known: Iterable[str]) -> str:
    """Says which setting is wrong, what was expected and what came."""
    key = ".".join(str(part) for part in details["loc"])
    if details["type"] == "extra_forbidden":
        nearest = difflib.get_close_matches(key, known, n=1)
        hint = f"did you mean {nearest[0]!r}?" if nearest else f"expected one of {', '.join(known)}"
        return f"unknown setting {key!r} (got {details['input']!r}): {hint}"
    if details["type"] == "missing":
        return f"setting {key!r}: expected a value, got none; it has no default"
    if details["type"] == "value_error":
        message = str(details["ctx"]["error"])
        # an error about the settings as a whole (no key) names its settings itself
        return f"setting {key!r}: {message}, got {details['input']!r}" if key else message
    expected = str(details["msg"]).removeprefix("Input should be ")
    if expected.startswith(("greater", "less")):
        expected = f"a value {expected}"
    return f"setting {key!r}: expected {expected}, got {details['input']!r}"
