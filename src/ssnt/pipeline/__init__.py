"""A trained model with its vocabulary: text in, text out.

====================  ==================================================================================
module                what
====================  ==================================================================================
``transducer``        :class:`Transducer`: transduce, score, align, stream, load and save
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
``bulk``              the lines of a long file, a chunk at a time, here or as jobs of an engine
``prediction_lines``  outputs as lines of text
====================  ==================================================================================
"""

from ssnt.pipeline.ensemble import EnsembleTransducer
from ssnt.pipeline.per_tag import PerTagTransducer
from ssnt.pipeline.results import AlignedPair, PairScore, Streamed, Transduction
from ssnt.pipeline.settings import SearchSettings, StreamSettings
from ssnt.pipeline.text_stream import TextStream, TextUpdate
from ssnt.pipeline.text_streams import StreamAnswer, TextStreams
from ssnt.pipeline.transducer import Transducer

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
    "TextUpdate",
    "Transducer",
    "Transduction",
]
