"""Path search against full enumeration, and against the paper's algorithm written out slowly."""

import itertools
import math
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from torch import Tensor

from ssnt.config import VARIANTS, ModelConfig
from ssnt.decode import ModelScorer, SearchOptions
from ssnt.decode.path import path_search
from ssnt.decode.path_choice import Limits, choose
from ssnt.decode.scorer import TopWords, top_words
from ssnt.errors import ConfigError
from ssnt.nn import SSNT
from ssnt.types import BOS_ID, EOS_ID, PAD_ID, UNK_ID, Batch, Hypothesis

from oracles import enumerate_pair

SRC_VOCAB = 9
ENDS = ("any", "last")
WIDE = 400  # more than all prefixes of the lengths that are enumerated


def make_model(
    name: str,
    *,
    vocab_size: int = 5,
    seed: int = 0,
    scale: float = 2.0,
    size: int = 5,
    length: int = 3,
    strength: float = 6.0,
) -> SSNT:
    """A random model in float64, with weights large enough to have opinions.

    It leans towards some output of `length` symbols: the best output of a model that is merely random is the empty one.
    """
    torch.manual_seed(seed)
    config = ModelConfig.variant(
        name, src_vocab_size=SRC_VOCAB, tgt_vocab_size=vocab_size, embed_size=size, hidden_size=size
    )
    model = SSNT(config).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(scale)
        leaning = torch.randint(UNK_ID, vocab_size, (length + 1,))
        leaning[-1] = EOS_ID
        states = model.decoder(leaning[None])[0]  # (J, H)
        wish = strength * torch.nn.functional.one_hot(leaning, vocab_size).double()  # (J, V)
        # By ridge regression, as weights that fit exactly can be so large that paths tie but for rounding.
        ridge = states.T @ states + 0.05 * torch.eye(size)
        model.word.tgt_weight += torch.linalg.solve(ridge, states.T @ wish).T
    if not name.endswith("+"):
        model.estimate_transition([4, 2], [3, 4])
    return model


def make_batch(*src_lens: int, seed: int = 0) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    src = torch.full((len(src_lens), max(src_lens)), PAD_ID)
    for row, length in zip(src, src_lens, strict=True):
        row[: length - 1] = torch.randint(UNK_ID + 1, SRC_VOCAB, (length - 1,), generator=generator)
        row[length - 1] = EOS_ID
    ends = torch.full((len(src_lens), 1), EOS_ID)
    return Batch(src, torch.tensor(src_lens), ends, torch.ones(len(src_lens), dtype=torch.int64))


def take_one(batch: Batch, b: int) -> Batch:
    i = int(batch.src_lens[b])
    return Batch(batch.src[b : b + 1, :i], batch.src_lens[b : b + 1], batch.tgt[b : b + 1], batch.tgt_lens[b : b + 1])


def search(model: SSNT, batch: Batch, **settings: Any) -> list[list[Hypothesis]]:
    return path_search(ModelScorer(model), batch, SearchOptions(**settings))


def grids(model: SSNT, batch: Batch, targets: list[tuple[int, ...]]) -> Any:
    """The lattices of a single source with targets of one length, as arrays (N, J, I)."""
    count = len(targets)
    tgt = torch.tensor(targets)
    lens = torch.full((count,), tgt.shape[1])
    with torch.no_grad():
        grid = model.grid(Batch(batch.src.expand(count, -1), batch.src_lens.expand(count), tgt, lens))
    return grid.log_word.numpy(), grid.log_emit.numpy(), grid.log_shift.numpy()


@dataclass(frozen=True)
class Found:
    """One output with its best path."""

    symbols: tuple[int, ...]
    positions: tuple[int, ...]
    log_prob: float

    def score(self, normalisation: float) -> float:
        return self.log_prob / len(self.positions) ** normalisation


