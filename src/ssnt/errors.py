"""The exceptions that ssnt raises on purpose, and what their messages are made with."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class SsntError(Exception):
    """Base of every error that ssnt raises on purpose."""


class DataError(SsntError, ValueError):
    """A value, in a file or in a tensor, cannot be used."""


class ConfigError(SsntError, ValueError):
    """A setting is unknown, missing or out of range."""


class HardwareError(ConfigError):
    """A setting asks for what this machine does not have; another may have it."""


class InUseError(ConfigError):
    """Another process is writing to the same directory."""


class ShapeError(SsntError, ValueError):
    """A tensor has the wrong rank, size, dtype, device or lengths."""


class BackendError(SsntError, RuntimeError):
    """An explicitly requested backend cannot run here."""


class ModelError(SsntError, RuntimeError):
    """A model is asked for something it cannot do in its present state."""


class StorageError(SsntError, OSError):
    """A file cannot be written; what was there before is unchanged."""

    def __str__(self) -> str:
        # OSError would put the number of the error before the sentence
        return str(self.args[-1])


def nearest_name(name: str, names: Iterable[str]) -> str | None:
    """The one of some names that a wrong one was meant to be, capitals aside; None if none is like it."""
    by_letters = {one.lower(): one for one in names}
    found = difflib.get_close_matches(name.lower(), by_letters, n=1)
    return by_letters[found[0]] if found else None
