"""Directories of prepared data: found by a key, written whole or not at all, and never trusted unchecked.

An entry is a directory named by its key. It is written under another name beside, and gets its own with a manifest of
all its files when they are on the disk. Whoever writes holds a lock on the directory, which the system takes
away from a process that dies: what nobody holds was left behind, and the next writer removes it. The whole cache may be
deleted at any time; what is mapped from it stays readable until it is closed.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ssnt.config.run import DataConfig
from ssnt.errors import StorageError
from ssnt.files import sha256_of, sync, write_json

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_MANIFEST = "manifest.json"
_PARTIAL = ".partial"
# Files up to this size are read to check them each time an entry is opened, larger ones are only measured.
_CHECKED_WHOLE = 16 << 20
# Between making a directory and locking it there is a moment, in which it must not be taken for one left behind.
_GRACE_SECONDS = 60.0
# Where there are no locks, a directory in which nothing has happened for so long was left behind.
_ABANDONED_SECONDS = 24 * 3600.0


def cache_directory(data: DataConfig) -> Path:
    """Where prepared data is kept: ``data.cache``, ``$SSNT_CACHE``, or ``ssnt`` in the user's cache directory."""
    if data.cache is not None:
        return Path(data.cache).expanduser()
    if named := os.environ.get("SSNT_CACHE"):
        return Path(named).expanduser()
    users = os.environ.get("XDG_CACHE_HOME")
    # the standard says to ignore names that are not absolute
    return (Path(users) if users and Path(users).is_absolute() else Path.home() / ".cache") / "ssnt"


def read_entry(root: Path, key: str, *, whole: bool = False) -> dict[str, Any] | None:
    """The manifest of an entry; None if there is no such entry, or if it is damaged.

    Args:
        root: The cache.
        key: Which entry.
        whole: Whether to read large files too to check them, rather than only measure them.
    """
    directory = root / key
    limit = sys.maxsize if whole else _CHECKED_WHOLE
    try:
        manifest = json.loads((directory / _MANIFEST).read_text(encoding="utf-8"))
        files = dict(manifest["files"])
        for name, expected in files.items():
            path = directory / name
            size = path.stat().st_size
            if size != expected["size"] or (size <= limit and sha256_of(path) != expected["sha256"]):
                return None
    except (OSError, ValueError, KeyError, TypeError):  # there is none, or it is cut off, or it is something else
        return None
    return manifest if manifest.get("key") == key else None


@contextmanager
def new_entry(root: Path, key: str) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Gives a directory to fill and a manifest to add to, which become the entry if all went well.

    If another process has made the same entry meanwhile, that one stays. After an error nothing is left.

    Raises:
        StorageError: The cache cannot be written.
    """
    with storage_errors(root):
        root.mkdir(parents=True, exist_ok=True)
        _remove_abandoned(root)
        partial = Path(tempfile.mkdtemp(prefix=f".{key}.", suffix=_PARTIAL, dir=root))
    try:
        with _locked(partial):
            manifest: dict[str, Any] = {"key": key}
            yield partial, manifest
            with storage_errors(root):
                _finish(partial, manifest)
                _put(partial, root, key)
    finally:
        shutil.rmtree(partial, ignore_errors=True)  # it has its other name now, or is not wanted


@contextmanager
def storage_errors(root: Path) -> Iterator[None]:
    """Turns the system's complaints about writing into one that says how to choose another place."""
    try:
        yield
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        hint = "set data.cache to a directory that you may write to"
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            hint = "free some space, or set data.cache to a directory with more"
        message = f"{root}: prepared data could not be written there ({reason}); {hint}"
        raise StorageError(error.errno or errno.EIO, message) from error


def _finish(directory: Path, manifest: dict[str, Any]) -> None:
    """Brings all files to the disk, and then their list."""
    files: dict[str, Mapping[str, Any]] = {}
    for path in sorted(directory.iterdir()):
        sync(path)
        files[path.name] = {"size": path.stat().st_size, "sha256": sha256_of(path)}
    write_json(directory / _MANIFEST, {**manifest, "files": files})
    directory.chmod(0o777 & ~_umask())  # temporary directories are for their owner alone


def _put(partial: Path, root: Path, key: str) -> None:
    """Gives a finished directory its name, unless there is a good one of that name by now."""
    if read_entry(root, key, whole=True) is not None:
        return
    if (root / key).exists():
        _remove_damaged(root, key)
    try:
        os.rename(partial, root / key)
    except OSError as error:
        # another process was quicker, with the same content
        if error.errno not in (errno.EEXIST, errno.ENOTEMPTY, errno.EACCES) or read_entry(root, key) is None:
            raise
    sync(root)


def _remove_damaged(root: Path, key: str) -> None:
    """Removes an entry at once for all others, by moving it first to where the next writer would clean up."""
    away = Path(tempfile.mkdtemp(prefix=f".{key}.", suffix=_PARTIAL, dir=root))
    with suppress(FileNotFoundError):  # another process was quicker
        os.replace(root / key, away / "damaged")
    shutil.rmtree(away, ignore_errors=True)


def _remove_abandoned(root: Path) -> None:
    """Removes what writers that were killed have left behind."""
    for partial in root.glob(f".*{_PARTIAL}"):
        with suppress(OSError):
            if not partial.is_dir():
                continue
            idle = time.time() - max(path.stat().st_mtime for path in (partial, *partial.iterdir()))
            if idle > _GRACE_SECONDS and _is_unowned(partial, idle):
                shutil.rmtree(partial, ignore_errors=True)


def _is_unowned(directory: Path, idle: float) -> bool:
    """Whether no living process holds a directory."""
    if fcntl is None:
        return idle > _ABANDONED_SECONDS
    handle = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # this file system has no locks
        return idle > _ABANDONED_SECONDS
    else:
        return True
    finally:
        os.close(handle)


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """Holds a directory as long as this process lives."""
    if fcntl is None:
        yield
        return
    handle = os.open(directory, os.O_RDONLY)
    try:
        with suppress(OSError):  # some file systems have no locks: age decides there
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(handle)


def _umask() -> int:
    umask = os.umask(0)
    os.umask(umask)
    return umask
