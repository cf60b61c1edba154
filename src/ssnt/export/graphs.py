"""A model with an alignment as ONNX graphs.

What a cell of the grid needs of the source and of the prefix is computed where they are: ``encoder`` gives the source's
halves of the word logits and of the decision, ``decoder_step`` those of the prefix. ``joint`` puts them together.

Axes: ``B`` batch, ``I`` source, ``K`` prefixes of a source, ``N`` rows, ``V`` vocabulary, ``F`` tags, ``C`` condition,
``D`` size of a half of the decision, ``L`` layers, ``H`` hidden size.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import numpy as np
import onnx

from ssnt.errors import ModelError
from ssnt.export.builder import Axis, Graph
from ssnt.export.recurrent import embedded, numbers, run, step
from ssnt.nn import (
    SSNT,
    FeatureEncoder,
    GeometricTransition,
    LSTMEncoder,
    NeuralTransition,
    PrefixDecoder,
    WordDistribution,
)
from ssnt.nn.recurrent import SymbolLSTM
from ssnt.nn.rnnt import RNNT, NullTransition
from ssnt.onnx_runtime.layout import DECISIONS, DECODER_STEP, ENCODER, ENCODER_STEP, FEATURES, JOINT
from ssnt.types import PAD_ID

FLOAT, WHOLE = np.float32, np.int64

ABOUT = {
    ENCODER: "Whole sources, end symbols included, to the source's halves of word logits and decisions.",
    ENCODER_STEP: "The next symbol of each stream, to the source's halves at it, and the state to go on from.",
    DECODER_STEP: "The next symbol of each prefix, to the prefix's halves after it, and the state to go on from.",
    JOINT: "Both halves to the distribution at each cell: whether to emit or to shift, and over what is emitted.",
    DECISIONS: "The decision at each cell alone, for searches that normalise words by products.",
    FEATURES: "Sets of tags, padded with 0, to the condition of the other graphs.",
}


@dataclass(frozen=True)
class Halves:
    """One side's halves of the word logits ``(..., V)`` and of the decision ``(..., D)``, by name."""

    logits: str
    transition: str


def build_graphs(model: SSNT) -> dict[str, onnx.ModelProto]:
    """The graphs of a model, by the names of their files.

    Raises:
        ModelError: A part of the model is somebody's own, or the model itself is.
    """
    _require_own_parts(model)
    makers: dict[str, Callable[[SSNT], Graph]] = {ENCODER: _encoder, DECODER_STEP: _decoder_step}
    makers |= {JOINT: _joint, DECISIONS: _decisions}
    if model.is_streaming:
        makers[ENCODER_STEP] = _encoder_step
    if model.features is not None:
        makers[FEATURES] = _features
    return {name: make(model).to_model(ABOUT[name]) for name, make in makers.items()}


def _require_own_parts(model: SSNT) -> None:
    """Refuses what inherits from a part of ours: it may compute something else, of which the graphs know nothing."""
    parts: dict[str, tuple[object, tuple[type, ...]]] = {
        "model": (model, (SSNT, RNNT)),
        "encoder": (model.encoder, (LSTMEncoder,)),
        "decoder": (model.decoder, (PrefixDecoder,)),
        "word": (model.word, (WordDistribution,)),
        "transition": (model.transition, (GeometricTransition, NeuralTransition, NullTransition)),
        "features": (model.features, (FeatureEncoder, type(None))),
    }
    for name, (part, known) in parts.items():
        if type(part) not in known:
            expected = " or ".join(kind.__name__ for kind in known)
            raise ModelError(
                f"{name}: expected ssnt's own {expected}, got {type(part).__name__}; export a model with parts of your "
                "own with torch.onnx"
            )


def transition_size(model: SSNT) -> int:
    """Size ``D`` of the halves of the decision."""
    return model.transition.src_layer.out_features if isinstance(model.transition, NeuralTransition) else 1


def _encoder(model: SSNT) -> Graph:
    graph, encoder = Graph("encoder"), cast("LSTMEncoder", model.encoder)
    symbols = graph.input("symbols", WHOLE, ["B", "I"])
    lens = graph.input("lengths", WHOLE, ["B"])
    condition = _condition(graph, model, "B")
    in_time = graph.node("Transpose", symbols, perm=[1, 0])
    states = run(graph, encoder, embedded(graph, encoder, in_time, condition), lens).states  # (B, I, H)
    if encoder.has_skip:
        own = graph.node("Gather", "embedding", symbols, axis=0)  # (B, I, E)
        states = graph.node("Concat", states, _zero_in_padding(graph, own, symbols, lens), axis=2)
    _give_halves(graph, model, _source_halves(graph, model, states), ["B", "I"])
    return graph


