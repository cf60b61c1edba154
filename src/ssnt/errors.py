"""The exceptions that ssnt raises on purpose."""


class SsntError(Exception):
    """Base of every error that ssnt raises on purpose."""


class DataError(SsntError, ValueError):
    """A value, in a file or in a tensor, cannot be used."""


class ConfigError(SsntError, ValueError):
    """A setting is unknown, missing or out of range."""


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
