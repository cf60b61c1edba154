"""Alignment of given pairs, against full enumeration, and the formats that it is written in."""

import json
import math
from dataclasses import replace
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given
from torch import Tensor

from ssnt.config import ModelConfig
from ssnt.decode import ModelScorer
from ssnt.decode.align import AlignmentFailure, PairAlignment, Segment, align, align_each, find_segments
from ssnt.decode.formats import (
    Chunk,
    format_joint,
    joint_sequence,
    parse_joint,
    pharaoh,
    shown_segments,
    to_json_line,
    to_record,
)
from ssnt.errors import ConfigError, DataError, ModelError, ShapeError
from ssnt.nn import SSNT
from ssnt.types import EOS_ID, PAD_ID, Alignment, Batch, Grid

from oracles import enumerate_pair

VOCAB = 7
PAIRS = ([4, 5, 6], [5, 4]), ([4], [6, 6, 5]), ([], [4]), ([5, 5], []), ([], [])


@pytest.fixture
def scorer() -> ModelScorer:
    torch.manual_seed(4)
    config = ModelConfig(src_vocab_size=VOCAB, tgt_vocab_size=VOCAB, embed_size=4, hidden_size=5)
    model = SSNT(config).double().eval()
    with torch.no_grad():
        for weights in model.parameters():
            weights.mul_(3.0)  # decided, so that paths and posteriors differ
    return ModelScorer(model)


def batch_of(pairs: Any, padding: int = 0) -> Batch:
    def padded(rows: list[list[int]]) -> tuple[Tensor, Tensor]:
        ended = [[*row, EOS_ID] for row in rows]
        width = max(map(len, ended)) + padding
        return torch.tensor([row + [PAD_ID] * (width - len(row)) for row in ended]), torch.tensor(list(map(len, ended)))

    return Batch(*padded([source for source, _ in pairs]), *padded([target for _, target in pairs]))


class Fixed:
    """A scorer whose lattices are given; -inf makes pairs impossible."""

    vocab_size = VOCAB
    is_streaming = False
    has_alignment = True

    def __init__(self, log_word: Tensor) -> None:
        self.log_word = log_word

    def read(self, batch: Batch) -> Batch:
        return batch

    def grid(self, source: Batch, tgt: Tensor, tgt_lens: Tensor) -> Grid:
        rows = source.src[:, 0] - 4 if len(tgt) < len(self.log_word) else torch.arange(len(tgt))
        word = self.log_word[rows, : tgt.shape[1], : source.src.shape[1]]
        half = torch.full_like(word, math.log(0.5))
        return Grid(word, half, half, source.src_lens, tgt_lens)


@pytest.mark.parametrize("end", ["any", "last"])
def test_against_enumeration(scorer, end):
    batch = batch_of(PAIRS, padding=2)
    grid = scorer.model.grid(batch)
    results = align(scorer, batch, end=end)
    for b, (result, (source, target)) in enumerate(zip(results, PAIRS, strict=True)):
        cells = (b, slice(len(target) + 1), slice(len(source) + 1))
        truth = enumerate_pair(
            *(g[cells].detach().numpy() for g in (grid.log_word, grid.log_emit, grid.log_shift)), end
        )
        best = int(truth.log_scores.argmax())
        emit = truth.expectation(truth.emits)
        assert result.path.positions == truth.alignments[best]
        assert result.path.log_prob == pytest.approx(truth.log_scores[best])
        assert result.log_prob == pytest.approx(truth.log_total)
        np.testing.assert_allclose(result.emit.numpy(), emit, atol=1e-12)
        expected = [emit[j, i] for j, i in enumerate(truth.alignments[best])]
        np.testing.assert_allclose(result.confidence, expected, atol=1e-12)
        assert (result.src_len, result.tgt_len) == (len(source) + 1, len(target) + 1)


def test_a_batch_aligns_as_its_pairs_do(scorer):
    together = align(scorer, batch_of(PAIRS, padding=3))
    for pair, result in zip(PAIRS, together, strict=True):
        (alone,) = align(scorer, batch_of([pair]))
        assert result.path.positions == alone.path.positions
        assert result.segments == alone.segments
        assert result.log_prob == pytest.approx(alone.log_prob)
        torch.testing.assert_close(result.emit, alone.emit)


