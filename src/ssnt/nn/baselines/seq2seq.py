"""The vanilla encoder-decoder."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor, nn

from ssnt.config import ModelConfig
from ssnt.config.model import Architecture
from ssnt.nn.baselines.base import EncoderDecoder, SourceMemory
from ssnt.nn.baselines.encoder import ReadSource
from ssnt.nn.recurrent import LSTMState
from ssnt.types import Batch


class Bridge(nn.Module):
    """From what the encoder remembers at the end to what the decoder starts with.

    Layer by layer the same, if encoder and decoder have as many layers and the encoder one direction. Otherwise hidden
    states and cells are each mapped by a matrix that is learnt, those of all layers and directions at once.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.layers, self.hidden_size = config.decoder_layers, config.hidden_size
        self.is_copy = not config.bidirectional and config.encoder_layers == self.layers
        if not self.is_copy:
            count = config.encoder_layers * (2 if config.bidirectional else 1)
            sizes = count * self.hidden_size, self.layers * self.hidden_size
            self.hidden, self.cell = nn.Linear(*sizes), nn.Linear(*sizes)

    def forward(self, final: LSTMState) -> LSTMState:
        """Maps the memory (B, L * D, H) of the encoder to that of the decoder (B, L, H)."""
        if self.is_copy:
            return final
        shape = (-1, self.layers, self.hidden_size)
        # a hidden state is never outside of what tanh gives
        hidden = self.hidden(final.hidden.flatten(1)).tanh().view(shape)
        return LSTMState(hidden, self.cell(final.cell.flatten(1)).view(shape))


class Seq2Seq(EncoderDecoder):
    """The vanilla encoder-decoder (Sutskever et al., 2014): the decoder starts from the encoder's final state.

    Layers and directions: ``encoder_layers``, ``decoder_layers`` and ``bidirectional``; see :class:`Bridge`. Source
    states are not looked at again.

    Attributes:
        bridge: From the encoder's final state to the decoder's first.
    """

    architecture: ClassVar[Architecture] = "seq2seq"

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        self.bridge = Bridge(config)

    def remember(self, source: ReadSource, batch: Batch, condition: Tensor | None) -> SourceMemory:
        """Keeps the decoder's first state."""
        src_lens = batch.src_lens.to(source.states.device)
        return SourceMemory(source.states, condition, src_lens, self.bridge(source.final))
