"""What is special to the Numba backend: linear or log space, threads, sharing out."""

from __future__ import annotations

import os
import threading

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ssnt.dp import _numba_lattice
from ssnt.dp.compiled import shares
from ssnt.dp.numba_kernel import NumbaBackend
from ssnt.dp.scan import ScanBackend
from ssnt.types import Grid


def make_grid(rng, batch, tgt_size, src_size, *, word_scale=1.0, logit_scale=1.0, dtype=torch.float64) -> Grid:
    shape = (batch, tgt_size, src_size)
    word = -rng.exponential(size=shape) * word_scale
    logits = torch.tensor(rng.normal(size=shape) * logit_scale)
    emit, shift = torch.nn.functional.logsigmoid(logits), torch.nn.functional.logsigmoid(-logits)
    grids = (torch.tensor(word).to(dtype), emit.to(dtype), shift.to(dtype))
    lens = torch.full((batch,), src_size), torch.full((batch,), tgt_size)
    return Grid(*grids, *lens)


def assert_same(got, expected, rtol=1e-9):
    torch.testing.assert_close(got.nll, expected.nll, rtol=1e-12, atol=1e-9)
    torch.testing.assert_close(got.emit, expected.emit, rtol=rtol, atol=1e-12)
    torch.testing.assert_close(got.shift, expected.shift, rtol=rtol, atol=1e-12)


@pytest.mark.usefixtures("denormals")
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 2**32 - 1),
    src_size=st.integers(1, 40),
    tgt_size=st.integers(1, 25),
    word_scale=st.sampled_from([0.1, 1.0, 30.0, 300.0, 3000.0]),
    logit_scale=st.sampled_from([0.1, 3.0, 30.0, 700.0, 5000.0]),
    end=st.sampled_from(["any", "last"]),
)
def test_whichever_space_is_used_the_result_is_that_of_log_space(
    seed, src_size, tgt_size, word_scale, logit_scale, end
):
    rng = np.random.default_rng(seed)
    grid = make_grid(rng, 3, tgt_size, src_size, word_scale=word_scale, logit_scale=logit_scale)
    if seed % 2:
        for values in (grid.log_word, grid.log_shift):
            values[torch.tensor(rng.random(values.shape) < 0.2)] = -torch.inf
    got, _ = NumbaBackend().solve_and_tell(grid, end, want_posteriors=True)
    assert_same(got, ScanBackend().solve(grid, end, want_posteriors=True))
    brief, _ = NumbaBackend().solve_and_tell(grid, end, want_posteriors=False)
    torch.testing.assert_close(brief.nll, got.nll, rtol=1e-12, atol=1e-9)


def test_ordinary_lattices_stay_in_linear_space():
    rng = np.random.default_rng(1)
    for sizes in ((25, 50), (200, 400)):
        _, in_log = NumbaBackend().solve_and_tell(make_grid(rng, 4, *sizes), "any", want_posteriors=True)
        assert not in_log.any()


@pytest.mark.usefixtures("denormals")
def test_a_confident_model_stays_in_linear_space():
    # A trained model shifts or emits with near certainty; off the path the mass underflows, and that does not matter.
    tgt_size, src_size = 60, 90
    on_path = torch.full((1, tgt_size, src_size), -40.0, dtype=torch.float64)
    where = torch.div(torch.arange(tgt_size) * src_size, tgt_size, rounding_mode="floor")
    on_path[0, torch.arange(tgt_size), where] = 20.0
    log_word = torch.nn.functional.logsigmoid(on_path)
    log_emit, log_shift = torch.nn.functional.logsigmoid(on_path), torch.nn.functional.logsigmoid(-on_path)
    grid = Grid(log_word, log_emit, log_shift, torch.tensor([src_size]), torch.tensor([tgt_size]))
    got, in_log = NumbaBackend().solve_and_tell(grid, "any", want_posteriors=True)
    assert not in_log.any()
    assert_same(got, ScanBackend().solve(grid, "any", want_posteriors=True))


@pytest.mark.usefixtures("denormals")
def test_mass_that_underflows_and_matters_is_noticed():
    # Row 1 makes the first position e^800 times better than the last; row 2 allows only the last. The only path that
    # counts is one that linear space has lost.
    log_word = torch.tensor([[[0.0, -800.0, -800.0], [-torch.inf, -torch.inf, -1.0]]], dtype=torch.float64)
    log_emit = torch.full_like(log_word, -0.5)
    log_shift = torch.tensor([[[-1.0, -1.0, -1.0], [-2000.0, -1.0, -1.0]]], dtype=torch.float64)
    grid = Grid(log_word, log_emit, log_shift, torch.tensor([3]), torch.tensor([2]))
    got, in_log = NumbaBackend().solve_and_tell(grid, "any", want_posteriors=True)
    assert in_log.all()
    assert_same(got, ScanBackend().solve(grid, "any", want_posteriors=True))
    assert got.emit[0, 0, 1] > 0.3  # not the first position, which looked best


