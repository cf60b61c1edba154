"""The prefix decoder of models that read the whole source first: it may start from what was read."""

from __future__ import annotations

import torch
from torch import Tensor

from ssnt.nn.decoder import PrefixDecoder
from ssnt.nn.recurrent import LSTMState, lstm_layer


class StartedDecoder(PrefixDecoder):
    """The prefix decoder, from a state that is given, with a condition that may change from symbol to symbol."""

    def forward(self, tgt: Tensor, condition: Tensor | None = None, start: LSTMState | None = None) -> Tensor:
        """Maps the target (B, J) to states (B, J, H), each from the symbols before its own.

        Args:
            tgt: Target symbols.
            condition: What is beside the symbols, ``(B, C)`` or, for each of them, ``(B, J, C)``.
            start: The state before the first symbol; None: zeros.
        """
        previous = self._before(tgt)
        if condition is None or condition.dim() == 2:
            inputs = self._inputs(previous, condition)
        else:
            inputs = self.dropout(torch.cat([self.embedding(previous), condition], dim=-1))
        return self._states_from(inputs, start or self.initial_state(len(tgt)))

    def _states_from(self, inputs: Tensor, start: LSTMState) -> Tensor:
        """Runs the LSTM over inputs (B, J, E + C); padding, if there is any, is read as if it were symbols."""
        hidden, cell = (one.transpose(0, 1).contiguous() for one in (start.hidden, start.cell))  # (L, B, H)
        if inputs.device.type != "cpu":
            return self.lstm(inputs, (hidden, cell))[0]  # type: ignore[no-any-return]
        states = inputs
        for layer, weights in enumerate(self.lstm.all_weights):  # one by one, so that oneDNN's LSTM can do it
            if layer > 0:
                states = self.dropout(states)
            before = hidden[layer : layer + 1], cell[layer : layer + 1]
            states = lstm_layer(states, before, weights)[0]
        return states
