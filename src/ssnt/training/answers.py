"""What models answer where they are trained, so that they need not be asked again to be measured together.

To measure many models together takes as long as to measure each of them, and one process would do it while the others
have nothing to do. So each model is asked by the process that has trained it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar, Unpack

from ssnt.checkpoint.manifest import TagSet, tag_set
from ssnt.config import Config
from ssnt.data.readers import read_examples
from ssnt.data.references import pool_references
from ssnt.decode import Failure
from ssnt.pipeline import PairScore, PerTagTransducer, Transducer, Transduction
from ssnt.pipeline.settings import SearchSettings
from ssnt.types import Alignment, Example

ResultT = TypeVar("ResultT", Transduction, PairScore)

Answers = dict[str, Any]
"""In JSON: ``outputs`` as ``[source, text]``, ``scores`` as ``[source, target, log_prob, tokens, unknown]``."""


def answers_of(transducer: Transducer, config: Config) -> Answers:
    """What a model without tags answers on its development data, without what it cannot answer."""
    examples = list(read_examples(str(config.data.dev), config.data))
    vocabulary = transducer.vocabulary
    pooled = pool_references(examples, lowercase=vocabulary.lowercase, digits_to_hash=vocabulary.digits_to_hash)
    questions = [Example(one.source, None, (), one.line) for one in pooled]
    outputs = zip(questions, transducer.transduce_each(questions), strict=True)
    scores = zip(examples, transducer.score_each(examples), strict=True)
    return {
        "outputs": [[asked.source, found.text] for asked, found in outputs if isinstance(found, Transduction)],
        "scores": [
            [asked.source, asked.target, found.log_prob, found.tokens, found.unknown]
            for asked, found in scores
            if isinstance(found, PairScore)
        ],
    }


class AnsweredTransducer(PerTagTransducer):
    """Models for tag sets that have answered some questions already; for evaluation, as outputs are texts alone.

    Args:
        models: The model of each tag set.
        config: The settings they were trained with.
        answers: What they have answered; other questions go to the models.
    """

    def __init__(self, models: Mapping[TagSet, Transducer], config: Config, answers: Mapping[TagSet, Answers]) -> None:
        super().__init__(models, config)
        self._outputs = {(tags, source): text for tags, own in answers.items() for source, text in own["outputs"]}
        self._scores = {
            (tags, source, target): PairScore(log_prob, tokens, unknown)
            for tags, own in answers.items()
            for source, target, log_prob, tokens, unknown in own["scores"]
        }

    def transduce_each(
        self, examples: Sequence[Example], **settings: Unpack[SearchSettings]
    ) -> list[Transduction | Failure]:
        """Gives the outputs that are known, and finds the others; only for the search that the settings name."""
        texts = [self._outputs.get((tag_set(one.tags), one.source)) for one in examples]
        known = [None if text is None else _transduction(text) for text in texts]
        return _completed(known, super().transduce_each(_unknown(examples, known), **settings))

    def score_each(
        self, examples: Sequence[Example], *, batch_size: int = 64, max_length: int = 2000
    ) -> list[PairScore | Failure]:
        """Gives the probabilities that are known, and computes the others."""
        known = [self._scores.get((tag_set(one.tags), one.source, one.target)) for one in examples]
        others = super().score_each(_unknown(examples, known), batch_size=batch_size, max_length=max_length)
        return _completed(known, others)


def _unknown(examples: Sequence[Example], known: Sequence[object | None]) -> list[Example]:
    return [one for one, answer in zip(examples, known, strict=True) if answer is None]


def _completed(known: Sequence[ResultT | None], others: Sequence[ResultT | Failure]) -> list[ResultT | Failure]:
    """What is known, with the others in the places between, in their order."""
    left = iter(others)
    results = [next(left) if answer is None else answer for answer in known]
    return [replace(one, index=at) if isinstance(one, Failure) else one for at, one in enumerate(results)]


def _transduction(text: str) -> Transduction:
    """An output of which the text is known and nothing else."""
    return Transduction((), math.nan, math.nan, Alignment((), math.nan), (), text=text)
