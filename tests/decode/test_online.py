"""Online search against full enumeration, and streams against the promises that they make."""

import io
import itertools
import math
import random
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ssnt.config import ModelConfig
from ssnt.decode import ModelScorer, Stream, StreamOptions, open_streams
from ssnt.decode.online import online_search
from ssnt.decode.options import SearchOptions
from ssnt.errors import ConfigError, DataError, ModelError
from ssnt.nn import SSNT
from ssnt.types import EOS_ID, PAD_ID, Batch

from oracles import enumerate_pair

SRC_VOCAB = 7
EVERYTHING = 200  # more prefixes than there are


def make_scorer(
    seed: int, *, vocab: int = 5, name: str = "uniSSNT+", sharpness: float = 3.0, **settings
) -> ModelScorer:
    """A random model in float64; sharpness makes its distributions differ between prefixes and inputs."""
    torch.manual_seed(seed)
    sizes = {"src_vocab_size": SRC_VOCAB, "tgt_vocab_size": vocab, "embed_size": 4, "hidden_size": 5}
    model = SSNT(ModelConfig.variant(name, **{**sizes, **settings})).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(sharpness)
    if not name.endswith("+"):
        model.estimate_transition([4, 2], [3, 4])
    return ModelScorer(model)


def make_sources(seed: int, lens: tuple[int, ...], features: torch.Tensor | None = None) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    src = torch.full((len(lens), max(lens)), PAD_ID)
    for row, length in zip(src, lens, strict=True):
        row[: length - 1] = torch.randint(3, SRC_VOCAB, (length - 1,), generator=generator)
        row[length - 1] = EOS_ID
    end = torch.full((len(lens), 1), EOS_ID)
    return Batch(src, torch.tensor(lens), end, torch.ones(len(lens), dtype=torch.int64), features)


def one(batch: Batch, b: int) -> Batch:
    length = int(batch.src_lens[b])
    features = None if batch.features is None else batch.features[b : b + 1]
    cut = batch.src[b : b + 1, :length]
    return Batch(cut, batch.src_lens[b : b + 1], batch.tgt[:1], batch.tgt_lens[:1], features)


def enumerate_outputs(scorer: ModelScorer, source: Batch, longest: int, end: str, merge: str = "sum"):
    """Every output of a single source with its log probability and best path, most probable first."""
    symbols = [v for v in range(scorer.vocab_size) if v != EOS_ID]
    found = []
    for length in range(longest + 1):
        outputs = list(itertools.product(symbols, repeat=length))
        tgt = torch.tensor([[*output, EOS_ID] for output in outputs])
        many = len(outputs)
        features = None if source.features is None else source.features.expand(many, -1)
        lens = source.src_lens.expand(many), torch.full((many,), length + 1)
        with torch.no_grad():
            grid = scorer.model.grid(Batch(source.src.expand(many, -1), lens[0], tgt, lens[1], features))
        for b, output in enumerate(outputs):
            paths = enumerate_pair(grid.log_word[b].numpy(), grid.log_emit[b].numpy(), grid.log_shift[b].numpy(), end)
            best = int(np.argmax(paths.log_scores))
            total = paths.log_total if merge == "sum" else float(paths.log_scores[best])
            found.append((output, total, paths.alignments[best], float(paths.log_scores[best])))
    return sorted(found, key=lambda entry: -entry[1])


def wide(longest: int, **others) -> SearchOptions:
    return SearchOptions(beam=EVERYTHING, max_length=longest, **others)


def pushed(stream: Stream, symbols: list[int], sizes: list[int]):
    """Pushes symbols in chunks, and returns what was committed, its delays and all updates."""
    updates, left = [], list(symbols)
    for size in sizes:
        updates.append(stream.push(left[:size]))
        left = left[size:]
    updates.append(stream.push(left))
    committed = [symbol for update in updates for symbol in update.committed]
    return committed, [delay for update in updates for delay in update.delays], updates


