"""The training of one model as a job of an engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ssnt.config import Config
from ssnt.engines.base import DONE, Report
from ssnt.interrupts import Stop
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


class _ReportingDisplay(Display):
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
    made = train_one(config, resume=resume, overwrite=False, display=_ReportingDisplay(tell), stop=stop, wait=WAIT)
    scores = made.metrics["scores"].get("dev", [])
    shown = "done"
    if scores and scores[0]["value"] is not None:
        shown = f"dev {scores[0]['name']} {scores[0]['value']:.4f}"
    report = {"state": DONE, "score": shown, "scores": scores}
    if order.get("has_answers"):
        with stop.giving_up_allowed(), limited_threads(thread_count(config)):
            report["answers"] = answers_of(made, config)
    return report
