"""Exported models give what the models of torch give, for every search and stream."""

from __future__ import annotations

import itertools
import random
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from exported import KINDS, STREAMING, export, make, onnx
from ssnt.arrays import wrapped
from ssnt.decode import Failure
from ssnt.errors import BackendError, ConfigError, DataError, ModelError, ShapeError
from ssnt.onnx_runtime import OnnxTransducer, load
from ssnt.pipeline import PairScore, Transducer, Transduction
from ssnt.types import Batch, Example
from transducers import SOURCE, TARGET

TOLERANCE = 1e-4


class Both:
    """A model and its export."""

    def __init__(self, kind: str, place: Path) -> None:
        self.torch: Transducer = make(kind)
        self.onnx: OnnxTransducer = load(export(self.torch, place / "exported"))
        self.tags = () if self.torch.vocabulary.tags is None else self.torch.vocabulary.tags.names

    def words(self, count: int = 6, seed: int = 0) -> list[str]:
        """Texts of all lengths, with symbols that the model does not know."""
        dice = random.Random(seed)
        return ["".join(dice.choices(SOURCE + "Ω", k=dice.randint(1, 7))) for _ in range(count)]

    def examples(self, count: int = 6, seed: int = 0) -> list[Example]:
        dice = random.Random(seed)
        targets = ["".join(dice.choices(TARGET + "Ω", k=dice.randint(0, 6))) for _ in range(count)]
        tags = [tuple(dice.sample(self.tags, dice.randint(0, len(self.tags)))) for _ in range(count)]
        words = self.words(count, seed)
        return [Example(*each) for each in zip(words, targets, tags, strict=True)]


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Both]:
    return {kind: Both(kind, tmp_path_factory.mktemp("model")) for kind in KINDS}


@pytest.fixture(params=KINDS)
def both(request: pytest.FixtureRequest, pairs: dict[str, Both]) -> Both:
    return pairs[request.param]


@pytest.fixture(params=STREAMING)
def streaming(request: pytest.FixtureRequest, pairs: dict[str, Both]) -> Both:
    return pairs[request.param]


def check_same(got: Transduction | Failure, expected: Transduction | Failure) -> None:
    assert isinstance(got, Transduction)
    assert isinstance(expected, Transduction)
    assert got.text == expected.text
    assert got.alignment.positions == expected.alignment.positions
    assert got.delays == expected.delays
    assert got.is_complete == expected.is_complete
    assert (got.unknown, got.unknown_tags) == (expected.unknown, expected.unknown_tags)
    assert got.log_prob == pytest.approx(expected.log_prob, abs=TOLERANCE)
    assert got.alignment.log_prob == pytest.approx(expected.alignment.log_prob, abs=TOLERANCE)
    assert (got.emit is None) == (expected.emit is None)
    if got.emit is not None:
        assert type(got.emit) is np.ndarray
        np.testing.assert_allclose(got.emit, expected.emit, atol=TOLERANCE)
    for one, other in zip(got.alternatives, expected.alternatives, strict=True):
        check_same(one, other)


@pytest.mark.parametrize(
    "settings",
    [
        {"max_length": 9},
        {"beam": 1, "max_length": 6, "batch_size": 2, "copy_unknown": False},
        {"nbest": 3, "length_normalisation": 0.7, "end": "last", "max_length": 6},
    ],
    ids=", ".join,
)
@pytest.mark.parametrize("search", ["marginal", "path"])
def test_searches(both: Both, search: Any, settings: dict[str, Any]):
    examples = both.examples()
    got = both.onnx.transduce_each(examples, search=search, **settings)
    for one, other in zip(got, both.torch.transduce_each(examples, search=search, **settings), strict=True):
        check_same(one, other)


@pytest.mark.parametrize("end", ["any", "last"])
def test_online_search(streaming: Both, end: Any):
    examples, settings = streaming.examples(), {"nbest": 2, "end": end, "max_length": 8}
    got, expected = (
        each.transduce_each(examples, search="online", **settings) for each in (streaming.onnx, streaming.torch)
    )
    for one, other in zip(got, expected, strict=True):
        check_same(one, other)


def test_scores(both: Both):
    examples = both.examples(8, seed=1)
    for got, expected in zip(both.onnx.score_each(examples), both.torch.score_each(examples), strict=True):
        assert isinstance(got, PairScore)
        assert isinstance(expected, PairScore)
        assert got.log_prob == pytest.approx(expected.log_prob, abs=TOLERANCE)
        assert got.tokens == expected.tokens


