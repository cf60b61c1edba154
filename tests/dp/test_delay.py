"""The expected delay beside the likelihood: against enumeration, against autograd, at the edges."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ssnt.dp import AlignmentDistribution
from ssnt.dp.autograd import likelihood_and_delay, negative_log_likelihood
from ssnt.dp.delay import solve_delay
from ssnt.errors import BackendError, DataError
from ssnt.types import Grid

from conftest import require
from oracles import RandomLattices, random_lattices

BACKENDS = ["reference", "scan", "numba"]
ENDS = ["any", "last"]
BATCHES = range(40)  # of five lattices each


def grid_of(values: RandomLattices, dtype: torch.dtype = torch.float64, *, requires_grad: bool = False) -> Grid:
    grids = (values.log_word, values.log_emit, values.log_shift)
    tensors = (torch.tensor(g, dtype=dtype, requires_grad=requires_grad) for g in grids)
    return Grid(*tensors, torch.tensor(values.src_lens), torch.tensor(values.tgt_lens))


def assert_agrees(values: RandomLattices, end: str, solution, atol: float, rtol: float = 1e-9) -> int:
    """Compares with the enumeration, in which the gradient is a covariance; returns how many pairs have no path."""
    impossible = 0
    gradient = solution.gradient
    for b, truth in enumerate(values.enumerate(end)):
        tgt_len, src_len = values.tgt_lens[b], values.src_lens[b]
        cost = (np.array(truth.alignments, dtype=float) + 1).sum(axis=1) / src_len
        mean = truth.expectation(cost)
        np.testing.assert_allclose(solution.lattice.nll[b].item(), -truth.log_total, rtol=rtol, atol=atol)
        np.testing.assert_allclose(solution.delay[b].item(), mean, rtol=rtol, atol=atol)
        excess = (cost - mean)[:, None, None]
        pairs = (
            (solution.lattice.emit, truth.emits),
            (solution.lattice.shift, truth.shifts),
            (gradient.emit, truth.emits * excess),
            (gradient.shift, truth.shifts * excess),
        )
        for got, expected in pairs:
            inside = got[b, :tgt_len, :src_len].double()
            np.testing.assert_allclose(inside, truth.expectation(expected), rtol=rtol, atol=atol)
            assert not got[b, tgt_len:].any()
            assert not got[b, :, src_len:].any()
        impossible += truth.log_total == -math.inf
    return impossible


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("end", ENDS)
def test_200_lattices_against_enumeration(backend, end):
    impossible = 0
    for seed in BATCHES:
        values = random_lattices(seed)
        impossible += assert_agrees(values, end, solve_delay(grid_of(values), end, True, backend), atol=1e-9)
    assert 8 < impossible < 100  # the cases do hold pairs without a path, and do not consist of them


@pytest.mark.parametrize("backend", ["scan", "numba"])
@pytest.mark.parametrize("end", ENDS)
def test_float32_is_rounded_only_at_the_end(backend, end):
    for seed in BATCHES[:20]:
        values = random_lattices(seed).rounded()
        solution = solve_delay(grid_of(values, torch.float32), end, True, backend)
        assert {solution.delay.dtype, solution.gradient.emit.dtype, solution.gradient.shift.dtype} == {torch.float32}
        assert_agrees(values, end, solution, atol=1e-9, rtol=1e-5)


def test_triton_gives_the_posteriors_and_torch_the_expectations():
    require("triton", "the Triton backend cannot be tested")
    values = random_lattices(3)
    assert_agrees(values, "any", solve_delay(grid_of(values), "any", True, "triton"), atol=1e-9)


@settings(max_examples=50)
@given(seed=st.integers(1000, 2**32 - 1), end=st.sampled_from(ENDS), backend=st.sampled_from(["scan", "numba"]))
def test_the_gradient_is_that_of_the_alignment_distribution(seed, end, backend):
    values = random_lattices(seed)
    grid = grid_of(values, requires_grad=True)
    grids = [grid.log_word, grid.log_emit, grid.log_shift]
    of_nll, of_delay = torch.rand(2, len(values.src_lens), generator=torch.Generator().manual_seed(seed)).double()
    terms = likelihood_and_delay(grid, end, backend)
    got = torch.autograd.grad([terms.nll, terms.delay], grids, [of_nll, of_delay])
    distribution = AlignmentDistribution.of(grid, end=end)
    nll, delay = -distribution.log_partition(), distribution.expected_delay().sum(dim=1) / grid.src_lens
    torch.testing.assert_close(terms.nll, nll, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(terms.delay, delay, rtol=1e-9, atol=1e-9)
    expected = torch.autograd.grad([nll, delay], grids, [of_nll, of_delay])
    for a, b in zip(got, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("end", ENDS)
def test_gradcheck(backend, end):
    rng = np.random.default_rng(0)
    grids = [torch.tensor(-rng.exponential(size=(3, 3, 4)), requires_grad=True) for _ in range(3)]
    lens = torch.tensor([4, 2, 1]), torch.tensor([2, 3, 3])

    def both(*grids):
        terms = likelihood_and_delay(Grid(*grids, *lens), end, backend)
        return terms.nll, terms.delay

    assert torch.autograd.gradcheck(both, grids)


@settings(max_examples=80)
@given(seed=st.integers(0, 2**32 - 1), end=st.sampled_from(ENDS))
def test_values_at_the_edge_of_underflow(seed, end):
    rng = np.random.default_rng(seed)
    shape = (100, rng.integers(1, 6), rng.integers(1, 6))
    values = [0.0, -1.0, -300.0, -350.0, -600.0, -650.0, -700.0, -708.01, -709.0, -745.0, -760.0, -1400.0, -np.inf]
    grids = [torch.tensor(rng.choice(values, size=shape)) for _ in range(3)]
    lens = [torch.tensor(rng.integers(1, n + 1, size=100)) for n in (shape[2], shape[1])]
    scan, numba = (solve_delay(Grid(*grids, *lens), end, True, backend) for backend in ("scan", "numba"))
    torch.testing.assert_close(numba.delay, scan.delay, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(numba.gradient.emit, scan.gradient.emit, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(numba.gradient.shift, scan.gradient.shift, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("word_scale", [3.0, 50.0])  # the second has mass that underflows off the path
def test_long_sequences(end, word_scale):
    rng = np.random.default_rng(1)
    shape = (2, 200, 500)
    word, logits = torch.tensor(-rng.exponential(size=shape) * word_scale), torch.tensor(rng.normal(size=shape) * 5)
    grids = [g.float() for g in (word, torch.nn.functional.logsigmoid(logits), torch.nn.functional.logsigmoid(-logits))]
    lens = torch.tensor([500, 300]), torch.tensor([150, 200])
    numba = solve_delay(Grid(*grids, *lens), end, True, "numba")
    precise = Grid(*(g.double() for g in grids), *lens)
    scan = solve_delay(precise, end, True, "scan")
    torch.testing.assert_close(numba.delay.double(), scan.delay, rtol=1e-6, atol=0)
    torch.testing.assert_close(numba.gradient.emit.double(), scan.gradient.emit, rtol=1e-5, atol=1e-9)
    torch.testing.assert_close(numba.gradient.shift.double(), scan.gradient.shift, rtol=1e-5, atol=1e-9)
    # A symbol is written exactly once whatever the weights, so raising all chances to write it changes nothing.
    exact = solve_delay(precise, end, True, "numba").gradient.emit.sum(dim=2)
    torch.testing.assert_close(exact, torch.zeros_like(exact), rtol=0, atol=1e-9)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_pair_without_a_path_has_no_delay_and_no_gradient(backend):
    grids = [torch.full((2, 2, 3), -1.0, dtype=torch.float64) for _ in range(3)]
    grids[0][1, 0] = -math.inf
    for g in grids:
        g.requires_grad_()
    terms = likelihood_and_delay(Grid(*grids, torch.tensor([3, 3]), torch.tensor([2, 2])), "any", backend)
    assert terms.nll[1] == math.inf
    assert terms.delay[1] == 0.0
    for gradient in torch.autograd.grad((terms.nll + terms.delay).sum(), grids):
        assert gradient.isfinite().all()
        assert gradient[0].any()
        assert not gradient[1].any()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("end", ENDS)
def test_without_gradients_the_values_are_the_same(backend, end):
    for seed in BATCHES[:10]:
        grid = grid_of(random_lattices(seed))
        full, brief = (solve_delay(grid, end, want, backend) for want in (True, False))
        assert brief.gradient is None
        assert brief.lattice.emit is None
        torch.testing.assert_close(brief.delay, full.delay, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(brief.lattice.nll, full.lattice.nll, rtol=1e-12, atol=1e-12)
        assert torch.equal(brief.delay, likelihood_and_delay(grid, end, backend).delay)


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_scale_is_that_of_a_symbol_and_a_source_length(backend):
    # Every symbol is written at the first of four positions, or every one at the last.
    never, always = torch.full((1, 3, 4), -math.inf), torch.zeros(1, 3, 4)
    first, last = always.clone(), always.clone()
    first[..., 1:], last[..., :-1] = -math.inf, -math.inf
    lens = torch.tensor([4]), torch.tensor([3])
    at_once = solve_delay(Grid(first, always, never, *lens), "any", False, backend)
    at_the_end = solve_delay(Grid(last, always, always, *lens), "any", False, backend)
    assert at_once.delay.item() == pytest.approx(3 / 4)
    assert at_the_end.delay.item() == pytest.approx(3.0)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_improper_values_are_named(backend, value):
    grids = [torch.full((1, 2, 3), -1.0) for _ in range(3)]
    grids[2][0, 1, 2] = value
    with pytest.raises(DataError, match=r"log_shift\[0, 1, 2\] must be a log probability"):
        solve_delay(Grid(*grids, torch.tensor([3]), torch.tensor([2])), "any", True, backend)


def test_strided_grids_and_autocast():
    values = grid_of(random_lattices(3), torch.float32)
    turned = [g.transpose(1, 2).contiguous().transpose(1, 2) for g in (values.log_word, values.log_emit)]
    strided = Grid(*turned, values.log_shift, values.src_lens, values.tgt_lens)
    for backend in ("scan", "numba"):
        expected = solve_delay(values, "any", True, backend)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            got = solve_delay(strided, "any", True, backend)
        assert torch.equal(got.delay, expected.delay)
        assert torch.equal(got.gradient.shift, expected.gradient.shift)


def test_threads_change_nothing():
    rng = np.random.default_rng(2)
    grids = [torch.tensor(-rng.exponential(size=(40, 40, 50))) for _ in range(3)]
    grid = Grid(*grids, torch.full((40,), 50), torch.full((40,), 40))
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        alone = solve_delay(grid, "any", True, "numba")
        torch.set_num_threads(3)
        shared = solve_delay(grid, "any", True, "numba")
    finally:
        torch.set_num_threads(before)
    assert torch.equal(alone.delay, shared.delay)
    assert torch.equal(alone.gradient.emit, shared.gradient.emit)


def test_only_what_is_asked_for_gets_a_gradient():
    grids = [torch.full((1, 2, 3), -1.0, dtype=torch.float64) for _ in range(3)]
    lens = torch.tensor([3]), torch.tensor([2])
    for k in range(3):
        inputs = [g.clone().requires_grad_(n == k) for n, g in enumerate(grids)]
        likelihood_and_delay(Grid(*inputs, *lens)).delay.sum().backward()
        assert [g.grad is not None for g in inputs] == [n == k for n in range(3)]
    inputs = [g.clone().requires_grad_() for g in grids]
    likelihood_and_delay(Grid(*inputs, *lens)).nll.sum().backward()
    plain = torch.autograd.grad(negative_log_likelihood(Grid(*inputs, *lens)).sum(), inputs)
    for a, b in zip(inputs, plain, strict=True):
        torch.testing.assert_close(a.grad, b)
    assert inputs[0].grad.data_ptr() != inputs[1].grad.data_ptr()


def test_a_second_derivative_raises():
    grids = [torch.full((1, 2, 3), -1.0, dtype=torch.float64, requires_grad=True) for _ in range(3)]
    delay = likelihood_and_delay(Grid(*grids, torch.tensor([3]), torch.tensor([2]))).delay.sum()
    with pytest.raises(BackendError, match="the lattice loss with its delay can be differentiated once only"):
        torch.autograd.grad(delay, grids, create_graph=True)