def enumerate_outputs(model: SSNT, batch: Batch, longest: int, end: str) -> list[Found]:
    """The best path of every output of up to `longest` symbols, best first."""
    others = [v for v in range(model.config.tgt_vocab_size) if v != EOS_ID]
    found = []
    for length in range(longest + 1):
        outputs = list(itertools.product(others, repeat=length))
        log_word, log_emit, log_shift = grids(model, batch, [(*output, EOS_ID) for output in outputs])
        for n, output in enumerate(outputs):
            paths = enumerate_pair(log_word[n], log_emit[n], log_shift[n], end)
            best = int(paths.log_scores.argmax())
            found.append(Found(output, paths.alignments[best], float(paths.log_scores[best])))
    return sorted(found, key=lambda f: -f.log_prob)


def algorithm_1(
    model: SSNT,
    batch: Batch,
    longest: int,
    end: str = "any",
    beam: int = 1,
    banned: tuple[int, ...] = (),
    threshold: float = math.inf,
) -> list[Found]:
    """The paper's Algorithm 1 for one source, cell by cell; all outputs that end, best first, without stopping early.

    A cell keeps a beam of prefixes rather than one, and the end symbol takes no place in it.
    """
    vocab, src_len = range(model.config.tgt_vocab_size), int(batch.src_lens[0])
    column = {0: [Found((), (), 0.0)]}  # position -> the hypotheses in that cell
    ended: dict[tuple[int, ...], Found] = {}
    for j in range(longest + 1):
        candidates: dict[int, dict[tuple[int, ...], Found]] = {i: {} for i in range(src_len)}
        for k, hypotheses in column.items():
            for before in hypotheses:
                log_word, log_emit, log_shift = grids(model, batch, [(*before.symbols, y) for y in vocab])
                for i, y in itertools.product(range(k, src_len), vocab):
                    log_prob = before.log_prob + sum(log_shift[0, j, k:i]) + log_emit[0, j, i] + log_word[y, j, i]
                    symbols, positions = (*before.symbols, y), (*before.positions, i)
                    table = candidates[i]
                    if y == EOS_ID:
                        if end == "last" and i != src_len - 1:
                            continue
                        symbols, table = before.symbols, ended
                    elif y in banned:
                        continue
                    if symbols not in table or table[symbols].log_prob < log_prob:
                        table[symbols] = Found(symbols, positions, float(log_prob))
        column = {i: sorted(cell.values(), key=lambda f: -f.log_prob)[:beam] for i, cell in candidates.items()}
        best = max((f.log_prob for cell in column.values() for f in cell), default=-math.inf)
        column = {i: [f for f in cell if f.log_prob >= best - threshold] for i, cell in column.items()}
    return sorted(ended.values(), key=lambda f: -f.log_prob)


