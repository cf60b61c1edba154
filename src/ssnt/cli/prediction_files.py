r"""Files of predictions: written by ``predict`` and ``evaluate``, read by ``score`` and ``compare``; without torch.

``text``   a line for each input: the output.
``tsv``    a line that names the columns, then one for each output: ``line``, ``rank``, ``source``, ``tags``,
           ``prediction``, ``log_prob`` and, if asked for, ``alignment`` as ``i-j`` links.
``jsonl``  an object for each input: ``line``, ``source``, ``tags``, ``prediction``, ``log_prob``, ``is_complete``,
           ``unknown`` (source symbols that the model does not know), ``alternatives`` and, if asked for, ``alignment``.

An input without an output has an empty prediction, and in ``jsonl`` an ``error``. In ``text`` and ``tsv`` a tab or a
line end within a field is written as ``\t``, ``\n`` or ``\r``; ``jsonl`` has everything as it is.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TextIO

from ssnt.cli.output import row
from ssnt.errors import DataError

if TYPE_CHECKING:
    from ssnt.pipeline import Transduction
    from ssnt.types import Example

_COLUMNS = ("line", "rank", "source", "tags", "prediction", "log_prob")


class PredictionFormat(StrEnum):
    """How outputs are written."""

    TEXT = "text"
    TSV = "tsv"
    JSONL = "jsonl"


class PredictionWriter:
    """Writes the outputs of inputs, one after another.

    Args:
        file: Where to.
        form: How.
        with_alignment: Whether each output has its alignment beside it; not for ``text``.
    """

    def __init__(self, file: TextIO, form: PredictionFormat, *, with_alignment: bool = False) -> None:
        self._file = file
        self._form = form
        self._with_alignment = with_alignment
        if form is PredictionFormat.TSV:
            file.write(row([*_COLUMNS, *(["alignment"] if with_alignment else [])]))

    def write(self, example: Example, outputs: Sequence[Transduction]) -> None:
        """Writes the outputs of one input, best first."""
        if self._form is PredictionFormat.TEXT:
            self._file.write(row([outputs[0].text]))
        elif self._form is PredictionFormat.TSV:
            for rank, output in enumerate(outputs, 1):
                links = [" ".join(f"{i}-{j}" for i, j in _links(output))] if self._with_alignment else []
                self._file.write(row([*_input(example, rank), output.text, f"{output.log_prob:.6f}", *links]))
        else:
            best, *others = (self._record(output) for output in outputs)
            self._write_json(example, best | {"alternatives": others})

    def write_failure(self, example: Example, error: str) -> None:
        """Writes an empty output, so that outputs stay beside their inputs."""
        if self._form is PredictionFormat.TEXT:
            self._file.write("\n")
        elif self._form is PredictionFormat.TSV:
            self._file.write(row([*_input(example, 1), "", "", *([""] if self._with_alignment else [])]))
        else:
            self._write_json(example, {"prediction": "", "log_prob": None, "error": error})

    def _record(self, output: Transduction) -> dict[str, Any]:
        record: dict[str, Any] = {
            "prediction": output.text,
            "log_prob": output.log_prob,
            "is_complete": output.is_complete,
            "unknown": output.unknown,
        }
        if self._with_alignment:
            record |= {"symbols": output.target_symbols, "alignment": _links(output)}
        return record

    def _write_json(self, example: Example, record: dict[str, Any]) -> None:
        from ssnt.decode.formats import to_json_line

        whole = {"line": example.line, "source": example.source, "tags": example.tags} | record
        self._file.write(to_json_line(whole) + "\n")


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


def _input(example: Example, rank: int) -> list[str]:
    return [str(example.line), str(rank), example.source, ";".join(example.tags)]


def _links(output: Transduction) -> list[tuple[int, int]]:
    """Source and target positions, without the end symbols."""
    positions = output.alignment.positions[: len(output.target_symbols)]
    return [(i, j) for j, i in enumerate(positions) if i < len(output.source_symbols)]
