"""What is kept of a trial's outputs, so that intervals and comparisons can be computed without the models.

For accuracy: whether each test question was answered rightly, by lemma and, where they are known, inflection type. A
set's cells of one lemma fail together, so intervals resample lemmas. For ROUGE: what the metric says of each sentence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from ssnt.data.references import PooledExample
from ssnt.evaluation import Evaluation
from ssnt.metrics import tabulate
from ssnt.types import Example

ABSENT, WRONG, RIGHT = ".01"
_BY_LEMMA = frozenset({"accuracy", "item_error_rate"})
_BY_ITEM = ("rouge_1", "rouge_2", "rouge_l")
_PLACES = 4
"""How precisely the value of a sentence is kept."""


def outcome_of(
    evaluation: Evaluation, metrics: Sequence[str], everything: Sequence[Example], *, by_type: bool
) -> dict[str, Any]:
    """The outcome of an evaluation, in JSON.

    Args:
        evaluation: What was found.
        metrics: What was measured.
        everything: The examples of the whole data set's part, whose lemmas are counted in their order.
        by_type: Whether answers are kept by tag set. Where a lemma has a few of hundreds of tag sets, and all questions
            count the same, that would be room for nothing.
    """
    found: dict[str, Any] = {}
    if _BY_LEMMA.intersection(metrics):
        rights = [item.prediction in item.references for item in evaluation.items]
        found["cells"] = signs_of(evaluation.questions, rights, everything, by_type=by_type)
    if by_item := [name for name in metrics if name in _BY_ITEM]:
        values = {name: tabulate(evaluation.items, name).values.tolist() for name in by_item}
        found["items"] = {name: [round(one, _PLACES) for one in own] for name, own in values.items()}
    return found


def signs_of(
    questions: Sequence[PooledExample], rights: Sequence[bool], everything: Sequence[Example], *, by_type: bool
) -> dict[str, str]:
    """For each tag set, or for each lemma's first question, its second and so on, a sign for each lemma.

    Args:
        questions: What was asked.
        rights: Whether each was answered rightly.
        everything: See :func:`outcome_of`.
        by_type: See :func:`outcome_of`.
    """
    lemmas = {lemma: at for at, lemma in enumerate(dict.fromkeys(one.source.lower() for one in everything))}
    asked: Counter[str] = Counter()
    cells: dict[str, list[str]] = {}
    for is_right, question in zip(rights, questions, strict=True):
        lemma = question.source.lower()
        asked[lemma] += 1
        name = ";".join(sorted(question.tags)) if by_type else str(asked[lemma])
        signs = cells.setdefault(name, [ABSENT] * len(lemmas))
        signs[lemmas[lemma]] = RIGHT if is_right else WRONG
    return {name: "".join(signs) for name, signs in cells.items()}
