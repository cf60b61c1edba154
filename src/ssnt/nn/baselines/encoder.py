"""An encoder that also says what it remembers when it has read a whole source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from ssnt.nn.checks import check_lengths
from ssnt.nn.encoder import LSTMEncoder
from ssnt.nn.recurrent import LSTMState, lstm_layer, permuted, within_lengths_backwards
from ssnt.symbols import check_symbols


@dataclass(frozen=True)
class ReadSource:
    """Sources that were read to their ends.

    Attributes:
        states: ``h_i``, ``(B, I, Hs)``, which mean nothing in padding.
        final: Hidden state and cell of every layer and direction after its last symbol, ``(B, L * D, H)``: for each
            layer the forward direction, which ends at the last symbol, then the other, which ends at the first.
    """

    states: Tensor
    final: LSTMState


@dataclass(frozen=True)
class _Run:
    """One direction of one layer: its states ``(B, T, H)``, and hidden state and cell at the lengths, ``(B, H)``."""

    states: Tensor
    hidden: Tensor
    cell: Tensor


class SummarisingEncoder(LSTMEncoder):
    """The encoder of the other models, with the memory that an encoder-decoder begins to write with."""

    def read(self, src: Tensor, src_lens: Tensor, condition: Tensor | None = None) -> ReadSource:
        """Reads symbols (B, I), padded after ``src_lens`` (B,)."""
        check_symbols("src", src, ("B", "I"), self.vocab_size)
        host_lens = src_lens.cpu().long()
        check_lengths("src_lens", host_lens, "src", src)
        inputs = self._inputs(src, condition)
        if inputs.device.type == "cpu":
            return self._read_on_cpu(inputs, host_lens)
        packed = pack_padded_sequence(inputs, host_lens, batch_first=True, enforce_sorted=False)
        outputs, (hidden, cell) = self.lstm(packed)
        states, _ = pad_packed_sequence(outputs, batch_first=True, total_length=inputs.size(1))
        return ReadSource(states, LSTMState(hidden.transpose(0, 1), cell.transpose(0, 1)))

    def _read_on_cpu(self, inputs: Tensor, lens: Tensor) -> ReadSource:
        """As in ``SymbolLSTM``: each layer and direction by itself, so that oneDNN's LSTM can do it."""
        states, directions = inputs, 2 if self.lstm.bidirectional else 1
        backwards = within_lengths_backwards(lens, inputs.size(1)) if directions == 2 else None
        runs: list[_Run] = []
        for layer in range(self.lstm.num_layers):
            if layer > 0:
                states = self.dropout(states)
            forward = _run(states, self.lstm.all_weights[layer * directions], lens)
            runs.append(forward)
            if backwards is None:
                states = forward.states
                continue
            reverse = _run(permuted(states, backwards), self.lstm.all_weights[layer * directions + 1], lens)
            runs.append(reverse)
            states = torch.cat([forward.states, permuted(reverse.states, backwards)], dim=-1)
        hidden = torch.stack([one.hidden for one in runs], dim=1)
        return ReadSource(states, LSTMState(hidden, torch.stack([one.cell for one in runs], dim=1)))


def _run(inputs: Tensor, weights: Sequence[Tensor], lens: Tensor) -> _Run:
    """Runs one direction of one layer over inputs (B, T, F), from length to length of the batch.

    The cells at each length are then those that a run gives at its end. Batches hold sources of similar lengths, so
    that there are few runs; torch's own way, through packed sequences, makes a step at a time.
    """
    before = inputs.new_zeros(1, inputs.size(0), weights[1].size(1))
    hidden = cell = before
    at_ends: list[tuple[Tensor, Tensor]] = []
    parts: list[Tensor] = []
    stops = sorted(set(lens.tolist()))
    first = 0
    for stop in stops:
        part, hidden, cell = lstm_layer(inputs[:, first:stop], (hidden, cell), weights)
        parts.append(part)
        at_ends.append((hidden[0], cell[0]))
        first = stop
    if first < inputs.size(1):  # a batch may be padded beyond its longest source
        parts.append(inputs.new_zeros(inputs.size(0), inputs.size(1) - first, before.size(2)))
    states = parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)
    if len(stops) == 1:
        return _Run(states, *at_ends[0])
    which = torch.searchsorted(torch.tensor(stops), lens)  # (B,)
    rows = torch.arange(len(lens))
    hidden, cell = (torch.stack(list(each))[which, rows] for each in zip(*at_ends, strict=True))
    return _Run(states, hidden, cell)
