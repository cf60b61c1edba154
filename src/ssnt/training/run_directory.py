"""The directory of a run: what it holds, whether a training may start or go on there, and that only one does.

::

    out/training/config.yaml             the settings of the run, and the SHA-256 of its data
    out/training/last.ckpt               where it goes on from
    out/training/epoch-003.safetensors   the best weights
    out/training/log.csv                 a line for each epoch
    out/training/tensorboard/            the same for TensorBoard, if asked for

The finished model is written into ``out`` itself. One that is there from before is used until then.
"""

from __future__ import annotations

import errno
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO

from ssnt.checkpoint.folder import MODELS, PENDING, TRAINING
from ssnt.checkpoint.ours import (
    LAST,
    LOCK,
    LOG,
    TENSORBOARD,
    foreign_files,
    has_model,
    is_blank,
    is_ours,
    is_record,
    own_models,
    shown,
)
from ssnt.checkpoint.publish import finish_move
from ssnt.checkpoint.save import listed_files
from ssnt.config import Config, read_settings
from ssnt.errors import ConfigError, InUseError
from ssnt.files import check_not_both
from ssnt.training.records import check_unchanged, read_record, write_record

MAY_CHANGE = frozenset(
    {
        "data.train",  # what counts is the content, which is compared by its hash
        "data.dev",
        "data.cache",
        "hardware.accelerator",
        "hardware.address",
        "hardware.engine",
        "hardware.threads",
        "hardware.workers",
        "optimiser.gradient_clip",
        "optimiser.learning_rate",
        "out",
        "training.checkpoint_minutes",
        "training.max_epochs",
        "training.max_steps",
        "training.tensorboard",
        "validation.patience",
    }
)
"""Settings that a run may go on with when they have changed: how long it goes on, where it runs, and what one changes
after it has diverged."""

_HEADER = "# A training run of ssnt. To go on with it: ssnt train --resume --out DIRECTORY\n"