@pytest.mark.parametrize("end", ["any", "last"])
@pytest.mark.parametrize("merge", ["sum", "max"])
@pytest.mark.parametrize("name", ["uniSSNT", "uniSSNT+"])
def test_a_wide_beam_finds_what_enumeration_finds(name, merge, end):
    for seed, src_len in ((1, 1), (2, 2), (3, 3), (4, 4)):
        scorer, source = make_scorer(seed, name=name), make_sources(seed, (src_len,))
        expected = enumerate_outputs(scorer, source, 3, end, merge)
        options = wide(3, end=end, nbest=60)
        found = online_search(scorer, source, options, merge=merge, max_emissions=3)[0]
        assert len(found) == 60
        for hypothesis, (symbols, log_prob, positions, log_path) in zip(found, expected, strict=False):
            assert hypothesis.symbols == symbols
            assert hypothesis.log_prob == pytest.approx(log_prob, abs=1e-10)
            assert hypothesis.alignment.positions == positions
            assert hypothesis.alignment.log_prob == pytest.approx(log_path, abs=1e-10)
            assert hypothesis.delays == tuple(position + 1 for position in positions)
            assert hypothesis.is_complete


@pytest.mark.parametrize("end", ["any", "last"])
def test_longer_outputs_of_a_smaller_vocabulary(end):
    scorer, source = make_scorer(11, vocab=4), make_sources(5, (4,))
    expected = enumerate_outputs(scorer, source, 4, end)
    found = online_search(scorer, source, wide(4, end=end, nbest=100))[0]
    assert [h.symbols for h in found] == [symbols for symbols, *_ in expected[:100]]
    np.testing.assert_allclose([h.log_prob for h in found], [entry[1] for entry in expected[:100]], atol=1e-10)


def test_best_path_and_best_output_may_differ():
    differences, options = 0, SearchOptions(beam=30, max_length=2, end="last")
    for seed in range(8):
        scorer, source = make_scorer(seed), make_sources(seed, (4,))
        best = [online_search(scorer, source, options, merge=merge)[0][0] for merge in ("sum", "max")]
        assert best[1].log_prob <= best[0].log_prob + 1e-12
        differences += best[0].symbols != best[1].symbols
    assert differences


def test_bounded_emissions_leave_out_only_denser_paths():
    scorer, source = make_scorer(6), make_sources(1, (3,))
    found = online_search(scorer, source, wide(3, end="any", nbest=EVERYTHING), max_emissions=1)[0]
    assert len(found) == 1 + 4 + 16 + 64
    grids = {symbols: None for symbols, *_ in enumerate_outputs(scorer, source, 3, "any")}
    for hypothesis in found:
        assert hypothesis.symbols in grids
        tgt = torch.tensor([[*hypothesis.symbols, EOS_ID]])
        with torch.no_grad():
            grid = scorer.model.grid(replace(source, tgt=tgt, tgt_lens=torch.tensor([tgt.shape[1]])))
        paths = enumerate_pair(*(g[0].numpy() for g in (grid.log_word, grid.log_emit, grid.log_shift)), "any")
        allowed = [
            score
            for positions, score in zip(paths.alignments, paths.log_scores, strict=True)
            if len(set(positions[:-1])) == len(positions) - 1  # the end symbol does not count
        ]
        assert hypothesis.log_prob == pytest.approx(float(np.logaddexp.reduce(allowed)), abs=1e-10)


@pytest.mark.parametrize("end", ["any", "last"])
@pytest.mark.parametrize("beam", [1, 3, 8])
def test_a_batch_gives_what_single_sources_give(beam, end):
    tags = torch.tensor([[1, 2], [3, 0], [2, 0], [0, 0], [1, 3]])
    scorer = make_scorer(7, feature_vocab_size=4, feature_size=2)
    batch = make_sources(3, (4, 1, 6, 4, 2), tags)
    options = SearchOptions(beam=beam, nbest=beam, max_length=9, end=end)
    together = online_search(scorer, batch, options)
    for b, hypotheses in enumerate(together):
        alone = online_search(scorer, one(batch, b), options)[0]
        assert [h.symbols for h in hypotheses] == [h.symbols for h in alone]
        assert [h.delays for h in hypotheses] == [h.delays for h in alone]
        np.testing.assert_allclose([h.log_prob for h in hypotheses], [h.log_prob for h in alone], atol=1e-10)


def test_a_narrow_beam_never_overstates():
    for seed in range(10):
        scorer, source = make_scorer(seed), make_sources(seed, (4,))
        exact = {symbols: total for symbols, total, *_ in enumerate_outputs(scorer, source, 3, "any")}
        for beam in (1, 2, 5, 20):
            for hypothesis in online_search(scorer, source, SearchOptions(beam=beam, nbest=beam, max_length=3))[0]:
                assert hypothesis.log_prob <= exact[hypothesis.symbols] + 1e-10
                assert hypothesis.alignment.log_prob <= hypothesis.log_prob + 1e-10


