"""The likelihood of a pair together with its expected delay, and the derivatives of both.

The delay of a path is the sum over target symbols of the source position where the symbol is written, counted from 1
and divided by the source length. That is a sum of costs of moves, so its derivative is a first-order expectation (see
``expectation.py``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from ssnt.dp.checks import raise_if_improper
from ssnt.dp.compiled import in_threads
from ssnt.dp.contract import Solution, posteriors_of
from ssnt.dp.diagonals import in_full_precision, valid_cells
from ssnt.dp.dispatch import resolve_backend, solve
from ssnt.dp.expectation import expected_cost_gradient
from ssnt.dp.numba_kernel import CELLS_WORTH_A_THREAD, plane
from ssnt.types import End, Grid, Posteriors


@dataclass(frozen=True)
class DelaySolution:
    """What one forward-backward with expectations gives.

    Attributes:
        lattice: The likelihood, and the posteriors if the gradient was asked for.
        delay: The expected delay of each pair, ``(B,)``, between ``J / I`` and ``J``, in the dtype of the grid. Zero
            where no path has any probability, NaN where the likelihood is.
        gradient: Derivatives of ``delay`` with respect to ``log_word`` and to ``log_emit``, which are equal
            (``emit``), and to ``log_shift`` (``shift``); None if not asked for. Zero in padding and for a pair without
            a path.
    """

    lattice: Solution
    delay: Tensor
    gradient: Posteriors | None = None


def solve_delay(grid: Grid, end: End, want_gradient: bool, backend: str = "auto") -> DelaySolution:
    """Runs forward, backward and, for the gradient, the expectations, on a checked grid.

    Backends other than ``numba`` find likelihood and posteriors as ever; their expectations are torch's.

    Raises:
        BackendError: The backend cannot run on the grid's device.
        DataError: On the CPU, a valid cell holds NaN or plus infinity.
    """
    chosen = resolve_backend(backend, grid.log_word.device)
    with torch.no_grad(), torch.autocast(grid.log_word.device.type, enabled=False):
        if chosen == "numba":
            solution = _solve_with_numba(grid, end, want_gradient)
            raise_if_improper(grid, solution.lattice.nll)
            return solution
        return _solve_with_torch(grid, end, want_gradient, chosen)


def _solve_with_numba(grid: Grid, end: End, want_gradient: bool) -> DelaySolution:
    from ssnt.dp._numba_delay import solve_delays

    batch = len(grid.log_word)
    nll, delay = torch.full((2, batch), torch.nan, dtype=torch.float64)
    shape = grid.log_word.shape if want_gradient else (1, 1, 1)
    outputs = [grid.log_word.new_empty(shape) for _ in range(4)]
    src_lens, tgt_lens = plane(grid.src_lens), plane(grid.tgt_lens)
    inputs = [plane(values) for values in (grid.log_word, grid.log_emit, grid.log_shift)]
    results = [one.numpy() for one in (nll, delay, *outputs)]

    def run(first: int, stop: int) -> None:
        solve_delays(*inputs, src_lens, tgt_lens, end == "last", want_gradient, first, stop, *results)

    in_threads(run, src_lens * tgt_lens, CELLS_WORTH_A_THREAD)
    dtype = grid.log_word.dtype
    nll, delay = nll.to(dtype), delay.to(dtype)
    if not want_gradient:
        return DelaySolution(Solution(nll), delay)
    emit, shift, delay_emit, delay_shift = outputs
    return DelaySolution(Solution(nll, emit, shift), delay, Posteriors(delay_emit, delay_shift))


def _solve_with_torch(grid: Grid, end: End, want_gradient: bool, backend: str) -> DelaySolution:
    dtype = grid.log_word.dtype
    precise = in_full_precision(grid)
    lattice = solve(precise, end, True, backend)
    chances = posteriors_of(lattice)
    costs = _position_costs(precise)
    delay = (chances.emit * costs).sum(dim=(1, 2))
    delay = torch.where(lattice.nll.isnan(), math.nan, delay).to(dtype)
    nll = lattice.nll.to(dtype)
    if not want_gradient:
        return DelaySolution(Solution(nll), delay)
    gradient = expected_cost_gradient(precise, end, chances, costs, torch.zeros_like(costs))
    return DelaySolution(
        Solution(nll, chances.emit.to(dtype), chances.shift.to(dtype)),
        delay,
        Posteriors(gradient.emit.to(dtype), gradient.shift.to(dtype)),
    )


def _position_costs(grid: Grid) -> Tensor:
    """The delay of writing a symbol at each cell, ``(B, J, I)``; zero in padding."""
    _, _, src_size = grid.log_word.shape
    positions = torch.arange(1, src_size + 1, device=grid.log_word.device, dtype=grid.log_word.dtype)
    return (positions / grid.src_lens[:, None, None]) * valid_cells(grid)