class RunDirectory:
    """The directory that a run writes to.

    Args:
        out: The model directory.
    """

    def __init__(self, out: str | Path) -> None:
        self.out = Path(out)
        self.training = self.out / TRAINING
        self.record = self.training / "config.yaml"
        self.last = self.training / LAST
        self.log = self.training / LOG
        self.tensorboard = self.training / TENSORBOARD

    @property
    def has_run(self) -> bool:
        """Whether there is a run to go on with."""
        return self.record.is_file()

    @property
    def has_model(self) -> bool:
        """Whether there is a finished model, of this run or from before it."""
        return has_model(self.out)

    @property
    def is_model_old(self) -> bool:
        """Whether the model that is there is from before the run, which has not yet replaced it."""
        return self.has_run and read_settings(self.record).get("replaces_model") is True

    @property
    def first_model(self) -> int:
        """The number of the first model of a run with one for each tag set."""
        number = read_settings(self.record).get("first_model", 0) if self.has_run else 0
        return number if isinstance(number, int) else 0

    def check(self, *, resume: bool, overwrite: bool) -> None:
        """Refuses to start where something is already, and to go on where nothing is.

        Raises:
            ConfigError: So.
        """
        check_not_both(resume=resume, overwrite=overwrite)
        if self.out.exists() and not self.out.is_dir():
            raise ConfigError(f"{self.out}: is a file; choose another directory for the model (--out, out)")
        if resume:
            self._check_resume()
        found = self._found()
        if not found:
            return
        if not is_ours(self.out):
            raise ConfigError(
                f"{self.out}: exists, and holds other files ({shown(sorted(found))}) and no model; choose another "
                "directory (--out, out)"
            )
        if foreign := self._foreign():
            raise ConfigError(
                f"{self.out}: a model would take the place of files there that ssnt has not written "
                f"({shown(foreign)}); move them elsewhere, or choose another directory (--out, out)"
            )
        if resume:
            return
        if not overwrite:
            what = "a trained model" if self.has_model else "an unfinished training"
            raise ConfigError(
                f"{self.out}: holds {what} already; go on with it (--resume, resume=True), replace it "
                "(--overwrite, overwrite=True), or choose another directory (--out, out)"
            )

    def _check_resume(self) -> None:
        if self.has_run:
            return
        if self.has_model:
            raise ConfigError(
                f"{self.out}: holds a finished model, but its {TRAINING}/ is gone, so that its training cannot go on"
            )
        raise ConfigError(
            f"{self.out}: there is no training to go on with; leave out --resume (resume=True) to start one"
        )

    def _found(self) -> set[str]:
        """What is in the directory; a training that was killed before it had written anything does not count."""
        if not self.out.is_dir():
            return set()
        found = {one.name for one in self.out.iterdir()}
        if TRAINING in found and self.training.is_dir() and is_blank(self.training):
            found -= {TRAINING}
        return {name for name in found if not name.endswith(".partial")}

    def _foreign(self) -> list[str]:
        """What is somebody else's and has a name that a training or its model needs."""
        is_free = not os.path.lexists(self.training) or (self.training.is_dir() and is_blank(self.training))
        return foreign_files(self.out) + ([] if is_free or is_record(self.record) else [TRAINING])

    def clear(self) -> None:
        """Deletes what a training before has left, apart from its model, which stays until there is a new one."""
        self.complete_model()
        listed = listed_files(self.out)
        if listed or not self.has_model:  # of a model that this ssnt cannot read nobody knows what belongs to it
            for place in own_models(self.out):
                if f"{MODELS}/{place.name}" not in listed:
                    remove(place)
        if not is_record(self.record):
            return
        # the checkpoint first and the record last: if this is interrupted, what is left is a training at its beginning
        remove(self.last)
        for one in self.training.iterdir():
            if one.name not in (LOCK, self.record.name):
                remove(one)
        self.record.unlink()

    def tidy(self, keep: set[str]) -> None:
        """Deletes files that a killed process has left half written, and weights that are not in ``keep``."""
        for one in (*self.training.glob(".*.partial"), *self.training.glob("epoch-*.safetensors")):
            if one.name not in keep:
                one.unlink(missing_ok=True)

    def complete_model(self) -> None:
        """Moves the files of a model to their places, if whoever wrote it was killed while moving them."""
        if (self.out / PENDING).is_dir() and has_model(self.out):
            finish_move(self.out)

    def write_record(
        self, config: Config, hashes: Mapping[str, str], *, replaces_model: bool = False, first_model: int = 0
    ) -> None:
        """Writes down with which settings and data the run goes.

        Args:
            config: The settings.
            hashes: SHA-256 of the data.
            replaces_model: Whether the model that is there now is from before the run.
            first_model: The number of the first model of a run with one for each tag set: those of a model from
                before are below.
        """
        more: dict[str, Any] = {}
        if replaces_model:
            more["replaces_model"] = True
        if first_model:
            more["first_model"] = first_model
        write_record(self.record, _HEADER, config, hashes, more)

    def read_record(self) -> tuple[Config, dict[str, str]]:
        """The settings of the run that is here, and the SHA-256 of its data.

        Raises:
            ConfigError: There is none, or a newer ssnt has written it.
        """
        if not self.has_run:
            self._check_resume()
        return read_record(self.record, Config, "training")

    def check_same(self, config: Config, hashes: Mapping[str, str]) -> None:
        """Refuses to go on with other settings or data than the run was started with.

        Raises:
            ConfigError: A setting differs that matters; all such are named.
            DataError: A data file has changed.
        """
        check_unchanged(self.out, self.read_record(), (config, hashes), MAY_CHANGE, "training")

    @contextmanager
    def locked(self, wait: float = 0.0) -> Iterator[None]:
        """Keeps other processes from training here meanwhile; the lock goes with the process, however that ends.

        Args:
            wait: Seconds to wait for another one to end.

        Raises:
            InUseError: Another process is training here.
        """
        try:
            import fcntl  # noqa: F401
        except ImportError:  # a system without such locks
            yield
            return
        is_new = not self.out.exists()
        deadline = time.monotonic() + wait
        while (file := self._lock_file()) is None:
            if time.monotonic() >= deadline:
                raise InUseError(f"{self.out}: another process is training here; wait for it, or choose another --out")
            time.sleep(0.2)
        with file:
            try:
                yield
            finally:
                self._remove_unused(is_new=is_new)

    def _lock_file(self) -> TextIO | None:
        """The file that is locked, which has to stay open; None if another process holds it."""
        import fcntl

        while True:
            self.training.mkdir(parents=True, exist_ok=True)
            path = self.training / LOCK
            try:
                file = path.open("w")
            except FileNotFoundError:  # whoever had it has just removed the directory
                continue
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                if error.errno in (errno.EAGAIN, errno.EACCES):
                    file.close()
                    return None
                return file  # a file system without locks
            if _is_same(file, path):
                return file
            file.close()  # whoever had it has removed it: it keeps nobody out any more

    def _remove_unused(self, *, is_new: bool) -> None:
        """Removes what was made for a training that did not begin."""
        with suppress(OSError):  # directories are removed only if they are empty
            if [one.name for one in self.training.iterdir()] == [LOCK]:
                (self.training / LOCK).unlink()
                self.training.rmdir()
                if is_new:
                    self.out.rmdir()


def run_config(out: str | Path) -> Config:
    """The settings that the training in a directory was started with, to go on with it.

    Args:
        out: The model directory; ``out`` in the settings is this, wherever it was before.

    Raises:
        ConfigError: There is no training in it.
    """
    config, _ = RunDirectory(out).read_record()
    return config.model_copy(update={"out": str(out)})


def _is_same(file: TextIO, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def remove(path: Path) -> None:
    """Deletes a file, a link or a directory with all that is in it."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        with suppress(FileNotFoundError):
            path.unlink()
