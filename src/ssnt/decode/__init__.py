"""Searches: from a model and sources to outputs with their alignments.

=================  ==================================================================================
module             what
=================  ==================================================================================
``run``            many sources through a search, checked one by one and batched by length
``marginal``       a beam over prefixes with their exact probabilities; the default
``path``           the paper's Algorithm 1 and its beam: the best output with its path; ``path_choice`` its cells
``online``         input-synchronous search over whole sources
``stream``         the same while the input arrives: committed and tentative output
``stream_batch``   many streams stepped together; ``stream_options`` and ``stream_state`` are theirs
``sample``         ancestral sampling
``align``          given pairs: best path, posteriors, segments; ``formats`` writes them
``likelihood``     given pairs: their exact probabilities
``ensemble``       several models as one
``marginalised``   a transducer with its alignments summed out, which ensembles are best made of
``renumbered``     a model asked with another vocabulary's numbers, so that models with different ones mix
``numbers``        between symbols as strings and as numbers: unknown ones counted, and copied through
``scorer``         models as the searches see them
``columns``        what they see of a model, from what it gives; knows arrays only
``model_scorer``   models of torch as scorers; ``one_column`` has those without an alignment
=================  ==================================================================================

All but the scorers of torch's models works on tensors and on NumPy's arrays alike (:mod:`ssnt.arrays`), and imports no
torch; those scorers are imported when they are first asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ssnt.decode.align import AlignmentFailure, PairAlignment, Segment, align, align_each
from ssnt.decode.ensemble import EnsembleScorer
from ssnt.decode.likelihood import log_likelihood
from ssnt.decode.marginal import marginal_search
from ssnt.decode.marginalised import MarginalisedScorer
from ssnt.decode.numbers import Numbered, copy_unknowns, number_symbols
from ssnt.decode.online import online_search
from ssnt.decode.options import SearchOptions
from ssnt.decode.path import path_search
from ssnt.decode.renumbered import Numbering, RenumberedScorer
from ssnt.decode.run import Failure, decode
from ssnt.decode.sample import sample
from ssnt.decode.scorer import Columns, Scorer, Source, StreamingScorer
from ssnt.decode.stream import Stream
from ssnt.decode.stream_batch import StreamBatch, Update, open_streams
from ssnt.decode.stream_options import StreamOptions
from ssnt.lazy import lazy_names

if TYPE_CHECKING:
    from ssnt.decode.model_scorer import ModelScorer, make_scorer

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        ".model_scorer": ("ModelScorer", "make_scorer"),
    },
)

__all__ = [
    "AlignmentFailure",
    "Columns",
    "EnsembleScorer",
    "Failure",
    "MarginalisedScorer",
    "ModelScorer",
    "Numbered",
    "Numbering",
    "PairAlignment",
    "RenumberedScorer",
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
    "log_likelihood",
    "make_scorer",
    "marginal_search",
    "number_symbols",
    "online_search",
    "open_streams",
    "path_search",
    "sample",
]
