"""What the encoder and the prefix decoder share: symbols into an LSTM, all at once or one by one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, Protocol, Self, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from ssnt.nn.checks import check_condition, check_same_batch
from ssnt.nn.dropout import Dropout
from ssnt.nn.precision import supported_by_lstm
from ssnt.symbols import check_symbols


class State(Protocol):
    """What a steppable module remembers between steps; every tensor in it has the batch axis first."""

    def select(self, index: Tensor) -> Self:
        """Returns the rows ``index`` (N,), in that order; a row may be taken several times or not at all."""
        ...


StateT = TypeVar("StateT", bound=State)


class Step(NamedTuple, Generic[StateT]):
    """The result of one step.

    Attributes:
        output: The module's output at this position, ``(B, H)``.
        state: What to hand to the next step.
    """

    output: Tensor
    state: StateT


@dataclass(frozen=True)
class LSTMState:
    """The state of an LSTM with ``L`` layers between two steps.

    Attributes:
        hidden: ``(B, L, H)``.
        cell: ``(B, L, H)``.
    """

    hidden: Tensor
    cell: Tensor

    def select(self, index: Tensor) -> LSTMState:
        """Returns the rows ``index`` (N,), in that order."""
        return LSTMState(self.hidden.index_select(0, index), self.cell.index_select(0, index))


class SymbolLSTM(nn.Module):
    """Embedding, dropout and LSTM; a condition (B, C) is appended to the embedding of every symbol."""

    def __init__(
        self,
        vocab_size: int,
        embed_size: int,
        hidden_size: int,
        *,
        layers: int = 1,
        bidirectional: bool = False,
        condition_size: int = 0,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.vocab_size = vocab_size
        self.condition_size = condition_size
        self.output_size = hidden_size * (2 if bidirectional else 1)
        self.embedding = nn.Embedding(vocab_size, embed_size)
        self.dropout = Dropout(dropout)
        self.lstm = nn.LSTM(
            embed_size + condition_size,
            hidden_size,
            num_layers=layers,
            batch_first=True,
            bidirectional=bidirectional,
            # torch drops between layers only, and warns if there is no such place
            dropout=dropout if layers > 1 else 0.0,
        )

    def initial_state(self, batch_size: int) -> LSTMState:
        """Returns the state before the first symbol: zeros."""
        weight = self.embedding.weight
        zeros = weight.new_zeros(batch_size, self.lstm.num_layers, self.lstm.hidden_size)
        return LSTMState(zeros, zeros)

    def step(self, symbols: Tensor, state: LSTMState, condition: Tensor | None = None) -> Step[LSTMState]:
        """Reads one symbol (B,) of each sequence."""
        check_symbols("symbols", symbols, ("B",), self.vocab_size)
        check_same_batch("state", state.hidden, "symbols", symbols.size(0))
        inputs = self._inputs(symbols[:, None], condition)  # (B, 1, E + C)
        # torch keeps layers first: (L, B, H)
        before = (state.hidden.transpose(0, 1).contiguous(), state.cell.transpose(0, 1).contiguous())
        with supported_by_lstm(self.lstm.all_weights[0][0], inputs, *before) as (read, *start):
            outputs, (hidden, cell) = self.lstm(read, tuple(start))  # (B, 1, H)
        return Step(outputs[:, 0], LSTMState(hidden.transpose(0, 1), cell.transpose(0, 1)))

    def _states(self, inputs: Tensor, lens: Tensor | None) -> Tensor:
        """Runs the LSTM over inputs (B, T, E + C); what it gives (B, T, H) in padding means nothing.

        Args:
            inputs: On any device.
            lens: Lengths (B,) on the host. None: padding, if there is any, is read as if it were symbols.
        """
        if inputs.device.type == "cpu":
            return self._states_on_cpu(inputs, lens)
        if lens is None:
            return self.lstm(inputs)[0]  # type: ignore[no-any-return]
        packed = pack_padded_sequence(inputs, lens, batch_first=True, enforce_sorted=False)
        states, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True, total_length=inputs.size(1))
        return states

    def _states_on_cpu(self, inputs: Tensor, lens: Tensor | None) -> Tensor:
        """Each layer and direction by itself, over sequences whose padding comes last: that oneDNN's LSTM can do.

        Through packed sequences torch steps by itself, with one small product after another.
        """
        states, directions = inputs, 2 if self.lstm.bidirectional else 1
        if lens is None:
            lens = torch.full((inputs.size(0),), inputs.size(1))
        backwards = within_lengths_backwards(lens, inputs.size(1)) if directions == 2 else None
        for layer in range(self.lstm.num_layers):
            if layer > 0:
                states = self.dropout(states)
            outputs = [_layer(states, self.lstm.all_weights[layer * directions])]
            if backwards is not None:
                reverse = _layer(permuted(states, backwards), self.lstm.all_weights[layer * directions + 1])
                outputs.append(permuted(reverse, backwards))
            states = outputs[0] if backwards is None else torch.cat(outputs, dim=-1)
        return states

    def _inputs(self, symbols: Tensor, condition: Tensor | None) -> Tensor:
        """Maps symbols (B, T) and a condition (B, C) to LSTM inputs (B, T, E + C)."""
        check_condition(condition, self.condition_size, symbols.size(0))
        inputs: Tensor = self.embedding(symbols)  # (B, T, E)
        if condition is not None:
            repeated = condition[:, None].expand(-1, symbols.size(1), -1)  # (B, T, C)
            inputs = torch.cat([inputs, repeated], dim=-1)  # (B, T, E + C)
        return self.dropout(inputs)  # type: ignore[no-any-return]


def _layer(inputs: Tensor, weights: Sequence[Tensor]) -> Tensor:
    """One direction of one layer over inputs (B, T, F), from a state of zeros."""
    zeros = inputs.new_zeros(1, inputs.size(0), weights[1].size(1))
    return lstm_layer(inputs, (zeros, zeros), weights)[0]


def lstm_layer(
    inputs: Tensor, before: tuple[Tensor, Tensor], weights: Sequence[Tensor]
) -> tuple[Tensor, Tensor, Tensor]:
    """One direction of one layer over inputs (B, T, F), from the hidden and cell states (1, B, H) before them.

    Returns:
        The states (B, T, H), and the last hidden and cell states (1, B, H).
    """
    with supported_by_lstm(weights[0], inputs, *before) as (read, *start):
        # weights, biases?, layers, dropout, training?, bidirectional?, batch first?
        return torch.lstm(read, start, list(weights), True, 1, 0.0, torch.is_grad_enabled(), False, True)


def within_lengths_backwards(lens: Tensor, size: int) -> Tensor:
    """Where each position of sequences (B, T) goes when they are reversed within their lengths, as rows of (B * T)."""
    positions = torch.arange(size, device=lens.device)
    mirrored = lens[:, None] - 1 - positions  # (B, T)
    places = torch.where(mirrored >= 0, mirrored, positions)
    return (places + size * torch.arange(len(lens), device=lens.device)[:, None]).flatten()


class _Permutation(torch.autograd.Function):
    """Rows in another order, by a permutation that is its own inverse: the gradient goes the same way."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, places: Tensor) -> Tensor:
        ctx.save_for_backward(places)
        return rows.index_select(0, places)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (places,) = ctx.saved_tensors
        return _Permutation.apply(gradient, places), None  # type: ignore[no-untyped-call]


def permuted(values: Tensor, places: Tensor) -> Tensor:
    """Values (B, T, F) with their B * T rows in another order."""
    rows: Tensor = _Permutation.apply(values.flatten(0, 1), places)  # type: ignore[no-untyped-call]
    return rows.view(values.shape)