def test_nothing_is_left_to_differentiate(scorer):
    (result,) = align(scorer, batch_of(PAIRS[:1]))
    assert not result.emit.requires_grad


def fixed_batch() -> tuple[Fixed, Batch]:
    """Three pairs, of which the second is impossible; the first source symbol says which is which."""
    log_word = torch.zeros(3, 3, 3, dtype=torch.float64)
    log_word[1, 1] = -math.inf
    return Fixed(log_word), batch_of([([4, 6], [4, 4]), ([5, 6], [4, 4]), ([6, 6], [4, 4])])


def test_an_impossible_pair_is_named():
    scorer, batch = fixed_batch()
    message = (
        r"pair 1 has no possible alignment: its 3 source and 3 target symbols, end symbols counted, .* -inf .*'last'"
    )
    with pytest.raises(DataError, match=message):
        align(scorer, batch, end="last")
    first, second, third = align_each(scorer, batch, end="last")
    assert isinstance(first, PairAlignment)
    assert isinstance(third, PairAlignment)
    assert isinstance(second, AlignmentFailure)
    assert second.index == 1
    assert "pair 1 has no possible alignment" in str(second.error)


def test_a_pair_that_spoils_the_batch_is_named():
    scorer, batch = fixed_batch()
    scorer.log_word[1, 1] = math.nan
    _, second, third = align_each(scorer, batch)
    assert isinstance(second, AlignmentFailure)
    assert str(second.error).startswith("pair 1 cannot be aligned: log_word[0, 1, 0] must be")
    assert isinstance(third, PairAlignment)
    with pytest.raises(DataError, match="pair 1 cannot be aligned"):
        align(scorer, batch)


def test_symbols_outside_the_vocabulary(scorer):
    results = align_each(scorer, batch_of([*PAIRS, ([4], [VOCAB])]))
    assert [type(result) for result in results] == [PairAlignment] * len(PAIRS) + [AlignmentFailure]
    assert "pair 5 cannot be aligned" in str(results[-1].error)
    for result, expected in zip(results, align(scorer, batch_of(PAIRS)), strict=False):
        assert result.path.positions == expected.path.positions
        assert result.log_prob == pytest.approx(expected.log_prob)


def test_the_end_symbol_must_be_there(scorer):
    batch = batch_of(PAIRS)
    batch.tgt[1, 3] = 5
    with pytest.raises(DataError, match=r"pair 1 must end in the end symbol \(2\) on both sides, got tgt\[1, 3\] = 5"):
        align(scorer, batch)
    batch.src[0, 3] = 4
    with pytest.raises(DataError, match=r"pair 0 must end .* got src\[0, 3\] = 4"):
        align(scorer, batch)


def test_what_is_wrong_with_the_whole_batch_raises(scorer):
    batch = batch_of(PAIRS)
    with pytest.raises(ModelError, match="tgt and tgt_lens: expected the targets to align"):
        align_each(scorer, Batch(batch.src, batch.src_lens))
    with pytest.raises(ShapeError, match="src_lens"):
        align_each(scorer, replace(batch, src_lens=batch.src_lens + 1))
    with pytest.raises(ConfigError, match="link_threshold must be above 0 and at most 1, got 0"):
        align(scorer, batch, link_threshold=0)


