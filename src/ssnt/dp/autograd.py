"""The lattice as differentiable functions, without autograd through the recursion."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ssnt.dp.contract import posteriors_of
from ssnt.dp.delay import solve_delay
from ssnt.dp.diagonals import in_full_precision
from ssnt.dp.dispatch import solve
from ssnt.dp.expectation import expected_cost_gradient
from ssnt.errors import BackendError
from ssnt.types import End, Grid, Posteriors


def refuse_second_order(what: str) -> None:
    """Raises in a backward pass that builds a graph, because the gradient would enter it as a constant.

    Torch's own ``once_differentiable`` lets that pass in silence when the upstream gradient is a constant.
    """
    if torch.is_grad_enabled():
        raise BackendError(
            f"{what} can be differentiated once only: call backward() and torch.autograd.grad() without create_graph"
        )


def _needs_gradient(grid: Grid) -> bool:
    values = (grid.log_word, grid.log_emit, grid.log_shift)
    return torch.is_grad_enabled() and any(value.requires_grad for value in values)


class _NegativeLogLikelihood(torch.autograd.Function):
    """The gradient of the NLL is minus the posteriors, which the forward call computes on the way."""

    @staticmethod
    def forward(
        ctx: Any,
        log_word: Tensor,
        log_emit: Tensor,
        log_shift: Tensor,
        src_lens: Tensor,
        tgt_lens: Tensor,
        end: End,
        backend: str,
        emission_scale: float,
        wants_gradient: bool,
    ) -> Tensor:
        grid = Grid(log_word, log_emit, log_shift, src_lens, tgt_lens)
        solution = solve(grid, end, wants_gradient, backend)
        if solution.emit is not None and solution.shift is not None:
            ctx.save_for_backward(solution.emit, solution.shift)
        ctx.emission_scale = emission_scale
        return solution.nll

    @staticmethod
    def backward(ctx: Any, grad_nll: Tensor) -> tuple[Tensor | None, ...]:
        refuse_second_order("the lattice loss")
        emit, shift = ctx.saved_tensors
        needs_word, needs_emit, needs_shift = ctx.needs_input_grad[:3]
        per_pair = -grad_nll[:, None, None]
        grad_write = emit * (per_pair * ctx.emission_scale) if needs_word or needs_emit else None
        grad_emit = grad_write
        if grad_write is not None and needs_word and needs_emit:
            grad_emit = grad_write.clone()  # equal, but whoever changes one in place must not change the other
        return (
            grad_write if needs_word else None,
            grad_emit if needs_emit else None,
            shift * per_pair if needs_shift else None,
            *[None] * 6,
        )


class _LikelihoodAndDelay(torch.autograd.Function):
    """The NLL as above, and beside it the expected delay, whose gradient is computed on the way as well."""

    @staticmethod
    def forward(
        ctx: Any,
        log_word: Tensor,
        log_emit: Tensor,
        log_shift: Tensor,
        src_lens: Tensor,
        tgt_lens: Tensor,
        end: End,
        backend: str,
        emission_scale: float,
        wants_gradient: bool,
    ) -> tuple[Tensor, Tensor]:
        grid = Grid(log_word, log_emit, log_shift, src_lens, tgt_lens)
        solution = solve_delay(grid, end, wants_gradient, backend)
        lattice, gradient = solution.lattice, solution.gradient
        if lattice.emit is not None and lattice.shift is not None and gradient is not None:
            ctx.save_for_backward(lattice.emit, lattice.shift, gradient.emit, gradient.shift)
        ctx.emission_scale = emission_scale
        return lattice.nll, solution.delay

    @staticmethod
    def backward(ctx: Any, grad_nll: Tensor, grad_delay: Tensor) -> tuple[Tensor | None, ...]:
        refuse_second_order("the lattice loss with its delay")
        emit, shift, delay_emit, delay_shift = ctx.saved_tensors
        needs_word, needs_emit, needs_shift = ctx.needs_input_grad[:3]
        per_nll, per_delay = -grad_nll[:, None, None], grad_delay[:, None, None]
        grad_word = grad_emit = None
        if needs_word or needs_emit:
            grad_word = grad_emit = (emit * (per_nll * ctx.emission_scale)).addcmul_(delay_emit, per_delay)
        if grad_word is not None and needs_word and needs_emit:
            grad_emit = grad_word.clone()  # equal, but whoever changes one in place must not change the other
        return (
            grad_word if needs_word else None,
            grad_emit if needs_emit else None,
            (shift * per_nll).addcmul_(delay_shift, per_delay) if needs_shift else None,
            *[None] * 6,
        )


class _Posteriors(torch.autograd.Function):
    """The derivative of the posteriors is an expectation recursion over the same lattice."""

    @staticmethod
    def forward(
        ctx: Any,
        log_word: Tensor,
        log_emit: Tensor,
        log_shift: Tensor,
        src_lens: Tensor,
        tgt_lens: Tensor,
        end: End,
        backend: str,
    ) -> tuple[Tensor | None, Tensor | None]:
        grid = Grid(log_word, log_emit, log_shift, src_lens, tgt_lens)
        solution = solve(grid, end, True, backend)
        ctx.save_for_backward(log_word, log_emit, log_shift, src_lens, tgt_lens)
        ctx.end, ctx.backend = end, backend
        return solution.emit, solution.shift

    @staticmethod
    def backward(ctx: Any, grad_emit: Tensor, grad_shift: Tensor) -> tuple[Tensor | None, ...]:
        refuse_second_order("the alignment posterior")
        grid = Grid(*ctx.saved_tensors)
        # Once more, because the posteriors that were handed out are rounded to the precision of the grid.
        chances = posteriors_of(solve(in_full_precision(grid), ctx.end, True, ctx.backend))
        gradient = expected_cost_gradient(grid, ctx.end, chances, grad_emit, grad_shift)
        dtype = grid.log_word.dtype
        grad_write = gradient.emit.to(dtype)
        return grad_write, grad_write.clone(), gradient.shift.to(dtype), *[None] * 4


def negative_log_likelihood(grid: Grid, end: End = "any", backend: str = "auto", emission_scale: float = 1.0) -> Tensor:
    """``-log p(y|x)`` of each pair, ``(B,)``; differentiable once.

    Args:
        grid: Checked lattices.
        end: Where a path may end.
        backend: Which implementation runs.
        emission_scale: Factor on the gradients of ``log_word`` and ``log_emit`` (1 is exact).
    """
    values = (grid.log_word, grid.log_emit, grid.log_shift, grid.src_lens, grid.tgt_lens)
    nll: Tensor = _NegativeLogLikelihood.apply(  # type: ignore[no-untyped-call]
        *values, end, backend, emission_scale, _needs_gradient(grid)
    )
    return nll


@dataclass(frozen=True)
class LikelihoodAndDelay:
    """Both parts of a loss that weighs likelihood against latency.

    Attributes:
        nll: ``-log p(y|x)`` of each pair, ``(B,)``.
        delay: The sum over its target symbols of the expected source position, counted from 1 and divided by the source
            length, ``(B,)``; zero for a pair that no path explains.
    """

    nll: Tensor
    delay: Tensor


def likelihood_and_delay(
    grid: Grid, end: End = "any", backend: str = "auto", emission_scale: float = 1.0
) -> LikelihoodAndDelay:
    """The NLL as of :func:`negative_log_likelihood`, and the expected delay; both differentiable once."""
    values = (grid.log_word, grid.log_emit, grid.log_shift, grid.src_lens, grid.tgt_lens)
    nll, delay = _LikelihoodAndDelay.apply(  # type: ignore[no-untyped-call]
        *values, end, backend, emission_scale, _needs_gradient(grid)
    )
    return LikelihoodAndDelay(nll, delay)


def posteriors(grid: Grid, end: End = "any", backend: str = "auto") -> Posteriors:
    """Posterior probability of every decision; differentiable once."""
    values = (grid.log_word, grid.log_emit, grid.log_shift, grid.src_lens, grid.tgt_lens)
    emit, shift = _Posteriors.apply(*values, end, backend)  # type: ignore[no-untyped-call]
    return Posteriors(emit, shift)
