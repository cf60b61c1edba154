"""Long texts, made small enough to be committed, as text that JSON can hold."""

from __future__ import annotations

import base64
import re
import zlib

from ssnt.errors import DataError


def pack(text: str) -> str:
    """A long text in a fraction of its room."""
    return base64.b85encode(zlib.compress(text.encode(), 9)).decode()


def unpack(text: object, form: re.Pattern[str]) -> str:
    """What was packed, which is to be of some form.

    Raises:
        DataError: It was not packed, or is of another form.
    """
    if not isinstance(text, str):  # of JSON that another version has written
        raise DataError(f"expected a text that was packed, got {type(text).__name__}: {str(text)[:40]}...")
    try:
        plain = zlib.decompress(base64.b85decode(text)).decode()
    except (ValueError, zlib.error) as error:
        raise DataError(f"expected a text that was packed, got {text[:20]!r}...: {error}") from None
    if not form.fullmatch(plain):
        raise DataError(f"expected a text of the form {form.pattern}, got {plain[:40]!r}...")
    return plain
