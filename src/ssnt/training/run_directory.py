"""The directory of a run: what it holds, whether a training may start or go on there, and that only one does.

::

    out/training/config.yaml             the settings of the run, and the SHA-256 of its data
    out/training/last.ckpt               where it goes on from
    out/training/epoch-003.safetensors   the best weights
    out/training/log.csv                 a line for each epoch
    out/training/tensorboard/            the same for TensorBoard, if asked for

The finished model is written into ``out`` itself.
"""

from __future__ import annotations

import errno
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import yaml

from ssnt.__about__ import __version__
from ssnt.config import Config, read_settings
from ssnt.errors import ConfigError, DataError
from ssnt.files import write_text

FORMAT_VERSION = 1
"""Changes when a run is kept in a way that an older ssnt cannot go on from."""

TRAINING = "training"

MAY_CHANGE = frozenset(
    {
        "data.train",  # what counts is the content, which is compared by its hash
        "data.dev",
        "data.cache",
        "hardware.accelerator",
        "hardware.threads",
        "optimiser.gradient_clip",
        "optimiser.learning_rate",
        "out",
        "training.checkpoint_minutes",
        "training.max_epochs",
        "training.max_steps",
        "training.tensorboard",
        "training.workers",
        "validation.patience",
    }
)
"""Settings that a run may go on with when they have changed: how long it goes on, where it runs, and what one changes
after it has diverged."""

_MODEL_FILES = ("config.yaml", "vocab.json", "model.safetensors", "metrics.json", "README.md", "models", ".pending")
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
        """Whether there is a finished model."""
        return any((self.out / name / "config.yaml").is_file() for name in ("", ".pending"))

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
            return
        found = self._found()
        if not found:
            return
        if not self.has_run and not self.has_model and not found & set(_MODEL_FILES):
            shown = ", ".join(sorted(found)[:3])
            raise ConfigError(
                f"{self.out}: exists, and holds other files ({shown}) and no model; choose another directory "
                "(--out, out)"
            )
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
        if TRAINING in found and not self.has_run:
            found -= {TRAINING}
        return {name for name in found if not name.endswith(".partial")}

    def clear(self) -> None:
        """Deletes what a training before has left: its model and all it went on from, and nothing else."""
        if self.training.is_dir():
            # the record first: without it there is no run, however much of the rest is left if this is interrupted
            self.record.unlink(missing_ok=True)
            for one in self.training.iterdir():
                if one.name != "lock":
                    _remove(one)
        for name in _MODEL_FILES:
            _remove(self.out / name)

    def tidy(self, keep: set[str]) -> None:
        """Deletes files that a killed process has left half written, and weights that are not in ``keep``."""
        for one in (*self.training.glob(".*.partial"), *self.training.glob("epoch-*.safetensors")):
            if one.name not in keep:
                one.unlink(missing_ok=True)

    def complete_model(self) -> None:
        """Moves the files of a model to their places, if whoever wrote it was killed while moving them."""
        from ssnt.checkpoint.publish import finish_move

        if (self.out / ".pending").is_dir():
            finish_move(self.out)

    def write_record(self, config: Config, hashes: Mapping[str, str]) -> None:
        """Writes down with which settings and data the run goes."""
        content = {
            "format_version": FORMAT_VERSION,
            "ssnt_version": __version__,
            "data_sha256": dict(hashes),
            "config": config.model_dump(),
        }
        write_text(self.record, _HEADER + yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=120))

    def read_record(self) -> tuple[Config, dict[str, str]]:
        """The settings of the run that is here, and the SHA-256 of its data.

        Raises:
            ConfigError: There is none, or a newer ssnt has written it.
        """
        if not self.has_run:
            self._check_resume()
        content = read_settings(self.record)
        version = content.get("format_version")
        if not isinstance(version, int) or version > FORMAT_VERSION:
            raise ConfigError(
                f"{self.record}: was written by a newer ssnt (format_version {version!r}, this ssnt goes on from "
                f"{FORMAT_VERSION}); upgrade ssnt"
            )
        hashes = content.get("data_sha256")
        if not isinstance(hashes, dict) or not isinstance(content.get("config"), dict):
            raise ConfigError(f"{self.record}: is not the record of a training; start anew with --overwrite")
        try:
            return Config.model_validate(content["config"]), hashes
        except ConfigError as error:
            raise ConfigError("\n".join(f"{self.record}: {line}" for line in str(error).splitlines())) from None

    def check_same(self, config: Config, hashes: Mapping[str, str]) -> None:
        """Refuses to go on with other settings or data than the run was started with.

        Raises:
            ConfigError: A setting differs that matters; all such are named.
            DataError: A data file has changed.
        """
        before, old_hashes = self.read_record()
        old, new = _flat(before.model_dump()), _flat(config.model_dump())
        differing = [name for name in new if name not in MAY_CHANGE and old.get(name) != new[name]]
        if differing:
            shown = ", ".join(f"{name} (was {old.get(name)!r}, is {new[name]!r})" for name in differing)
            raise ConfigError(
                f"{self.out}: the training cannot go on with other settings than it was started with: {shown}; leave "
                "them as they were, or start anew with --overwrite or another --out"
            )
        for part in ("train", "dev"):
            if old_hashes.get(part) != hashes.get(part):
                path = getattr(config.data, part) or f"data.{part}"
                raise DataError(
                    f"{path}: the {part} data is not what the training in {self.out} was started with (its SHA-256 "
                    "differs); put the old file back, or start anew with --overwrite"
                )

    @contextmanager
    def locked(self, wait: float = 0.0) -> Iterator[None]:
        """Keeps other processes from training here meanwhile; the lock goes with the process, however that ends.

        Args:
            wait: Seconds to wait for another one to end.

        Raises:
            ConfigError: Another process is training here.
        """
        try:
            import fcntl
        except ImportError:  # a system without such locks
            yield
            return
        self.training.mkdir(parents=True, exist_ok=True)
        deadline = time.monotonic() + wait
        with (self.training / "lock").open("w") as file:
            while True:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except OSError as error:
                    if error.errno not in (errno.EAGAIN, errno.EACCES):
                        break  # a file system without locks
                    if time.monotonic() >= deadline:
                        raise ConfigError(
                            f"{self.out}: another process is training here; wait for it, or choose another --out"
                        ) from None
                    time.sleep(0.2)
            yield


def run_config(out: str | Path) -> Config:
    """The settings that the training in a directory was started with, to go on with it.

    Args:
        out: The model directory; ``out`` in the settings is this, wherever it was before.

    Raises:
        ConfigError: There is no training in it.
    """
    config, _ = RunDirectory(out).read_record()
    return config.model_copy(update={"out": str(out)})


def _flat(settings: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """Nested settings by their dotted names."""
    flat: dict[str, Any] = {}
    for key, value in settings.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{before}{key}.")
        else:
            flat[f"{before}{key}"] = value
    return flat


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        with suppress(FileNotFoundError):
            path.unlink()