def test_alignments(both: Both):
    examples = both.examples(8, seed=2)
    for got, expected in zip(both.onnx.align_each(examples), both.torch.align_each(examples), strict=True):
        assert not isinstance(got, Failure)
        assert not isinstance(expected, Failure)
        assert got.path.positions == expected.path.positions
        assert got.segments == expected.segments
        assert got.log_prob == pytest.approx(expected.log_prob, abs=TOLERANCE)
        assert type(got.emit) is np.ndarray
        np.testing.assert_allclose(got.emit, expected.emit, atol=TOLERANCE)
        assert got.alignment_svg() == expected.alignment_svg()


STREAMS: list[dict[str, Any]] = [
    {},
    {"max_delay": 1},
    {"emit_threshold": 0.5},
    {"merge": "max", "beam": 2, "max_tail": 3},
    {"end": "any", "beam_threshold": 3.0, "max_emissions": 2},
]


@pytest.mark.parametrize("settings", STREAMS, ids=lambda one: ", ".join(one) or "default")
def test_streams_letter_by_letter(streaming: Both, settings: dict[str, Any]):
    for example in streaming.examples(2, seed=3):
        tags = {"tags": example.tags} if streaming.tags else {}
        mine, theirs = streaming.onnx.stream(**tags, **settings), streaming.torch.stream(**tags, **settings)
        for letter in example.source:
            assert mine.push(letter) == theirs.push(letter)
        assert mine.finish() == theirs.finish()
        assert mine.is_complete == theirs.is_complete
        assert mine.log_prob == pytest.approx(theirs.log_prob, abs=TOLERANCE)


@pytest.mark.parametrize("settings", STREAMS, ids=lambda one: ", ".join(one) or "default")
def test_streams_together(streaming: Both, settings: dict[str, Any]):
    examples = streaming.examples(4, seed=4)
    got = streaming.onnx.stream_each(examples, batch_size=3, **settings)
    assert got == streaming.torch.stream_each(examples, batch_size=3, **settings)


def test_streams_that_come_and_go(streaming: Both):
    tags = [1] if streaming.tags else []

    def answers(transducer: Any) -> list[Any]:
        streams, found = transducer.streams(max_delay=2), []
        for step, word in enumerate(["abc", "defa", "b"]):
            streams.open(step, tags)
            streams.feed(step, word)
            found += streams.step()
        for step in range(3):
            streams.end(step)
        while len(streams):
            found += streams.step()
        return [(one.stream, one.update, one.committed, one.is_end) for one in found]

    assert answers(streaming.onnx) == answers(streaming.torch)


def test_a_saved_stream_goes_on(streaming: Both):
    tags = {"tags": []} if streaming.tags else {}
    first, second = streaming.onnx.stream(**tags), streaming.onnx.stream(**tags)
    first.push("abcd")
    second.load_state_dict(first.state_dict())
    for letter in "efab":
        assert first.push(letter) == second.push(letter)
    assert first.finish() == second.finish()


def test_text_in_text_out(pairs: dict[str, Both]):
    both = pairs["uniSSNT+ with tags"]
    words, tags = both.words(5), [["V"], [], ["PST", "V"], ["unheard of"], ["N"]]
    got, expected = (each.transduce(words, tags, max_length=8) for each in (both.onnx, both.torch))
    assert [one.text for one in got] == [one.text for one in expected]
    assert [one.unknown_tags for one in got] == [0, 0, 0, 1, 0]
    pairs_of_words = [(word, "ab") for word in words]
    assert both.onnx.score(pairs_of_words, tags) == pytest.approx(both.torch.score(pairs_of_words, tags), abs=TOLERANCE)
    paths = [[one.path.positions for one in each.align(pairs_of_words, tags)] for each in (both.onnx, both.torch)]
    assert paths[0] == paths[1]


def test_what_it_can_do(both: Both):
    for name in ("is_online", "has_tags", "has_alignment"):
        assert getattr(both.onnx, name) == getattr(both.torch, name)
    assert both.onnx.config.model == both.torch.config.model
    assert both.onnx.config.model.name in repr(both.onnx)
    assert both.onnx.vocabulary.to_json() == both.torch.vocabulary.to_json()


