"""Long texts of numbers, made small enough to be committed, as text that JSON can hold."""

from __future__ import annotations

import base64
import zlib

from ssnt.errors import DataError


def pack(text: str) -> str:
    """A text in a fifth of its room, or less."""
    return base64.b85encode(zlib.compress(text.encode(), 9)).decode()


def unpack(text: str) -> str:
    """What was packed.

    Raises:
        DataError: It was not.
    """
    if not isinstance(text, str):  # of JSON that another version has written
        raise DataError(f"expected a text that was packed, got {type(text).__name__}: {str(text)[:40]}...")
    try:
        return zlib.decompress(base64.b85decode(text)).decode()
    except (ValueError, zlib.error) as error:
        raise DataError(f"expected a text that was packed, got {text[:20]!r}...: {error}") from None
