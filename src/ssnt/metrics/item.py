"""What is scored: an output beside its references."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Self
from unicodedata import is_normalized, normalize

from ssnt.errors import DataError

ROUNDING = 1e-3
"""How far below 0 a negative log likelihood may be: sums of float32 log probabilities end up there."""


@dataclass(frozen=True, slots=True)
class Item:
    """One output and what it should have been, normalised to NFC.

    Symbols and text are two views of the same output: accuracy, edit distance and symbol error rate look at symbols;
    word error rate and ROUGE at the text, split at whitespace. Symbols are normalised one by one, so text must be
    normalised before it is split: :meth:`from_text` does that.

    Attributes:
        prediction: The output's symbols, in the units of scoring and without an end symbol.
        references: The symbols of each right answer; one or several. None are needed for perplexity.
        text: The output.
        reference_texts: The right answers, in the order of ``references``.
        group: What macro averages keep apart, such as the tag set of an inflected form.
        nll: ``-log p(y|x)`` of the reference output, in nats; needed for perplexity. Infinite if it is impossible.
        tokens: How many symbols the model predicts for that output, its end symbol included; given with ``nll``.

    Raises:
        DataError: A field has the wrong type, or the fields do not fit together.
    """

    prediction: tuple[str, ...]
    references: tuple[tuple[str, ...], ...]
    text: str
    reference_texts: tuple[str, ...]
    group: str = ""
    nll: float | None = None
    tokens: int | None = None

    def __post_init__(self) -> None:
        _check_symbols("prediction", self.prediction)
        if not isinstance(self.references, tuple):
            raise DataError(f"references must be a tuple of tuples of strings, got {_what(self.references)}")
        for index, reference in enumerate(self.references):
            _check_symbols(f"references[{index}]", reference)
        for name in ("text", "group"):
            if not isinstance(value := getattr(self, name), str):
                raise DataError(f"{name} must be a string, got {_what(value)}")
        _check_symbols("reference_texts", self.reference_texts)
        if len(self.references) != len(self.reference_texts):
            raise DataError(
                f"reference_texts must hold one text for each of the {len(self.references)} references, "
                f"got {len(self.reference_texts)}"
            )
        if self.nll is not None or self.tokens is not None:
            check_likelihood(self.nll, self.tokens)
        # A frozen dataclass can be completed only in this way.
        object.__setattr__(self, "prediction", _normalized(self.prediction))
        object.__setattr__(self, "references", tuple(map(_normalized, self.references)))
        object.__setattr__(self, "text", normalize("NFC", self.text))
        object.__setattr__(self, "group", normalize("NFC", self.group))
        object.__setattr__(self, "reference_texts", _normalized(self.reference_texts))

    @classmethod
    def from_text(
        cls,
        text: str,
        references: str | Iterable[str],
        *,
        split: Callable[[str], Iterable[str]] = tuple,
        group: str = "",
        nll: float | None = None,
        tokens: int | None = None,
    ) -> Self:
        """Builds an item from text: normalises it, then splits it into symbols.

        Args:
            text: The output.
            references: The right answer, or several.
            split: Text to symbols. By default a symbol is a code point; ``str.split`` takes what is between spaces.
            group: What macro averages keep apart.
            nll: Negative log likelihood of the reference output in nats.
            tokens: The number of symbols, with the end symbol, that ``nll`` is summed over.

        Raises:
            DataError: An argument has the wrong type.
        """
        texts = (references,) if isinstance(references, str) else tuple(references)
        _check_symbols("references", texts)
        if not isinstance(text, str):
            raise DataError(f"text must be a string, got {_what(text)}")
        text, texts = normalize("NFC", text), _normalized(texts)
        symbols = tuple(tuple(split(one)) for one in texts)
        return cls(tuple(split(text)), symbols, text, texts, group=group, nll=nll, tokens=tokens)


def check_likelihood(nll: float | None, tokens: int | None) -> None:
    """Refuses what is no negative log likelihood over at least one token.

    Raises:
        DataError: ``nll`` is not a number of at least 0, or ``tokens`` not a number of at least 1.
    """
    if not isinstance(nll, Real) or math.isnan(nll):
        raise DataError(f"nll must be a number of at least 0, got {nll!r}; give nll and tokens together, or neither")
    if nll < -ROUNDING:
        raise DataError(f"nll must be at least 0, got {nll}; if this is a log likelihood, change its sign")
    if not isinstance(tokens, Integral) or tokens < 1:
        raise DataError(f"tokens must be a whole number of at least 1, got {tokens!r}; the end symbol is one of them")


def _check_symbols(name: str, value: object) -> None:
    if not isinstance(value, tuple) or not all(isinstance(symbol, str) for symbol in value):
        raise DataError(f"{name} must be a tuple of strings, got {_what(value)}; Item.from_text builds it from text")


def _normalized(texts: tuple[str, ...]) -> tuple[str, ...]:
    if is_normalized("NFC", "".join(texts)):  # then so is each part of it, and one question is quicker than many
        return texts
    return tuple(normalize("NFC", text) for text in texts)


def _what(value: object) -> str:
    """The value and its type, short enough for a message."""
    shown = repr(value)
    return f"{shown if len(shown) <= 60 else shown[:57] + '...'} ({type(value).__name__})"