@pytest.mark.parametrize("end", ["any", "last"])
def test_prefix_banned_and_length_limits(end):
    scorer, source = make_scorer(8), make_sources(2, (3,))
    everything = enumerate_outputs(scorer, source, 3, end)
    expected = [entry for entry in everything if entry[0][:2] == (4, 0)]
    found = online_search(scorer, source, wide(3, end=end, prefix=(4, 0), nbest=50))[0]
    assert [h.symbols for h in found] == [symbols for symbols, *_ in expected]
    np.testing.assert_allclose([h.log_prob for h in found], [entry[1] for entry in expected], atol=1e-10)
    expected = [entry for entry in everything if not {0, 3} & set(entry[0])]
    found = online_search(scorer, source, wide(3, end=end, banned=(0, 3), nbest=50))[0]
    assert [h.symbols for h in found] == [symbols for symbols, *_ in expected]
    found = online_search(scorer, source, wide(0, end=end))[0]
    assert [h.symbols for h in found] == [()]
    with pytest.raises(ConfigError, match=r"banned: expected symbols from 0 to 4, got \[9\]"):
        online_search(scorer, source, SearchOptions(banned=(9,)))


def test_an_output_that_cannot_end_is_not_complete():
    scorer, source = make_scorer(9), make_sources(2, (2,))
    found = online_search(scorer, source, SearchOptions(prefix=(3, 4, 3, 4, 3)), max_emissions=1)[0]
    assert [h.is_complete for h in found] == [False]
    assert found[0].symbols in ((), (3,))  # what was written before the last input
    assert len(found[0].delays) == len(found[0].symbols)


def test_thresholds_and_normalisation():
    scorer, source = make_scorer(10), make_sources(4, (4,))
    every = enumerate_outputs(scorer, source, 3, "any")
    found = online_search(scorer, source, wide(3, nbest=80, min_log_prob=every[3][1] - 1e-9))[0]
    assert 1 <= len(found) <= 4
    assert found[0].symbols == every[0][0]
    assert online_search(scorer, source, wide(3, min_log_prob=-1e-9))[0] == []
    loose = online_search(scorer, source, wide(3, nbest=5, beam_threshold=30.0))[0]
    assert [h.symbols for h in loose] == [symbols for symbols, *_ in every[:5]]
    tight = online_search(scorer, source, wide(3, nbest=5, beam_threshold=1.0))[0]
    assert tight[0].log_prob <= every[0][1] + 1e-10
    normalised = online_search(scorer, source, wide(3, nbest=50, length_normalisation=1.0))[0]
    scores = [h.log_prob / (len(h.symbols) + 1) for h in normalised]
    assert [h.score for h in normalised] == pytest.approx(scores)
    assert scores == sorted(scores, reverse=True)


# Streams


OPTIONS = st.builds(
    StreamOptions,
    beam=st.integers(1, 5),
    merge=st.sampled_from(["sum", "max"]),
    max_emissions=st.integers(1, 3),
    end=st.sampled_from(["any", "last"]),
    max_delay=st.none() | st.integers(0, 4),
    max_tail=st.sampled_from([1, 2, 5, 1000]),
    beam_threshold=st.sampled_from([math.inf, 2.0]),
)
POLICIES = st.builds(
    StreamOptions, beam=st.just(1), end=st.sampled_from(["any", "last"]), emit_threshold=st.floats(0.05, 1.0)
)
INPUTS = st.lists(st.sampled_from([0, 1, 3, 4, 5, 6]), max_size=14)


