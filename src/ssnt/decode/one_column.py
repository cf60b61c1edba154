"""Models without an alignment as the searches see them: lattices that have one column."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ssnt.decode.columns import OneColumn
from ssnt.decode.model_scorer import warn_if_training
from ssnt.decode.rows import select
from ssnt.errors import ModelError
from ssnt.nn.baselines import EncoderDecoder, SourceMemory
from ssnt.nn.recurrent import LSTMState
from ssnt.types import BOS_ID, Batch, Grid


@dataclass(frozen=True)
class OneColumnSource:
    """Sources that were read.

    Attributes:
        memory: What the model knows of them.
    """

    memory: SourceMemory

    @property
    def src_lens(self) -> Tensor:
        """All lattices have one column, ``(B,)``."""
        return torch.ones_like(self.memory.src_lens)

    @property
    def read_lens(self) -> Tensor:
        """Lengths of the sources themselves, ``(B,)``."""
        return self.memory.src_lens

    def select(self, items: Tensor) -> OneColumnSource:
        """Returns the sources ``items``, in that order."""
        return OneColumnSource(select(self.memory, items))

    def log_start(self, width: int) -> Tensor:
        """The inflow of ``width`` empty prefixes a source: all mass at the only position, ``(B, width, 1)``."""
        states = self.memory.states
        dtype = torch.promote_types(states.dtype, torch.float32)
        return torch.zeros(len(states), width, 1, dtype=dtype, device=states.device)


@dataclass(frozen=True)
class StepState:
    """The decoder after each prefix.

    Attributes:
        recurrent: What the LSTM remembers, ``N`` rows.
        output: ``s_j``, ``(N, H)``.
        position: ``j``, counted from 0: how many symbols the prefix has, ``(N,)``.
    """

    recurrent: LSTMState
    output: Tensor
    position: Tensor


class OneColumnScorer:
    """One encoder-decoder as the searches see it; dropout is the model's own affair, so call ``eval()``."""

    has_alignment = False
    is_streaming = False
    model_count = 1

    def __init__(self, model: EncoderDecoder) -> None:
        if not isinstance(model, EncoderDecoder):
            raise ModelError(f"model: expected an EncoderDecoder, such as a Seq2Seq, got {type(model).__name__}")
        self.model = model
        self.vocab_size = model.config.tgt_vocab_size

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return self.model.device

    def read(self, batch: Batch) -> OneColumnSource:
        """Reads the sources of a batch."""
        warn_if_training(self.model)
        return OneColumnSource(self.model.encode(batch))

    def start(self, source: OneColumnSource) -> StepState:
        """The state of the empty prefix, one row a source."""
        items = torch.arange(len(source.memory.src_lens), device=source.memory.src_lens.device)
        begin = torch.full_like(items, BOS_ID)
        return self._step(source, source.memory.start, items, begin, torch.zeros_like(items))

    def advance(
        self, source: OneColumnSource, state: StepState, rows: Tensor, items: Tensor, symbols: Tensor
    ) -> StepState:
        """Takes ``rows`` of a state, which belong to sources ``items``, and appends ``symbols``."""
        return self._step(source, state.recurrent.select(rows), items, symbols, state.position[rows] + 1)

    def columns(self, source: OneColumnSource, state: StepState, live: Tensor | None = None) -> OneColumn:
        """The columns of the ``B * K`` rows of a state; rows that are not ``live`` ``(B, K)`` have no probability."""
        states = state.output.view(len(source.memory.src_lens), -1, state.output.shape[1])  # (B, K, H)
        outputs = self.model.outputs(source.memory, self.model.output_dropout(states))
        return OneColumn(self.model.word.log_probs(outputs), live)

    def grid(self, source: OneColumnSource, tgt: Tensor, tgt_lens: Tensor) -> Grid:
        """The lattices of given outputs."""
        return self.model.grid_of(source.memory, source.memory.src_lens, tgt, tgt_lens)

    def _step(
        self, source: OneColumnSource, before: LSTMState, items: Tensor, symbols: Tensor, position: Tensor
    ) -> StepState:
        beside = self.model.beside(source.memory, items, position[:, None])
        if beside is not None and beside.dim() == 3:
            beside = beside[:, 0]
        output, recurrent = self.model.decoder.step(symbols, before, beside)
        return StepState(recurrent, output, position)
