"""Files of predictions, as :mod:`ssnt.pipeline.prediction_lines` writes them: read without torch."""

from __future__ import annotations

import json
from collections.abc import Iterator
from enum import StrEnum

from ssnt.errors import DataError


class PredictionFormat(StrEnum):
    """How outputs are written."""

    TEXT = "text"
    TSV = "tsv"
    JSONL = "jsonl"


def read_predictions(path: str, form: PredictionFormat | None = None) -> list[str]:
    """The outputs in a file, best ones only.

    Args:
        path: The file; ``-`` for standard input.
        form: How it is written; None: what its first line looks like.

    Raises:
        DataError: The file cannot be read, or is not of that form.
    """
    from ssnt.data.lines import numbered_lines

    lines = numbered_lines(path)
    first = next(lines, None)
    if first is None:
        return []
    form = form or _looks_like(first[1])
    if form is PredictionFormat.JSONL:
        return [_prediction_of(path, number, line) for number, line in _both(first, lines)]
    if form is PredictionFormat.TEXT:
        return [line for _, line in _both(first, lines)]
    return list(_best_of_table(path, first[1].split("\t"), lines))


def _both(first: tuple[int, str], rest: Iterator[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    yield first
    yield from rest


def _looks_like(line: str) -> PredictionFormat:
    if "\t" in line and "prediction" in line.split("\t"):
        return PredictionFormat.TSV
    if line.startswith("{"):
        try:
            record = json.loads(line)
        except ValueError:
            return PredictionFormat.TEXT
        if isinstance(record, dict) and "prediction" in record:
            return PredictionFormat.JSONL
    return PredictionFormat.TEXT


def _prediction_of(path: str, number: int, line: str) -> str:
    try:
        prediction = json.loads(line)["prediction"]
    except (ValueError, TypeError, KeyError):
        prediction = None
    if not isinstance(prediction, str):
        raise DataError(f"{path}:{number}: expected a JSON object with a string 'prediction', got {line[:60]!r}")
    return prediction


def _best_of_table(path: str, header: list[str], lines: Iterator[tuple[int, str]]) -> Iterator[str]:
    if "prediction" not in header:
        raise DataError(
            f"{path}:1: expected a first line that names the columns, among them 'prediction', got {header!r}; "
            "give --predictions-format text if the lines are outputs"
        )
    place, rank = header.index("prediction"), header.index("rank") if "rank" in header else None
    for number, line in lines:
        fields = line.split("\t")
        if len(fields) != len(header):
            raise DataError(f"{path}:{number}: expected {len(header)} columns, as line 1 has, got {len(fields)}")
        if rank is None or fields[rank] == "1":
            yield fields[place]
