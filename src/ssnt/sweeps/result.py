"""What a sweep has found: its trials, the best first, as values, as a table and as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ssnt.metrics import METRICS

State = Literal["running", "complete", "pruned", "failed"]


@dataclass(frozen=True)
class Trial:
    """One training of a sweep.

    Attributes:
        number: Its number, counted from 1.
        state: ``complete``, ``pruned`` (given up early), ``failed`` or ``running``, which goes on when the sweep does.
        params: The settings that it was tried with, by their dotted names.
        value: Its value in the metric of the sweep; None unless it is complete.
        epochs: The last epoch that was measured; 0: none was.
        last_value: What was measured after that epoch; None if nothing was.
        message: Why it has failed; else empty.
    """

    number: int
    state: State
    params: Mapping[str, Any]
    value: float | None = None
    epochs: int = 0
    last_value: float | None = None
    message: str = ""

    @property
    def name(self) -> str:
        """The name of its directory, in ``trials/``."""
        return f"{self.number:04d}"


@dataclass(frozen=True)
class SweepResult:
    """What a sweep has found.

    Attributes:
        out: The directory of the sweep.
        metric: What trials are compared by.
        trials: All of them, the best first, then those that were pruned, and those that have failed.
    """

    out: Path
    metric: str
    trials: Sequence[Trial]

    @property
    def best(self) -> Trial | None:
        """The best trial, whose model is in ``out/best``; None if none is complete."""
        return next((one for one in self.trials if one.state == "complete"), None)

    @property
    def model(self) -> Path:
        """The model directory of the best trial."""
        return self.out / "best"


def ranked(trials: Sequence[Trial], metric: str) -> list[Trial]:
    """Trials, the best first: complete ones by their value, of equal ones the earlier, then the others."""
    states: list[State] = ["complete", "pruned", "running", "failed"]

    def order(one: Trial) -> tuple[int, float, int]:
        value = one.value if one.state == "complete" and one.value is not None else 0.0
        return states.index(one.state), -value if METRICS[metric].is_higher_better else value, one.number

    return sorted(trials, key=order)


def table(trials: Sequence[Trial], metric: str) -> tuple[list[str], list[list[str]]]:
    """Header and cells of a table of trials, in the order in which they are given."""
    names = list(trials[0].params) if trials else []
    rows = [
        [
            one.name,
            one.state,
            "" if one.value is None else f"{one.value:.4f}",
            str(one.epochs),
            *(_short(one.params.get(name, "")) for name in names),
        ]
        for one in trials
    ]
    return ["trial", "state", metric, "epochs", *names], rows


def to_csv(trials: Sequence[Trial], metric: str) -> str:
    """All that is known of trials, as CSV, in the order of their numbers."""
    names = list(trials[0].params) if trials else []
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["trial", "state", metric, "epochs", f"last_{metric}", *names, "message"])
    for one in sorted(trials, key=lambda trial: trial.number):
        measured = ["" if value is None else repr(value) for value in (one.value, one.last_value)]
        params = [shown(one.params.get(name, "")) for name in names]
        writer.writerow([one.name, one.state, measured[0], one.epochs, measured[1], *params, one.message])
    return text.getvalue()


def shown(value: Any) -> str:
    """The value of a setting as YAML has it."""
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)


def shown_params(params: Mapping[str, Any]) -> str:
    """Settings as one would give them on the command line, numbers with six digits."""
    return " ".join(f"{name}={_short(value)}" for name, value in params.items())


def _short(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else shown(value)
