"""First-order expectations over alignments: how a posterior mean of costs changes with the log weights.

Give every move a cost, and let ``F`` be the posterior mean of a path's total cost. Then the derivative of ``F`` with
respect to a move's log weight is ``P(move) * (mean cost of the paths through it - F)``. The mean over the paths through
a move is what was paid on arriving there, plus the move's cost, plus what is still to pay: two recursions whose
steps are convex averages, so nothing overflows and nothing cancels but the final difference.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ssnt.dp.diagonals import Moves, from_next_lane, to_next_lane
from ssnt.dp.scan import log_arrivals, log_departures, move_posteriors, next_diagonal
from ssnt.types import End, Grid, Posteriors


def _share(log_part: Tensor, log_whole: Tensor) -> Tensor:
    """``part / whole``, and zero where the whole is zero."""
    return torch.where(log_whole == -math.inf, 0.0, torch.exp(log_part - log_whole))


def _paid(weights: Moves, costs: Moves, arrivals: Tensor) -> Tensor:
    """Mean cost of the paths that reach each cell, up to there, ``(D, B, L)``."""
    paid = [torch.zeros_like(arrivals[0])]
    for d in range(arrivals.shape[0] - 1):
        log_stay = arrivals[d] + weights.stay[d]
        log_step = to_next_lane(arrivals[d] + weights.step[d], -math.inf)
        paid.append(
            _share(log_stay, arrivals[d + 1]) * (paid[d] + costs.stay[d])
            + _share(log_step, arrivals[d + 1]) * to_next_lane(paid[d] + costs.step[d], 0.0)
        )
    return torch.stack(paid)


def _to_pay(weights: Moves, costs: Moves, departures: Tensor) -> Tensor:
    """Mean cost still to come, from each cell, over the paths that finish, ``(D, B, L)``."""
    last = departures.shape[0] - 1
    to_pay = [_share(weights.exit[last], departures[last]) * costs.exit[last]]
    for d in reversed(range(last)):
        following, later = departures[d + 1], to_pay[-1]
        log_stay = weights.stay[d] + following
        log_step = weights.step[d] + from_next_lane(following, -math.inf)
        to_pay.append(
            _share(weights.exit[d], departures[d]) * costs.exit[d]
            + _share(log_stay, departures[d]) * (costs.stay[d] + later)
            + _share(log_step, departures[d]) * (costs.step[d] + from_next_lane(later, 0.0))
        )
    return torch.stack(to_pay[::-1])


def expected_cost_gradient(grid: Grid, end: End, write_cost: Tensor, shift_cost: Tensor) -> Posteriors:
    """Derivative of a mean path cost with respect to the log weights.

    Args:
        grid: The lattices.
        end: Where a path may end.
        write_cost: Cost of writing at each cell, ``(B, J, I)``.
        shift_cost: Cost of shifting at each cell, ``(B, J, I)``.

    Returns:
        The derivative with respect to ``log_word`` (and to ``log_emit``, the same) as ``emit``, and to ``log_shift``
        as ``shift``; both zero for a pair that has no path.
    """
    weights = Moves.log_weights(grid, end)
    dtype = weights.stay.dtype
    costs = Moves.by_diagonals(grid, end, write_cost.to(dtype), shift_cost.to(dtype), fill=0.0)
    arrivals, departures = log_arrivals(weights), log_departures(weights)
    chances = move_posteriors(weights, arrivals, departures)
    paid, to_pay = _paid(weights, costs, arrivals), _to_pay(weights, costs, departures)
    excess = paid - to_pay[0, :, :1]  # the mean of the whole, which is what the first cell has to pay
    later = next_diagonal(to_pay, 0.0)
    gradient = Moves(
        chances.stay * (excess + costs.stay + later),
        chances.step * (excess + costs.step + from_next_lane(later, 0.0)),
        chances.exit * (excess + costs.exit),
        weights.lanes_are_targets,
    )
    return Posteriors(gradient.write, gradient.shift)
