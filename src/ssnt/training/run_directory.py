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
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO

from ssnt.__about__ import __version__
from ssnt.checkpoint.folder import MODELS, PENDING, TRAINING
from ssnt.checkpoint.ours import LOCK, foreign_files, has_model, is_blank, is_ours, is_record, own_models, shown
from ssnt.checkpoint.publish import finish_move
from ssnt.checkpoint.save import listed_files
from ssnt.config import Config, flattened, read_settings, to_yaml
from ssnt.config.files import SomeConfig
from ssnt.errors import ConfigError, DataError
from ssnt.files import write_text

FORMAT_VERSION = 1
"""Changes when a run is kept in a way that an older ssnt cannot go on from."""

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
        self.last = self.training / "last.ckpt"
        self.log = self.training / "log.csv"
        self.tensorboard = self.training / "tensorboard"

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
        if resume and overwrite:
            raise ConfigError("--resume goes on with what is there and --overwrite replaces it; give one of them")
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
            ConfigError: Another process is training here.
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
                raise ConfigError(f"{self.out}: another process is training here; wait for it, or choose another --out")
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


def write_record(
    path: Path, header: str, config: Config, hashes: Mapping[str, str], more: Mapping[str, Any] | None = None
) -> None:
    """Writes settings, the SHA-256 of the data that they are used with, and what else there is to remember."""
    content = {
        "format_version": FORMAT_VERSION,
        "ssnt_version": __version__,
        "data_sha256": dict(hashes),
        **(more or {}),
        "config": with_whole_paths(config).model_dump(),
    }
    write_text(path, header + to_yaml(content))


def read_record(path: Path, cls: type[SomeConfig], what: str) -> tuple[SomeConfig, dict[str, str]]:
    """The settings in a record, and the SHA-256 of the data.

    Args:
        path: The file.
        cls: The class of the settings.
        what: What messages call that which the record is of.

    Raises:
        ConfigError: It is no such record, or a newer ssnt has written it.
    """
    content = read_settings(path)
    version = content.get("format_version")
    if not isinstance(version, int) or version > FORMAT_VERSION:
        raise ConfigError(
            f"{path}: was written by a newer ssnt (format_version {version!r}, this ssnt goes on from "
            f"{FORMAT_VERSION}); upgrade ssnt"
        )
    hashes = content.get("data_sha256")
    if not isinstance(hashes, dict) or not isinstance(content.get("config"), dict):
        raise ConfigError(f"{path}: is not the record of a {what}; choose another directory (--out)")
    try:
        return cls.model_validate(content["config"]), hashes
    except ConfigError as error:
        raise ConfigError("\n".join(f"{path}: {line}" for line in str(error).splitlines())) from None


def check_unchanged(
    out: Path,
    before: tuple[Config, Mapping[str, str]],
    now: tuple[Config, Mapping[str, str]],
    may_change: Collection[str],
    what: str,
) -> None:
    """Refuses to go on with other settings or data than something was started with.

    Args:
        out: Its directory.
        before: The settings, and the SHA-256 of the data, that it was started with.
        now: Those that it is to go on with.
        may_change: Settings that do not matter.
        what: What messages call it.

    Raises:
        ConfigError: A setting differs that matters; all such are named.
        DataError: A data file has changed.
    """
    old, new = flattened(before[0].model_dump()), flattened(now[0].model_dump())
    names = [name for name in dict.fromkeys((*new, *old)) if name not in may_change]
    if differing := [name for name in names if old.get(name) != new.get(name)]:
        changes = ", ".join(f"{name} (was {old.get(name)!r}, is {new.get(name)!r})" for name in differing)
        raise ConfigError(
            f"{out}: the {what} cannot go on with other settings than it was started with: {changes}; leave "
            "them as they were, or start anew with --overwrite or another --out"
        )
    for part in ("train", "dev"):
        if before[1].get(part) != now[1].get(part):
            path = getattr(now[0].data, part) or f"data.{part}"
            raise DataError(
                f"{path}: the {part} data is not what the {what} in {out} was started with (its SHA-256 "
                "differs); put the old file back, or start anew with --overwrite"
            )


def with_whole_paths(config: SomeConfig) -> SomeConfig:
    """Settings whose files are found from any directory."""
    names = {name: getattr(config.data, name) for name in ("train", "dev", "cache")}
    whole = {name: os.path.abspath(path) for name, path in names.items() if path is not None}
    return config.model_copy(update={"data": config.data.model_copy(update=whole)})


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
