"""Every graph gives what its module gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from exported import KINDS, STREAMING, make, run, scale_weights
from ssnt.decode import make_scorer
from ssnt.errors import ModelError
from ssnt.export.graphs import build_graphs
from ssnt.nn import Model
from ssnt.types import BOS_ID, Batch

LENS = torch.tensor([5, 1, 3, 4])
TAGS = torch.tensor([[1, 2, 2], [0, 0, 0], [3, 0, 3], [1, 2, 3]])


def batch_for(model: Model) -> Batch:
    torch.manual_seed(3)
    src = torch.randint(1, model.config.src_vocab_size, (len(LENS), int(LENS.max())))
    return Batch(src, LENS, features=TAGS if model.has_tags else None)


def conditions(graphs: dict[str, Any], batch: Batch) -> dict[str, Any]:
    return {} if batch.features is None else run(graphs["features.onnx"], tags=batch.features)


def inside(values: Any) -> Any:
    """The cells of each source (B, I, ...), without padding."""
    return np.asarray(values)[(torch.arange(values.shape[1]) < LENS[:, None]).numpy()]


def close(got: Any, expected: Any, tolerance: float = 1e-5) -> None:
    np.testing.assert_allclose(np.asarray(got), np.asarray(expected), rtol=tolerance, atol=tolerance)


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@torch.no_grad()
def test_whole_sources(kind: str):
    model = make(kind).model
    graphs, batch = build_graphs(model), batch_for(model)
    source = make_scorer(model).read(batch)
    condition = conditions(graphs, batch)
    if condition:
        close(condition["condition"], source.condition)
    found = run(graphs["encoder.onnx"], symbols=batch.src, lengths=LENS, **condition)
    close(inside(found["logits"]), inside(source.logits))
    padded = run(graphs["encoder.onnx"], symbols=torch.cat([batch.src, batch.src], 1), lengths=LENS, **condition)
    close(inside(padded["logits"][:, :5]), inside(source.logits))


@torch.no_grad()
@pytest.mark.parametrize("kind", STREAMING)
def test_steps_of_the_encoder_are_the_whole(kind: str):
    model = make(kind).model
    graphs, batch = build_graphs(model), batch_for(model)
    condition = conditions(graphs, batch)
    whole = run(graphs["encoder.onnx"], symbols=batch.src, lengths=torch.full_like(LENS, 5), **condition)
    state = np.zeros((len(LENS), model.config.encoder_layers, model.config.hidden_size), np.float32)
    after = {"next_hidden": state, "next_cell": state}
    for i in range(5):
        before = {"hidden": after["next_hidden"], "cell": after["next_cell"]}
        after = run(graphs["encoder_step.onnx"], symbols=batch.src[:, i], **before, **condition)
        for name in ("logits", "transition"):
            close(after[name], whole[name][:, i])


@torch.no_grad()
@pytest.mark.parametrize("scale", [1.0, 30.0], ids=["usual", "extreme"])
def test_prefixes_and_cells(kind: str, scale: float):
    """Weights that are 30 times larger make differences of hundreds of nats, and decisions that are certain."""
    model = make(kind).model
    scale_weights(model, scale)
    graphs, batch, scorer = build_graphs(model), batch_for(model), make_scorer(model)
    source, condition = scorer.read(batch), conditions(graphs, batch)
    halves = run(graphs["encoder.onnx"], symbols=batch.src, lengths=LENS, **condition)
    rows, tolerance = torch.arange(len(LENS)), 1e-5 if scale == 1.0 else 1e-3
    zeros = np.zeros((len(LENS), model.config.decoder_layers, model.config.hidden_size), np.float32)
    prefix = {"next_hidden": zeros, "next_cell": zeros}
    state = scorer.start(source)
    for symbol in (BOS_ID, 3, 7):
        if symbol != BOS_ID:
            state = scorer.advance(source, state, rows, rows, torch.full_like(rows, symbol))
        before = {"hidden": prefix["next_hidden"], "cell": prefix["next_cell"]}
        prefix = run(graphs["decoder_step.onnx"], symbols=np.full(len(LENS), symbol), **before, **condition)
        close(prefix["next_cell"], state.recurrent.cell)
    columns = scorer.columns(source, state)
    transitions = {"source_transition": halves["transition"], "prefix_transition": prefix["transition"][:, None]}
    logits = {"source_logits": halves["logits"], "prefix_logits": prefix["logits"][:, None]}
    cells = run(graphs["joint.onnx"], **transitions, **logits)
    items, positions = (torch.arange(5) < LENS[:, None]).nonzero(as_tuple=True)
    log_words = columns.log_words(items, positions)
    close(inside(cells["log_words"][:, 0]), log_words, tolerance)
    log_norm = (logits["source_logits"] + logits["prefix_logits"])[..., None, :]
    log_norm = torch.logsumexp(torch.from_numpy(log_norm), dim=-1).transpose(1, 2)
    decided = run(graphs["decisions.onnx"], **transitions, log_norm=log_norm)
    for name in ("log_emit", "log_shift"):
        expected = inside(getattr(columns, name)[:, 0])
        assert np.isfinite(expected).all()
        close(inside(cells[name][:, 0]), expected, tolerance)
        close(inside(decided[name][:, 0]), expected, tolerance)


def test_no_tags_at_all_are_a_set_of_tags():
    graphs = build_graphs(make("uniSSNT+ with tags").model)
    found = run(graphs["features.onnx"], tags=np.zeros((2, 0), np.int64))["condition"]
    assert found.shape == (2, 3)
    assert not found.any()


def test_graphs_say_what_they_are():
    for graph in build_graphs(make("uniSSNT+").model).values():
        assert graph.graph.doc_string
        assert graph.producer_name == "ssnt"
        assert {one.domain for one in graph.opset_import} == {""}


def test_a_streaming_graph_needs_a_streaming_encoder():
    assert "encoder_step.onnx" in build_graphs(make("uniSSNT").model)
    assert "encoder_step.onnx" not in build_graphs(make("biSSNT").model)


@pytest.mark.parametrize("part", ["encoder", "decoder", "word", "transition", "features"])
def test_a_part_of_ones_own_is_refused(part: str):
    """What inherits from a part of ours may compute something else, and no graph would know."""
    model = make("uniSSNT+ with tags").model
    own = getattr(model, part)
    own.__class__ = type("Own", (type(own),), {})
    with pytest.raises(ModelError, match=rf"{part}: expected ssnt's own \w+( or \w+)*, got Own; .*torch\.onnx"):
        build_graphs(model)


def test_a_model_of_ones_own_is_refused():
    model = make("uniSSNT+").model
    model.__class__ = type("Own", (type(model),), {})
    with pytest.raises(ModelError, match=r"model: expected ssnt's own SSNT or RNNT, got Own"):
        build_graphs(model)
