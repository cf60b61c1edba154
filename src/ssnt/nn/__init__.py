"""The paper's models: encoder, prefix decoder, word distribution, transition, and SSNT that joins them.

Other architectures are beside it: ``baselines`` (encoders with decoders), ``rnnt``, ``prefix_attention`` and
``joint_network``. Training, searches and model directories see all of them as a :class:`Model`, and
:func:`build_model` makes any of them.
"""

from ssnt.nn.build import build_model
from ssnt.nn.decoder import PrefixDecoder
from ssnt.nn.encoder import Encoder, LSTMEncoder, StreamingEncoder
from ssnt.nn.features import FeatureEncoder
from ssnt.nn.joint import WordDistribution
from ssnt.nn.model import SSNT
from ssnt.nn.protocol import Encoding, Model
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
    "Model",
    "NeuralTransition",
    "PrefixDecoder",
    "State",
    "Step",
    "StreamingEncoder",
    "Transition",
    "WordDistribution",
    "build_model",
]
