"""Reading the files of a model directory that may be damaged, half moved or hostile."""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path

from ssnt.errors import ModelError

PENDING = ".pending"
"""A new model that is being moved into its directory: what is there goes before what is beside it."""

TRAINING = "training"
"""Where training keeps what it goes on from."""

CONFIG = "config.yaml"
VOCABULARY = "vocab.json"
WEIGHTS = "model.safetensors"
METRICS = "metrics.json"
CARD = "README.md"
MODELS = "models"

AGAIN = "copy the whole model directory again from where it came, or train the model again"


class Folder:
    """A model directory to be read.

    Files are opened only if they are regular files inside the directory: a link to elsewhere is refused, except into
    the store of the Hugging Face cache that the directory itself is a part of.

    Args:
        path: The directory.
        roots: Where its files may be; found out if not given.
    """

    def __init__(self, path: str | Path, roots: tuple[Path, ...] | None = None) -> None:
        self.path = Path(path)
        self._roots = roots if roots is not None else _roots(self.path)

    def has(self, name: str) -> bool:
        """Whether there is a file of this name, or something else."""
        return any(os.path.lexists(place) for place in self._places(name))

    def read(self, name: str, most: int) -> bytes:
        """The content of a file of at most ``most`` bytes.

        Raises:
            ModelError: It is missing, too large, a link to elsewhere, or cannot be read.
        """
        content = self._read(name, most + 1)
        if len(content) > most:
            raise ModelError(f"{self.path / name}: has more than the {most} bytes that are expected of it; {AGAIN}")
        return content

    def head(self, name: str, count: int) -> bytes:
        """The first ``count`` bytes of a file, or all if there are fewer."""
        return self._read(name, count)

    def read_checked(self, name: str, most: int, sha256: str) -> bytes:
        """The content of a file, if it is still the one that was written."""
        content = self.read(name, most)
        if hashlib.sha256(content).hexdigest() != sha256:
            raise ModelError(
                f"{self.path / name}: was cut short or changed since it was written (its SHA-256 is not the one in "
                f"{CONFIG}); {AGAIN}"
            )
        return content

    def inner(self, name: str) -> Folder:
        """A directory in it, which may be on its way into it still."""
        places = self._places(name)
        found = next((place for place in places if (place / CONFIG).is_file()), places[-1])
        return Folder(found, self._roots)

    def _places(self, name: str) -> tuple[Path, Path]:
        return self.path / PENDING / name, self.path / name

    def _read(self, name: str, count: int) -> bytes:
        for place in self._places(name):
            try:
                return self._read_regular(place, count)
            except (FileNotFoundError, NotADirectoryError):
                continue
            except (OSError, MemoryError) as error:
                reason = getattr(error, "strerror", None) or type(error).__name__
                raise ModelError(f"{self.path / name}: cannot be read: {reason}") from None
        raise ModelError(f"{self.path / name}: is missing; {AGAIN}")

    def _read_regular(self, place: Path, count: int) -> bytes:
        real = Path(os.path.realpath(place))
        if os.path.lexists(place) and not any(real.is_relative_to(root) for root in self._roots):
            raise ModelError(
                f"{place}: is a link out of the model directory, and such links are not followed; "
                "put the file itself there"
            )
        if not stat.S_ISREG(os.stat(real).st_mode):  # reading a pipe or a device may never end
            raise ModelError(f"{place}: is not a regular file; {AGAIN}")
        with real.open("rb") as file:
            # never more than there is: a buffer for the count that some file claims may be too large
            return file.read(min(count, os.fstat(file.fileno()).st_size + 1))


def _roots(path: Path) -> tuple[Path, ...]:
    real = Path(os.path.realpath(path))
    # the Hugging Face cache keeps models--owner--name/snapshots/<revision>, with links into ../../blobs
    if real.parent.name == "snapshots":
        return real, real.parent.parent / "blobs"
    return (real,)
