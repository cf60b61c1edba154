"""Putting a new model directory in the place of an old one, so that at every moment there is one or the other.

A new directory is written under another name first. If there is nothing in its place, it is renamed, and that is all.
Otherwise (an older model, or what training keeps beside the model) it is renamed to ``.pending`` inside the directory:
from that moment on readers find the new files there (see :class:`~ssnt.checkpoint.folder.Folder`). Then they are moved
to their places one by one, ``config.yaml`` last. Whoever is interrupted meanwhile leaves a directory that loads as the
new model, and the next one who writes completes the move.
"""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ssnt.checkpoint.folder import CARD, CONFIG, METRICS, MODELS, PENDING, TRAINING, VOCABULARY, WEIGHTS
from ssnt.errors import StorageError
from ssnt.files import sync

_STAGE = ".ssnt-"
_PARTIAL = ".partial"


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
    if not found & {WEIGHTS, VOCABULARY, MODELS, PENDING, TRAINING} and not _is_manifest(path / CONFIG):
        shown = ", ".join(sorted(names)[:3])
        raise StorageError(
            errno.EEXIST,
            f"{path}: holds other files ({shown}) and no model, so there is nothing to overwrite; "
            "choose another directory",
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
        stage = Path(tempfile.mkdtemp(prefix=_STAGE, suffix=_PARTIAL, dir=home))
        try:
            yield stage
            stage.chmod(_mode(target))
            for place in (*stage.glob(f"{MODELS}/*"), *stage.glob(MODELS), stage):
                sync(place)
            os.rename(stage, target / PENDING if is_inside else target)
        except BaseException:
            shutil.rmtree(stage, ignore_errors=True)
            raise
        sync(home)
    if is_inside:
        with _storage_errors(target, f"the new model loads, but is still in {PENDING} inside it; save it once more"):
            finish_move(target)


def finish_move(target: Path) -> None:
    """Completes what an interrupted writer has begun, and clears away what others have left."""
    pending = target / PENDING
    if (pending / CONFIG).exists():
        for inner in sorted(pending.glob(f"{MODELS}/*")):
            (target / MODELS).mkdir(exist_ok=True)
            os.rename(inner, target / MODELS / inner.name)
        for name in (WEIGHTS, VOCABULARY, METRICS, CARD, CONFIG):
            if (pending / name).exists():
                os.replace(pending / name, target / name)
        sync(target)
    if pending.exists():
        shutil.rmtree(pending)
    for stage in target.glob(f"{_STAGE}*{_PARTIAL}"):
        shutil.rmtree(stage, ignore_errors=True)


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


def _is_manifest(path: Path) -> bool:
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return "format_version:" in file.read(4096)
    except OSError:
        return False


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
