"""What models have answered, kept so small that it can be committed: for ensembles of models that are gone.

A model of an hour's training is too large to commit, and the next machine does not have it. Of each question the most
probable outputs are kept, with their probabilities in thousandths. One that is right is called by its place among the
right ones, whatever it is, and any other by a hash of its text: nothing of the data is written down. The mean of
several models' probabilities for whole outputs can be had from that, and with it the output that they find most
probable together.
"""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from experiments.packing import pack, unpack
from ssnt.decode import Failure
from ssnt.errors import DataError
from ssnt.evaluation import Evaluation

KEPT = 8
"""How many outputs of a question are kept at most."""

UNIT = 1000
"""What a probability of 1 is written as."""

FIRST_WRONG = 256
"""The least name of an output that is wrong: the right ones, of which there is hardly ever more than one, have those
below it."""

_HASHES = 2**16 - FIRST_WRONG
_ANSWERS = re.compile(r"(?:[0-9a-f]+:\d+(?:,[0-9a-f]+:\d+)*)?(?:;(?:[0-9a-f]+:\d+(?:,[0-9a-f]+:\d+)*)?)*")

Answer = Mapping[int, int]
"""The probabilities of outputs by their names, in thousandths; outputs below a thousandth are left out."""


@dataclass(frozen=True)
class Verdict:
    """What several models answer together.

    Attributes:
        is_right: Whether the most probable output is right.
        is_certain: Whether it is the most probable whatever was rounded or not kept, as long as each model's search has
            found its most probable outputs.
    """

    is_right: bool
    is_certain: bool


def answers_of(evaluation: Evaluation) -> list[Answer]:
    """The answers of an evaluation whose search was asked for :data:`KEPT` outputs, in the order of its questions."""
    found: list[Answer] = []
    for prediction, item in zip(evaluation.predictions, evaluation.items, strict=True):
        outputs = () if isinstance(prediction, Failure) else (prediction, *prediction.alternatives)
        counts = {
            named(one.text, item.reference_texts): round(UNIT * min(one.probability, 1.0)) for one in outputs[:KEPT]
        }
        found.append({name: count for name, count in counts.items() if count})
    return found


def named(text: str, right: Sequence[str]) -> int:
    """What an output is called."""
    if text in right[:FIRST_WRONG]:
        return right.index(text)
    return FIRST_WRONG + zlib.crc32(text.encode()) % _HASHES


def packed(answers: Sequence[Answer]) -> str:
    """Answers as text that JSON can hold."""
    plain = ";".join(",".join(f"{name:x}:{count}" for name, count in one.items()) for one in answers)
    return pack(plain)


def unpacked(text: str) -> list[Answer]:
    """What was packed.

    Raises:
        DataError: It was not.
    """
    plain = unpack(text)
    if not _ANSWERS.fullmatch(plain):
        raise DataError(f"answers: expected NAME:COUNT,...;..., got {plain[:40]!r}...")
    return [_answer(one) for one in plain.split(";")]


def _answer(text: str) -> Answer:
    pairs = (one.split(":") for one in text.split(",") if one)
    return {int(name, 16): int(count) for name, count in pairs}


def together(answers: Sequence[Answer]) -> Verdict:
    """What models that each have answered a question answer together: the output with the highest mean probability.

    Of outputs that are equally probable the first is taken, in the order of the models and of their answers. One that
    no model finds probable enough to be kept is none.
    """
    sums: Counter[int] = Counter()
    for one in answers:
        sums.update(one)
    if not sums:
        return Verdict(is_right=False, is_certain=False)
    best = max(sums, key=sums.__getitem__)
    least = sum(max(one.get(best, 0) - 0.5, 0) for one in answers)
    others = [sum(_most(one, name) for one in answers) for name in [*(sums.keys() - {best}), None]]
    return Verdict(is_right=best < FIRST_WRONG, is_certain=least > max(others))


def _most(answer: Answer, name: int | None) -> float:
    """The most that a model can have thought of an output, in thousandths; None: of one that it has not kept."""
    if name is not None and name in answer:
        return answer[name] + 0.5
    # it is no more probable than the last that was kept, if there was no more room, and than what is left
    left = max(UNIT - sum(answer.values()) + 0.5 * len(answer), 0.0)
    return min(left, min(answer.values()) + 0.5 if len(answer) >= KEPT else 0.5)
