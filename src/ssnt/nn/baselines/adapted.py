"""The encoder-decoder of Faruqui et al. for inflection."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from ssnt.config import ModelConfig
from ssnt.config.model import Architecture
from ssnt.errors import ModelError
from ssnt.nn.baselines.base import EncoderDecoder, SourceMemory
from ssnt.nn.baselines.encoder import ReadSource
from ssnt.types import PAD_ID, Batch


class AdaptedSeq2Seq(EncoderDecoder):
    """The encoder-decoder for inflection (Faruqui et al., 2016), without its language model.

    Step j of the decoder, which starts from zeros, sees ``[y_{j-1}; x_j; e]``: the symbol before, the j-th source
    symbol, and the source as one vector, ``e = W [h_I; h_1] + b`` from the last states of both directions of the top
    layer (of the one direction, if there is but one). Beyond the end of the source ``x_j`` is an epsilon: the embedding
    of padding, which stands for nothing else. Source symbols have the encoder's embeddings.

    Attributes:
        summary_layer: To ``e``.
    """

    architecture: ClassVar[Architecture] = "adapted-seq2seq"

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        self.summary_layer = nn.Linear(self.encoder.output_size, config.hidden_size)

    @property
    def beside_size(self) -> int:
        """Tags, source symbol, and summary."""
        return self.condition_size + self.config.embed_size + self.config.hidden_size

    def remember(self, source: ReadSource, batch: Batch, condition: Tensor | None) -> SourceMemory:
        """Keeps the summary, and the embeddings of the source symbols."""
        directions = 2 if self.config.bidirectional else 1
        summary = self.summary_layer(source.final.hidden[:, -directions:].flatten(1))  # (B, H)
        src_lens = batch.src_lens.to(batch.src.device)
        inside = torch.arange(batch.src.shape[1], device=batch.src.device) < src_lens[:, None]
        symbols = nn.functional.pad(torch.where(inside, batch.src, PAD_ID), (0, 1), value=PAD_ID)  # (B, I + 1)
        embeddings = self.encoder.embedding(symbols)  # (B, I + 1, E)
        start = self.decoder.initial_state(len(batch.src))
        return SourceMemory(source.states, condition, src_lens, start, summary=summary, embeddings=embeddings)

    def beside(self, memory: SourceMemory, items: Tensor, positions: Tensor) -> Tensor:
        """Returns tags, source symbol and summary (N, T, C) at positions (N, T) of the output."""
        if memory.embeddings is None or memory.summary is None:
            raise ModelError(
                "memory: expected what encode() of this model gives, got that of another; call encode(batch)"
            )
        places = positions.clamp(max=memory.embeddings.shape[1] - 1)  # the last one has an epsilon
        symbols = memory.embeddings[items[:, None], places]  # (N, T, E)
        same = [one[items] for one in (memory.condition, memory.summary) if one is not None]
        repeated = [one[:, None].expand(-1, positions.shape[1], -1) for one in same]
        return torch.cat([symbols, *repeated], dim=2)