def _encoder_step(model: SSNT) -> Graph:
    graph, encoder = Graph("encoder_step"), cast("LSTMEncoder", model.encoder)
    symbols = graph.input("symbols", WHOLE, ["N"])
    states = _state_inputs(graph, encoder)
    condition = _condition(graph, model, "N")
    in_time = graph.node("Unsqueeze", symbols, graph.constant([0]))
    after = step(graph, encoder, embedded(graph, encoder, in_time, condition), *states)
    output = after.output
    if encoder.has_skip:
        output = graph.node("Concat", output, graph.node("Gather", "embedding", symbols, axis=0), axis=1)
    _give_halves(graph, model, _source_halves(graph, model, output), ["N"])
    _give_state(graph, encoder, after.hidden, after.cell)
    return graph


def _decoder_step(model: SSNT) -> Graph:
    graph, decoder = Graph("decoder_step"), model.decoder
    symbols = graph.input("symbols", WHOLE, ["N"])
    states = _state_inputs(graph, decoder)
    condition = _condition(graph, model, "N")
    in_time = graph.node("Unsqueeze", symbols, graph.constant([0]))
    after = step(graph, decoder, embedded(graph, decoder, in_time, condition), *states)
    _give_halves(graph, model, _prefix_halves(graph, model, after.output), ["N"])
    _give_state(graph, decoder, after.hidden, after.cell)
    return graph


def _joint(model: SSNT) -> Graph:
    graph, vocab_size = Graph("joint"), model.config.tgt_vocab_size
    source_logits = graph.input("source_logits", FLOAT, ["B", "I", vocab_size])
    source = graph.input("source_transition", FLOAT, ["B", "I", transition_size(model)])
    prefix_logits = graph.input("prefix_logits", FLOAT, ["B", "K", vocab_size])
    prefix = graph.input("prefix_transition", FLOAT, ["B", "K", transition_size(model)])
    logits = _added(graph, source_logits, prefix_logits)  # (B, K, I, V)
    log_norm = graph.node("ReduceLogSumExp", logits, axes=[3], keepdims=1)
    graph.output("log_words", graph.node("Sub", logits, log_norm), FLOAT, ["B", "K", "I", vocab_size])
    last = graph.constant([3])
    _give_decisions(graph, model, source, prefix, graph.node("Squeeze", log_norm, last))
    return graph


def _decisions(model: SSNT) -> Graph:
    graph = Graph("decisions")
    source = graph.input("source_transition", FLOAT, ["B", "I", transition_size(model)])
    prefix = graph.input("prefix_transition", FLOAT, ["B", "K", transition_size(model)])
    _give_decisions(graph, model, source, prefix, graph.input("log_norm", FLOAT, ["B", "K", "I"]))
    return graph


def _features(model: SSNT) -> Graph:
    graph, features = Graph("features"), cast("FeatureEncoder", model.features)
    tags = graph.input("tags", WHOLE, ["B", "F"])
    # One column more than there are tags: of no tags at all, no maximum could be taken.
    rows = graph.node("Slice", graph.node("Shape", tags), *map(graph.constant, ([0], [1])))
    shape = graph.node("Concat", rows, graph.constant([1]), axis=0)
    padding = graph.node("Expand", graph.constant([PAD_ID]), shape)
    padded = graph.node("Concat", tags, padding, axis=1)
    chosen = graph.node("OneHot", padded, graph.constant([features.vocab_size]), graph.constant([0.0, 1.0]))
    members = graph.node("ReduceMax", chosen, axes=[1], keepdims=0)  # (B, T): a set, in which nothing is twice
    weight = numbers(features.embedding.weight).copy()
    weight[PAD_ID] = 0.0
    condition = graph.node("MatMul", members, graph.constant(weight, "embedding"))
    graph.output("condition", condition, FLOAT, ["B", features.output_size])
    return graph


def _condition(graph: Graph, model: SSNT, rows: str) -> str | None:
    return graph.input("condition", FLOAT, [rows, model.condition_size]) if model.condition_size else None


def _state_inputs(graph: Graph, module: SymbolLSTM) -> list[str]:
    shape: list[Axis] = ["N", module.lstm.num_layers, module.lstm.hidden_size]
    return [graph.input(name, FLOAT, shape) for name in ("hidden", "cell")]


def _give_state(graph: Graph, module: SymbolLSTM, hidden: str, cell: str) -> None:
    shape: list[Axis] = ["N", module.lstm.num_layers, module.lstm.hidden_size]
    graph.output("next_hidden", hidden, FLOAT, shape)
    graph.output("next_cell", cell, FLOAT, shape)


