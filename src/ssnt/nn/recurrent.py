"""What the encoder and the prefix decoder share: symbols into an LSTM, all at once or one by one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, NamedTuple, Protocol, Self, TypeVar

import torch
from torch import Tensor, nn

from ssnt.nn.checks import check_condition, check_same_batch, check_symbols


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
        self.dropout = nn.Dropout(dropout)
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
        outputs, (hidden, cell) = self.lstm(inputs, before)  # (B, 1, H)
        return Step(outputs[:, 0], LSTMState(hidden.transpose(0, 1), cell.transpose(0, 1)))

    def _inputs(self, symbols: Tensor, condition: Tensor | None) -> Tensor:
        """Maps symbols (B, T) and a condition (B, C) to LSTM inputs (B, T, E + C)."""
        check_condition(condition, self.condition_size, symbols.size(0))
        inputs: Tensor = self.embedding(symbols)  # (B, T, E)
        if condition is not None:
            repeated = condition[:, None].expand(-1, symbols.size(1), -1)  # (B, T, C)
            inputs = torch.cat([inputs, repeated], dim=-1)  # (B, T, E + C)
        return self.dropout(inputs)  # type: ignore[no-any-return]