# Posteriors without those of the end symbol, (J, I); the path; threshold; segments as spans of source and target.
SEGMENTS = {
    "one to one": ([[1, 0, 0], [0, 1, 0]], (0, 1, 2), 0.25, [(0, 1, 0, 1), (1, 2, 1, 2), (2, 3, 2, 3)]),
    "two written at one": ([[1, 0, 0], [1, 0, 0]], (0, 0, 2), 0.25, [(0, 1, 0, 2), (1, 2, 2, 2), (2, 3, 2, 3)]),
    "a doubtful position joins": ([[0.3, 0.7, 0], [0, 0, 1]], (1, 2, 2), 0.25, [(0, 2, 0, 1), (2, 3, 1, 3)]),
    "unless the threshold is high": (
        [[0.3, 0.7, 0], [0, 0, 1]],
        (1, 2, 2),
        0.5,
        [(0, 1, 0, 0), (1, 2, 0, 1), (2, 3, 1, 3)],
    ),
    "the path counts at any threshold": (
        [[0.4, 0.3, 0.3], [0.0, 0.4, 0.6]],
        (0, 2, 2),
        1.0,
        [(0, 1, 0, 1), (1, 2, 1, 1), (2, 3, 1, 3)],
    ),
    "what lies between belongs": ([[0.5, 0, 0.5, 0], [0, 0, 0, 1]], (0, 3, 3), 0.25, [(0, 3, 0, 1), (3, 4, 1, 3)]),
    "links that overlap make one block": (
        [[0.5, 0.5, 0, 0], [0, 0.5, 0.5, 0]],
        (0, 1, 3),
        0.25,
        [(0, 3, 0, 2), (3, 4, 2, 3)],
    ),
    "a late link joins several blocks": (
        [[1, 0, 0, 0], [0, 1, 0, 0], [0.3, 0, 0.7, 0]],
        (0, 1, 2, 3),
        0.25,
        [(0, 3, 0, 3), (3, 4, 3, 4)],
    ),
    "a run of deletions is one segment": (
        [[0, 0, 1, 0, 0, 0]],
        (2, 5),
        0.25,
        [(0, 2, 0, 0), (2, 3, 0, 1), (3, 5, 1, 1), (5, 6, 1, 2)],
    ),
    "the end not read": ([[1, 0, 0]], (0, 0), 0.25, [(0, 1, 0, 2), (1, 3, 2, 2)]),
}


@pytest.mark.parametrize("case", SEGMENTS)
def test_segments(case):
    rows, positions, threshold, expected = SEGMENTS[case]
    # where to stop is uncertain, and joins nothing
    emit = torch.tensor([*rows, [1 / len(rows[0])] * len(rows[0])], dtype=torch.float64)
    assert find_segments(emit, positions, link_threshold=threshold) == [Segment(*spans) for spans in expected]


@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 2**32), st.sampled_from([0.05, 0.25, 0.5, 1.0]))
def test_every_symbol_is_in_exactly_one_segment(src_len, tgt_len, seed, threshold):
    rng = np.random.default_rng(seed)
    emit = torch.tensor(rng.dirichlet(np.full(src_len, 0.3), size=tgt_len))
    positions = tuple(sorted(rng.integers(0, src_len, size=tgt_len).tolist()))
    segments = find_segments(emit, positions, link_threshold=threshold)
    assert [i for s in segments for i in range(s.src_start, s.src_end)] == list(range(src_len))
    assert [j for s in segments for j in range(s.tgt_start, s.tgt_end)] == list(range(tgt_len))
    for s in segments:
        assert s.src_start < s.src_end
        for j in range(s.tgt_start, s.tgt_end):
            assert s.src_start <= positions[j] < s.src_end
    alignment = PairAlignment(Alignment(positions, -1.0), (1.0,) * tgt_len, emit, tuple(segments), -0.5)
    shown = shown_segments(alignment)
    assert [i for s in shown for i in range(s.src_start, s.src_end)] == list(range(src_len - 1))
    assert [j for s in shown for j in range(s.tgt_start, s.tgt_end)] == list(range(tgt_len - 1))
    source, target = [f"s{i}" for i in range(src_len - 1)], [f"t{j}" for j in range(tgt_len - 1)]
    chunks = parse_joint(joint_sequence(alignment, source, target))
    assert [symbol for chunk in chunks for symbol in chunk.source] == source
    assert [symbol for chunk in chunks for symbol in chunk.target] == target


def example() -> PairAlignment:
    """``angce`` and ``AH NG X``: n and g share NG, c and e are silent, and X comes after the end."""
    emit = torch.zeros(4, 6, dtype=torch.float64)
    emit[0, 0] = 1.0
    emit[1, 1], emit[1, 2] = 0.25, 0.75
    emit[2, 5] = 1.0
    emit[3, 5] = 1.0
    positions = (0, 2, 5, 5)
    confidence = tuple(float(emit[j, i]) for j, i in enumerate(positions))
    segments = tuple(find_segments(emit, positions))
    return PairAlignment(Alignment(positions, -2.5), confidence, emit, segments, -2.0)


