"""Encoder-decoders with attention over the source."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import ClassVar

import torch
from torch import Tensor, nn

from ssnt.config import ModelConfig
from ssnt.config.model import Architecture
from ssnt.emission_grid import emission_logits
from ssnt.nn.baselines.base import SourceMemory
from ssnt.nn.baselines.encoder import ReadSource
from ssnt.nn.baselines.seq2seq import Seq2Seq
from ssnt.types import Batch


class BahdanauScore(nn.Module):
    """Additive: ``e_ij = v^T tanh(W s_j + U h_i)`` (Bahdanau et al., 2015, appendix A.1.2)."""

    def __init__(self, src_size: int, tgt_size: int) -> None:
        super().__init__()
        self.src_layer = nn.Linear(src_size, tgt_size)
        self.tgt_layer = nn.Linear(tgt_size, tgt_size, bias=False)
        self.vector = nn.Parameter(torch.empty(tgt_size).uniform_(-(tgt_size**-0.5), tgt_size**-0.5))

    def keys(self, states: Tensor) -> Tensor:
        """The source's part (B, I, A) for states (B, I, Hs)."""
        return self.src_layer(states)  # type: ignore[no-any-return]

    def forward(self, keys: Tensor, states: Tensor) -> Tensor:
        """Scores (B, K, I) for keys (B, I, A) and decoder states (B, K, H)."""
        queries = self.tgt_layer(states)
        return emission_logits(keys, queries, self.vector, self.vector.new_zeros(1))


class LuongScore(nn.Module):
    """General: ``e_ij = s_j^T W h_i`` (Luong et al., 2015, equation 8)."""

    def __init__(self, src_size: int, tgt_size: int) -> None:
        super().__init__()
        self.src_layer = nn.Linear(src_size, tgt_size, bias=False)

    def keys(self, states: Tensor) -> Tensor:
        """``W h_i``, (B, I, H), for states (B, I, Hs)."""
        return self.src_layer(states)  # type: ignore[no-any-return]

    def forward(self, keys: Tensor, states: Tensor) -> Tensor:
        """Scores (B, K, I) for keys (B, I, H) and decoder states (B, K, H)."""
        return torch.bmm(states, keys.transpose(1, 2))


class AttentionSeq2Seq(Seq2Seq):
    """The encoder-decoder with global attention, scored as Bahdanau or as Luong does.

    With ``s_j`` the decoder's state after ``y_1..y_{j-1}``, the vanilla encoder-decoder's (Luong et al., 2015,
    equations 5 to 7, without input feeding)::

        a_ij = softmax_i(e_ij),  c_j = sum_i a_ij h_i,  o_j = tanh(W_c [c_j; s_j]),  p(y_j) = softmax(W_o o_j + b)

    The context is not fed back into the decoder, for either score. So the decoder is the one that the other models
    have, and training sees all steps of an output at once: that is many times faster on a CPU than a step at a time.
    Bahdanau's own decoder does feed it back, and has a maxout layer.

    Attributes:
        bridge: From the encoder's final state to the decoder's first.
        score: How well a source position fits a decoder state.
        context_layer: The context's half of ``W_c``.
        state_layer: The other half, with a bias.
    """

    architecture: ClassVar[Architecture] = "attention"

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        src_size, size = self.encoder.output_size, config.hidden_size
        kind = BahdanauScore if config.attention == "bahdanau" else LuongScore
        self.score: BahdanauScore | LuongScore = kind(src_size, size)
        self.context_layer = nn.Linear(src_size, size, bias=False)
        self.state_layer = nn.Linear(size, size)

    def remember(self, source: ReadSource, batch: Batch, condition: Tensor | None) -> SourceMemory:
        """Keeps the source states and their keys, too."""
        memory = super().remember(source, batch, condition)
        states = self.output_dropout(memory.states)
        return replace(memory, states=states, keys=self.score.keys(states))

    def attend(self, memory: SourceMemory, states: Tensor) -> Tensor:
        """Returns how much each source position is attended to, (B, K, I), for decoder states (B, K, H)."""
        keys = memory.keys if memory.keys is not None else self.score.keys(memory.states)
        outside = torch.arange(keys.shape[1], device=keys.device) >= memory.src_lens[:, None]  # (B, I)
        scores: Tensor = self.score(keys, states)
        return scores.masked_fill(outside[:, None], -math.inf).softmax(dim=2)

    def outputs(self, memory: SourceMemory, states: Tensor) -> Tensor:
        """Joins decoder states (B, K, H) with what they attend to."""
        weights = self.attend(memory, states).to(memory.states.dtype)
        context = torch.bmm(weights, memory.states)  # (B, K, Hs)
        return torch.tanh(self.context_layer(context) + self.state_layer(states))

    def most_attended(self, batch: Batch) -> Tensor:
        """Returns the source position that each target symbol attends to most, (B, J)."""
        memory = self.encode(batch)
        tgt, _ = self._checked_target(batch)
        items = torch.arange(len(tgt), device=tgt.device)
        states = self.decoder(tgt, self.beside(memory, items, torch.zeros_like(tgt)), memory.start)
        return self.attend(memory, states).argmax(dim=2)
