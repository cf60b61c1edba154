"""Files of predictions beside their references, and scores as the user sees them; without torch."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ssnt.cli.errors import tell
from ssnt.cli.output import counted, is_terminal, print_table
from ssnt.cli.prediction_files import PredictionFormat, read_predictions
from ssnt.errors import DataError

if TYPE_CHECKING:
    from ssnt.config import DataConfig, UnitName
    from ssnt.data.references import PooledExample
    from ssnt.metrics import Item, Score


def read_items(path: str, references: str, data: DataConfig, form: PredictionFormat | None = None) -> list[Item]:
    """Puts predictions beside their references.

    Args:
        path: The predictions: one for each line of the references, or one for each different input there.
        references: A data file.
        data: How the references are laid out.
        form: How the predictions are written; None: what their first line looks like.

    Raises:
        DataError: A file cannot be read, or the numbers do not fit.
    """
    from ssnt.data.readers import read_examples
    from ssnt.data.references import pool_references
    from ssnt.data.text import normalise
    from ssnt.data.units import make_unit
    from ssnt.metrics import Item

    ways = {"lowercase": data.lowercase, "digits_to_hash": data.digits_to_hash}
    examples = list(read_examples(references, data))
    pooled = pool_references(examples, **ways)
    outputs = [normalise(one, **ways) for one in read_predictions(path, form)]
    if len(outputs) == len(examples):
        outputs = _first_of_each(outputs, pooled, path)
    elif len(outputs) != len(pooled):
        lines = counted(len(examples), "line")
        lines += "" if len(pooled) == len(examples) else f" ({counted(len(pooled), 'different input')})"
        raise DataError(f"{path}: expected a prediction for each of the {lines} of {references}, got {len(outputs)}")
    split = make_unit(scored_unit(data)).split
    return [
        Item.from_text(output, one.references, split=split, group=";".join(sorted(one.tags)))
        for output, one in zip(outputs, pooled, strict=True)
    ]


def scored_unit(data: DataConfig) -> UnitName:
    """What is a symbol when outputs are compared: that of the targets, or characters if those are byte pairs."""
    from ssnt.data.formats import resolve_format

    unit = resolve_format(data).target_unit
    return "characters" if unit == "bpe" else unit


def _first_of_each(outputs: list[str], pooled: Sequence[PooledExample], path: str) -> list[str]:
    """The output of each different input; a system that answers one input in two ways is told."""
    several = sum(len({outputs[index] for index in one.indices}) > 1 for one in pooled)
    if several:
        found = f"{counted(several, 'input')} with several different predictions"
        tell(f"{path}: {found}; the first of each counts", "warning")
    return [outputs[one.indices[0]] for one in pooled]


def print_scores(scores: Sequence[Score], *, as_json: bool) -> None:
    """Prints scores as a table or as JSON."""
    if as_json:
        print(json.dumps([score.to_record() for score in scores], ensure_ascii=False, indent=2))
        return
    header = ["metric", "value", "95% interval", "items", "signature"]
    rows = [
        [score.name, number(score.value), interval(score.low, score.high), str(score.count), score.signature]
        for score in scores
    ]
    if not is_terminal():
        print_table(header, rows, numeric=(1, 3))
        return
    # signatures are longer than most terminals are wide
    print_table(header[:-1], [row[:-1] for row in rows], numeric=(1, 3))
    for score in scores:
        print(score.signature)


def number(value: float) -> str:
    """A score with four places."""
    return f"{value:.4f}" if math.isfinite(value) else str(value)


def interval(low: float | None, high: float | None) -> str:
    """An interval with four places, or a dash."""
    return "-" if low is None or high is None else f"{number(low)} to {number(high)}"
