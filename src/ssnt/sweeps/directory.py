"""The directory of a sweep: what it holds, whether a sweep may start or go on there, and what is kept of its trials.

::

    out/sweep.yaml      the settings of the sweep, and the SHA-256 of its data
    out/study.db        its trials: Optuna's study, in SQLite
    out/trials.csv      the same as a table
    out/trials/0001/    the model directory of a trial
    out/best/           that of the best one so far, copied
    out/best.yaml       its settings

Only the best models are kept (``sweep.keep``). Of other trials the settings, the scores and the log stay.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from ssnt.checkpoint.folder import METRICS as METRICS_FILE
from ssnt.checkpoint.folder import TRAINING
from ssnt.checkpoint.ours import is_blank, is_record, other_files, own_files, shown
from ssnt.config import Config, SweepRunConfig, dump_config
from ssnt.errors import ConfigError, InUseError
from ssnt.files import check_not_both, write_text
from ssnt.sweeps.result import Trial, ranked, shown_params, to_csv
from ssnt.training.records import check_unchanged, read_record, write_record
from ssnt.training.run_directory import MAY_CHANGE as MAY_CHANGE_IN_TRAINING
from ssnt.training.run_directory import RunDirectory, remove

MAY_CHANGE = frozenset({"sweep.trials", "sweep.keep", "out", "training.checkpoint_minutes", "training.tensorboard"}) | {
    name for name in MAY_CHANGE_IN_TRAINING if name.startswith(("data.", "hardware."))
}
"""Settings that a sweep may go on with when they have changed. What trials have in common has to stay."""

_SQLITE_ENDINGS = ("", "-journal", "-wal", "-shm")
_TRIAL = re.compile(r"[0-9]{4,9}")
_HEADER = "# A sweep of ssnt. To go on with it: ssnt sweep --resume --out DIRECTORY\n"


class SweepDirectory:
    """The directory that a sweep writes to.

    Args:
        out: Where.
    """

    def __init__(self, out: str | Path) -> None:
        self.out = Path(out)
        self.record = self.out / "sweep.yaml"
        self.study = self.out / "study.db"
        self.table = self.out / "trials.csv"
        self.trials = self.out / "trials"
        self.best = self.out / "best"
        self.best_settings = self.out / "best.yaml"

    def trial(self, number: int) -> Path:
        """The model directory of a trial."""
        return self.trials / f"{number:04d}"

    def check(self, *, resume: bool, overwrite: bool) -> None:
        """Refuses to start where something is already, and to go on where nothing is.

        Raises:
            ConfigError: So.
        """
        check_not_both(resume=resume, overwrite=overwrite)
        if self.out.exists() and not self.out.is_dir():
            raise ConfigError(f"{self.out}: is a file; choose another directory for the sweep (--out, out)")
        has_sweep = is_record(self.record)
        if resume and not has_sweep:
            raise ConfigError(
                f"{self.out}: there is no sweep to go on with; leave out --resume (resume=True) to start one"
            )
        if has_sweep and not resume and not overwrite:
            raise ConfigError(
                f"{self.out}: holds a sweep already; go on with it (--resume, resume=True), replace it "
                "(--overwrite, overwrite=True), or choose another directory (--out, out)"
            )
        if not has_sweep and (found := self._found()):
            raise ConfigError(
                f"{self.out}: exists, and holds other files ({shown(found)}) and no sweep; choose another directory "
                "(--out, out)"
            )
        if overwrite and (foreign := self._foreign()):
            raise ConfigError(
                f"{self.out}: with the sweep, files would be deleted that ssnt has not written ({shown(foreign)}); "
                "move them elsewhere, or choose another directory (--out, out)"
            )

    def _foreign(self) -> list[str]:
        """What is somebody else's in the directories that are deleted with a sweep."""
        places = sorted(self.trials.glob("*")) if _is_directory(self.trials) else [self.trials]
        found: list[Path] = []
        for place in filter(os.path.lexists, (*places, self.best)):
            is_expected = place == self.best or (place.parent == self.trials and _TRIAL.fullmatch(place.name))
            if is_expected and _is_directory(place):
                found += [place / name for name in other_files(place)]
            else:
                found.append(place)
        return [str(one.relative_to(self.out)) for one in found]

    def _found(self) -> list[str]:
        """What is in the directory; the lock of a process that was killed does not count."""
        if not self.out.is_dir():
            return []
        found = [one for one in self.out.iterdir() if not one.name.endswith(".partial")]
        return sorted(one.name for one in found if not (one.name == TRAINING and one.is_dir() and is_blank(one)))

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keeps other processes from writing here meanwhile.

        Raises:
            ConfigError: Another process does.
        """
        with RunDirectory(self.out).locked():
            yield

    def clear(self) -> None:
        """Deletes a sweep; its record last, so that what is left after an interruption can be deleted again."""
        study = [self.study.with_name(self.study.name + ending) for ending in _SQLITE_ENDINGS]
        for one in (self.table, self.best_settings, *study, self.trials, self.best):
            remove(one)
        remove(self.record)

    def write_record(self, config: SweepRunConfig, hashes: Mapping[str, str]) -> None:
        """Writes down with which settings and data the sweep goes."""
        write_record(self.record, _HEADER, config, hashes)

    def read_record(self) -> tuple[SweepRunConfig, dict[str, str]]:
        """The settings of the sweep that is here, and the SHA-256 of its data.

        Raises:
            ConfigError: There is none, or a newer ssnt has written it.
        """
        self.check(resume=True, overwrite=False)
        return read_record(self.record, SweepRunConfig, "sweep")

    def check_same(self, config: SweepRunConfig, hashes: Mapping[str, str]) -> None:
        """Refuses to go on with other settings or data than the sweep was started with.

        Raises:
            ConfigError: A setting differs that matters; all such are named.
            DataError: A data file has changed.
        """
        check_unchanged(self.out, self.read_record(), (config, hashes), MAY_CHANGE, "sweep")

    def write_table(self, trials: Sequence[Trial], metric: str) -> None:
        """Writes what has become of all trials."""
        write_text(self.table, to_csv(trials, metric))

    def publish(self, trial: Trial, settings: Config, metric: str) -> None:
        """Copies the model of the best trial, and writes its settings down, as a training can be started with them."""
        place = self.trial(trial.number)
        if not RunDirectory(place).has_model:  # somebody has deleted it; what was copied before stays
            return
        from ssnt.pipeline import Transducer

        Transducer.from_pretrained(place).save_pretrained(self.best, overwrite=True)
        about = f"# The best trial of the sweep, {trial.name}: dev {metric} {trial.value:.4f}\n"
        about += f"# {shown_params(trial.params)}\n# ssnt train {self.best_settings.name} --out DIRECTORY\n"
        write_text(self.best_settings, about + dump_config(settings))

    def thin(self, trials: Sequence[Trial], metric: str, keep: int, under_way: Collection[int] = ()) -> None:
        """Deletes the models of all finished trials but the best ones; their settings, scores and logs stay.

        Args:
            trials: All trials.
            metric: What they are compared by.
            keep: How many of the best ones stay.
            under_way: The numbers of trials whose processes may still write, though they are to be given up.
        """
        complete = [one for one in ranked(trials, metric) if one.state == "complete"]
        kept = {one.number for one in complete[:keep]}
        for one in trials:
            if one.state != "running" and one.number not in kept and one.number not in under_way:
                self._thin(self.trial(one.number))

    def _thin(self, place: Path) -> None:
        run = RunDirectory(place)
        if not place.is_dir() or not (run.has_model or run.last.exists() or any(run.training.glob("epoch-*"))):
            return
        with suppress(InUseError), run.locked():  # a process that a killed sweep has left behind may still be saving
            for one in own_files(place):  # config.yaml first: what is left never looks like a model
                if one not in (place / METRICS_FILE, run.record, run.log):
                    remove(one)


def _is_directory(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def sweep_config(out: str | Path) -> SweepRunConfig:
    """The settings that the sweep in a directory was started with, to go on with it.

    Args:
        out: The directory of the sweep; ``out`` in the settings is this, wherever it was before.

    Raises:
        ConfigError: There is no sweep in it.
    """
    config, _ = SweepDirectory(out).read_record()
    return config.model_copy(update={"out": str(out)})
