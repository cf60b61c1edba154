"""First-order expectations over alignments: how a posterior mean of costs changes with the log weights.

Give every move a cost, and let ``F`` be the posterior mean of a path's total cost. Then the derivative of ``F`` with
respect to a move's log weight is ``P(move) * (mean cost of the paths through it - F)``. The mean over the paths through
a move is what was paid on arriving there, plus the move's cost, plus what is still to pay. Given the pair, a path is a
Markov chain whose probabilities are ratios of neighbouring posteriors, so both are averages over neighbours: nothing
overflows and nothing cancels but the final difference.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ssnt.dp.diagonals import Moves, from_next_lane, to_next_lane
from ssnt.dp.scan import next_diagonal
from ssnt.types import End, Grid, Posteriors


def _share(part: Tensor, whole: Tensor) -> Tensor:
    """``part / whole``, and zero where the whole is zero."""
    return torch.where(whole > 0, part / whole, 0.0)


def _paid(chances: Moves, costs: Moves) -> Tensor:
    """Mean cost of the paths that go through each cell, up to there, ``(D, B, L)``."""
    step = to_next_lane(chances.step[:-1], 0.0)
    whole = chances.stay[:-1] + step  # of all that comes to the next diagonal
    stay, step = _share(chances.stay[:-1], whole), _share(step, whole)
    mean_cost = stay * costs.stay[:-1] + step * to_next_lane(costs.step[:-1], 0.0)
    paid = [torch.zeros_like(chances.stay[0])]
    for d in range(len(mean_cost)):
        paid.append(mean_cost[d] + stay[d] * paid[d] + step[d] * to_next_lane(paid[d], 0.0))
    return torch.stack(paid)


def _to_pay(chances: Moves, costs: Moves) -> Tensor:
    """Mean cost still to come, from each cell, ``(D, B, L)``."""
    whole = chances.stay + chances.step + chances.exit
    stay, step = _share(chances.stay, whole), _share(chances.step, whole)
    mean_cost = stay * costs.stay + step * costs.step + _share(chances.exit, whole) * costs.exit
    to_pay = [mean_cost[-1]]
    for d in reversed(range(len(mean_cost) - 1)):
        to_pay.append(mean_cost[d] + stay[d] * to_pay[-1] + step[d] * from_next_lane(to_pay[-1], 0.0))
    return torch.stack(to_pay[::-1])


def expected_cost_gradient(
    grid: Grid, end: End, chances: Posteriors, write_cost: Tensor, shift_cost: Tensor
) -> Posteriors:
    """Derivative of a mean path cost with respect to the log weights.

    Args:
        grid: The lattices.
        end: Where a path may end.
        chances: Their posteriors, in the precision in which the result is wanted.
        write_cost: Cost of writing at each cell, ``(B, J, I)``.
        shift_cost: Cost of shifting at each cell, ``(B, J, I)``.

    Returns:
        The derivative with respect to ``log_word`` (and to ``log_emit``, the same) as ``emit``, and to ``log_shift``
        as ``shift``; both zero for a pair that has no path.
    """
    dtype = chances.emit.dtype
    moves = Moves.by_diagonals(grid, end, chances.emit, chances.shift, fill=0.0)
    costs = Moves.by_diagonals(grid, end, write_cost.to(dtype), shift_cost.to(dtype), fill=0.0)
    paid, to_pay = _paid(moves, costs), _to_pay(moves, costs)
    excess = paid - to_pay[0, :, :1]  # the mean of the whole, which is what the first cell has to pay
    later = next_diagonal(to_pay, 0.0)
    gradient = Moves(
        moves.stay * (excess + costs.stay + later),
        moves.step * (excess + costs.step + from_next_lane(later, 0.0)),
        moves.exit * (excess + costs.exit),
        moves.lanes_are_targets,
    )
    return Posteriors(gradient.write, gradient.shift)
