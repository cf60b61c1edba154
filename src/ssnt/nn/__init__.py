"""The paper's models: encoder, prefix decoder, word distribution, transition, and SSNT that joins them."""

from ssnt.nn.decoder import PrefixDecoder
from ssnt.nn.encoder import Encoder, LSTMEncoder, StreamingEncoder
from ssnt.nn.features import FeatureEncoder
from ssnt.nn.joint import WordDistribution
from ssnt.nn.model import SSNT, Encoding
from ssnt.nn.recurrent import LSTMState, State, Step
from ssnt.nn.transition import GeometricTransition, LogTransition, NeuralTransition, Transition

__all__ = [
    "SSNT",
    "Encoder",
    "Encoding",
    "FeatureEncoder",
    "GeometricTransition",
    "LSTMEncoder",
    "LSTMState",
    "LogTransition",
    "NeuralTransition",
    "PrefixDecoder",
    "State",
    "Step",
    "StreamingEncoder",
    "Transition",
    "WordDistribution",
]
