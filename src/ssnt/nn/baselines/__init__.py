"""Encoders with decoders, which models with an alignment are compared with.

They read the whole source, then write: ``p(y|x) = prod_j p(y_j | y_1..y_{j-1}, x)``. As a lattice that has one column,
so that losses, searches, ensembles and perplexities are those of every other model.

===================  =============================================================================
module               what
===================  =============================================================================
``base``             what they share: from a source and the symbols so far to the next symbol
``encoder``          the encoder, which also says what its LSTM remembers at the end of a source
``decoder``          the prefix decoder, which may start from such a memory
``output``           states to the distribution over the next symbol
``seq2seq``          the vanilla encoder-decoder
``attention``        Bahdanau's and Luong's attention over the source
``adapted``          the encoder-decoder of Faruqui et al. for inflection
===================  =============================================================================
"""

from ssnt.nn.baselines.adapted import AdaptedSeq2Seq
from ssnt.nn.baselines.attention import AttentionSeq2Seq
from ssnt.nn.baselines.base import EncoderDecoder, SourceMemory
from ssnt.nn.baselines.seq2seq import Seq2Seq

__all__ = ["AdaptedSeq2Seq", "AttentionSeq2Seq", "EncoderDecoder", "Seq2Seq", "SourceMemory"]
