"""The k best alignments of every pair, exactly, by dynamic programming over diagonals."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ssnt.arrays import namespace, no_grad
from ssnt.dp.diagonals import Moves
from ssnt.types import Alignment, End, Grid

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class _Search:
    """What the forward pass leaves behind.

    Attributes:
        log_best: Scores of the k best ways to reach each cell, best first, ``(D, B, L, K)``.
        pointers: Where each came from: ``r < K`` is rank r in the same lane, ``K + r`` rank r in the lane below.
    """

    log_best: Tensor
    pointers: Tensor


def _search(weights: Moves, k: int) -> _Search:
    xp = namespace(weights.stay)
    first = xp.constant_pad_nd(weights.start()[..., None], (0, k - 1), -math.inf)  # (B, L, K)
    log_best, pointers = [first], [xp.zeros_like(first, dtype=xp.int64)]
    for log_stay, log_step in zip(weights.stay[:-1], weights.step[:-1], strict=True):
        here = log_best[-1]
        stayed = here + log_stay[..., None]
        stepped = xp.constant_pad_nd((here + log_step[..., None])[:, :-1], (0, 0, 1, 0), -math.inf)
        if k == 1:  # no need to sort; ties fall as they do below
            log_best.append(xp.maximum(stayed, stepped))
            pointers.append((stepped > stayed).long())
            continue
        # A stable sort, so that ties fall the same way on every device.
        ranked = xp.sort(xp.cat([stayed, stepped], dim=2), dim=2, descending=True, stable=True)
        log_best.append(ranked.values[..., :k])
        pointers.append(ranked.indices[..., :k])
    return _Search(xp.stack(log_best), xp.stack(pointers))


def _trace(weights: Moves, search: _Search, end_cells: Tensor, tgt_size: int) -> Tensor:
    """Follows the pointers from ``end_cells`` (flat ``(D, L, K)`` indices, ``(B, K)``); ``(B, K, J)`` positions."""
    xp = namespace(end_cells)
    count, batch, lanes, k = search.log_best.shape
    diagonal = end_cells // (lanes * k)
    lane = end_cells // k % lanes
    rank = end_cells % k
    positions = end_cells.new_full((batch, k, tgt_size), -1)
    pairs = xp.arange(batch, device=end_cells.device)[:, None]

    def record(active: Tensor) -> None:
        """Notes, where ``active``, that the current cell writes."""
        j, i = (lane, diagonal - lane) if weights.lanes_are_targets else (diagonal - lane, lane)
        j = j.clamp(0, tgt_size - 1)[..., None]
        value = xp.where(active, i, positions.gather(2, j)[..., 0])
        positions.scatter_(2, j, value[..., None])

    record(xp.ones_like(rank, dtype=xp.bool))
    for d in range(count - 1, 0, -1):
        active = diagonal == d
        pointer = search.pointers[d][pairs, lane, rank]
        stepped = active & (pointer >= k)
        rank = xp.where(active, pointer % k, rank)
        lane = xp.where(stepped, lane - 1, lane)
        diagonal = xp.where(active, diagonal - 1, diagonal)
        record(stepped if weights.lanes_are_targets else active & ~stepped)
    return positions


def k_best(grid: Grid, end: End, k: int) -> list[list[Alignment]]:
    """The k most probable alignments of each pair, best first; fewer where fewer are possible."""
    with no_grad():
        weights = Moves.log_weights(grid, end)
        search = _search(weights, k)
        log_ended = search.log_best + weights.exit[..., None]  # (D, B, L, K)
        log_ended = log_ended.transpose(0, 1).flatten(1)  # (B, D * L * K)
        # Every exit cell offers k ways, so there are always k candidates, if perhaps impossible ones.
        ranked = namespace(log_ended).sort(log_ended, dim=1, descending=True, stable=True)
        log_probs, end_cells = ranked.values[:, :k], ranked.indices[:, :k]
        positions = _trace(weights, search, end_cells, grid.log_word.shape[1])
    return [
        [
            Alignment(tuple(path[:tgt_len]), log_prob)
            for path, log_prob in zip(paths, scores, strict=True)
            if log_prob > -math.inf
        ]
        for paths, scores, tgt_len in zip(positions.tolist(), log_probs.tolist(), grid.tgt_lens.tolist(), strict=True)
    ]
