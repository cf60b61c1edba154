"""One contract for all backends, checked against full enumeration."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ssnt.dp.dispatch import _BACKENDS, available_backends
from ssnt.types import Grid

from conftest import require
from oracles import Enumeration, RandomLattices, random_lattices

ENDS = ["any", "last"]
DTYPES = [torch.float64, torch.float32]
BATCHES = range(100)  # of five lattices each
SHARES = [BATCHES[first::4] for first in range(4)]  # one for each end and type


@pytest.fixture(params=list(_BACKENDS))
def backend(request):
    if request.param == "triton":
        require("triton", "the Triton backend cannot be tested")
    reason = available_backends("cpu")[request.param]
    assert reason is None, reason
    return _BACKENDS[request.param]


@cache
def lattices(seed: int) -> RandomLattices:
    return random_lattices(seed).rounded()


@cache
def enumerated(seed: int, end: str) -> list[Enumeration]:
    return lattices(seed).enumerate(end)


def grid_of(values: RandomLattices, dtype: torch.dtype) -> Grid:
    grids = (torch.tensor(g, dtype=dtype) for g in (values.log_word, values.log_emit, values.log_shift))
    return Grid(*grids, torch.tensor(values.src_lens), torch.tensor(values.tgt_lens))


def assert_agrees(solution, truths: list[Enumeration], rtol: float, atol: float) -> None:
    for b, truth in enumerate(truths):
        _, tgt_len, src_len = truth.emits.shape
        np.testing.assert_allclose(solution.nll[b].item(), -truth.log_total, rtol=rtol, atol=atol)
        for got, taken in ((solution.emit[b], truth.emits), (solution.shift[b], truth.shifts)):
            inside = got[:tgt_len, :src_len].double().numpy()
            np.testing.assert_allclose(inside, truth.expectation(taken), rtol=rtol, atol=atol)
            assert not got[tgt_len:].any()
            assert not got[:, src_len:].any()


@pytest.mark.parametrize("share", SHARES, ids=lambda share: f"from {share[0]}")
def test_every_share_has_all_kinds_of_lattices(share):
    batches = [lattices(seed) for seed in share]
    sizes = [
        pair for values in batches for pair in zip(values.src_lens.tolist(), values.tgt_lens.tolist(), strict=True)
    ]
    assert (1, 1) in sizes
    assert len(set(sizes)) > 30  # of 36
    for name in ("log_word", "log_emit", "log_shift"):
        cells = np.concatenate([getattr(values, name).ravel() for values in batches])
        assert np.isnan(cells).any()  # padding
        assert np.isneginf(cells).any()
        assert cells[np.isfinite(cells)].min() < -100
        assert cells[np.isfinite(cells)].max() > -1e-3


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_500_lattices_against_enumeration(backend, end, dtype):
    rtol, atol = (1e-9, 1e-9) if dtype == torch.float64 else (1e-5, 2**-60)
    batches = BATCHES
    if backend.name == "triton":  # its interpreter takes half a minute for all: each lattice with one end and type
        batches = SHARES[2 * ENDS.index(end) + DTYPES.index(dtype)]
    impossible = 0
    for seed in batches:
        truths = enumerated(seed, end)
        solution = backend.solve(grid_of(lattices(seed), dtype), end, want_posteriors=True)
        assert solution.nll.dtype == solution.emit.dtype == solution.shift.dtype == dtype
        assert_agrees(solution, truths, rtol, atol)
        impossible += sum(truth.log_total == -math.inf for truth in truths)
    assert 0.2 < impossible / len(batches) < 2.5  # there are pairs without a path, and others


@given(
    seed=st.integers(1000, 2**32 - 1), end=st.sampled_from(ENDS), name=st.sampled_from(["reference", "scan", "numba"])
)
def test_further_lattices_against_enumeration(seed, end, name):
    values = random_lattices(seed).rounded()
    solution = _BACKENDS[name].solve(grid_of(values, torch.float64), end, want_posteriors=True)
    assert_agrees(solution, values.enumerate(end), 1e-9, 1e-9)


@pytest.mark.parametrize("end", ENDS)
def test_without_posteriors_the_loss_is_the_same(backend, end):
    for seed in BATCHES[: 5 if backend.name == "triton" else 20]:
        grid = grid_of(lattices(seed), torch.float64)
        full = backend.solve(grid, end, want_posteriors=True)
        brief = backend.solve(grid, end, want_posteriors=False)
        assert brief.emit is None
        assert brief.shift is None
        torch.testing.assert_close(brief.nll, full.nll, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["log_word", "log_emit", "log_shift"])
@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("end", ENDS)
def test_an_improper_value_anywhere_makes_the_loss_nan(backend, name, value, end):
    rng = np.random.default_rng(0)
    sizes = torch.tensor([3, 3]), torch.tensor([2, 2])
    for j in range(2):
        for i in range(3):  # also where no path ever looks, such as shifting from the last position
            grids = {n: torch.tensor(-rng.exponential(size=(2, 2, 3))) for n in ("log_word", "log_emit", "log_shift")}
            grids[name][1, j, i] = value
            nll = backend.solve(Grid(*grids.values(), *sizes), end, want_posteriors=True).nll
            assert math.isfinite(nll[0])
            assert math.isnan(nll[1]), (j, i)


@pytest.mark.parametrize(("src_len", "tgt_len"), [(0, 2), (4, 2), (3, 0), (3, 3), (-1, 1), (1 << 40, 1 << 40)])
def test_lengths_out_of_range_make_the_loss_nan(backend, src_len, tgt_len):
    grids = [torch.full((2, 2, 3), -1.0, dtype=torch.float64) for _ in range(3)]
    lens = torch.tensor([3, src_len]), torch.tensor([2, tgt_len])
    nll = backend.solve(Grid(*grids, *lens), "any", want_posteriors=True).nll
    assert math.isfinite(nll[0])
    assert math.isnan(nll[1])


@pytest.mark.parametrize("end", ENDS)
def test_a_single_cell(backend, end):
    grids = [torch.tensor([[[value]]], dtype=torch.float64) for value in (-1.5, -0.25, -math.inf)]
    one = torch.tensor([1])
    solution = backend.solve(Grid(*grids, one, one), end, want_posteriors=True)
    assert solution.nll.item() == pytest.approx(1.75, abs=1e-12)
    assert solution.emit.item() == pytest.approx(1.0, abs=1e-12)
    assert solution.shift.item() == 0.0


def test_strided_inputs_are_read_as_they_are(backend):
    values = grid_of(lattices(3), torch.float64)
    turned = [g.transpose(1, 2).contiguous().transpose(1, 2) for g in (values.log_word, values.log_emit)]
    grid = Grid(*turned, values.log_shift, values.src_lens, values.tgt_lens)
    expected = backend.solve(values, "any", want_posteriors=False).nll
    torch.testing.assert_close(backend.solve(grid, "any", want_posteriors=False).nll, expected)


def test_inputs_are_not_changed(backend):
    grid = grid_of(lattices(5), torch.float32)
    before = [g.clone() for g in (grid.log_word, grid.log_emit, grid.log_shift)]
    backend.solve(grid, "any", want_posteriors=True)
    for was, now in zip(before, (grid.log_word, grid.log_emit, grid.log_shift), strict=True):
        torch.testing.assert_close(now, was, rtol=0, atol=0, equal_nan=True)