@settings(max_examples=60)
@given(st.integers(0, 50), st.sampled_from([1.0, 3.0, 8.0]), OPTIONS | POLICIES, INPUTS, st.data())
def test_what_a_stream_promises(seed, sharpness, options, symbols, data):
    scorer = make_scorer(seed, sharpness=sharpness)
    whole = Stream(scorer, options)
    committed, delays, updates = pushed(whole, symbols, [1] * len(symbols))
    # committed output only grows, within its bounds, and the tentative tail is what follows it
    for read, update in enumerate(updates[:-1], start=1):
        assert update.read == read
        assert len(update.delays) == len(update.committed)
        assert all(delay == read for delay in update.delays)
        assert all(written <= read for written in update.written)
        assert len(update.tentative) <= options.max_tail
    assert delays == sorted(delays)
    result = whole.finish()
    nbest = [h.symbols for h in whole.nbest]
    assert len(set(nbest)) == len(nbest) <= options.beam
    # chunks make no difference, nor does saving and restoring between them
    sizes = data.draw(st.lists(st.integers(0, 5), max_size=6))
    other = Stream(scorer, options)
    again, again_delays, last = pushed(other, symbols, sizes)
    assert (again, again_delays, last[-1].tentative) == (committed, delays, updates[-1].tentative)
    assert last[-1].read == len(symbols)
    at = data.draw(st.integers(0, len(symbols)))
    first = Stream(scorer, options)
    before = [s for symbol in symbols[:at] for s in first.push(symbol).committed]
    file = io.BytesIO()
    torch.save(first.state_dict(), file)
    file.seek(0)
    second = Stream(scorer, options)
    second.load_state_dict(torch.load(file, weights_only=True))
    after = second.push(symbols[at:])
    assert [*before, *after.committed] == committed
    for stream in (other, second):
        assert stream.finish() == result
        assert [h.symbols for h in stream.nbest] == nbest


@settings(max_examples=30)
@given(st.integers(0, 50), OPTIONS | POLICIES, st.lists(INPUTS, min_size=1, max_size=5))
def test_streams_stepped_together_are_independent(seed, options, inputs):
    scorer, chance = make_scorer(seed), random.Random(seed)
    batch = open_streams(scorer, len(inputs), options)
    committed = [[] for _ in inputs]
    left, results = [list(symbols) for symbols in inputs], {}
    while len(results) < len(inputs):
        for stream, symbols in enumerate(left):
            if not symbols and stream not in results and chance.random() < 0.5:
                results[stream] = batch.finish([stream])[0]
        symbols = [rest.pop(0) if rest and chance.random() < 0.5 else None for rest in left]
        for seen, update in zip(committed, batch.push(symbols), strict=True):
            seen.extend(update.committed)
    for index, symbols in enumerate(inputs):
        alone = Stream(scorer, options)
        assert list(alone.push(symbols).committed) == committed[index]
        alone.finish()
        assert [h.symbols for h in results[index]] == [h.symbols for h in alone.nbest]
        assert [h.delays for h in results[index]] == [h.delays for h in alone.nbest]
        scores = [h.log_prob for h in alone.nbest]
        np.testing.assert_allclose([h.log_prob for h in results[index]], scores, atol=1e-9)


@settings(max_examples=30)
@given(st.integers(0, 50), st.integers(1, 6), st.sampled_from(["any", "last"]), INPUTS)
def test_agreement_loses_nothing(seed, beam, end, symbols):
    # what is committed by agreement is what the search of the whole source would have written
    scorer = make_scorer(seed)
    stream = Stream(scorer, StreamOptions(beam=beam, end=end))
    committed = stream.push(symbols).committed
    result = stream.finish()
    src = torch.tensor([[*symbols, EOS_ID]])
    batch = replace(make_sources(0, (1,)), src=src, src_lens=torch.tensor([src.shape[1]]))
    expected = online_search(
        scorer, batch, SearchOptions(beam=beam, nbest=beam, end=end, max_length=10**6, max_length_ratio=math.inf)
    )[0]
    assert (*committed, *result.symbols) == expected[0].symbols
    assert [(*committed, *h.symbols) for h in stream.nbest] == [h.symbols for h in expected]
    np.testing.assert_allclose([h.log_prob for h in stream.nbest], [h.log_prob for h in expected], atol=1e-9)


@pytest.mark.parametrize("max_delay", [0, 2, 5])
def test_a_delay_bound_is_kept(max_delay):
    held_back = 0
    for seed in range(8):
        scorer = make_scorer(seed, sharpness=1.5)
        stream = Stream(scorer, StreamOptions(beam=6, max_emissions=2, max_delay=max_delay))
        symbols = make_sources(seed, (40,)).src[0, :-1].tolist()
        for symbol in symbols:
            update = stream.push(symbol)
            held_back = max(held_back, len(update.tentative))
            assert len(update.tentative) <= 2 * max_delay  # max_emissions for each input that may be waited for
            if max_delay == 0:
                assert update.tentative == ()
    assert held_back or not max_delay


