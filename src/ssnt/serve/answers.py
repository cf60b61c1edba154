"""Results as clients get them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ssnt.decode import Failure
from ssnt.pipeline import AlignedPair, PairScore, Transduction

DIGITS = 5
"""Posterior probabilities are rounded to so many places: a matrix of them is most of an answer."""


def transduced(result: Transduction | Failure, *, alignments: bool, posteriors: bool) -> dict[str, Any]:
    """The outputs for one input."""
    if isinstance(result, Failure):
        return {"error": str(result.error)}
    outputs = (result, *result.alternatives)
    return {
        "source_symbols": list(result.source_symbols),
        "outputs": [_output(one, alignments=alignments, posteriors=posteriors) for one in outputs],
        "unknown": result.unknown,
        "unknown_tags": result.unknown_tags,
    }


def _output(one: Transduction, *, alignments: bool, posteriors: bool) -> dict[str, Any]:
    has_path = alignments and bool(one.alignment.positions)
    return {
        "text": one.text,
        "symbols": list(one.target_symbols),
        "log_prob": finite(one.log_prob),
        "probability": one.probability,
        "score": finite(one.score),
        "is_complete": one.is_complete,
        "alignment": list(one.alignment.positions) if has_path else None,
        "path_log_prob": finite(one.alignment.log_prob) if has_path else None,
        "delays": list(one.delays) if has_path else None,
        "posteriors": rounded(one.emit.tolist()) if posteriors and one.emit is not None else None,
    }


def aligned(result: AlignedPair | Failure, *, posteriors: bool) -> dict[str, Any]:
    """How a pair aligns."""
    if isinstance(result, Failure):
        return {"error": str(result.error)}
    segments = [
        {"source": [one.src_start, one.src_end], "target": [one.tgt_start, one.tgt_end]} for one in result.segments
    ]
    return {
        "source_symbols": list(result.source_symbols),
        "target_symbols": list(result.target_symbols),
        "log_prob": finite(result.log_prob),
        "probability": math.exp(result.log_prob),
        "alignment": list(result.path.positions),
        "path_log_prob": finite(result.path.log_prob),
        "segments": segments,
        "posteriors": rounded(result.emit.tolist()) if posteriors else None,
        "unknown": result.unknown,
        "unknown_tags": result.unknown_tags,
    }


def scored(result: PairScore | Failure) -> dict[str, Any]:
    """How probable an output is."""
    if isinstance(result, Failure):
        return {"error": str(result.error)}
    return {
        "log_prob": finite(result.log_prob),
        "probability": math.exp(result.log_prob),
        "tokens": result.tokens,
        "unknown": result.unknown,
        "unknown_source": result.unknown_source,
        "unknown_tags": result.unknown_tags,
    }


def finite(value: float) -> float | None:
    """The value, or None for what JSON has no number for."""
    return value if math.isfinite(value) else None


def rounded(rows: Sequence[Sequence[float]]) -> list[list[float]]:
    """A matrix of probabilities with few digits."""
    return [[round(value, DIGITS) for value in row] for row in rows]
