"""Text as it arrives, in pieces of any size, to the symbols that the whole text would give.

What a character is, is known only when the next one shows that it does not combine: ``e`` and a combining acute are one
character, whichever way they are cut into pieces. So the last character waits, if there is any that could combine with
it; for grapheme clusters the last cluster does, for tokens the last token. In text that is lowercased, a capital sigma
waits for what follows too, as it has another form at the end of a word.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple
from unicodedata import combining, decomposition, normalize

from ssnt.data.text import normalise
from ssnt.data.units import Unit
from ssnt.errors import ModelError

_SIGMA = "\u03a3"
_LAST_DECOMPOSABLE = 0x2FA1F


class ArrivingText:
    """Divides text that arrives in pieces; the symbols do not depend on where it was cut.

    Args:
        unit: What a symbol is.
        lowercase: Whether text is lowercased.
        digits_to_hash: Whether digits become ``#``.

    Raises:
        ModelError: These symbols depend on text that may be far ahead.
    """

    def __init__(self, unit: Unit, *, lowercase: bool = False, digits_to_hash: bool = False) -> None:
        if unit.name not in _SETTLED:
            raise ModelError(
                f"the model reads {unit.name} units, which depend on text that has not arrived yet, so that it cannot "
                "stream; give it whole texts, or train a model with data.source_unit=characters, graphemes or tokens"
            )
        self._unit = unit
        self._settled = _SETTLED[unit.name]
        self._lowercase = lowercase
        self._digits_to_hash = digits_to_hash
        self._raw = ""  # as it came: the next character may still change it
        self._text = ""  # normalised: the next character may still belong to the same symbol
        self._is_after_cased = False  # whether the last letter before _raw makes a sigma after it a final one

    def push(self, text: str) -> list[str]:
        """The symbols that are certain now."""
        raw = self._raw + text
        cut = self._certain(raw, len(self._raw))
        self._raw = raw[cut:]
        return self._divide(self._text + self._normalised(raw[:cut]))

    def finish(self) -> list[str]:
        """The symbols that were waiting for more text."""
        symbols = self._unit.split(self._text + self._normalised(self._raw))
        self._raw = self._text = ""
        return symbols

    def state(self) -> dict[str, Any]:
        """What is waiting, as strings and a truth value."""
        return {"raw": self._raw, "text": self._text, "is_after_cased": self._is_after_cased}

    def load_state(self, state: dict[str, Any]) -> None:
        """Goes on from a saved state."""
        self._raw, self._text = str(state["raw"]), str(state["text"])
        self._is_after_cased = bool(state["is_after_cased"])

    def _divide(self, text: str) -> list[str]:
        end = self._settled(text)
        self._text = text[end:]
        return self._unit.split(text[:end])

    def _certain(self, raw: str, old: int) -> int:
        """How much of the text no later character can change; what was there before, ``old``, was not enough."""
        if len(raw) > old and _stands_alone(raw[-1]):
            cut = len(raw)
        else:
            cut = next((k for k in range(len(raw) - 1, max(old, 1) - 1, -1) if _begins_anew(raw[k])), 0)
        while self._lowercase and (sigma := raw.rfind(_SIGMA, 0, cut)) >= 0 and _is_ignored(raw[sigma + 1 : cut]):
            cut = sigma  # what follows it is at hand but not certain
        return cut

    def _normalised(self, raw: str) -> str:
        if not raw:
            return ""
        # a letter for a sigma to look back at, and what it looks over and marks do not combine with
        before = "a." if self._lowercase and self._is_after_cased else ""
        text = normalise(before + raw, lowercase=self._lowercase, digits_to_hash=self._digits_to_hash)[len(before) :]
        if self._lowercase:
            seen = (kind for kind in map(_case, reversed(normalize("NFC", raw))) if kind != "ignored")
            self._is_after_cased = next(seen, "cased" if self._is_after_cased else "other") == "cased"
        return text


def _settled_characters(text: str) -> int:
    return len(text)


def _settled_clusters(text: str) -> int:
    """All but the last grapheme cluster: where one ends depends on the next character only."""
    if not text:
        return 0
    from ssnt.data.units import Graphemes

    return len(text) - len(Graphemes().split(text)[-1])


def _settled_tokens(text: str) -> int:
    """All up to the last whitespace."""
    return next((k + 1 for k in range(len(text) - 1, -1, -1) if text[k].isspace()), 0)


_SETTLED: dict[str, Callable[[str], int]] = {
    "characters": _settled_characters,
    "graphemes": _settled_clusters,
    "tokens": _settled_tokens,
}


@lru_cache(maxsize=4096)
def _begins_anew(character: str) -> bool:
    """Whether a character combines with nothing before it, also when it is lowercased."""
    return all(
        not combining(first) and first not in _composing().seconds
        for first in (normalize("NFD", character)[0], normalize("NFD", character.lower())[0])
    )


@lru_cache(maxsize=4096)
def _stands_alone(character: str) -> bool:
    """Whether a character combines with nothing after it either, such as a space or a digit."""
    forms = {normalize("NFD", character), normalize("NFD", character.lower())}
    return _begins_anew(character) and all(len(form) == 1 and form not in _composing().firsts for form in forms)


class _Composing(NamedTuple):
    """The characters that NFC joins to one after them, and those that it joins to one before them."""

    firsts: frozenset[str]
    seconds: frozenset[str]


@lru_cache(maxsize=1)
def _composing() -> _Composing:
    firsts = {chr(code) for code in (*range(0x1100, 0x1113), *range(0xAC00, 0xD7A4, 28))}  # Hangul L, and LV syllables
    seconds = {chr(code) for code in (*range(0x1161, 0x1176), *range(0x11A8, 0x11C3))}  # Hangul V and T
    for code in range(_LAST_DECOMPOSABLE + 1):
        parts = decomposition(chr(code)).split()
        if len(parts) == 2 and not parts[0].startswith("<") and normalize("NFC", chr(code)) == chr(code):
            firsts.add(chr(int(parts[0], 16)))
            seconds.add(chr(int(parts[1], 16)))
    return _Composing(frozenset(firsts), frozenset(seconds))


@lru_cache(maxsize=4096)
def _case(character: str) -> str:
    """What a character means for a sigma before it: ``cased``, ``ignored`` or ``other``; found out by trying."""
    if f"A{_SIGMA}{character}".lower()[1] == "\u03c3":
        return "cased"
    return "ignored" if f"A{_SIGMA}{character}A".lower()[1] == "\u03c3" else "other"


def _is_ignored(text: str) -> bool:
    return all(_case(character) == "ignored" for character in text)
