"""Writing files so that a reader never meets half of one, whatever happens meanwhile."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ssnt.errors import ConfigError, StorageError

_CHUNK = 1 << 20


def check_not_both(*, resume: bool, overwrite: bool) -> None:
    """Refuses to go on with what is there and to replace it at once.

    Raises:
        ConfigError: Both are asked for.
    """
    if resume and overwrite:
        raise ConfigError("--resume goes on with what is there and --overwrite replaces it; give one of them")


@contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Gives a name beside ``path`` to write to, which takes the place of ``path`` if all went well.

    The new content is on the disk before the old goes. After an error ``path`` is what it was before, and nothing is
    left beside it. What a link points to is replaced, not the link; a device is written to as it is.

    Raises:
        StorageError: It cannot be written, such as on a full disk.
    """
    asked, path = Path(path), Path(os.path.realpath(path))
    if path.exists() and not path.is_file() and not path.is_dir():
        with _storage_errors(asked):
            yield path
        return
    with _storage_errors(asked):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".partial", dir=path.parent)
        os.close(handle)
        partial = Path(name)
        try:
            yield partial
            put_in_place(partial, path)
        except BaseException:
            with suppress(OSError):
                partial.unlink()
            raise


def put_in_place(partial: Path, path: Path) -> None:
    """Gives a finished file its name, in the place of what has it; it is on the disk before the old goes."""
    _make_readable(partial, like=path)
    sync(partial)
    os.replace(partial, path)
    sync(path.parent)


def write_text(path: str | Path, text: str) -> None:
    """Writes a text file in UTF-8, whole or not at all."""
    with atomic_path(path) as partial:
        partial.write_text(text, encoding="utf-8", newline="\n")


def write_json(path: str | Path, value: Any) -> None:
    """Writes a value as JSON, whole or not at all."""
    write_text(path, json.dumps(value, ensure_ascii=False, indent=2) + "\n")


def sha256_of(path: str | Path) -> str:
    """The SHA-256 of a file's content."""
    digest = hashlib.sha256()
    with Path(path).open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def sync(path: Path) -> None:
    """Waits until a file, or the list of a directory's files, is on the disk."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except PermissionError:  # some systems cannot open directories
        if path.is_dir():
            return
        raise
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _make_readable(partial: Path, like: Path) -> None:
    """Gives a new file the permissions of the one it replaces, or those that new files have here."""
    try:
        mode = like.stat().st_mode & 0o777
    except FileNotFoundError:
        umask = os.umask(0)
        os.umask(umask)
        mode = 0o666 & ~umask
    partial.chmod(mode)


@contextmanager
def _storage_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except StorageError:
        raise
    except OSError as error:
        raise StorageError(*_explained(path, error)) from error


def _explained(path: Path, error: OSError) -> tuple[int, str]:
    hints = {
        errno.ENOSPC: "free some space and try again",
        errno.EDQUOT: "free some space and try again",
        errno.EACCES: "choose a place that you may write to",
        errno.EROFS: "choose a place that you may write to",
        errno.ENOTDIR: "a part of this path is a file",
    }
    hint = hints.get(error.errno or 0, "choose another place")
    message = f"{path}: could not be written ({error.strerror or error}); what was there before is unchanged; {hint}"
    return error.errno or errno.EIO, message
