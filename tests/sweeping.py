"""Sweeps of tiny models: settings, and an engine that needs no processes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ssnt.config import Config, SweepRunConfig
from ssnt.engines.base import Job, JobFunction, Report, Tell
from ssnt.engines.worker import perform
from ssnt.interrupts import Stop
from trainings import tiny_config

MakeSweep = Callable[..., SweepRunConfig]

SPACE = {"model.hidden_size": [4, 8], "optimiser.learning_rate": [0.003, 0.03]}


def sweep_settings(place: Path, **sweep: Any) -> SweepRunConfig:
    """Settings of a sweep of the tiny task; keyword arguments are settings of the section ``sweep``."""
    config = tiny_config(place, out=str(place / "sweep"), search={"beam": 1, "max_length": 12})
    return SweepRunConfig.model_validate({**config.model_dump(), "sweep": {"space": SPACE, **sweep}})


class InProcess:
    """Does one job after another, in this process.

    Args:
        function: What does a job; None: the function that the job names.
        stop_after: The request to stop comes after so many reports; None: never.
    """

    workers = 1

    def __init__(self, function: JobFunction | None = None, stop_after: int | None = None) -> None:
        self._function = function
        self._left = stop_after
        self.jobs: list[Job] = []

    def check(self) -> None:
        """It can always be reached."""

    def run(self, jobs: Iterator[Job], tell: Tell, stop: Stop) -> None:
        for job in jobs:
            self.jobs.append(job)
            own = Stop()

            def note(report: Report, job: Job = job, own: Stop = own) -> None:
                if self._left is not None:
                    self._left -= 1
                    if self._left <= 0:
                        stop.request()
                if tell(job, report) or stop.is_requested:
                    own.request()

            order = json.loads(json.dumps({"function": job.function, "order": job.order}))
            if self._function is None:
                tell(job, perform(order, note, own))
            else:
                tell(job, self._function(order["order"], note, own))
            if stop.is_requested:
                return


def pretended(curve: Callable[[Config], list[float]]) -> JobFunction:
    """A job that trains nothing: its dev perplexities are what a function of the settings says."""

    def job(order: dict[str, Any], tell: Callable[[Report], None], stop: Stop) -> Report:
        values = curve(Config.model_validate(order["config"]))
        for epoch, value in enumerate(values, start=1):
            tell({"epoch": epoch, "metric": "perplexity", "value": value})
            if stop.is_requested:
                return {"state": "stopped"}
        return {"state": "done", "score": "", "scores": [{"name": "perplexity", "value": values[-1]}]}

    return job