def _give_halves(graph: Graph, model: SSNT, halves: Halves, axes: list[str]) -> None:
    graph.output("logits", halves.logits, FLOAT, [*axes, model.config.tgt_vocab_size])
    graph.output("transition", halves.transition, FLOAT, [*axes, transition_size(model)])


def _source_halves(graph: Graph, model: SSNT, states: str) -> Halves:
    """The source's halves for states ``(..., Hs)``."""
    logits = _product(graph, states, numbers(model.word.src_weight).T, "word")
    transition = model.transition
    if isinstance(transition, NeuralTransition):
        product = _product(graph, states, numbers(transition.src_layer.weight).T, "transition")
        return Halves(logits, graph.node("Add", product, graph.constant(numbers(transition.src_layer.bias))))
    if isinstance(transition, NullTransition):
        product = _product(graph, states, numbers(transition.src_weight)[:, None], "transition")
        return Halves(logits, graph.node("Add", product, graph.constant(numbers(transition.bias))))
    emit_prob = cast("GeometricTransition", transition).emit_prob
    return Halves(logits, _filled(graph, states, math.log(emit_prob) - math.log1p(-emit_prob)))


def _prefix_halves(graph: Graph, model: SSNT, outputs: str) -> Halves:
    """The prefix's halves for outputs ``(N, Ht)``."""
    product = _product(graph, outputs, numbers(model.word.tgt_weight).T, "word")
    logits = graph.node("Add", product, graph.constant(numbers(model.word.bias), "word_bias"))
    transition = model.transition
    if isinstance(transition, NeuralTransition):
        return Halves(logits, _product(graph, outputs, numbers(transition.tgt_layer.weight).T, "transition"))
    if isinstance(transition, NullTransition):
        return Halves(logits, _product(graph, outputs, numbers(transition.tgt_weight)[:, None], "transition"))
    return Halves(logits, _filled(graph, outputs, 0.0))


def _give_decisions(graph: Graph, model: SSNT, source: str, prefix: str, log_norm: str) -> None:
    """Both decisions ``(B, K, I)`` from the halves ``(B, I, D)`` and ``(B, K, D)``."""
    both, transition = _added(graph, source, prefix), model.transition  # (B, K, I, D)
    if isinstance(transition, NeuralTransition):
        weight = graph.constant(numbers(transition.output_layer.weight).T)
        both = graph.node("MatMul", graph.node("Tanh", both), weight)
        both = graph.node("Add", both, graph.constant(numbers(transition.output_layer.bias)))
    logits = graph.node("Squeeze", both, graph.constant([3]))
    if isinstance(transition, NullTransition):
        logits = graph.node("Sub", log_norm, logits)
    for name, value in (("log_emit", graph.node("Neg", logits)), ("log_shift", logits)):
        log_prob = graph.node("Neg", graph.node("Softplus", value))
        graph.output(name, log_prob, FLOAT, ["B", "K", "I"])


def _added(graph: Graph, source: str, prefix: str) -> str:
    """``(B, I, X)`` and ``(B, K, X)`` to their sums ``(B, K, I, X)``."""
    return graph.node(
        "Add",
        graph.node("Unsqueeze", source, graph.constant([1])),
        graph.node("Unsqueeze", prefix, graph.constant([2])),
    )


def _product(graph: Graph, states: str, weight: np.ndarray, name: str) -> str:
    return graph.node("MatMul", states, graph.constant(weight, f"{name}_weight"))


def _filled(graph: Graph, like: str, value: float) -> str:
    """One number at every place of ``(..., X)``, as ``(..., 1)``."""
    places = graph.node("Slice", graph.node("Shape", like), *map(graph.constant, ([0], [-1])))
    shape = graph.node("Concat", places, graph.constant([1]), axis=0)
    return graph.node("Expand", graph.constant([float(value)]), shape)


def _zero_in_padding(graph: Graph, values: str, symbols: str, lens: str) -> str:
    """``(B, I, X)`` with zeros beyond the lengths ``(B,)``."""
    size = graph.node("Gather", graph.node("Shape", symbols), graph.constant(1), axis=0)
    places = graph.node("Range", graph.constant(0), size, graph.constant(1))  # (I,)
    inside = graph.node("Less", places, graph.node("Unsqueeze", lens, graph.constant([1])))  # (B, I)
    return graph.node("Where", graph.node("Unsqueeze", inside, graph.constant([2])), values, graph.constant(0.0))
