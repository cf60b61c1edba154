"""The rows of finished trials, in files that are only ever added to.

A table's folder has ``results.csv``, a line for each finished trial, and ``outcomes.jsonl``, with all scores of each
and what was right. Neither is ever edited by hand. A trial whose settings have changed has another key: its old rows
stay where they are and count no more.
"""

from __future__ import annotations

import csv
import io
import json
import os
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from experiments.plan import HOME


@dataclass(frozen=True)
class Row:
    """A finished trial.

    Attributes:
        dataset: The data set.
        tags: The tag set of the model, empty for a model of all.
        model: The system, as its table calls it.
        seed: Of the training.
        metric: What ``dev`` and ``test`` are.
        dev: On the development data.
        test: On the test data; empty if that was not looked at.
        epochs: How long it was trained; the best epochs may be earlier ones.
        seconds: Of training, as the clock has it; the machine may have had other work.
        commit: Of the code.
        config: Hash of the settings.
        data: Hash of the data files.
        date: When it was finished.
        key: Of the trial.
    """

    dataset: str
    tags: str
    model: str
    seed: int
    metric: str
    dev: float
    test: float | None
    epochs: int
    seconds: float
    commit: str
    config: str
    data: str
    date: str
    key: str


_NAMES = [one.name for one in fields(Row)]


class Results:
    """The results of a table.

    Args:
        table: Its folder.
        home: Where the folders are; None: here.
    """

    def __init__(self, table: str, home: Path | None = None) -> None:
        folder = (home or HOME) / table
        self.csv = folder / "results.csv"
        self.outcomes = folder / "outcomes.jsonl"

    def rows(self) -> dict[str, Row]:
        """All rows by their keys."""
        if not self.csv.exists():
            return {}
        with self.csv.open(encoding="utf-8", newline="") as lines:
            return {one["key"]: _row(one) for one in csv.DictReader(lines) if one.get("key")}

    def records(self) -> dict[str, dict[str, Any]]:
        """Scores and outcomes of all trials by their keys."""
        if not self.outcomes.exists():
            return {}
        lines = self.outcomes.read_text(encoding="utf-8").splitlines()
        records = (json.loads(line) for line in lines if line.startswith("{") and line.endswith("}"))
        return {record["key"]: record for record in records}  # a line that a crash has cut short has no row either

    def add(self, row: Row, record: dict[str, Any]) -> None:
        """Adds a finished trial: first its outcome, then its row, which says that it is finished."""
        line = json.dumps({"key": row.key, **record}, ensure_ascii=False, separators=(",", ":"))
        _append(self.outcomes, line + "\n")
        text = io.StringIO()
        writer = csv.DictWriter(text, _NAMES, lineterminator="\n")
        if not self.csv.exists():
            writer.writeheader()
        writer.writerow({name: _shown(getattr(row, name)) for name in _NAMES})
        _append(self.csv, text.getvalue())


def _append(path: Path, text: str) -> None:
    """Adds whole lines to a file, and waits until they are on the disk; what a crash has left of a line is ended."""
    with path.open("ab+") as file:
        if file.tell():
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                text = "\n" + text
        file.write(text.encode())
        file.flush()
        os.fsync(file.fileno())


def _shown(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _row(one: dict[str, str]) -> Row:
    return Row(
        **{
            **one,
            "seed": int(one["seed"]),
            "dev": float(one["dev"]),
            "test": float(one["test"]) if one["test"] else None,
            "epochs": int(one["epochs"]),
            "seconds": float(one["seconds"]),
        }  # type: ignore[arg-type]
    )
