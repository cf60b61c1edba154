"""Searches: from a model and sources to outputs with their alignments.

=================  ==================================================================================
module             what
=================  ==================================================================================
``run``            many sources through a search, checked one by one and batched by length
``marginal``       a beam over prefixes with their exact probabilities; the default
``path``           the paper's Algorithm 1 and its beam: the best output with its path
``online``         input-synchronous search over whole sources
``stream``         the same while the input arrives: committed and tentative output
``sample``         ancestral sampling
``align``          given pairs: best path, posteriors, segments; ``formats`` writes them
``ensemble``       several models as one
``marginalised``   a transducer with its alignments summed out, which ensembles are best made of
``numbers``        between symbols as strings and as numbers: unknown ones counted, and copied through
``scorer``         models as the searches see them; ``one_column`` has those without an alignment
=================  ==================================================================================
"""

from ssnt.decode.align import AlignmentFailure, PairAlignment, Segment, align, align_each
from ssnt.decode.ensemble import EnsembleScorer
from ssnt.decode.marginal import marginal_search
from ssnt.decode.marginalised import MarginalisedScorer
from ssnt.decode.numbers import Numbered, copy_unknowns, number_symbols
from ssnt.decode.online import online_search
from ssnt.decode.options import SearchOptions
from ssnt.decode.path import path_search
from ssnt.decode.run import Failure, decode
from ssnt.decode.sample import sample
from ssnt.decode.scorer import Columns, ModelScorer, Scorer, Source, StreamingScorer, make_scorer
from ssnt.decode.stream import Stream, StreamBatch, StreamOptions, Update, open_streams

__all__ = [
    "AlignmentFailure",
    "Columns",
    "EnsembleScorer",
    "Failure",
    "MarginalisedScorer",
    "ModelScorer",
    "Numbered",
    "PairAlignment",
    "Scorer",
    "SearchOptions",
    "Segment",
    "Source",
    "Stream",
    "StreamBatch",
    "StreamOptions",
    "StreamingScorer",
    "Update",
    "align",
    "align_each",
    "copy_unknowns",
    "decode",
    "make_scorer",
    "marginal_search",
    "number_symbols",
    "online_search",
    "open_streams",
    "path_search",
    "sample",
]
