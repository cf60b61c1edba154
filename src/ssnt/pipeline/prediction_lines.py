r"""Outputs as lines of text: what ``ssnt predict`` writes.

``text``   a line for each input: the output.
``tsv``    a line that names the columns, then one for each output: ``line``, ``rank``, ``source``, ``tags``,
           ``prediction``, ``log_prob`` and, if asked for, ``alignment`` as ``i-j`` links.
``jsonl``  an object for each input: ``line``, ``source``, ``tags``, ``prediction``, ``log_prob``, ``is_complete``,
           ``unknown`` (source symbols that the model does not know), ``alternatives`` and, if asked for, ``alignment``.

An input without an output has an empty prediction, and in ``jsonl`` an ``error``. In ``text`` and ``tsv`` a tab or a
line end within a field is written as ``\t``, ``\n`` or ``\r``; ``jsonl`` has everything as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ssnt.data.rows import row
from ssnt.decode.formats import to_json_line
from ssnt.pipeline.results import Transduction
from ssnt.types import Example

_COLUMNS = ("line", "rank", "source", "tags", "prediction", "log_prob")


class PredictionLines:
    """Makes lines of outputs.

    Args:
        form: ``text``, ``tsv`` or ``jsonl``.
        with_alignment: Whether each output has its alignment beside it; not for ``text``.
    """

    def __init__(self, form: str, *, with_alignment: bool = False) -> None:
        self._form = form
        self._with_alignment = with_alignment

    def header(self) -> str:
        """What comes before all outputs."""
        return row([*_COLUMNS, *(["alignment"] if self._with_alignment else [])]) if self._form == "tsv" else ""

    def of(self, example: Example, outputs: Sequence[Transduction]) -> str:
        """The lines of one input with its outputs, best first."""
        if self._form == "text":
            return row([outputs[0].text])
        if self._form == "tsv":
            return "".join(self._table_row(example, rank, output) for rank, output in enumerate(outputs, 1))
        best, *others = (self._record(output) for output in outputs)
        return _json_line(example, best | {"alternatives": others})

    def of_failure(self, example: Example, error: str) -> str:
        """An empty output, so that outputs stay beside their inputs."""
        if self._form == "text":
            return "\n"
        if self._form == "tsv":
            return row([*_input(example, 1), "", "", *([""] if self._with_alignment else [])])
        return _json_line(example, {"prediction": "", "log_prob": None, "error": error})

    def _table_row(self, example: Example, rank: int, output: Transduction) -> str:
        links = [" ".join(f"{i}-{j}" for i, j in _links(output))] if self._with_alignment else []
        return row([*_input(example, rank), output.text, f"{output.log_prob:.6f}", *links])

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


def _json_line(example: Example, record: dict[str, Any]) -> str:
    whole = {"line": example.line, "source": example.source, "tags": example.tags} | record
    return to_json_line(whole) + "\n"


def _input(example: Example, rank: int) -> list[str]:
    return [str(example.line), str(rank), example.source, ";".join(example.tags)]


def _links(output: Transduction) -> list[tuple[int, int]]:
    """Source and target positions, without the end symbols."""
    positions = output.alignment.positions[: len(output.target_symbols)]
    return [(i, j) for j, i in enumerate(positions) if i < len(output.source_symbols)]
