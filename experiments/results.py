"""The rows of finished trials, in files that are only ever added to.

A table's folder has ``results.csv``, a line for each finished trial, and ``outcomes.jsonl``, with all scores of each
and, packed, what was right; where a plan asks for it, ``answers.jsonl`` has what each has answered. None of them is
ever edited by hand; where their form has changed, a script has rewritten them, and the report was the same. A trial
whose settings have changed has another key: its old rows stay where they are and count no more.
"""

from __future__ import annotations

import csv
import fcntl
import io
import json
import os
import re
from dataclasses import dataclass, fields
from pathlib import Path
from typing import IO, Any

from experiments.packing import pack, unpack
from experiments.plan import HOME
from ssnt.errors import DataError


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


CHANGED = "+"
"""What follows the commit of a row if the code was not exactly that."""

_NAMES = [one.name for one in fields(Row)]
_OUTCOMES = "outcomes"
"""The part of a record that is packed."""

_MEND = "the line was damaged or edited: mend it, or remove it, and its trial is done again"
_EXCERPT = 80

_JSON_OBJECT = re.compile(r"\{.*\}")


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
        self.answers = folder / "answers.jsonl"

    def rows(self) -> dict[str, Row]:
        """All rows by their keys, but for a last line that a crash has cut short.

        Raises:
            DataError: Another line is not what :meth:`add` writes.
        """
        lines = _lines(self.csv)
        if lines and _values(self.csv, 1, lines[0]) != _NAMES:
            raise DataError(f"{self.csv}:1: expected {','.join(_NAMES)}, got {_excerpt(lines[0])}; restore it")
        rows = [_row(self.csv, number, line) for number, line in enumerate(lines[1:], 2)]
        return {row.key: row for row in rows}

    def check(self) -> None:
        """Reads all files, so that a damaged one is known before anything is added to it.

        Raises:
            DataError: A line of one is not what :meth:`add` writes; packed outcomes are not unpacked for it.
        """
        for read in (self.rows, self.kept_answers, lambda: _by_key(self.outcomes)):
            read()

    def records(self) -> dict[str, dict[str, Any]]:
        """Scores and outcomes of all trials by their keys.

        Raises:
            DataError: A record is not what :meth:`add` writes.
        """
        return {key: {**one, _OUTCOMES: self._unpacked(key, one)} for key, one in _by_key(self.outcomes).items()}

    def _unpacked(self, key: str, record: dict[str, Any]) -> Any:
        try:
            return json.loads(unpack(record.get(_OUTCOMES), _JSON_OBJECT))
        except ValueError as error:  # a DataError, or JSON's
            raise DataError(f"{self.outcomes}: {key}: {error}") from None

    def kept_answers(self) -> dict[str, dict[str, Any]]:
        """The kept answers of trials by their keys, packed.

        Raises:
            DataError: A line is not what :meth:`add` writes.
        """
        return _by_key(self.answers)

    def add(self, row: Row, record: dict[str, Any], answers: dict[str, Any] | None = None) -> bool:
        """Adds a finished trial: first its answers and outcome, then its row, which says that it is finished.

        Several runners may add at the same time. A trial that has its row, or its answers, already keeps them: if it
        was trained again for its answers, these are of another training than the row.

        Returns:
            Whether its row was added.

        Raises:
            DataError: A file is damaged; then nothing is added.
        """
        packed = _line(row.key, {**record, _OUTCOMES: pack(_json(record[_OUTCOMES]))})
        self.csv.parent.mkdir(parents=True, exist_ok=True)
        with self.outcomes.open("ab+") as outcomes, self.csv.open("ab+") as rows:
            fcntl.flock(outcomes, fcntl.LOCK_EX)  # until it is closed
            has_row, has_answers = row.key in self.rows(), row.key in self.kept_answers()
            if answers is not None and not has_answers:
                with self.answers.open("ab+") as kept:
                    _append(kept, _line(row.key, {"commit": row.commit, "date": row.date, **answers}))
            if has_row:
                return False
            _append(outcomes, packed)
            text = io.StringIO()
            writer = csv.DictWriter(text, _NAMES, lineterminator="\n")
            if not _cut(rows):
                writer.writeheader()
            writer.writerow({name: _shown(getattr(row, name)) for name in _NAMES})
            _append(rows, text.getvalue())
        return True


def _by_key(path: Path) -> dict[str, dict[str, Any]]:
    """The records of a file by their keys."""
    records = [_record(path, number, line) for number, line in enumerate(_lines(path), 1)]
    return {record["key"]: record for record in records}


def _line(key: str, record: dict[str, Any]) -> str:
    return _json({"key": key, **record}) + "\n"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _lines(path: Path) -> list[str]:
    """The lines of a file that are written to their ends."""
    whole, end, _ = (path.read_bytes() if path.exists() else b"").rpartition(b"\n")
    return [_decoded(path, number, line) for number, line in enumerate(whole.split(b"\n"), 1)] if end else []


def _decoded(path: Path, number: int, line: bytes) -> str:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError:
        raise DataError(f"{path}:{number}: expected UTF-8, got {line[:_EXCERPT]!r}; {_MEND}") from None


def _append(file: IO[bytes], text: str) -> None:
    """Adds whole lines to a file, and waits until they are on the disk."""
    _cut(file)
    file.write(text.encode())
    file.flush()
    os.fsync(file.fileno())


def _cut(file: IO[bytes]) -> int:
    """Removes what a crash or a full disk has left of a line, which would spoil the next; gives the size then."""
    file.seek(0)
    size = file.read().rfind(b"\n") + 1
    file.truncate(size)
    return size


def _record(path: Path, number: int, line: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError:
        found = None
    if not isinstance(found, dict) or not isinstance(found.get("key"), str):
        raise DataError(f"{path}:{number}: expected a JSON object with a key, got {_excerpt(line)}; {_MEND}")
    return found


def _shown(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _row(path: Path, number: int, line: str) -> Row:
    values = _values(path, number, line)
    if len(values) != len(_NAMES):
        raise DataError(
            f"{path}:{number}: expected {len(_NAMES)} values, got {len(values)} in {_excerpt(line)}; {_MEND}"
        )
    one = dict(zip(_NAMES, values, strict=True))
    try:
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
    except ValueError:
        raise DataError(
            f"{path}:{number}: expected numbers for seed, dev, test, epochs and seconds, got {_excerpt(line)}; {_MEND}"
        ) from None


def _values(path: Path, number: int, line: str) -> list[str]:
    try:
        return next(csv.reader([line]), [])
    except csv.Error as error:
        raise DataError(
            f"{path}:{number}: expected values with commas, got {_excerpt(line)} ({error}); {_MEND}"
        ) from None


def _excerpt(line: str) -> str:
    """As much of a line as a message has room for."""
    return repr(line if len(line) <= _EXCERPT else line[:_EXCERPT] + "…")
