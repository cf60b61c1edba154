"""All searches find on NumPy's arrays what they find on tensors: the same outputs, paths and probabilities."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch

from ssnt.arrays import NUMPY, Array, placed, wrapped
from ssnt.decode import (
    EnsembleScorer,
    Failure,
    MarginalisedScorer,
    SearchOptions,
    Stream,
    StreamOptions,
    align,
    decode,
    log_likelihood,
    marginal_search,
    online_search,
    open_streams,
    path_search,
    sample,
)
from ssnt.decode.align import AlignmentFailure, align_each
from ssnt.decode.rows import Growing, join, leaves, select
from ssnt.dp import AlignmentDistribution
from ssnt.errors import DataError, ModelError, ShapeError
from ssnt.types import EOS_ID
from table_scorer import TableScorer, make_batch, random_sources

CPU = torch.device("cpu")
LENGTHS = [5, 1, 8, 3, 3]
SEARCHES = {"marginal": marginal_search, "path": path_search, "online": online_search}
CLOSE = {"float64": 1e-11, "float32": 2e-4}


def scorers(seed: int, **settings: Any) -> dict[Any, TableScorer]:
    """The same model on both kinds of arrays."""
    return {device: TableScorer(seed, device, **settings) for device in (CPU, NUMPY)}


def same(got: Any, expected: Any, close: float = 1e-11) -> None:
    """Checks hypotheses, updates and whatever they are nested in."""
    if isinstance(expected, list | tuple):
        assert len(got) == len(expected)
        for one, other in zip(got, expected, strict=True):
            same(one, other, close)
    elif isinstance(expected, float):
        assert got == pytest.approx(expected, rel=close, abs=close)
    elif isinstance(expected, torch.Tensor):
        assert isinstance(got, Array)
        assert str(got.dtype) == str(expected.dtype).removeprefix("torch.")
        np.testing.assert_allclose(got, expected.numpy(), rtol=close, atol=close)
    elif hasattr(expected, "__dataclass_fields__"):
        assert type(got) is type(expected)
        for name in expected.__dataclass_fields__:
            same(getattr(got, name), getattr(expected, name), close)
    else:
        assert got == expected


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"beam": 1},
        {"beam": 4, "nbest": 4, "end": "last"},
        {"beam": 5, "nbest": 3, "length_normalisation": 0.7, "max_length": 6},
        {"beam": 3, "prefix": (4, 5), "banned": (0, 1)},
        {"beam": 6, "nbest": 2, "beam_threshold": 2.0, "min_log_prob": -12.0},
        {"max_length": 0},
    ],
    ids=str,
)
def test_searches(search, options):
    for seed in range(2):
        found = {
            device: SEARCHES[search](
                scorer, make_batch(random_sources(seed, LENGTHS), device), SearchOptions(**options)
            )
            for device, scorer in scorers(seed).items()
        }
        same(found[NUMPY], found[CPU])
    assert any(hypotheses for hypotheses in found[CPU])


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("scale", [1.5, 60.0])
def test_single_precision(search, scale):
    found = {
        device: SEARCHES[search](scorer, make_batch(random_sources(7, LENGTHS), device), SearchOptions(beam=4))
        for device, scorer in scorers(7, dtype="float32", scale=scale).items()
    }
    same(found[NUMPY], found[CPU], CLOSE["float32"])


@pytest.mark.parametrize("search", SEARCHES)
def test_a_large_vocabulary(search):
    # more symbols than topk sorts as a whole
    found = {
        device: SEARCHES[search](scorer, make_batch(random_sources(1, LENGTHS), device), SearchOptions(beam=3, nbest=3))
        for device, scorer in scorers(1, vocab_size=300, scale=3.0).items()
    }
    same(found[NUMPY], found[CPU])


def test_tags():
    sources, tags = random_sources(2, LENGTHS), [[1], [2, 3], [], [1, 2], [4]]
    for search in SEARCHES.values():
        found = {
            device: search(scorer, make_batch(sources, device, tags=tags))
            for device, scorer in scorers(2, has_tags=True).items()
        }
        same(found[NUMPY], found[CPU])


def test_samples():
    # one generator for both kinds: the same seed gives the same draws
    for settings in ({}, {"temperature": 0.5}, {"top_k": 2}):
        found = {
            device: sample(scorer, make_batch(random_sources(3, LENGTHS), device), 20, seed=5, **settings)
            for device, scorer in scorers(3).items()
        }
        same(found[NUMPY], found[CPU])
    assert len({one.symbols for one in found[CPU][0]}) > 1


@pytest.mark.parametrize("device", [CPU, NUMPY], ids=str)
def test_samples_come_as_often_as_they_are_probable(device):
    scorer = TableScorer(0, device, scale=1.0)
    size = scorer.vocab_size
    # The mass of a prefix is that of all paths that write it, wherever they stand then.
    source = scorer.read(make_batch([[4, 5]] * size, device))
    symbols = placed(np.arange(size)[:, None], device)
    grid = scorer.grid(source, symbols, placed(np.ones(size, dtype=np.int64), device))
    chances = np.exp(np.array(AlignmentDistribution.of(grid).log_partition().tolist()))
    draws = sample(scorer, make_batch([[4, 5]], device), 6_000, SearchOptions(max_length=1), seed=1)[0]
    firsts = np.array([one.symbols[0] if one.symbols else EOS_ID for one in draws])
    counted = np.bincount(firsts, minlength=size) / len(firsts)
    np.testing.assert_allclose(counted, chances / chances.sum(), atol=0.025)


@pytest.mark.parametrize("end", ["any", "last"])
def test_given_outputs(end):
    sources, targets = random_sources(4, LENGTHS), [[4, 5, 3], [], [5] * 9, [3, 3], [4]]
    aligned, scored = {}, {}
    for device, scorer in scorers(4).items():
        batch = make_batch(sources, device, targets=targets)
        aligned[device] = align(scorer, batch, end=end)
        scored[device] = log_likelihood(scorer, batch, end=end)
    same(aligned[NUMPY], aligned[CPU])
    same(scored[NUMPY], scored[CPU])
    assert scored[NUMPY].tolist() == pytest.approx([one.log_prob for one in aligned[NUMPY]])


def test_scoring_needs_targets():
    with pytest.raises(ModelError, match="tgt and tgt_lens: expected the targets of every pair, got None"):
        log_likelihood(TableScorer(0, NUMPY), make_batch([[4]], NUMPY))


def test_a_pair_that_cannot_be_aligned_is_told():
    scorer = TableScorer(0, NUMPY)
    batch = make_batch([[4], [5]], NUMPY, targets=[[4], [5]])
    batch.tgt[1, 1] = 4  # no end
    good, bad = align_each(scorer, batch)
    assert good.log_prob < 0
    assert isinstance(bad, AlignmentFailure)


def test_ensembles():
    made = {}
    for device in (CPU, NUMPY):
        members = [TableScorer(seed, device) for seed in range(3)]
        batch = make_batch(random_sources(0, LENGTHS), device)
        ensemble = EnsembleScorer(members)
        summed = EnsembleScorer([MarginalisedScorer(one, end="last") for one in members])
        assert ensemble.device == summed.device == device
        made[device] = [
            *(search(ensemble, batch) for search in SEARCHES.values()),
            marginal_search(summed, batch, SearchOptions(nbest=3)),
            sample(summed, batch, 3),
        ]
    same(made[NUMPY], made[CPU])


@pytest.mark.parametrize("search", SEARCHES)
def test_sources_of_any_length(search):
    sources = [*random_sources(5, [9, 1, 4, 30, 2]), [], [4, 99], [4, 2]]
    found = {device: decode(scorer, sources, search, batch_size=2) for device, scorer in scorers(5).items()}
    for got, expected in zip(found[NUMPY], found[CPU], strict=True):
        if isinstance(expected, Failure):
            assert (got.index, str(got.error)) == (expected.index, str(expected.error))
        else:
            same(got, expected)
    assert [isinstance(one, Failure) for one in found[NUMPY]] == [False] * 5 + [True] * 3


STREAMS = [
    {},
    {"beam": 1},
    {"beam": 4, "max_delay": 1},
    {"beam": 3, "merge": "max", "end": "any"},
    {"beam": 5, "end": "any", "max_tail": 2, "banned": (0, 1)},
    {"beam": 1, "emit_threshold": 0.5},
    {"beam": 4, "beam_threshold": 3.0, "max_emissions": 2},
]


@pytest.mark.parametrize("options", STREAMS, ids=str)
def test_streams(options):
    """Ragged ones, stepped together: some rest, some end early, some come later."""
    told = {}
    for device, scorer in scorers(6).items():
        random = np.random.default_rng(0)
        batch = open_streams(scorer, 3, StreamOptions(**options))
        told[device] = []
        for step in range(12):
            symbols = [int(random.integers(4, 7)) if random.random() < 0.7 else None for _ in range(len(batch))]
            ended = batch._is_finished
            symbols = [None if over else one for over, one in zip(ended, symbols, strict=True)]
            told[device].append(batch.push(symbols))
            if step == 4:
                told[device].append(batch.finish([1]))
            if step == 6:
                batch.add(2)
            if step == 9:
                batch.remove([0, 1])
        told[device].append(batch.finish())
    same(told[NUMPY], told[CPU])


def test_many_streams_of_which_few_are_busy():
    told = {}
    for device, scorer in scorers(8, scale=3.0).items():
        batch = open_streams(scorer, 24, StreamOptions(beam=3))
        random = np.random.default_rng(1)
        told[device] = [batch.push(random.integers(4, 7, size=24).tolist()) for _ in range(8)] + [batch.finish()]
    same(told[NUMPY], told[CPU])


def test_a_stream_goes_back_and_goes_on():
    scorer = TableScorer(9, NUMPY)
    whole, stream = Stream(scorer, StreamOptions(beam=4)), Stream(scorer, StreamOptions(beam=4))
    first = whole.push([4, 5, 6]), whole.push([6, 4])
    assert stream.push([4, 5, 6]) == first[0]
    with pytest.raises(DataError, match="expected symbols below"):
        stream.push([4, 99])
    saved = stream.state_dict()
    arrays = [*saved["decoder"], *saved["hearing"], *saved["prefixes"].values()]
    assert {type(one) for one in arrays} == {np.ndarray}  # so that whoever loads them needs no class of ours
    other = Stream(scorer, StreamOptions(beam=4))
    other.load_state_dict(saved)
    assert stream.push([6, 4]) == other.push([6, 4]) == first[1]
    assert stream.finish() == other.finish() == whole.finish()


def test_streams_change_their_kind():
    # A state that was saved with torch goes on without it, and the other way round.
    for here, there in itertools.permutations((CPU, NUMPY)):
        before, after = (Stream(TableScorer(9, device), StreamOptions(beam=4)) for device in (here, there))
        before.push([4, 5, 6])
        after.load_state_dict(before.state_dict())
        update, other = before.push([6, 5]), after.push([6, 5])
        assert update == other
        assert before.finish().symbols == after.finish().symbols


def test_a_state_is_never_changed():
    batch = open_streams(TableScorer(9, NUMPY), 2)
    batch.push([4, 5])
    kept = batch.snapshot()
    copies = [one.clone() for one in leaves(kept)]
    update = batch.push([5, 6])
    for one, copy in zip(leaves(kept), copies, strict=True):
        np.testing.assert_array_equal(one, copy)
    batch.rewind(kept)
    assert batch.push([5, 6]) == update


def test_rows_that_grow():
    found = {}
    for device in (CPU, NUMPY):
        rows = Growing(placed(np.zeros((2, 0, 3)), device), placed(np.zeros(2, dtype=np.int64), device))
        longer = rows.with_one_more(placed(np.ones((2, 3)), device)).with_one_more(placed(np.full((2, 3), 2.0), device))
        both = join((rows, longer), placed(np.array([3, 0, 2]), device))
        grown = select(both, placed(np.array([0, 1]), device)).with_one_more(placed(np.full((2, 3), 3.0), device))
        found[device] = (both, grown)
    same(found[NUMPY], found[CPU])
    assert found[NUMPY][1].lens.tolist() == [3, 1]


@pytest.mark.parametrize("end", ["any", "last"])
@pytest.mark.parametrize(("tgt_size", "src_size"), [(4, 7), (7, 4), (1, 1), (1, 5), (5, 1)])
def test_the_distribution_of_alignments(end, tgt_size, src_size):
    random = np.random.default_rng(0)
    values = [np.log(random.random((4, tgt_size, src_size))) for _ in range(3)]
    values[0][0, 0, 0] = -math.inf
    values[1][3] = -math.inf  # impossible
    lens = random.integers(1, src_size + 1, size=4), random.integers(1, tgt_size + 1, size=4)
    tensors = AlignmentDistribution(*map(torch.from_numpy, [*values, *lens]), end=end)
    arrays = AlignmentDistribution(*map(wrapped, [*values, *lens]), end=end)
    same(arrays.log_partition(), tensors.log_partition())
    same(arrays.posteriors(), tensors.posteriors())
    same(arrays.kbest(3), tensors.kbest(3))
    same(arrays.kbest(1), tensors.kbest(1))
    same(arrays.entropy(), tensors.entropy(), 1e-9)
    same(arrays.expected_delay(), tensors.expected_delay())
    with pytest.raises(DataError, match=r"pair [03] has no possible alignment"):
        arrays.viterbi()
    with pytest.raises(DataError, match=r"pair [03] has no possible alignment"):
        arrays.sample(2)


def test_sampled_alignments():
    values = [wrapped(np.log(np.random.default_rng(k).random((2, 3, 4)))) for k in range(3)]
    lens = wrapped(np.array([4, 3])), wrapped(np.array([3, 2]))
    distribution = AlignmentDistribution(*values, *lens)
    draws = np.asarray(distribution.sample(20_000, generator=np.random.default_rng(0)))
    assert (draws[1, :, 2] == -1).all()
    emit = np.asarray(distribution.posteriors().emit)
    for b, j, i in itertools.product(range(2), range(2), range(4)):
        assert (draws[b, :, j] == i).mean() == pytest.approx(emit[b, j, i], abs=0.015)


def test_bad_grids_are_told():
    cells = [wrapped(np.zeros((1, 2, 3))) for _ in range(3)]
    lens = wrapped(np.array([3])), wrapped(np.array([2]))
    with pytest.raises(ShapeError, match="log_word must be float32 or float64"):
        AlignmentDistribution(cells[0].long(), *cells[1:], *lens)
    with pytest.raises(ShapeError, match=r"log_word must be a torch\.Tensor, got ndarray"):
        AlignmentDistribution(np.zeros((1, 2, 3)), *cells[1:], *lens)
    with pytest.raises(ShapeError, match=r"src_lens\[0\] must be between 1 and 3"):
        AlignmentDistribution(*cells, wrapped(np.array([4])), lens[1])
    cells[1][0, 1, 1] = math.nan
    with pytest.raises(DataError, match=r"log_emit\[0, 1, 1\] must be a log probability"):
        AlignmentDistribution(*cells, *lens).log_partition()
