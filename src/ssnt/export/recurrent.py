"""LSTMs over symbols as ONNX: whole padded sequences, whose padding is not read, or one symbol at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from ssnt.export.builder import Graph
from ssnt.nn.recurrent import SymbolLSTM

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Stepped:
    """Values of a graph after a symbol was read, by name.

    Attributes:
        output: Of the last layer, ``(N, H)``.
        hidden: ``(N, L, H)``.
        cell: ``(N, L, H)``.
    """

    output: str
    hidden: str
    cell: str


@dataclass(frozen=True)
class Run:
    """Values of a graph after whole sequences were read, by name.

    Attributes:
        states: Of the last layer, ``(B, T, H * D)``; zero in padding.
        hidden: Of every layer and direction at the sequences' ends, ``(L * D, B, H)``.
        cell: The same for cells.
    """

    states: str
    hidden: str
    cell: str


def numbers(tensor: Tensor) -> Array:
    """Weights as float32 for a graph."""
    return tensor.detach().cpu().float().numpy()


def embedded(graph: Graph, module: SymbolLSTM, symbols: str, condition: str | None) -> str:
    """LSTM inputs ``(T, N, E + C)`` for symbols ``(T, N)`` and a condition ``(N, C)``."""
    inputs = graph.node("Gather", graph.constant(numbers(module.embedding.weight), "embedding"), symbols, axis=0)
    if condition is None:
        return inputs
    shape = graph.node("Concat", graph.node("Shape", symbols), graph.constant([module.condition_size]), axis=0)
    repeated = graph.node("Expand", graph.node("Unsqueeze", condition, graph.constant([0])), shape)
    return graph.node("Concat", inputs, repeated, axis=2)


def run(graph: Graph, module: SymbolLSTM, inputs: str, lens: str) -> Run:
    """Reads whole sequences ``(T, B, F)`` with lengths ``(B,)``, each direction within the lengths."""
    lens = graph.node("Cast", lens, to=6)  # int32, as the operator wants them
    directions = 2 if module.lstm.bidirectional else 1
    states, finals = inputs, []
    for layer in range(module.lstm.num_layers):
        weights = _weights(graph, module, layer)
        outputs, *final = graph.nodes(
            "LSTM",
            *(states, *weights, lens),
            outputs=3,
            hidden_size=module.lstm.hidden_size,
            direction="bidirectional" if directions == 2 else "forward",
        )  # (T, D, B, H)
        finals.append(final)
        if directions == 1:
            states = graph.node("Squeeze", outputs, graph.constant([1]))
        else:
            side_by_side = graph.node("Transpose", outputs, perm=[0, 2, 1, 3])  # (T, B, D, H)
            states = graph.node("Reshape", side_by_side, graph.constant([0, 0, -1]))
    hidden, cell = (_joined(graph, [one[k] for one in finals], axis=0) for k in range(2))
    return Run(graph.node("Transpose", states, perm=[1, 0, 2]), hidden, cell)


def step(graph: Graph, module: SymbolLSTM, inputs: str, hidden: str, cell: str) -> Stepped:
    """Reads one symbol of each sequence, inputs ``(1, N, F)``, from states ``(N, L, H)``."""
    before = [graph.node("Transpose", one, perm=[1, 0, 2]) for one in (hidden, cell)]  # (L, N, H)
    layers = module.lstm.num_layers
    parts = [_layers_of(graph, one, layers) for one in before]
    states, after = inputs, []
    for layer in range(layers):
        _, *final = graph.nodes(
            "LSTM",
            *(states, *_weights(graph, module, layer), "", parts[0][layer], parts[1][layer]),
            outputs=3,
            hidden_size=module.lstm.hidden_size,
        )
        after.append(final)
        states = final[0]  # (1, N, H): a sequence of one
    output = graph.node("Squeeze", states, graph.constant([0]))
    joined = (_joined(graph, [one[k] for one in after], axis=0) for k in range(2))
    return Stepped(output, *(graph.node("Transpose", one, perm=[1, 0, 2]) for one in joined))


def _layers_of(graph: Graph, state: str, layers: int) -> list[str]:
    return [state] if layers == 1 else graph.nodes("Split", state, outputs=layers, axis=0)


def _joined(graph: Graph, values: list[str], axis: int) -> str:
    return values[0] if len(values) == 1 else graph.node("Concat", *values, axis=axis)


def _weights(graph: Graph, module: SymbolLSTM, layer: int) -> list[str]:
    """The weights of one layer as the operator wants them: a leading axis for directions, gates in its order."""
    directions = 2 if module.lstm.bidirectional else 1
    runs = [
        [_gates(numbers(one)) for one in module.lstm.all_weights[layer * directions + k]] for k in range(directions)
    ]
    inputs, recurrent = (np.stack([one[k] for one in runs]) for k in (0, 1))
    biases = np.stack([np.concatenate(one[2:]) for one in runs])
    parts = {"input": inputs, "recurrent": recurrent, "bias": biases}
    return [graph.constant(array, f"lstm_{layer}_{name}") for name, array in parts.items()]


def _gates(weights: Array) -> Array:
    """From torch's order of gates, input forget cell output, to ONNX's: input output forget cell."""
    enter, forget, cell, leave = np.split(weights, 4)
    return np.concatenate([enter, leave, forget, cell])