def assert_same(hypotheses: list[Hypothesis], expected: list[Found]) -> None:
    assert [h.symbols for h in hypotheses] == [f.symbols for f in expected]
    assert [h.alignment.positions for h in hypotheses] == [f.positions for f in expected]
    assert [h.log_prob for h in hypotheses] == pytest.approx([f.log_prob for f in expected], rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize(("vocab_size", "src_len", "longest"), [(4, 4, 4), (5, 3, 3), (5, 1, 2)])
def test_wide_beam_equals_enumeration(name, end, vocab_size, src_len, longest):
    model = make_model(name, vocab_size=vocab_size, seed=src_len)
    batch = make_batch(src_len)
    expected = enumerate_outputs(model, batch, longest, end)
    nbest = len(expected)
    (everything,) = search(model, batch, beam=WIDE, nbest=nbest, max_length=longest, end=end)
    assert_same(everything, expected)
    (few,) = search(model, batch, beam=WIDE, nbest=5, max_length=longest, end=end)
    assert_same(few, expected[:5])
    (one,) = search(model, batch, beam=WIDE, max_length=longest, end=end)
    assert_same(one, expected[:1])


def test_hypothesis_holds_all_that_it_should():
    model, batch = make_model("biSSNT+"), make_batch(4)
    for hypothesis in search(model, batch, beam=4, nbest=4, max_length=4)[0]:
        positions = hypothesis.alignment.positions
        assert hypothesis.is_complete
        assert len(positions) == len(hypothesis.symbols) + 1
        assert hypothesis.delays == tuple(p + 1 for p in positions)
        assert hypothesis.alignment.log_prob == hypothesis.log_prob == hypothesis.score
        assert hypothesis.emit is None
        log_word, log_emit, log_shift = grids(model, batch, [(*hypothesis.symbols, EOS_ID)])
        paths = enumerate_pair(log_word[0], log_emit[0], log_shift[0], "any")
        log_score = paths.log_scores[paths.alignments.index(positions)]
        assert hypothesis.log_prob == pytest.approx(log_score, abs=1e-9)


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("beam", [1, 3])
def test_narrow_beam_equals_the_algorithm_written_out(name, end, beam):
    for seed in range(3):
        model, batch = make_model(name, seed=seed), make_batch(4, seed=seed)
        expected = algorithm_1(model, batch, 5, end, beam)[:beam]
        assert_same(search(model, batch, beam=beam, nbest=beam, max_length=5, end=end)[0], expected)


def test_narrow_beams_do_miss_something():
    """Otherwise the test above would say little."""
    missed = 0
    for name, seed in itertools.product(VARIANTS, range(6)):
        model, batch = make_model(name, seed=seed), make_batch(4, seed=seed)
        greedy = search(model, batch, beam=1, max_length=4)[0][0]
        wide = search(model, batch, beam=WIDE, max_length=4)[0][0]
        assert greedy.log_prob <= wide.log_prob + 1e-12
        missed += greedy.log_prob < wide.log_prob - 1e-6
    assert missed > 0


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("settings", [{"beam": 1}, {"beam": 4, "nbest": 4, "end": "last", "length_normalisation": 0.8}])
def test_batched_equals_one_at_a_time(name, settings):
    model, batch = make_model(name, vocab_size=12), make_batch(5, 1, 9, 2, 7, 9)
    settings |= {"max_length_ratio": 1.5, "max_length_margin": 1}  # the items stop at different lengths
    together = search(model, batch, **settings)
    for b, hypotheses in enumerate(together):
        (alone,) = search(model, take_one(batch, b), **settings)
        assert [h.symbols for h in hypotheses] == [h.symbols for h in alone]
        assert [h.delays for h in hypotheses] == [h.delays for h in alone]
        assert [h.is_complete for h in hypotheses] == [h.is_complete for h in alone]
        assert [h.score for h in hypotheses] == pytest.approx([h.score for h in alone], rel=1e-9)


def test_padding_is_never_read():
    batch = make_batch(3, 6)
    model = make_model("uniSSNT+")
    before = search(model, batch, beam=3, nbest=3, max_length=6)
    dirty = batch.src.clone()
    dirty[0, 3:] = 7
    after = search(model, replace(batch, src=dirty), beam=3, nbest=3, max_length=6)
    assert before == after


def test_banned_symbols_do_not_appear():
    model, batch = make_model("biSSNT+"), make_batch(3)
    expected = enumerate_outputs(model, batch, 3, "any")
    banned = (expected[0].symbols or expected[1].symbols)[0], BOS_ID
    allowed = [f for f in expected if not set(f.symbols) & set(banned)]
    (hypotheses,) = search(model, batch, beam=WIDE, nbest=6, max_length=3, banned=banned)
    assert_same(hypotheses, allowed[:6])
    (greedy,) = search(model, batch, beam=1, max_length=3, banned=banned)
    assert_same(greedy, algorithm_1(model, batch, 3, banned=banned)[:1])


@pytest.mark.parametrize("end", ENDS)
def test_output_begins_with_the_prefix(end):
    model, batch = make_model("uniSSNT+", vocab_size=4), make_batch(3)
    expected = enumerate_outputs(model, batch, 4, end)
    for prefix in ((UNK_ID,), (BOS_ID, BOS_ID), (UNK_ID, PAD_ID, UNK_ID, BOS_ID)):
        matching = [f for f in expected if f.symbols[: len(prefix)] == prefix]
        (hypotheses,) = search(model, batch, beam=WIDE, nbest=5, max_length=4, prefix=prefix, end=end)
        assert_same(hypotheses, matching[:5])


@pytest.mark.parametrize("normalisation", [0.5, 1.0, 2.0])
def test_length_normalisation_ranks_as_enumeration(normalisation):
    for seed in range(3):
        model, batch = make_model("biSSNT+", vocab_size=4, seed=seed), make_batch(3)
        expected = sorted(enumerate_outputs(model, batch, 4, "any"), key=lambda f: -f.score(normalisation))[:4]
        options = {"beam": WIDE, "nbest": 4, "max_length": 4, "length_normalisation": normalisation}
        (hypotheses,) = search(model, batch, **options)
        assert_same(hypotheses, expected)
        assert [h.score for h in hypotheses] == pytest.approx([f.score(normalisation) for f in expected])


def test_beam_threshold_drops_what_is_far_behind():
    for seed, threshold in itertools.product(range(3), (0.0, 0.7, 2.0)):
        model, batch = make_model("biSSNT+", seed=seed), make_batch(4)
        expected = algorithm_1(model, batch, 4, beam=3, threshold=threshold)[:3]
        assert_same(search(model, batch, beam=3, nbest=3, max_length=4, beam_threshold=threshold)[0], expected)


def test_minimum_probability_drops_the_improbable():
    model, batch = make_model("biSSNT+", vocab_size=4), make_batch(3)
    expected = enumerate_outputs(model, batch, 3, "any")
    least = (expected[3].log_prob + expected[4].log_prob) / 2
    (hypotheses,) = search(model, batch, beam=WIDE, nbest=10, max_length=3, min_log_prob=least)
    assert_same(hypotheses, expected[:4])


def never_ends(name: str = "uniSSNT+") -> SSNT:
    model = make_model(name)
    with torch.no_grad():
        model.word.bias[EOS_ID] = -math.inf
    return model


def test_unfinished_outputs_are_said_to_be():
    model, batch = never_ends(), make_batch(3, 2)
    for hypotheses, single in zip(
        search(model, batch, beam=WIDE, nbest=3, max_length=3), (take_one(batch, b) for b in range(2)), strict=True
    ):
        outputs = list(itertools.product([v for v in range(5) if v != EOS_ID], repeat=3))
        found = []
        for output, *grid in zip(outputs, *grids(model, single, outputs), strict=True):
            paths = enumerate_pair(*grid, "any")
            best = int(paths.log_scores.argmax())
            found.append(Found(output, paths.alignments[best], float(paths.log_scores[best])))
        assert_same(hypotheses, sorted(found, key=lambda f: -f.log_prob)[:3])
        assert not any(h.is_complete for h in hypotheses)
        assert all(len(h.delays) == len(h.symbols) == 3 for h in hypotheses)


def test_nothing_fits():
    for hypotheses in search(never_ends(), make_batch(3, 1), beam=2, nbest=2, max_length=0, length_normalisation=1.0):
        (hypothesis,) = hypotheses
        assert (hypothesis.symbols, hypothesis.delays, hypothesis.log_prob) == ((), (), 0.0)
        assert not hypothesis.is_complete
    ((hypothesis,),) = search(never_ends(), make_batch(3), min_log_prob=-1e-6)
    assert hypothesis.symbols == ()
    assert not hypothesis.is_complete


def test_one_symbol_may_be_all_there_is():
    """With everything else banned only the length of the output is free, and cells hold fewer than the beam."""
    model, batch = make_model("biSSNT+"), make_batch(3)
    (hypotheses,) = search(model, batch, beam=8, nbest=8, max_length=4, banned=(PAD_ID, BOS_ID, UNK_ID))
    assert sorted(h.symbols for h in hypotheses) == [(4,) * n for n in range(5)]


def test_symbols_outside_the_vocabulary_are_refused():
    model, batch = make_model("biSSNT+"), make_batch(3)
    with pytest.raises(ConfigError, match=r"banned: expected symbols from 0 to 4, got \[5\]"):
        search(model, batch, banned=(5,))
    with pytest.raises(ConfigError, match=r"prefix: expected symbols from 0 to 4, got \[-1\]"):
        search(model, batch, prefix=(4, -1))


class TableOfWords:
    """Word distributions that differ much in sharpness, so that lesser prefixes often have the best continuation."""

    def __init__(self, batch: int, count: int, src_size: int, vocab_size: int) -> None:
        sharpness = 10.0 * torch.rand(batch * count, src_size, 1).double()
        self.table = (sharpness * torch.randn(batch * count, src_size, vocab_size)).log_softmax(dim=2)  # (B * N, I, V)
        self.evaluated = 0

    def log_top(self, rows: Tensor, positions: Tensor, blocked: Tensor, count: int) -> TopWords:
        self.evaluated += len(rows)
        return top_words(self.table[rows, positions], blocked, count)


@pytest.mark.parametrize("threshold", [math.inf, 1.0])
@pytest.mark.parametrize("beam", [1, 2, 5])
def test_cells_find_their_best_continuations_among_all(beam, threshold):
    torch.manual_seed(beam)
    batch, count, src_size, vocab_size = 3, 20, 6, 7
    blocked = torch.arange(vocab_size) == EOS_ID
    for above in (-math.inf, -2.0):
        columns = TableOfWords(batch, count, src_size, vocab_size)
        log_writing = -3.0 * torch.rand(batch, count, src_size).double()
        log_writing[torch.rand(batch, count, src_size) < 0.2] = -math.inf
        limits = Limits(torch.full((batch,), above).double(), -4.0, threshold)
        chosen = choose(columns, log_writing, limits, blocked, beam)
        keep = limits.admit(chosen.log_probs, chosen.log_probs.amax(dim=(1, 2)))
        assert columns.evaluated < log_writing.numel()

        log_all = log_writing[..., None] + columns.table.view(batch, count, src_size, vocab_size)
        log_all[..., EOS_ID] = -math.inf
        for b, i in itertools.product(range(batch), range(src_size)):
            least = max(-4.0, float(log_all[b].max()) - threshold)
            flat = log_all[b, :, i].flatten().sort(descending=True)
            good = (flat.values > above) & (flat.values >= least)
            found = (chosen.prefixes * vocab_size + chosen.symbols)[b, i][keep[b, i]]
            assert found.tolist() == flat.indices[good][:beam].tolist()
            torch.testing.assert_close(chosen.log_probs[b, i][keep[b, i]], flat.values[good][:beam])


class CountingScorer(ModelScorer):
    """Counts word distributions, and checks that no prefix has two decoder states."""

    def __init__(self, model: SSNT) -> None:
        super().__init__(model)
        self.evaluated = 0
        self.possible = 0
        self.largest = 0

    def advance(self, source, state, rows, items, symbols):
        prefixes = set(zip(rows.tolist(), symbols.tolist(), strict=True))
        assert len(prefixes) == len(rows)
        return super().advance(source, state, rows, items, symbols)

    def columns(self, source, state):
        columns = super().columns(source, state)
        self.possible += columns.log_emit.numel()
        log_top = columns.log_top

        def count(rows, *others):
            self.evaluated += len(rows)
            self.largest = max(self.largest, len(rows))
            return log_top(rows, *others)

        columns.log_top = count
        return columns


@pytest.mark.parametrize("beam", [1, 4, 8])
def test_few_word_distributions_are_needed(beam):
    model = make_model("biSSNT+", vocab_size=300, size=16, scale=8.0)
    with torch.no_grad():
        model.word.bias[EOS_ID] -= 40.0  # so that the search goes on
    scorer = CountingScorer(model)
    path_search(scorer, make_batch(20), SearchOptions(beam=beam, max_length=20))
    assert scorer.possible > 3000
    assert 0 < scorer.evaluated < scorer.possible / 8


def test_word_distributions_come_in_bounded_pieces(monkeypatch):
    model, batch = make_model("biSSNT+", vocab_size=30), make_batch(6, 4)
    expected = search(model, batch, beam=3, nbest=3, max_length=8)
    monkeypatch.setattr("ssnt.decode.path_choice.MAX_WORD_SCORES", 100)
    scorer = CountingScorer(model)
    pieces = path_search(ModelScorer(model), batch, SearchOptions(beam=3, nbest=3, max_length=8))
    path_search(scorer, take_one(batch, 0), SearchOptions(beam=3, nbest=3, max_length=8))
    assert scorer.largest == 3
    assert [[h.symbols for h in row] for row in pieces] == [[h.symbols for h in row] for row in expected]


def test_no_gradients_are_kept():
    scorer = ModelScorer(make_model("biSSNT+"))
    assert torch.is_grad_enabled()
    path_search(scorer, make_batch(3), SearchOptions(max_length=3))
    assert torch.is_grad_enabled()
