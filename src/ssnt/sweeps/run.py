"""A sweep from its settings to its best model: trials are trained side by side, and the best one is kept."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import NoReturn

from ssnt.config import Config, SweepRunConfig
from ssnt.data.prepared import prepare
from ssnt.engines import make_engine
from ssnt.engines.base import DONE, FAILED, Engine, Job, Report, one_at_a_time
from ssnt.errors import ConfigError, DataError, ModelError, SsntError, StorageError
from ssnt.interrupts import Stop, StopNow, TrainingInterrupted
from ssnt.sweeps.directory import SweepDirectory
from ssnt.sweeps.result import SweepResult, Trial, ranked, shown_params
from ssnt.sweeps.space import Space
from ssnt.sweeps.study import Study, quiet_optuna, require_optuna, storage_errors
from ssnt.training.checkpoints import read_checkpoint
from ssnt.training.display import Display, choose_display
from ssnt.training.fit import check_settings
from ssnt.training.job import TRAIN, check_hardware
from ssnt.training.progress import Progress
from ssnt.training.records import with_whole_paths
from ssnt.training.run_directory import RunDirectory

_OWN_FAULTS = {one.__name__ for one in (ConfigError, DataError, ModelError)}
"""Errors of a trial that are because of its settings: it would fail again. Others go by, such as a full disk, or a
machine that lacks what another has (a :class:`~ssnt.errors.HardwareError`)."""


def run_sweep(
    config: SweepRunConfig,
    *,
    resume: bool = False,
    overwrite: bool = False,
    display: bool | None = None,
    engine: Engine | None = None,
) -> SweepResult:
    """Trains models with different settings, and finds the best on the development data.

    Everything that would be tried is checked before anything is trained. A sweep that was stopped, by Ctrl-C or by
    ``kill -9``, goes on with ``resume``: trials that are done stay as they are, and those that were under way go on
    from their checkpoints.

    Args:
        config: The settings; ``data.train``, ``data.dev`` and ``out`` must be set.
        resume: Whether to go on with the sweep that is in ``config.out``. Its settings must be the same, apart from
            those in :data:`~ssnt.sweeps.directory.MAY_CHANGE`, and ``hardware.precision`` between float32 and bfloat16;
            :func:`~ssnt.sweeps.sweep_config` gives them.
        overwrite: Whether a sweep that is there may be replaced.
        display: Whether to show the progress on the terminal; None: if there is one, otherwise a line for each trial.
        engine: Where trials are trained; None: what ``config.hardware`` says.

    Returns:
        All trials, the best first. The model of the best is in ``out/best``.

    Raises:
        ConfigError: A setting is missing or cannot be tried, the directory exists, or there is nothing to go on with.
        DataError: The data cannot be used, or has changed since the sweep was started.
        ModelError: All trials have failed, or some could not be finished for a reason that is not in their settings;
            the sweep can go on later.
        StorageError: A file cannot be written; the sweep can go on when it can be.
        TrainingInterrupted: The sweep was stopped by a signal; it is a KeyboardInterrupt.
    """
    require_optuna()
    if config.training.per_tag:
        raise ConfigError(
            "setting 'training.per_tag': a trial of a sweep is the training of one model; set it to false, and train "
            "one model for each set of tags with the settings that the sweep finds"
        )
    check_hardware(config.hardware, "the trials of a sweep")
    config = with_whole_paths(config)
    common = _trial_settings(config)
    where = {name: getattr(config.hardware, name) for name in ("engine", "address")}  # trials need not be trained here
    out = check_settings(common.model_copy(update={"hardware": common.hardware.model_copy(update=where)}))
    if config.data.dev is None:
        raise ConfigError("setting 'data.dev': expected the data that trials are compared on (--dev), got none")
    space = Space(common)
    directory = SweepDirectory(out)
    directory.check(resume=resume, overwrite=overwrite)
    hardware = config.hardware
    engine = (
        engine
        if engine is not None
        else make_engine(hardware.engine, address=hardware.address, workers=hardware.workers)
    )
    if not resume:  # what is there goes on with any other engine, and may be finished
        engine.check()
    shown, stop = choose_display(display), Stop()
    try:
        with stop.on_signals(), quiet_optuna(), directory.locked():
            directory.check(resume=resume, overwrite=overwrite)  # somebody may have come before
            try:
                with stop.giving_up_allowed(), storage_errors(directory.study):
                    _open(config, directory, resume=resume, overwrite=overwrite)
                    sweep = _Sweep(config, space, directory, shown)
            except StopNow:
                raise _interrupted(shown, "stopped before the sweep began") from None
            return sweep.run(engine, stop)
    finally:
        shown.close()


def _trial_settings(config: SweepRunConfig) -> SweepRunConfig:
    """What all trials have in common: chosen by the metric of the sweep, trained by the CPU in one thread."""
    return config.model_copy(
        update={
            "validation": config.validation.model_copy(update={"metric": config.sweep.metric}),
            "hardware": config.hardware.of_a_worker(),
        }
    )


def _open(config: SweepRunConfig, directory: SweepDirectory, *, resume: bool, overwrite: bool) -> None:
    """Reads the data once, which also tells whether it can be used, and makes sure that the sweep may go on."""
    train = prepare(str(config.data.train), config.data, None, is_training=True)
    dev = prepare(str(config.data.dev), config.data, train.vocabulary, is_training=False)
    hashes = {"train": train.data_hash, "dev": dev.data_hash}
    if resume:
        directory.check_same(config, hashes)
    elif overwrite:
        directory.clear()
    directory.write_record(config, hashes)


def _interrupted(display: Display, message: str) -> TrainingInterrupted:
    display.close()
    display.note(message)
    return TrainingInterrupted(message)


class _Sweep:
    """A sweep that is going on: gives trials to an engine, and takes notice of what becomes of them."""

    def __init__(self, config: SweepRunConfig, space: Space, directory: SweepDirectory, display: Display) -> None:
        self._config = config
        self._space = space
        self._directory = directory
        self._display = display
        self._metric = config.sweep.metric
        self._study = Study(directory.study, config.sweep, space)
        self._numbers: dict[str, int] = {}
        self._published: int | None = None
        self._under_way: set[int] = set()  # trials that processes work on
        self._stop = Stop()
        self._trouble: SsntError | None = None

    def run(self, engine: Engine, stop: Stop) -> SweepResult:
        """Trains what is left to train."""
        self._stop = stop
        try:
            with storage_errors(self._directory.study):
                if self._study.is_over:
                    self._display.note(f"{self._directory.out}: all {self._study.total} trials are done already")
                else:
                    engine.run(*one_at_a_time(self._jobs(), self._tell), stop)
                self._display.close()
                if self._trouble is None:
                    self._keep()
        except StopNow:
            stop.request()
        except StorageError as error:
            raise StorageError(error.errno, f"{error}\n{self._how_to_go_on()}") from error
        if not self._study.is_over:
            self._raise_unfinished()
        return self._result()

    def _raise_unfinished(self) -> NoReturn:
        """Tells why a sweep ends before its trials are done, and how it goes on.

        Raises:
            TrainingInterrupted: Somebody has stopped it.
            SsntError: Something is wrong that is not the fault of a trial.
        """
        if self._trouble is not None:
            raise self._trouble
        if self._stop.is_requested:
            raise _interrupted(self._display, f"stopped; {self._how_to_go_on()}")
        left = [f"trial {one.name}" for one in self._study.trials() if one.state == "running"]
        who = f"the processes of {', '.join(left)} were stopped from outside" if left else "not all trials were begun"
        raise ModelError(f"{self._directory.out}: {who}\n{self._how_to_go_on()}")

    def _how_to_go_on(self) -> str:
        again = f"ssnt sweep --resume --out {shlex.quote(str(self._directory.out))}"
        return f"{self._done} of {self._study.total} trials are done; go on with: {again}"

    @property
    def _done(self) -> int:
        return sum(one.state != "running" for one in self._study.trials())

    def _jobs(self) -> Iterator[Job]:
        """Trials that were under way when the sweep was stopped, then new ones."""
        for trial in self._study.take_up():
            if not self._is_given_up(trial):
                yield from self._job(trial)
        while (new := self._study.ask()) is not None:
            yield from self._job(new)

    def _job(self, trial: Trial) -> Iterator[Job]:
        out = str(self._directory.trial(trial.number))
        try:
            settings = self._space.config(trial.params).model_copy(update={"out": out})
        except ConfigError as error:  # values that do not go together, between the ends of ranges that do
            self._fail(trial.number, str(error))
            return
        name = f"trial {trial.name}"
        self._numbers[name] = trial.number
        self._under_way.add(trial.number)
        yield Job(name, TRAIN, {"config": settings.model_dump()})

    def _is_given_up(self, trial: Trial) -> bool:
        """Tells the study what a trial had measured that the sweep did not live to hear of; whether it is to end."""
        last = RunDirectory(self._directory.trial(trial.number)).last
        if not last.exists():
            return False
        rows = Progress.from_state(read_checkpoint(last)["progress"]).rows
        measured = [(row.epoch, row.value) for row in rows if row.value is not None]
        if any(self._study.report(trial.number, epoch, value) for epoch, value in measured):
            self._show_end(trial.number, "given up")
            return True
        return False

    def _tell(self, job: Job, report: Report) -> bool:
        """Takes notice of a report; whether the trial is to be given up."""
        number, state = self._numbers[job.name], report.get("state")
        if state is not None:
            self._under_way.discard(number)
        if self._study.trial(number).state != "running":  # given up, and the job is ending
            if state is not None:
                self._keep()
            return True
        if state == DONE:
            self._complete(number, report)
        elif state == FAILED:
            self._fail_or_stop(number, report)
        elif report.get("value") is not None:
            self._display.show_part(
                self._overall(), f"{job.name} epoch {report['epoch']}  {_measured(report)}", is_done=False
            )
            if self._study.report(number, report["epoch"], report["value"]):
                self._show_end(number, f"given up after epoch {report['epoch']}, {_measured(report)}")
                return True
        return False

    def _complete(self, number: int, report: Report) -> None:
        value = next((one["value"] for one in report["scores"] if one["name"] == self._metric), None)
        if value is None:
            self._fail(number, f"its dev {self._metric} is infinite or not a number")
            return
        self._study.complete(number, value)
        self._keep()
        self._show_end(number, f"dev {self._metric} {value:.4f}")

    def _fail_or_stop(self, number: int, report: Report) -> None:
        """Notes that a trial has failed, if it would again; else the sweep stops, so that no trial is lost by it."""
        message = str(report["message"])
        if report.get("kind") in _OWN_FAULTS:
            self._fail(number, message)
        elif self._trouble is None:
            error = StorageError if report.get("kind") == StorageError.__name__ else ModelError
            about = f"{self._directory.out}: trial {self._study.trial(number).name} could not go on: {message}"
            self._trouble = error(f"{about}\nwhen this is mended, the sweep goes on: {self._how_to_go_on()}")
            self._stop.request()

    def _fail(self, number: int, message: str) -> None:
        self._study.fail(number, message)
        self._keep()
        self._show_end(number, f"failed: {message}")

    def _keep(self) -> None:
        """Keeps the best models, deletes others, and writes the table."""
        trials = self._study.trials()
        best = next((one for one in ranked(trials, self._metric) if one.state == "complete"), None)
        if best is not None and best.number != self._published:
            self._directory.publish(best, self._own_settings(best), self._metric)
            self._published = best.number
        self._directory.thin(trials, self._metric, self._config.sweep.keep, self._under_way)
        self._directory.write_table(trials, self._metric)

    def _own_settings(self, trial: Trial) -> Config:
        """The settings of a trial for a training of its own, on the hardware that the user has asked for."""
        hardware = self._config.hardware.without_engine()  # one model is trained without an engine
        return self._space.config(trial.params).model_copy(update={"hardware": hardware, "out": None})

    def _overall(self) -> str:
        return f"{self._done}/{self._study.total} trials"

    def _show_end(self, number: int, text: str) -> None:
        trial = self._study.trial(number)
        shown = f"trial {trial.name} {text}  {shown_params(trial.params)}"
        self._display.show_part(self._overall(), shown, is_done=True)

    def _result(self) -> SweepResult:
        trials = ranked(self._study.trials(), self._metric)
        result = SweepResult(self._directory.out, self._metric, trials)
        if result.best is None:
            reasons = [f"trial {one.name}: {one.message or 'given up'}" for one in trials]
            raise ModelError("\n".join([f"{self._directory.out}: no trial could be finished", *reasons]))
        self._display.note(
            f"the best of {len(trials)} trials is {result.best.name}, dev {self._metric} {result.best.value:.4f}; its "
            f"model is in {self._directory.best}, its settings are in {self._directory.best_settings}"
        )
        return result


def _measured(report: Report) -> str:
    return f"{report['metric']} {report['value']:.4f}"
