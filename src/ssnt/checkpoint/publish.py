"""Putting a new model directory in the place of an old one, so that at every moment there is one or the other.

A new directory is written under another name first. If there is nothing in its place, it is renamed, and that is all.
Otherwise (an older model, or what training keeps beside the model) it is renamed to ``.pending`` inside the directory:
from that moment on readers find the new files there (see :class:`~ssnt.checkpoint.folder.Folder`). Then they are moved
to their places one by one, ``config.yaml`` last. Whoever is interrupted meanwhile leaves a directory that loads as the
new model, and the next one who writes completes the move.

Whoever fills such a directory holds a lock on it, which the system takes away from a process that dies: what nobody
holds was left behind, and the next one who writes to the same place removes it.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ssnt.checkpoint.folder import CARD, CONFIG, METRICS, MODELS, PENDING, TRAINING, VOCABULARY, WEIGHTS
from ssnt.checkpoint.ours import foreign_files, is_foreign_card, is_ours, shown
from ssnt.errors import StorageError
from ssnt.files import sync

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_STAGE = ".ssnt-"
_PARTIAL = ".partial"
_MOST_NAME = 40  # characters of the target's name in that of its stage, which may not become too long for a name
# Where there are no locks, a directory in which nothing has happened for so long was left behind.
_ABANDONED_SECONDS = 24 * 3600.0
_PATIENCE_SECONDS = 2.0


def require_free(directory: str | Path, *, overwrite: bool = False, beside: tuple[str, ...] = (TRAINING,)) -> None:
    """Refuses to write a model where something is already.

    Args:
        directory: Where a model is to be written.
        overwrite: Whether a model that is there may be replaced. Other files are never taken for one.
        beside: Names that may be there.

    Raises:
        StorageError: There is a model and ``overwrite`` is not set, or there is something else.
    """
    path = Path(directory)
    if os.path.lexists(path) and not path.is_dir():
        raise StorageError(errno.ENOTDIR, f"{path}: is not a directory; choose another place for the model")
    try:
        found = {one.name for one in path.iterdir()} if path.exists() else set()
    except OSError as error:
        raise StorageError(error.errno, f"{path}: cannot be read: {error.strerror}") from error
    names = {name for name in found - set(beside) if not (name.startswith(_STAGE) and name.endswith(_PARTIAL))}
    if not names:
        return
    if not overwrite:
        raise StorageError(
            errno.EEXIST,
            f"{path}: exists and is not empty; choose another directory, or say that it may be overwritten "
            "(--overwrite, overwrite=True)",
        )
    if not is_ours(path):
        raise StorageError(
            errno.EEXIST,
            f"{path}: holds other files ({shown(sorted(names))}) and no model, so there is nothing to overwrite; "
            "choose another directory",
        )
    if foreign := foreign_files(path):
        raise StorageError(
            errno.EEXIST,
            f"{path}: a model would take the place of files there that ssnt has not written ({shown(foreign)}); "
            "move them elsewhere, or choose another directory",
        )


@contextmanager
def staged(directory: str | Path) -> Iterator[Path]:
    """Gives an empty directory to write to, whose files become those of ``directory`` if all goes well.

    Raises:
        StorageError: Something cannot be written.
    """
    target = Path(os.path.realpath(directory))
    with _storage_errors(target, "what was there before is unchanged; choose another place"):
        finish_move(target)
        is_inside = target.is_dir() and any(target.iterdir())
        home = target if is_inside else target.parent
        home.mkdir(parents=True, exist_ok=True)
        with _new_stage(home, target.name) as stage:
            yield stage
            stage.chmod(_mode(target))
            for place in (*stage.glob(f"{MODELS}/*"), *stage.glob(MODELS), stage):
                sync(place)
            os.rename(stage, target / PENDING if is_inside else target)
        sync(home)
    if is_inside:
        with _storage_errors(target, f"the new model loads, but is still in {PENDING} inside it; save it once more"):
            finish_move(target)


def finish_move(target: Path) -> None:
    """Completes what an interrupted writer has begun, and clears away what those that were killed have left."""
    pending = target / PENDING
    if (pending / CONFIG).exists():
        for inner in sorted(pending.glob(f"{MODELS}/*")):
            (target / MODELS).mkdir(exist_ok=True)
            os.rename(inner, target / MODELS / inner.name)
        for name in (WEIGHTS, VOCABULARY, METRICS, CARD, CONFIG):
            if name == CARD and is_foreign_card(target / CARD):
                continue  # a card that somebody has made his own is not written anew
            if (pending / name).exists():
                os.replace(pending / name, target / name)
        sync(target)
    if pending.exists():
        shutil.rmtree(pending)
    if target.is_dir():
        with _locked(target):
            _remove_abandoned(target, f"{re.escape(_STAGE)}.*{re.escape(_PARTIAL)}")


@contextmanager
def _new_stage(home: Path, name: str) -> Iterator[Path]:
    """Gives a directory that this process holds; it is gone in the end, unless it has got another name."""
    prefix = f"{_STAGE}{name[:_MOST_NAME]}."
    with _locked(home):  # so that nobody takes it for one left behind before it is held
        _remove_abandoned(home, f"{re.escape(prefix)}[a-z0-9_]+{re.escape(_PARTIAL)}")
        stage = Path(tempfile.mkdtemp(prefix=prefix, suffix=_PARTIAL, dir=home))
        handle = _held(stage)
    try:
        yield stage
    except BaseException:
        shutil.rmtree(stage, ignore_errors=True)
        raise
    finally:
        if handle is not None:
            os.close(handle)


def _remove_abandoned(home: Path, names: str) -> None:
    """Removes what writers that were killed have left behind, and what no living process holds."""
    for stage in home.iterdir():
        if re.fullmatch(names, stage.name) and stage.is_dir() and not stage.is_symlink():
            with suppress(OSError):
                if _is_unowned(stage):
                    shutil.rmtree(stage, ignore_errors=True)


def _is_unowned(stage: Path) -> bool:
    if fcntl is not None:
        handle = os.open(stage, os.O_RDONLY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:  # this file system has no locks: age decides
            pass
        else:
            return True
        finally:
            os.close(handle)
    newest = max(path.stat().st_mtime for path in (stage, *stage.rglob("*")))
    return time.time() - newest > _ABANDONED_SECONDS


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """Holds a directory while stages in it are made or removed; others do so for moments only."""
    if fcntl is None:
        yield
        return
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while (handle := _held(directory)) is None and time.monotonic() < deadline:
        time.sleep(0.01)  # whoever holds it for longer holds it for something else
    try:
        yield
    finally:
        if handle is not None:
            os.close(handle)


def _held(directory: Path) -> int | None:
    """Takes the lock on a directory, for as long as this process lives and what is returned is open; None if it cannot.

    A file system without locks gives one that keeps nobody out.
    """
    if fcntl is None:
        return None
    handle = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        return None
    except OSError:
        pass
    return handle


def remove_unlisted(directory: str | Path, old: tuple[str, ...], new: tuple[str, ...]) -> None:
    """Deletes what the model before had and this one has not; if it cannot be deleted, it does no harm."""
    target = Path(os.path.realpath(directory))
    for name in set(old) - set(new):
        place = target / name
        if place.is_dir() and not place.is_symlink():
            shutil.rmtree(place, ignore_errors=True)
        else:
            with suppress(OSError):
                place.unlink()
    with suppress(OSError):  # it is deleted only if it is empty
        (target / MODELS).rmdir()


def _mode(target: Path) -> int:
    """The permissions of the directory that is replaced, or those that new ones have here."""
    if target.is_dir():
        return target.stat().st_mode & 0o777
    umask = os.umask(0)
    os.umask(umask)
    return 0o777 & ~umask


@contextmanager
def _storage_errors(target: Path, state: str) -> Iterator[None]:
    try:
        yield
    except StorageError:
        raise
    except OSError as error:
        hint = ", or free some space" if error.errno in (errno.ENOSPC, errno.EDQUOT) else ""
        message = f"{target}: could not be written ({error.strerror or error}); {state}{hint}"
        raise StorageError(error.errno or errno.EIO, message) from error