@pytest.mark.usefixtures("denormals")
@settings(max_examples=600, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32 - 1), end=st.sampled_from(["any", "last"]))
def test_values_at_the_edge_of_underflow(seed, end):
    rng = np.random.default_rng(seed)
    shape = (300, rng.integers(1, 6), rng.integers(1, 6))
    values = [0.0, -1.0, -300.0, -350.0, -600.0, -650.0, -700.0, -708.01, -709.0, -760.0, -1400.0, -np.inf]
    grids = [torch.tensor(rng.choice(values, size=shape)) for _ in range(3)]
    lens = torch.tensor(rng.integers(1, shape[2] + 1, size=300)), torch.tensor(rng.integers(1, shape[1] + 1, size=300))
    grid = Grid(*grids, *lens)
    expected = ScanBackend().solve(grid, end, want_posteriors=True)
    assert_same(NumbaBackend().solve(grid, end, want_posteriors=True), expected)
    brief = NumbaBackend().solve(grid, end, want_posteriors=False)
    torch.testing.assert_close(brief.nll, expected.nll, rtol=1e-12, atol=1e-9)


@pytest.mark.usefixtures("denormals")
def test_an_outflow_that_underflows_is_noticed_without_posteriors():
    # What row 1 writes at its last position underflows; a small shift keeps row 2 above zero there all the same.
    inf = torch.inf
    log_word = torch.tensor([[[-600.0, 0, -300], [-760, -inf, -350]]], dtype=torch.float64)
    log_shift = torch.tensor([[[-650.0, -1, -inf], [0, -650, -700]]], dtype=torch.float64)
    grid = Grid(log_word, torch.zeros_like(log_word), log_shift, torch.tensor([3]), torch.tensor([2]))
    for want_posteriors in (False, True):
        assert NumbaBackend().solve(grid, "any", want_posteriors).nll.item() == pytest.approx(1301.0)


@pytest.mark.usefixtures("denormals")
@pytest.mark.parametrize(("tgt_size", "src_size", "weight"), [(100, 151, 1.0), (60, 101, 1.0), (300, 451, 0.5)])
def test_lost_mass_that_grows_from_row_to_row_is_noticed(tgt_size, src_size, weight):
    # All but the first column is entered by a shift that linear space cannot hold and left by words that it cannot
    # hold; inside, the mass multiplies, and in the end it outweighs the column that was kept.
    log_word = torch.zeros(1, tgt_size, src_size, dtype=torch.float64)
    log_word[:, :, 0] = -1920.0 / (tgt_size - 1) * np.log(2)
    log_word[:, -1, 0] = 0.0
    log_word[:, -1, 1:] = -708.01
    log_emit = torch.full_like(log_word, np.log(weight))
    log_shift = log_emit.clone()
    log_shift[:, 1:, 0] = -torch.inf
    log_shift[:, 0, 0] = -708.01
    grid = Grid(log_word, log_emit, log_shift, torch.tensor([src_size]), torch.tensor([tgt_size]))
    assert_same(
        NumbaBackend().solve(grid, "any", want_posteriors=True), ScanBackend().solve(grid, "any", want_posteriors=True)
    )


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forking needs a system that can fork")
def test_a_forked_child_has_threads_of_its_own():
    grid = make_grid(np.random.default_rng(3), 40, 40, 50)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        expected = NumbaBackend().solve(grid, "any", want_posteriors=False).nll  # starts the pool
        child = os.fork()
        if child == 0:
            torch.set_num_threads(2)
            same = torch.equal(NumbaBackend().solve(grid, "any", want_posteriors=False).nll, expected)
            os._exit(0 if same else 1)
        assert os.waitpid(child, 0)[1] == 0
    finally:
        torch.set_num_threads(before)


def test_kernel_exponential_is_exact_to_two_ulp():
    xs = np.concatenate([-np.logspace(-300, np.log10(708), 20001), -np.linspace(0, 708, 100003)])
    got = np.array([_numba_lattice._exp(x) for x in xs[::37]] + [_numba_lattice._exp(-708.0)])
    expected = np.exp(np.append(xs[::37], -708.0))
    assert np.max(np.abs(got - expected) / expected) < 2 * 2**-52
    assert _numba_lattice._exp(-708.5) == 0.0
    assert _numba_lattice._exp(-np.inf) == 0.0
    assert _numba_lattice._exp(0.0) == 1.0


@pytest.mark.parametrize("workers", [1, 2, 3, 8])
def test_shares_cover_the_batch_once(workers):
    rng = np.random.default_rng(workers)
    for size in (1, 2, 7, 64):
        parts = shares(rng.integers(1, 1000, size=size), workers)
        covered = [b for first, stop in parts for b in range(first, stop)]
        assert covered == list(range(size))
        assert len(parts) <= workers


def test_threads_change_nothing():
    grid = make_grid(np.random.default_rng(2), 40, 40, 50)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        alone = NumbaBackend().solve(grid, "any", want_posteriors=True)
        torch.set_num_threads(3)
        shared = NumbaBackend().solve(grid, "any", want_posteriors=True)
    finally:
        torch.set_num_threads(before)
    assert torch.equal(alone.nll, shared.nll)
    assert torch.equal(alone.emit, shared.emit)
    assert torch.equal(alone.shift, shared.shift)


def test_callers_in_several_threads_do_not_disturb_each_other():
    grids = [make_grid(np.random.default_rng(seed), 30, 40, 50) for seed in range(4)]
    expected = [NumbaBackend().solve(grid, "any", want_posteriors=True).emit for grid in grids]
    wrong: list[int] = []

    def call(k: int) -> None:
        for _ in range(10):
            if not torch.equal(NumbaBackend().solve(grids[k], "any", want_posteriors=True).emit, expected[k]):
                wrong.append(k)

    callers = [threading.Thread(target=call, args=(k,)) for k in range(len(grids))]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert not wrong
