"""What is done to text before it is split into symbols."""

from __future__ import annotations

import re
from unicodedata import normalize

_DIGIT = re.compile(r"\d")
_ASCII_DIGITS = str.maketrans("0123456789", "#" * 10)


def nfc(text: str) -> str:
    """The text in Unicode's composed form, in which equal-looking text is mostly equal."""
    # most lines of most files are ASCII or normalised already, and both are found out quickly
    return text if text.isascii() else normalize("NFC", text)


def normalise(text: str, *, lowercase: bool = False, digits_to_hash: bool = False) -> str:
    """Brings text into the form that models see: always NFC, and what the settings say.

    Args:
        text: Any text.
        lowercase: Whether to lowercase it.
        digits_to_hash: Whether every decimal digit, of whatever script, becomes ``#``.
    """
    text = nfc(text)
    if lowercase:
        # lowercasing can take a composed letter apart, such as I with a dot above
        text = nfc(text.lower())
    if digits_to_hash:
        # the table is much faster and knows ASCII only; NFC again, as a mark may follow what was a digit
        text = text.translate(_ASCII_DIGITS) if text.isascii() else nfc(_DIGIT.sub("#", text))
    return text