SOURCE, TARGET = list("angce"), ["AH", "NG", "X"]


def test_pharaoh():
    assert pharaoh(example()) == "0-0 2-1"
    assert pharaoh(example(), include_end=True) == "0-0 2-1 5-2 5-3"


def test_joint_sequence():
    assert joint_sequence(example(), SOURCE, TARGET) == "a}AH n|g}NG c}_ e}_ _}X"
    assert joint_sequence(example(), SOURCE, TARGET, include_end=True) == "a}AH n|g}NG c}_ e}_ </s>}X|</s>"


def test_record():
    record = to_record(example(), SOURCE, TARGET)
    assert record == {
        "source": SOURCE,
        "target": TARGET,
        "links": [
            {"source": 0, "target": 0, "confidence": 1.0},
            {"source": 2, "target": 1, "confidence": 0.75},
            {"source": None, "target": 2, "confidence": 1.0},
        ],
        "segments": [
            {"source": [0, 1], "target": [0, 1]},
            {"source": [1, 3], "target": [1, 2]},
            {"source": [3, 5], "target": [2, 2]},
            {"source": [5, 5], "target": [2, 3]},
        ],
        "log_prob": -2.0,
        "path_log_prob": -2.5,
    }
    assert json.loads(to_json_line(record)) == record
    whole = to_record(example(), SOURCE, TARGET, include_end=True)
    assert whole["source"] == [*SOURCE, "</s>"]
    assert [link["source"] for link in whole["links"]] == [0, 2, 5, 5]
    assert whole["segments"][-1] == {"source": [5, 6], "target": [2, 4]}


def test_a_source_that_wrote_only_the_end_is_deleted():
    emit = torch.tensor([[1.0, 0, 0, 0], [0, 0, 1.0, 0]])
    alignment = PairAlignment(Alignment((0, 2), -1.0), (1.0, 1.0), emit, tuple(find_segments(emit, (0, 2))), -1.0)
    assert shown_segments(alignment) == [Segment(0, 1, 0, 1), Segment(1, 3, 1, 1)]
    assert joint_sequence(alignment, "abc", "x") == "a}x b}_ c}_"


def test_symbols_must_fit():
    with pytest.raises(ShapeError, match=r"source must have the 5 symbols of the alignment, without the end.* got 6"):
        to_record(example(), [*SOURCE, "</s>"], TARGET)
    with pytest.raises(ShapeError, match="target must have the 3 symbols"):
        joint_sequence(example(), SOURCE, TARGET[:2])


symbols = st.text(st.characters(exclude_categories=()) | st.sampled_from("|}_ \\\n\r\tnrt"), max_size=4)
sides = st.lists(symbols, max_size=3).map(tuple)


@given(st.lists(st.builds(Chunk, sides, sides), max_size=5))
def test_joint_sequences_come_back(chunks):
    line = format_joint(chunks)
    assert not set(line) & set("\n\r\t")
    assert parse_joint(line) == chunks


@given(st.lists(symbols, min_size=5, max_size=5), st.lists(symbols, min_size=3, max_size=3))
def test_json_lines_come_back(source, target):
    record = to_record(example(), source, target)
    line = to_json_line(record)
    assert len(line.splitlines()) == 1
    line.encode()
    assert json.loads(line) == record


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("a}b c", "chunk 2: expected one '}' between source and target, got 'c'"),
        ("a}b}c", "chunk 1: expected one '}'"),
        ("a}b ", "chunk 2: expected one '}'"),
        ("a}b_", r"chunk 1: expected '_' alone or with a backslash before it, got 'b_'"),
        ("a}_|b", "chunk 1: expected '_' alone"),
        (r"a}b\x", r"chunk 1: expected one of n r t .* after a backslash, got 'b\\\\x'"),
        ("a}b\\", "chunk 1: expected one of n r t"),
    ],
)
def test_malformed_joint_sequences(line, message):
    with pytest.raises(DataError, match=message):
        parse_joint(line)


def test_no_joint_sequence():
    assert parse_joint("") == []
    assert format_joint([]) == ""
    assert format_joint([Chunk(("a|b", "_"), (" ",))]) == r"a\|b|\_}\ "
