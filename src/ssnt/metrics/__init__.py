"""Measures of outputs: text and recorded numbers in, scores out, without torch."""

from ssnt.metrics.latency import (
    LatencyScore,
    WordDelays,
    average_lagging,
    average_proportion,
    corpus_latency,
    differentiable_average_lagging,
    latency,
    length_adaptive_average_lagging,
    word_delays,
    word_latency,
)

__all__ = [
    "LatencyScore",
    "WordDelays",
    "average_lagging",
    "average_proportion",
    "corpus_latency",
    "differentiable_average_lagging",
    "latency",
    "length_adaptive_average_lagging",
    "word_delays",
    "word_latency",
]
