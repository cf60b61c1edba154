"""What is done to text before it is split into symbols."""

from __future__ import annotations

import re
from unicodedata import normalize

_DIGIT = re.compile(r"\d")
_ASCII = bytes(range(128))
_HASHED = _ASCII.translate(bytes.maketrans(b"0123456789", b"#" * 10))
_TABLES = {  # by (lowercase, digits_to_hash); for what is not ASCII there is no use
    (True, False): _ASCII.lower().ljust(256),
    (False, True): _HASHED.ljust(256),
    (True, True): _HASHED.lower().ljust(256),
}


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
    if not lowercase and not digits_to_hash:
        return nfc(text)
    if text.isascii():  # most text of many files is, and bytes are translated several times as fast
        return text.encode("ascii").translate(_TABLES[lowercase, digits_to_hash]).decode("ascii")
    text = nfc(text)
    if lowercase:
        # lowercasing can take a composed letter apart, such as I with a dot above
        text = nfc(text.lower())
    if digits_to_hash:
        text = nfc(_DIGIT.sub("#", text))  # NFC again, as a mark may follow what was a digit
    return text
