"""The training of one model as a job of an engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ssnt.config import Config, HardwareConfig
from ssnt.engines.base import DONE, Report
from ssnt.errors import ConfigError
from ssnt.interrupts import Stop
from ssnt.nn.precision import advised_on_cpu
from ssnt.training.answers import answers_of
from ssnt.training.display import Display
from ssnt.training.fit import train_one
from ssnt.training.progress import Row
from ssnt.training.run_directory import RunDirectory
from ssnt.training.threads import limited_threads, thread_count

TRAIN = "ssnt.training.job:train_job"
"""The name of :func:`train_job`, for a :class:`~ssnt.engines.base.Job`."""

WAIT = 120.0
"""Seconds to wait for a process of a training before, whose owner was killed and which is still saving."""


def check_hardware(hardware: HardwareConfig, models: str) -> None:
    """Refuses what processes that train one model each, on the CPU and in one thread, would have to ignore.

    Args:
        hardware: What the user has asked for.
        models: What messages call the models.

    Raises:
        ConfigError: A setting asks for it.
    """
    if hardware.devices * hardware.nodes > 1:
        raise ConfigError(
            f"setting 'hardware.devices': each of {models} is trained by one process; set hardware.devices and "
            "hardware.nodes to 1, and hardware.workers to the number that are trained at a time"
        )
    if hardware.accelerator == "gpu":
        raise ConfigError(
            f"setting 'hardware.accelerator': {models} are trained on the CPU, got 'gpu'; set it to cpu or auto"
        )
    if hardware.precision == "float16":
        raise ConfigError(
            f"setting 'hardware.precision': {models} are trained on the CPU, which cannot train in 'float16'; set it "
            f"to {advised_on_cpu()}"
        )


class ReportingDisplay(Display):
    """Reports every validation to the process that gives the orders."""

    def __init__(self, tell: Callable[[Report], None]) -> None:
        self._tell = tell

    def add(self, row: Row, max_epochs: int) -> None:
        """Reports an epoch, if it was measured."""
        if row.value is not None:
            self._tell({"epoch": row.epoch, "metric": row.metric, "value": row.value})


def train_job(order: dict[str, Any], tell: Callable[[Report], None], stop: Stop) -> Report:
    """Trains one model, or goes on with its training if there is one in its directory.

    Args:
        order: ``config``: the settings; ``has_answers``: whether the last report is to have ``answers``.
        tell: Told of every validation: ``epoch``, ``metric`` and ``value``.
        stop: A request to save and stop.

    Returns:
        The last report: ``score``, as the user sees it, and ``scores``, all that the finished model has on the
        development data; ``answers``: see :mod:`ssnt.training.answers`.
    """
    config = Config.model_validate(order["config"])
    resume = RunDirectory(str(config.out)).has_run
    made = train_one(config, resume=resume, overwrite=False, display=ReportingDisplay(tell), stop=stop, wait=WAIT)
    scores = made.metrics["scores"].get("dev", [])
    shown = "done"
    if scores and scores[0]["value"] is not None:
        shown = f"dev {scores[0]['name']} {scores[0]['value']:.4f}"
    report = {"state": DONE, "score": shown, "scores": scores}
    if order.get("has_answers"):
        with stop.giving_up_allowed(), limited_threads(thread_count(config)):
            report["answers"] = answers_of(made, config)
    return report