def test_without_a_bound_the_same_models_wait_longer():
    waits = []
    for max_delay in (None, 2):
        stream = Stream(make_scorer(3, sharpness=1.0), StreamOptions(beam=6, max_emissions=2, max_delay=max_delay))
        updates = [stream.push(symbol) for symbol in make_sources(1, (60,)).src[0, :-1].tolist()]
        waits.append(max(len(update.tentative) for update in updates))
    assert waits[0] > waits[1]


def test_the_tail_is_bounded():
    stream = Stream(make_scorer(3, sharpness=0.5), StreamOptions(beam=6, max_emissions=2, max_tail=3))
    for symbol in make_sources(1, (60,)).src[0, :-1].tolist():
        assert len(stream.push(symbol).tentative) <= 3
    assert max(stream.state_dict()["prefixes"]["lens"].flatten()) <= 3


@pytest.mark.parametrize("end", ["any", "last"])
def test_the_threshold_policy_writes_while_emitting_is_likely(end):
    ended = 0
    for seed in range(12):
        scorer, threshold = make_scorer(seed), 0.5
        symbols = make_sources(seed, (9,)).src[0].tolist()
        stream = Stream(scorer, StreamOptions(beam=1, end=end, emit_threshold=threshold, max_emissions=3))
        written, log_prob, is_over = [], 0.0, False
        with torch.no_grad():
            states = scorer.model.encoder(torch.tensor([symbols]), torch.tensor([len(symbols)]))[0]
        for i, symbol in enumerate(symbols):
            is_last = i == len(symbols) - 1
            expected = []
            for count in itertools.count():
                with torch.no_grad():
                    state = scorer.model.decoder(torch.tensor([[*written, EOS_ID]]))[0, -1]
                    emit = scorer.model.transition.log_probs(states[i], state)
                    logits = (
                        torch.cat([states[i], state])
                        @ torch.cat([scorer.model.word.src_weight, scorer.model.word.tgt_weight], dim=1).T
                        + scorer.model.word.bias
                    )
                chances = logits.log_softmax(0)
                if not is_last and end == "last":
                    chances[EOS_ID] = -math.inf
                choice = int(chances.argmax())
                writes = is_last or float(emit.log_emit.exp()) >= threshold
                if is_over or not writes or (count == 3 and choice != EOS_ID):
                    break
                log_prob += float(emit.log_emit + chances[choice])
                if choice == EOS_ID:
                    is_over = True
                    break
                written.append(choice)
                expected.append(choice)
            if is_last:
                result = stream.finish()
                assert result.symbols == tuple(expected)
                assert result.is_complete == is_over
                assert result.log_prob == pytest.approx(log_prob)
            else:
                if not is_over:
                    log_prob += float(emit.log_shift)
                update = stream.push(symbol)
                assert update.committed == tuple(expected)
                assert update.delays == (i + 1,) * len(expected)
                assert update.tentative == ()
        ended += is_over
    assert ended


def test_long_streams_keep_their_state_small():
    stream = Stream(make_scorer(5), StreamOptions(beam=4, max_emissions=2, max_tail=20))
    symbols = make_sources(5, (400,)).src[0, :-1].tolist()
    sizes = []
    for symbol in symbols:
        stream.push(symbol)
        state = stream.state_dict()
        tensors = [*state["prefixes"].values(), *state["decoder"], *state["hearing"]]
        sizes.append(sum(tensor.numel() for tensor in tensors))
    assert max(sizes[200:]) <= max(sizes[:200])


def test_single_precision_survives_improbable_inputs():
    torch.manual_seed(0)
    scorer = make_scorer(4)
    scorer.model.float()
    stream = Stream(scorer, StreamOptions(beam=4, max_emissions=2))
    for symbol in make_sources(4, (300,)).src[0, :-1].tolist():
        stream.push(symbol)
    result = stream.finish()
    assert -math.inf < result.log_prob < -100.0


def test_a_bidirectional_model_refuses():
    scorer = make_scorer(1, name="biSSNT+")
    with pytest.raises(ModelError, match="train a unidirectional model"):
        open_streams(scorer)
    with pytest.raises(ModelError, match="train a unidirectional model"):
        online_search(scorer, make_sources(1, (3,)))