def test_refusals_are_those_of_torch(pairs: dict[str, Both]):
    calls: list[tuple[str, Any]] = [
        ("biSSNT+", lambda one: one.stream()),
        ("biSSNT+", lambda one: one.transduce(["a"], search="online")),
        ("biSSNT+", lambda one: one.transduce(["a"], tags=[["V"]])),
        ("uniSSNT+ with tags", lambda one: one.transduce(["a"])),
        ("uniSSNT+ with tags", lambda one: one.stream()),
        ("uniSSNT+", lambda one: one.transduce([""])),
        ("uniSSNT+", lambda one: one.transduce(["a" * 2001])),
        ("uniSSNT+", lambda one: one.transduce(["a"], beam=0)),
        ("uniSSNT+", lambda one: one.score([("a",)])),
    ]
    for kind, call in calls:
        messages = []
        for one in (pairs[kind].torch, pairs[kind].onnx):
            with pytest.raises((ModelError, DataError, ConfigError)) as caught:
                call(one)
            messages.append((caught.type, str(caught.value)))
        assert messages[0] == messages[1]


def test_one_bad_input_keeps_nobody_from_an_answer(pairs: dict[str, Both]):
    both = pairs["biSSNT+"]
    results = both.onnx.transduce_each([Example("abc"), Example(""), Example("abc")])
    assert [isinstance(one, Failure) for one in results] == [False, True, False]


def test_symbols_outside_of_the_vocabulary_are_named(pairs: dict[str, Both]):
    from ssnt.decode import decode, open_streams

    scorer = pairs["uniSSNT+"].onnx._scorer()
    good, bad = decode(scorer, [[5, 6], [5, 99]])
    assert isinstance(bad, Failure)
    assert not isinstance(good, Failure)
    assert "expected symbols from 0 to 15 (a vocabulary of 16), got 99 at [0, 1]" in str(bad.error)
    with pytest.raises(DataError, match=r"symbols: expected symbols from 0 to 15 .*got 99"):
        open_streams(scorer, 1).push([99])


@pytest.mark.parametrize(
    ("src", "lens", "message"),
    [
        ([[5, 2], [2, 0]], [2, 0], r"src_lens\[1\] must be between 1 and 2"),
        ([[5, 2], [2, 0]], [3, 1], r"src_lens\[0\] must be between 1 and 2"),
        ([[5, 2], [2, 0]], [2], r"src_lens must have shape \(2,\)"),
        ([[5, 2]], [2.0], "src_lens must have an integer dtype"),
        ([[5.0, 2.0]], [2], "src: expected dtype int64, got float64; "),
        ([5, 2], [2, 1], r"src: expected shape \(B, I\), got \(2,\); "),
        (np.zeros((0, 3), np.int64), np.zeros(0, np.int64), r"src: .* with no empty axis, got shape \(0, 3\)"),
        (np.zeros((2, 0), np.int64), [1, 1], r"src: .* with no empty axis, got shape \(2, 0\)"),
    ],
)
def test_what_is_no_batch_is_refused(pairs: dict[str, Both], src: Any, lens: Any, message: str):
    """ONNX Runtime would not be of help: it ends the process at an empty batch, and takes a length of 0."""
    scorer = pairs["uniSSNT+"].onnx._scorer()
    with pytest.raises(ShapeError, match=message):
        scorer.read(Batch(wrapped(np.array(src)), wrapped(np.array(lens))))


def test_no_stream_and_no_prefix_are_refused(pairs: dict[str, Both]):
    scorer, nothing = pairs["uniSSNT+"].onnx._scorer(), wrapped(np.zeros(0, np.int64))
    with pytest.raises(ConfigError, match="count must be a whole number of at least 1, got 0"):
        scorer.listen(0)
    with pytest.raises(ShapeError, match=r"symbols: .* with no empty axis"):
        scorer.hear(nothing, scorer.listen(1))
    source = scorer.read(Batch(wrapped(np.array([[5, 2]])), wrapped(np.array([2]))))
    with pytest.raises(ShapeError, match=r"symbols: .* with no empty axis"):
        scorer.advance(source, scorer.start(source), nothing, nothing, nothing)
    with pytest.raises(ShapeError, match=r"src: expected an array \(B, I\), got Tensor"):
        scorer.read(Batch(torch.tensor([[5, 2]]), torch.tensor([2])))


def test_many_threads_ask_one_model(pairs: dict[str, Both]):
    """Searches and streams at the same time, as in the service, each with inputs of its own."""
    model = pairs["uniSSNT+ of layers, skip, tied"].onnx
    inputs = [pairs["uniSSNT+"].examples(5, seed=seed) for seed in range(6)]

    def answers(examples: list[Example]) -> list[Any]:
        searches = [model.transduce_each(examples, search=one, max_length=8) for one in ("marginal", "path", "online")]
        texts = [[(one.text, one.log_prob) for one in found] for found in searches]
        return [texts, model.stream_each(examples), [one.log_prob for one in model.score_each(examples)]]

    expected = [answers(examples) for examples in inputs]
    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(answers, inputs * 2)) == expected * 2


