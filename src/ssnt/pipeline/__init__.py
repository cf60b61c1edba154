"""A trained model with its vocabulary: text in, text out.

====================  ==================================================================================
module                what
====================  ==================================================================================
``base``              transduce, score, align, stream, whatever computes the model
``transducer``        :class:`Transducer`: the same with a model of torch, load and save
``per_tag``           the same for one model for each tag set
``ensemble``          the same for several models as one
``text_stream``       outputs while the text is still arriving
``text_streams``      many of them, stepped together
``arriving_text``     text as it arrives to symbols, the same as the whole text would give
``results``           what comes back: texts with their symbols, alignments and probabilities
``picture``           a small alignment picture for notebooks
``streaming``         whole sources through streams, to see what is committed when
``settings``          how to search and to stream
``pairs``             given outputs: their probabilities and alignments
``refusals``          what a model cannot do by its kind, and what to train instead
``inputs``            examples to numbers, with what is wrong with them
``hub``               models on the Hugging Face hub
``loading``           one model by its name, or several as their ensemble
``bulk``              the lines of a long file, a chunk at a time, here or as jobs of an engine
``prediction_lines``  outputs as lines of text
====================  ==================================================================================

What reads and writes text works on NumPy's arrays as well (:mod:`ssnt.arrays`) and imports no torch: every name is
imported when it is first asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ssnt.lazy import lazy_names

if TYPE_CHECKING:
    from ssnt.pipeline.base import TextTransducer
    from ssnt.pipeline.ensemble import EnsembleTransducer
    from ssnt.pipeline.per_tag import PerTagTransducer
    from ssnt.pipeline.results import AlignedPair, PairScore, Streamed, Transduction
    from ssnt.pipeline.settings import SearchSettings, StreamSettings
    from ssnt.pipeline.text_stream import TextStream, TextUpdate
    from ssnt.pipeline.text_streams import StreamAnswer, TextStreams
    from ssnt.pipeline.transducer import Transducer

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        ".base": ("TextTransducer",),
        ".ensemble": ("EnsembleTransducer",),
        ".per_tag": ("PerTagTransducer",),
        ".results": ("AlignedPair", "PairScore", "Streamed", "Transduction"),
        ".settings": ("SearchSettings", "StreamSettings"),
        ".text_stream": ("TextStream", "TextUpdate"),
        ".text_streams": ("StreamAnswer", "TextStreams"),
        ".transducer": ("Transducer",),
    },
)

__all__ = [
    "AlignedPair",
    "EnsembleTransducer",
    "PairScore",
    "PerTagTransducer",
    "SearchSettings",
    "StreamAnswer",
    "StreamSettings",
    "Streamed",
    "TextStream",
    "TextStreams",
    "TextTransducer",
    "TextUpdate",
    "Transducer",
    "Transduction",
]