def test_bad_input_is_refused_and_changes_nothing():
    scorer = make_scorer(2)
    stream, other = Stream(scorer), Stream(scorer)
    stream.push([3, 4])
    for symbols, message in (
        ([5, SRC_VOCAB], "expected symbols from 0 to 6"),
        ([5, -1], "at least 0, got -1"),
        ([5, EOS_ID], r"call finish\(\)"),
        (["a"], "an integer, got 'a'"),
        ([1.5], "an integer, got 1.5"),
    ):
        with pytest.raises(DataError, match=message):
            stream.push(symbols)
    other.push([3, 4])
    assert stream.push([]) == other.push([])
    assert stream.push([]).read == 2
    assert stream.push(5) == other.push(5)
    assert stream.finish() == other.finish()
    for action in (lambda: stream.push(3), stream.finish, lambda: stream.push([3])):
        with pytest.raises(ModelError, match="stream 0 is finished"):
            action()


def test_an_empty_input_has_an_output():
    scorer = make_scorer(2)
    stream = Stream(scorer, StreamOptions(end="any"))
    expected = online_search(scorer, make_sources(0, (1,)))[0][0]
    assert stream.finish().symbols == expected.symbols


def test_batches_check_what_they_are_given():
    scorer = make_scorer(2)
    batch = open_streams(scorer, 3)
    with pytest.raises(DataError, match="one for each of 3 streams, got 2"):
        batch.push([3, 4])
    assert [update.read for update in batch.push([3, None, 4])] == [1, 0, 1]
    assert len(batch.finish([1])) == 1
    with pytest.raises(ModelError, match="stream 1 is finished"):
        batch.push([3, 3, 3])
    with pytest.raises(DataError, match="different indices below 3"):
        batch.finish([0, 3])
    with pytest.raises(DataError, match="different indices below 3"):
        batch.finish([0, 0])
    assert [update.read for update in batch.push([3, None, None])] == [2, 1, 1]
    assert len(batch.finish()) == 2
    assert batch.finish() == []
    with pytest.raises(ConfigError, match="count must be at least 1"):
        open_streams(scorer, 0)
    with pytest.raises(ConfigError, match=r"banned: expected symbols from 0 to 4, got \[5\]"):
        open_streams(scorer, 1, StreamOptions(banned=(5,)))
    with pytest.raises(ModelError, match="features: expected None"):
        open_streams(scorer, 1, features=torch.tensor([[1]]))
    with pytest.raises(ModelError, match="features: expected tags"):
        open_streams(make_scorer(1, feature_vocab_size=4, feature_size=2), 1)


def test_a_saved_state_fits_its_own_kind_only():
    scorer = make_scorer(2)
    saved = Stream(scorer, StreamOptions(beam=4)).state_dict()
    with pytest.raises(ModelError, match="decoder, hearing missing"):
        Stream(scorer).load_state_dict({name: saved[name] for name in ("options", "is_finished", "prefixes")})
    with pytest.raises(ConfigError, match="other options: beam"):
        Stream(scorer, StreamOptions(beam=5)).load_state_dict(saved)
    with pytest.raises(ModelError, match=r"do not fit|the state is that of"):
        open_streams(scorer, 2, StreamOptions(beam=4)).load_state_dict(saved)
    with pytest.raises(ModelError, match=r"do not fit|the state is that of"):
        Stream(make_scorer(2, hidden_size=6), StreamOptions(beam=4)).load_state_dict(saved)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"beam": 0}, "beam must be a whole number of at least 1, got 0"),
        ({"max_emissions": 0}, "max_emissions must be"),
        ({"max_delay": -1}, "max_delay must be"),
        ({"max_tail": 0}, "max_tail must be"),
        ({"merge": "mean"}, "merge must be one of 'sum', 'max', got 'mean'"),
        ({"end": "first"}, "end must be one of"),
        ({"beam_threshold": -1.0}, "beam_threshold must be at least 0"),
        ({"min_log_prob": 1.0}, "min_log_prob must be at most 0"),
        ({"banned": (EOS_ID,)}, "banned must not hold the end symbol"),
        ({"beam": 1, "emit_threshold": 0.0}, "emit_threshold must be above 0"),
        ({"beam": 2, "emit_threshold": 0.5}, "set beam=1, got 2"),
    ],
)
def test_options_are_checked(setting, message):
    with pytest.raises(ConfigError, match=message):
        StreamOptions(**setting)


def test_search_arguments_are_checked():
    scorer, source = make_scorer(1), make_sources(1, (2,))
    with pytest.raises(ConfigError, match="merge must be"):
        online_search(scorer, source, merge="mean")
    with pytest.raises(ConfigError, match="max_emissions must be"):
        online_search(scorer, source, max_emissions=0)
