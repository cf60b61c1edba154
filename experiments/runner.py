"""All trials side by side, by default one single-threaded process a core; what is finished is written down at once.

Stopped by Ctrl-C, by ``kill`` or by the end of the machine's time, it goes on where it was: finished trials have their
rows, and a training that was under way has its checkpoints in the work directory.
"""

from __future__ import annotations

import fcntl
import math
import os
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from experiments.answers import require_probabilities
from experiments.datasets import ROOT, require
from experiments.plan import Trial, table_of, types_of
from experiments.results import CHANGED, Results, Row
from experiments.trial import RUN, has_model
from ssnt.engines import make_engine
from ssnt.engines.base import DONE, STOPPED, Job, Report
from ssnt.engines.local import cores
from ssnt.errors import ConfigError
from ssnt.interrupts import Stop, StopNow, TrainingInterrupted

_SHOW_EVERY = 60.0  # seconds
_ROUNDED = 1e-5  # rows have six digits


def run(
    trials: Sequence[Trial], *, work: Path, workers: int | None = None, threads: int = 1, home: Path | None = None
) -> list[str]:
    """Does all trials that have no row yet.

    Args:
        trials: Those that are wanted, the most important first.
        work: Where models and data are kept; it may be deleted when all is done.
        workers: How many at a time; None: as many as there are cores for.
        threads: Of each. More than one is for a single large model, when there is nothing else to train.
        home: Where the tables' folders with the results are; None: where the plans are.

    Returns:
        What has failed, and why.

    Raises:
        ConfigError: Another runner works in the same directory, a data set is not on this machine, or a setting is
            wrong.
        TrainingInterrupted: It was stopped by a signal.
    """
    check_settings(trials)
    for option, place in (("--work", work), ("--results", home)):
        if place is not None:
            _make_writable(option, place)
    # The processes that do the trials have to find this package, which is not installed.
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    stop = Stop()
    with _alone(work), stop.on_signals():
        commit = code_version()
        if commit.endswith(CHANGED):
            print(f"the code is not that of a commit: rows will have {commit}, which nobody can look up", flush=True)
        queue = _Queue(trials, work.resolve(), commit, home, threads)
        try:
            make_engine("local", workers=workers or max(1, cores() // threads)).run(queue.jobs(), queue.tell, stop)
        except StopNow:  # what was under way has its last checkpoint
            raise TrainingInterrupted(queue.left()) from None
    if stop.is_requested:
        raise TrainingInterrupted(queue.left())
    return queue.failed


def _make_writable(option: str, place: Path) -> None:
    """Makes a directory that results or models are to be written to, before there are any.

    Raises:
        ConfigError: It cannot be made, or not be written to.
    """
    try:
        place.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=place):
            pass
    except OSError as error:
        raise ConfigError(f"{option}: nothing can be written to {place} ({error.strerror}); give a directory") from None


def check_settings(trials: Sequence[Trial]) -> None:
    """Refuses settings that are wrong, and tag sets that there are not, before anything is trained.

    Raises:
        ConfigError: There is one.
    """
    seen: set[str] = set()
    for one in trials:
        where = f"{one.table}: {one.system}"
        if one.tags and one.tags not in types_of(one.dataset):
            like = types_of(one.dataset)[0]
            raise ConfigError(f"{where}: {one.dataset} has no tag set {one.tags!r}; they are written like {like!r}")
        if one.members or one.config_hash in seen:
            continue
        seen.add(one.config_hash)
        try:
            config = one.config()
        except ConfigError as error:
            raise ConfigError(f"{where}: {error}") from None
        if one.keeps_answers:
            require_probabilities(config, where)


class _Queue:
    """The trials that are left, and what has become of those that were begun."""

    def __init__(self, trials: Sequence[Trial], work: Path, commit: str, home: Path | None, threads: int) -> None:
        self._results = {table: Results(table, home) for table in {one.table for one in trials}}
        for results in self._results.values():
            results.check()
        elsewhere = {table_of(key) for one in trials for key in one.members} - self._results.keys()
        known = [*self._results.values(), *(Results(table, home) for table in elsewhere)]
        self._rows = {key: row for results in known for key, row in results.rows().items()}
        self._answers = {key: one for results in known for key, one in results.kept_answers().items()}
        self._done = set(self._rows)
        ahead = [one for one in trials if one.key not in self._done]
        self._needed_models = {key for one in ahead if not one.of_answers for key in one.members}
        self._needed_answers = {key for one in ahead if one.of_answers for key in one.members}
        # a model that is measured in another way may have its row from another machine: then it is trained here again
        self._done -= {key for key in self._needed_models if not has_model(work, key)}
        self._done -= self._needed_answers - self._answers.keys()
        self._left = [one for one in trials if one.key not in self._done]
        self._total = len(self._left)
        self._ended = 0
        self._guard = threading.Lock()  # jobs are asked for by one thread while another tells of one
        self._under_way: dict[Job, Trial] = {}
        self._epochs: dict[Job, int] = {}
        self._shown_at = time.monotonic()
        self._began = time.monotonic()
        self._work, self._commit, self._threads = work, commit, threads
        self.failed: list[str] = []
        for name in dict.fromkeys(one.dataset for one in self._left):
            require(name)
        print(f"{len(trials) - self._total} trials are done, {self._total} to do", flush=True)

    def left(self) -> str:
        """What is told to whoever has stopped the runner."""
        return (
            f"stopped: {self._total - self._ended} of {self._total} trials are left; what was under way is saved, and "
            "the same command goes on with it"
        )

    def jobs(self) -> Iterator[Job | None]:
        """The trials in their order; a measurement waits until there are the models, or answers, of its members."""
        while True:
            with self._guard:
                if not self._left:
                    return
                trial = next((one for one in self._left if not self._lacking(one)), None)
                if trial is not None and self._is_done_elsewhere(trial):
                    continue
                if trial is None and not self._under_way:
                    self._give_up()
                    return
                job = None if trial is None else self._begun(trial)
            yield job

    def _is_done_elsewhere(self, trial: Trial) -> bool:
        """Whether another runner has finished a trial since this one began; then it is not done again."""
        results, key = self._results[trial.table], trial.key
        if key in self._needed_models:  # a row from elsewhere brings no model
            return False
        row = results.rows().get(key)
        if row is None:
            return False
        if key in self._needed_answers:
            answers = results.kept_answers().get(key)
            if answers is None:
                return False
            self._answers[key] = answers
        self._rows[key] = row
        self._done.add(key)
        self._left.remove(trial)
        self._ended += 1
        self._say(trial, "done by another runner")
        return True

    def _lacking(self, trial: Trial) -> list[str]:
        """The members that a trial has to wait for."""
        there = self._answers if trial.of_answers else self._done
        return [key for key in trial.members if key not in there]

    def _begun(self, trial: Trial) -> Job:
        self._left.remove(trial)
        order: dict[str, Any] = {"trial": asdict(trial), "work": str(self._work), "threads": self._threads}
        # one that has its row, and answers if it keeps any, is trained again for its model alone
        order["is_model_only"] = trial.key in self._rows and (not trial.keeps_answers or trial.key in self._answers)
        if trial.of_answers:
            order["answers"] = {key: self._answers[key] for key in trial.members}
            order["retrained"] = sum(self._is_of_another_training(key) for key in trial.members)
        job = Job(trial.key, RUN, order)
        self._under_way[job] = trial
        again = trial.key in self._rows
        why = " (again, for its " + ("model)" if order["is_model_only"] else "answers)") if again else ""
        print(f"begun: {_named(trial)}{why}", flush=True)
        return job

    def _is_of_another_training(self, key: str) -> bool:
        """Whether a trial's answers are not those that its row is of: it was trained again for them, and otherwise."""
        row, seen = self._rows.get(key), self._answers[key]["accuracy"]
        return row is not None and any(
            not math.isclose(getattr(row, part), value, abs_tol=_ROUNDED) for part, value in seen.items()
        )

    def _give_up(self) -> None:
        """Tells of the measurements whose members have no models here, or no answers."""
        for one in self._left:
            missing = self._lacking(one)
            wanted = "answers are not kept yet" if one.of_answers else f"models are not in {self._work}"
            self.failed.append(
                f"{one.key}: {len(missing)} of its {len(one.members)} {wanted}: their trainings have failed, or were "
                f"not asked for in the same command; the first is {missing[0]}"
            )

    def tell(self, job: Job, report: Report) -> None:
        """Writes down what is finished, and shows now and then how far the others are."""
        if report.get("state") is None:
            self._epochs[job] = report["epoch"]
            if time.monotonic() - self._shown_at > _SHOW_EVERY:
                self._shown_at = time.monotonic()
                epochs = [f"epoch {self._epochs[one]} of {_named(trial)}" for one, trial in self._under_way.items()
                          if one in self._epochs]  # fmt: skip
                print("under way: " + "; ".join(epochs), flush=True)
            return
        with self._guard:
            trial = self._under_way.pop(job)
            self._epochs.pop(job, None)
            if report["state"] == STOPPED:
                return
            self._ended += 1
            if report["state"] == DONE:
                self._finish(trial, report)
                self._done.add(trial.key)
                return
            self.failed.append(f"{trial.key}: {report['message']}")
            print(f"FAILED {self.failed[-1]}", flush=True)

    def _finish(self, trial: Trial, report: Report) -> None:
        """Writes down what was measured, if anything was, and says so."""
        if "row" not in report:
            self._say(trial, "trained again; it has its row already")
            return
        row = Row(
            dataset=trial.dataset,
            tags=trial.tags,
            model=trial.system,
            seed=trial.seed,
            metric=trial.metrics[0],
            commit=self._commit,
            config=trial.config_hash,
            date=datetime.now(UTC).strftime("%Y-%m-%d %H:%M"),
            key=trial.key,
            **report["row"],
        )
        results, answers = self._results[trial.table], report.get("answers")
        is_new = results.add(row, report["record"], answers)
        self._rows[trial.key] = results.rows()[trial.key]  # what is in the file: another runner may have been earlier
        if answers is not None:
            self._answers[trial.key] = results.kept_answers()[trial.key]
        shown = f"{row.metric} dev {row.dev:.4f}" + ("" if row.test is None else f" test {row.test:.4f}")
        effort = f"({row.epochs} epochs, {row.seconds:.0f} s)"
        self._say(trial, f"{shown} {effort}" + ("" if is_new else "; it has its row already"))

    def _say(self, trial: Trial, text: str) -> None:
        minutes = (time.monotonic() - self._began) / 60
        print(f"{self._ended}/{self._total} {minutes:.0f} min  {_named(trial)}: {text}", flush=True)


def _named(trial: Trial) -> str:
    parts = (trial.table, trial.system, trial.dataset, trial.tags, f"seed {trial.seed}")
    return " ".join(part for part in parts if part)


def code_version(root: Path = ROOT) -> str:
    """The commit of the code, with :data:`CHANGED` if it is not exactly that."""

    def git(*words: str) -> str:
        try:
            found = subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True, check=False)
        except OSError:  # there is no git here
            return ""
        return found.stdout.strip()

    commit = git("rev-parse", "--short=10", "HEAD") or "unknown"
    # plans are not asked for: a row has the hash of its settings, and what is planned besides does not matter to it
    changed = git("status", "--porcelain", "--untracked-files=no", "--", "src", ":(glob)experiments/*.py")
    return commit + (CHANGED if changed else "")


@contextmanager
def _alone(work: Path) -> Iterator[None]:
    """Two runners in one work directory would train the same models twice."""
    with (work / ".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ConfigError(f"{work}: another runner works here; wait for it, or give another --work") from None
        yield
