"""What is kept of a trial's outputs, so that intervals and comparisons can be computed without the models.

For accuracy: whether each test question was answered rightly, by tag set and lemma. A set's cells of one lemma fail
together, so intervals resample lemmas. For ROUGE: what the metric counts in each sentence.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ssnt.evaluation import Evaluation
from ssnt.metrics import tabulate
from ssnt.types import Example

ABSENT, WRONG, RIGHT = ".01"
_BY_LEMMA = frozenset({"accuracy", "item_error_rate"})
_BY_ITEM = ("rouge_1", "rouge_2", "rouge_l")
_PLACES = 4


def outcome_of(evaluation: Evaluation, metrics: Sequence[str], everything: Sequence[Example]) -> dict[str, Any]:
    """The outcome of an evaluation, in JSON.

    Args:
        evaluation: What was found.
        metrics: What was measured.
        everything: The examples of the whole data set's part, whose lemmas are counted in their order.
    """
    found: dict[str, Any] = {}
    if _BY_LEMMA.intersection(metrics):
        found["cells"] = _cells(evaluation, everything)
    if by_item := [name for name in metrics if name in _BY_ITEM]:
        found["items"] = {
            name: [round(value, _PLACES) for value in tabulate(evaluation.items, name).values.tolist()]
            for name in by_item
        }
    return found


def _cells(evaluation: Evaluation, everything: Sequence[Example]) -> dict[str, str]:
    """For each tag set a sign for each lemma, packed: absent, wrong or right."""
    lemmas = {lemma: at for at, lemma in enumerate(dict.fromkeys(one.source.lower() for one in everything))}
    cells: dict[str, list[str]] = {}
    for item, question in zip(evaluation.items, evaluation.questions, strict=True):
        signs = cells.setdefault(";".join(sorted(question.tags)), [ABSENT] * len(lemmas))
        is_right = item.prediction in item.references
        signs[lemmas[question.source.lower()]] = RIGHT if is_right else WRONG
    return {tags: packed("".join(signs)) for tags, signs in cells.items()}


def packed(signs: str) -> str:
    """Signs with the lengths of long runs of absent ones: where a lemma has one cell of hundreds, most are absent."""
    return re.sub(r"\.{5,}", lambda run: f"<{len(run[0])}>", signs)


def unpacked(text: str) -> str:
    """The signs, one for each lemma."""
    return re.sub(r"<(\d+)>", lambda run: ABSENT * int(run[1]), text)