def test_decisions_of_large_batches_are_made_in_parts(pairs: dict[str, Both], monkeypatch: pytest.MonkeyPatch):
    both, examples = pairs["biSSNT+"], pairs["biSSNT+"].examples()
    whole = both.onnx.transduce_each(examples, max_length=8)
    monkeypatch.setattr("ssnt.onnx_runtime.scorer._MOST_UNITS", 100)
    for one, other in zip(both.onnx.transduce_each(examples, max_length=8), whole, strict=True):
        check_same(one, other)


@pytest.mark.parametrize("threads", [0, 1.5, "2"])
def test_threads_are_a_number(tmp_path: Path, threads: Any):
    with pytest.raises(ConfigError, match="threads must be a whole number of at least 1"):
        load(tmp_path, threads=threads)


def test_more_threads_give_the_same(pairs: dict[str, Both], tmp_path: Path):
    both = pairs["biSSNT"]
    other = load(export(both.torch, tmp_path / "a"), threads=2)
    found = [[one.text for one in each.transduce(both.words(), max_length=8)] for each in (other, both.onnx)]
    assert found[0] == found[1]


@pytest.mark.parametrize("kind", KINDS)
def test_int8_is_close(tmp_path: Path, kind: str):
    model = make(kind, scale=1.0)
    small, words = load(export(model, tmp_path / "a", int8=True)), [("abc", "abd"), ("fade", "a"), ("b", "dd")]
    tags = [["V"], ["N", "PST"], []] if model.has_tags else None
    assert "int8" in repr(small)
    scores = model.score(words, tags)
    assert small.score(words, tags) == pytest.approx(scores, abs=0.02)
    assert small.score(words, tags) != scores
    if small.is_online:
        assert small.stream(tags and tags[0]).push("abc").read == 2


@pytest.mark.parametrize("kind", KINDS)
def test_int8_weights_keep_to_what_every_cpu_multiplies_exactly(tmp_path: Path, kind: str):
    place, seen = export(make(kind), tmp_path / "a", int8=True), 0
    for path in place.glob("*.onnx"):
        for one in onnx.load(path).graph.initializer:
            if one.data_type == onnx.TensorProto.INT8 and one.dims:  # of what is only looked up, unsigned
                values = onnx.numpy_helper.to_array(one).astype(int)
                assert abs(values).max(initial=0) <= 64, one.name
                seen += values.size
    assert seen > 0


def test_without_onnx_runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    place = export(make("uniSSNT"), tmp_path / "a")
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(BackendError, match="pip install onnxruntime"):
        load(place)


@pytest.mark.slow
def test_a_thousand_inputs(tmp_path: Path):
    """A smaller model than that of ``ssnt quickstart``, trained for a moment, on all searches and streams."""
    from ssnt.config import load_config
    from ssnt.data.readers import read_examples
    from ssnt.data.sample import sample_path
    from ssnt.training import train

    settings = {
        "data": {"train": str(sample_path("train")), "dev": str(sample_path("dev"))},
        "model": {"hidden_size": 64},
        "optimiser": {"learning_rate": 0.005},
        "training": {"max_epochs": 2},
        "validation": {"beam": 1, "examples": 20},
        "search": {"beam": 1},
        "out": str(tmp_path / "model"),
    }
    model = train(load_config(preset="quickstart", overrides=settings), display=False)
    exported = load(export(model, tmp_path / "exported"))
    torch.set_num_threads(1)
    parts = (read_examples(str(sample_path(part)), model.config.data) for part in ("test", "dev", "train"))
    examples = list(itertools.islice(itertools.chain(*parts), 1000))
    assert len(examples) == 1000
    for search in ("marginal", "path", "online"):
        got, expected = (
            one.transduce_each(examples, search=search, beam=4, nbest=2, batch_size=250) for one in (exported, model)
        )
        assert len({one.text for one in got}) > 500  # it has learnt that words differ
        for one, other in zip(got, expected, strict=True):
            check_same(one, other)
    for threshold in (None, 0.5):
        got, expected = (
            one.stream_each(examples, batch_size=250, emit_threshold=threshold) for one in (exported, model)
        )
        assert got == expected
    scores, others = exported.score_each(examples), model.score_each(examples)
    assert [one.log_prob for one in scores] == pytest.approx([one.log_prob for one in others], abs=TOLERANCE)
