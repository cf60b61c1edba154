"""The lattice recursion a diagonal at a time, in plain torch or NumPy: any device, no compilation."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ssnt.arrays import namespace, no_grad
from ssnt.dp.contract import Solution
from ssnt.dp.diagonals import Moves, from_next_lane, to_next_lane, valid_cells
from ssnt.types import End, Grid

if TYPE_CHECKING:
    import torch
    from torch import Tensor


def log_arrivals(weights: Moves) -> Tensor:
    """Log mass that reaches each cell before the decision there, ``(D, B, L)``."""
    xp = namespace(weights.stay)
    arrivals = [weights.start()]
    for log_stay, log_step in zip(weights.stay[:-1], weights.step[:-1], strict=True):
        here = arrivals[-1]
        arrivals.append(xp.logaddexp(here + log_stay, to_next_lane(here + log_step, -math.inf)))
    return xp.stack(arrivals)


def log_departures(weights: Moves) -> Tensor:
    """Log probability of finishing from each cell, before the decision there, ``(D, B, L)``."""
    xp = namespace(weights.exit)
    departures = [weights.exit[-1]]
    for d in reversed(range(weights.exit.shape[0] - 1)):
        following = departures[-1]
        log_move = xp.logaddexp(
            weights.stay[d] + following,
            weights.step[d] + from_next_lane(following, -math.inf),
        )
        departures.append(xp.logaddexp(weights.exit[d], log_move))
    return xp.stack(departures[::-1])


def log_total(weights: Moves, arrivals: Tensor) -> Tensor:
    """``log p(y|x)`` of each pair from its arrivals, ``(B,)``."""
    return namespace(arrivals).logsumexp(arrivals + weights.exit, dim=(0, 2))


def next_diagonal(values: Tensor, fill: float) -> Tensor:
    """Each diagonal replaced by its successor; the last by ``fill``, ``(D, B, L)``."""
    xp = namespace(values)
    return xp.cat([values[1:], xp.full_like(values[:1], fill)])


def move_posteriors(weights: Moves, arrivals: Tensor, departures: Tensor) -> Moves:
    """Posterior probability of each move; zero for a pair that has no path."""
    xp = namespace(departures)
    total = departures[0, :, :1]  # (B, 1): the first cell is where every path starts
    # A pair without a path has total = -inf; dividing by one instead keeps its zeros zeros.
    here = arrivals - xp.where(total == -math.inf, 0.0, total)
    following = next_diagonal(departures, -math.inf)
    return Moves(
        xp.exp(here + weights.stay + following),
        xp.exp(here + weights.step + from_next_lane(following, -math.inf)),
        xp.exp(here + weights.exit),
        weights.lanes_are_targets,
    )


def is_improper(grid: Grid) -> Tensor:
    """True for pairs with NaN or plus infinity in a valid cell, or lengths out of range, ``(B,)``."""
    _, tgt_size, src_size = grid.log_word.shape
    lengths_fit = (1 <= grid.src_lens) & (grid.src_lens <= src_size)
    lengths_fit &= (1 <= grid.tgt_lens) & (grid.tgt_lens <= tgt_size)
    proper = ~valid_cells(grid)
    proper |= (grid.log_word < math.inf) & (grid.log_emit < math.inf) & (grid.log_shift < math.inf)
    return ~(lengths_fit & proper.all(dim=2).all(dim=1))


@no_grad()
def solve_by_diagonals(grid: Grid, end: End, want_posteriors: bool) -> Solution:
    """Walks the diagonals forward and, if posteriors are wanted, backward."""
    dtype = grid.log_word.dtype
    weights = Moves.log_weights(grid, end)
    arrivals = log_arrivals(weights)
    nll = namespace(arrivals).where(is_improper(grid), math.nan, -log_total(weights, arrivals)).to(dtype)
    if not want_posteriors:
        return Solution(nll)
    posteriors = move_posteriors(weights, arrivals, log_departures(weights))
    return Solution(nll, posteriors.write.to(dtype), posteriors.shift.to(dtype))


class ScanBackend:
    """Vectorised torch, for any device."""

    name = "scan"

    def unavailable(self, device: torch.device) -> str | None:
        """Torch runs wherever its tensors are."""
        return None

    def solve(self, grid: Grid, end: End, want_posteriors: bool) -> Solution:
        """Walks the diagonals, in their own precision whatever autocast does."""
        import torch

        with torch.autocast(grid.log_word.device.type, enabled=False):
            return solve_by_diagonals(grid, end, want_posteriors)
