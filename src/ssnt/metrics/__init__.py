"""Measures of outputs: text and recorded numbers in, scores out, without torch.

==================  ==================================================================================
module              what
==================  ==================================================================================
``item``            an output beside its references
``score``           a number with its interval and its signature
``evaluate``        items through metrics, with bootstrap intervals; ``tabulate`` goes item by item
``compare``         two systems on the same items: the paired bootstrap
``registry``        every metric by its name
``accuracy``        ``accuracy``, ``macro_accuracy``, ``item_error_rate``
``edit``            ``edit_distance``, ``per`` (symbols), ``wer`` (words)
``rouge``           ``rouge_1``, ``rouge_2``, ``rouge_l``
``perplexity``      ``perplexity``
``latency``         how far an output lags behind its input; ``latency_scores`` makes scores of it
``metric``          what a metric is: rows of numbers, and a formula of their sum
``bootstrap``       resamples of those rows
==================  ==================================================================================

``rapidfuzz`` and ``rouge-score`` are imported when a metric that needs them is computed.
"""

from ssnt.metrics.compare import Comparison, compare
from ssnt.metrics.evaluate import ItemTable, evaluate, tabulate
from ssnt.metrics.item import Item
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
from ssnt.metrics.latency_scores import latency_scores
from ssnt.metrics.metric import Metric
from ssnt.metrics.perplexity import perplexity
from ssnt.metrics.registry import METRICS, find_metric
from ssnt.metrics.rouge import Rouge
from ssnt.metrics.score import Score

__all__ = [
    "METRICS",
    "Comparison",
    "Item",
    "ItemTable",
    "LatencyScore",
    "Metric",
    "Rouge",
    "Score",
    "WordDelays",
    "average_lagging",
    "average_proportion",
    "compare",
    "corpus_latency",
    "differentiable_average_lagging",
    "evaluate",
    "find_metric",
    "latency",
    "latency_scores",
    "length_adaptive_average_lagging",
    "perplexity",
    "tabulate",
    "word_delays",
    "word_latency",
]
