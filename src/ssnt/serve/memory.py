"""Memory that would grow with what clients send."""

from __future__ import annotations

import os


def keep_few_shapes() -> None:
    """Makes oneDNN keep what it has compiled for few shapes only; to be called before the first computation.

    Clients bring ever new shapes. By default a thousand of them are kept, which takes hours to fill and tens of
    megabytes.
    """
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")
