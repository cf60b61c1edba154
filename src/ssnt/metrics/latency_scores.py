"""Latency in the form of the other scores: with a signature and an interval."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Literal

import numpy as np

from ssnt.errors import ConfigError, DataError
from ssnt.metrics.bootstrap import Bootstrap
from ssnt.metrics.evaluate import bootstrap_score
from ssnt.metrics.latency import LatencyScore, corpus_latency
from ssnt.metrics.metric import Statistics, ratio
from ssnt.metrics.score import Score, signature

MEASURES = ("ap", "al", "laal", "dal")


def latency_scores(
    sentences: Iterable[LatencyScore],
    *,
    paced_by: Literal["output", "reference"] = "output",
    confidence: float = 0.95,
    resamples: int = 1000,
    seed: int = 1,
) -> list[Score]:
    """The four latency measures of a corpus, each the mean over sentences, as scores named ap, al, laal and dal.

    Sentences with an empty output have no latency: they are left out, and the signature says how many they were. If
    none is left, the values are NaN.

    Args:
        sentences: One score a sentence. Scores of several sentences are taken if ``resamples`` is 0.
        paced_by: Whether a reference's length was given when the sentences were scored, which changes AL and LAAL; it
            is only noted in the signature.
        confidence: The share of resamples that an interval holds.
        resamples: How many resamples an interval is read from; 0 for no intervals.
        seed: Of the random numbers.

    Raises:
        ConfigError: A setting is out of range.
        DataError: There are no sentences, they count different units, or one is a mean of several.
    """
    if paced_by not in ("output", "reference"):
        raise ConfigError(f"paced_by must be 'output' or 'reference', got {paced_by!r}")
    settings = Bootstrap(confidence, resamples, seed)
    sentences = list(sentences)
    corpus = corpus_latency(sentences)
    pooled = next((one for one in sentences if one.sentences > 1), None)
    if resamples and pooled is not None:
        raise DataError(
            f"sentences must hold one score a sentence to be resampled, got one of {pooled.sentences} sentences; "
            "give those of the sentences, or resamples=0"
        )
    kept = [one for one in sentences if one.sentences]
    scores = []
    for measure in MEASURES:
        fields = _fields(measure, corpus, paced_by)
        if not kept or not resamples:
            text = signature(measure, *fields, *Bootstrap(resamples=0).fields())
            value = getattr(corpus, measure) if kept else math.nan
            scores.append(Score(measure, value, corpus.sentences, text, is_higher_better=False))
            continue
        statistics = Statistics.of_rows(np.array([(getattr(one, measure), 1.0) for one in kept]), ratio)
        text = signature(measure, *fields, *settings.fields())
        scores.append(bootstrap_score(measure, statistics, text, is_higher_better=False, settings=settings))
    return scores


def _fields(measure: str, corpus: LatencyScore, paced_by: str) -> list[str]:
    fields = ["formula:mean-over-sentences", f"unit:{corpus.unit}", f"empty-left-out:{corpus.empty}"]
    if measure in ("al", "laal"):
        longer = measure == "laal" and paced_by == "reference"
        fields.append(f"pace:{'longer-of-output-and-reference' if longer else paced_by}")
    return fields
