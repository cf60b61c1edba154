"""Searches: from a model and sources to outputs with their alignments."""

from ssnt.decode.options import SearchOptions
from ssnt.decode.scorer import Columns, ModelScorer, Scorer, Source

__all__ = ["Columns", "ModelScorer", "Scorer", "SearchOptions", "Source"]
