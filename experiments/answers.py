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
from unicodedata import normalize

from experiments.packing import pack, unpack
from ssnt.config import Config
from ssnt.decode import Failure
from ssnt.errors import ConfigError
from ssnt.evaluation import Evaluation

KEPT = 8
"""How many outputs of a question are kept at most."""

UNIT = 1000
"""What a probability of 1 is written as."""

FIRST_WRONG = 256
"""The least name of an output that is wrong: the right ones, of which there is hardly ever more than one, have those
below it."""

_ROUNDED = 0.5  # the most that rounding takes or gives
_HASHES = 2**24 - FIRST_WRONG
_ONE = r"(?:[0-9a-f]+:\d+(?:,[0-9a-f]+:\d+)*)?"
_ANSWERS = re.compile(f"{_ONE}(?:;{_ONE})*")

Answer = Mapping[int, int]
"""The probabilities of outputs by their names, in thousandths; outputs below a thousandth are left out."""


@dataclass(frozen=True)
class Verdict:
    """What several models answer together.

    Attributes:
        is_right: Whether the most probable output is right.
        is_certain: Whether that is so whatever was rounded or not kept, as long as each model's search has found its
            most probable outputs, each of them a text of its own, and no two wrong ones of a question have the same
            hash.
    """

    is_right: bool
    is_certain: bool


def require_probabilities(config: Config, where: str) -> None:
    """Refuses settings whose search does not give the probabilities of whole outputs, or too few of them.

    Raises:
        ConfigError: It does not.
    """
    search = config.search
    if search.search != "marginal" or search.length_normalisation or search.beam < KEPT:
        raise ConfigError(
            f"{where}: answers are kept of a marginal search without length normalisation and with a beam of at least "
            f"{KEPT}, got search={search.search}, length_normalisation={search.length_normalisation:g}, "
            f"beam={search.beam}"
        )


def answers_of(evaluation: Evaluation) -> list[Answer]:
    """The answers of an evaluation whose search was asked for :data:`KEPT` outputs, in the order of its questions."""
    found: list[Answer] = []
    for prediction, item in zip(evaluation.predictions, evaluation.items, strict=True):
        outputs = () if isinstance(prediction, Failure) else (prediction, *prediction.alternatives)
        sums: dict[int, float] = {}
        for one in outputs[:KEPT]:
            if one.is_complete:  # else what it has is the probability of all that begins like it
                name = named(one.text, item.reference_texts)
                sums[name] = sums.get(name, 0.0) + one.probability
        counts = {name: round(UNIT * min(value, 1.0)) for name, value in sums.items()}
        found.append({name: count for name, count in counts.items() if count})
    return found


def named(text: str, right: Sequence[str]) -> int:
    """What an output is called, beside the right ones in NFC."""
    text = normalize("NFC", text)
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
    return [_answer(one) for one in unpack(text, _ANSWERS).split(";")]


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
    is_right = best < FIRST_WRONG
    least = sum(max(one.get(best, 0) - _ROUNDED, 0.0) for one in answers)
    # an output that nobody has kept (None) may be right or wrong
    others = [None, *(name for name in sums if (name < FIRST_WRONG) != is_right)]
    most = max(sum(_most(one, name) for one in answers) for name in others)
    return Verdict(is_right, is_certain=least > most)


def _most(answer: Answer, name: int | None) -> float:
    """The most that a model can have thought of an output, in thousandths; None: of one that it has not kept."""
    if name is not None and name in answer:
        return answer[name] + _ROUNDED
    # it is no more probable than what was kept last, and than all that is left
    left = max(UNIT - sum(answer.values()) + _ROUNDED * len(answer), 0.0)
    return min([left, *(count + _ROUNDED for count in answer.values())])
