"""The definition: the paper's equations as literal loops, in Python floats.

Slow by intent (``O(I^3 J)`` with posteriors): every other backend is measured against it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch

from ssnt.dp.contract import Solution
from ssnt.types import End, Grid

Rows = list[list[float]]


def _log_sum(terms: Iterable[float]) -> float:
    values = list(terms)
    peak = max(values, default=-math.inf)
    if peak == -math.inf:
        return -math.inf
    return peak + math.log(math.fsum(math.exp(v - peak) for v in values))


@dataclass(frozen=True)
class _Pair:
    """One pair's log grids, as nested lists of ``J`` rows with ``I`` values."""

    log_word: Rows
    log_emit: Rows
    log_shift: Rows

    @property
    def src_len(self) -> int:
        return len(self.log_word[0])

    @property
    def tgt_len(self) -> int:
        return len(self.log_word)

    def log_transition(self, j: int, i: int, k: int) -> float:
        """``log p(a_j = i | a_{j-1} = k)``: shift from k up to i, then emit."""
        return sum(self.log_shift[j][k:i]) + self.log_emit[j][i]

    def is_proper(self) -> bool:
        """False if any value is NaN or plus infinity."""
        grids = (self.log_word, self.log_emit, self.log_shift)
        return all(value < math.inf for grid in grids for row in grid for value in row)


def _forward(pair: _Pair) -> Rows:
    """``alpha(i, j) = p(a_j = i, y_1..y_j | x)``."""
    positions = range(pair.src_len)
    alpha = [[pair.log_transition(0, i, 0) + pair.log_word[0][i] for i in positions]]
    for j in range(1, pair.tgt_len):
        alpha.append(
            [
                pair.log_word[j][i] + _log_sum(alpha[j - 1][k] + pair.log_transition(j, i, k) for k in range(i + 1))
                for i in positions
            ]
        )
    return alpha


def _backward(pair: _Pair, end: End) -> Rows:
    """``beta(i, j) = p(y_{j+1}..y_J | a_j = i, y_1..y_j, x)``."""
    positions = range(pair.src_len)
    last = pair.src_len - 1
    beta = [[0.0 if end == "any" or i == last else -math.inf for i in positions]]
    for j in reversed(range(pair.tgt_len - 1)):
        following = beta[0]
        beta.insert(
            0,
            [
                _log_sum(
                    pair.log_transition(j + 1, k, i) + pair.log_word[j + 1][k] + following[k]
                    for k in range(i, pair.src_len)
                )
                for i in positions
            ],
        )
    return beta


def _emit_posterior(alpha: Rows, beta: Rows, log_total: float) -> Rows:
    return [
        [math.exp(a + b - log_total) for a, b in zip(alpha_row, beta_row, strict=True)]
        for alpha_row, beta_row in zip(alpha, beta, strict=True)
    ]


def _shift_posterior(pair: _Pair, alpha: Rows, beta: Rows, log_total: float) -> Rows:
    """Sums, for every cell, the paths whose jump from k to i > k passes over it."""
    shift = [[0.0] * pair.src_len for _ in range(pair.tgt_len)]
    for j in range(pair.tgt_len):
        starts = range(pair.src_len) if j > 0 else [0]
        for k in starts:
            log_start = alpha[j - 1][k] if j > 0 else 0.0
            for i in range(k + 1, pair.src_len):
                log_jump = log_start + pair.log_transition(j, i, k) + pair.log_word[j][i] + beta[j][i]
                probability = math.exp(log_jump - log_total)
                for d in range(k, i):
                    shift[j][d] += probability
    return shift


def _solve_pair(pair: _Pair, end: End) -> tuple[float, Rows, Rows]:
    zeros = [[0.0] * pair.src_len for _ in range(pair.tgt_len)]
    if not pair.is_proper():
        return math.nan, zeros, zeros
    alpha = _forward(pair)
    beta = _backward(pair, end)
    log_total = _log_sum(a + b for a, b in zip(alpha[-1], beta[-1], strict=True))
    if log_total == -math.inf:
        return math.inf, zeros, zeros
    return (
        -log_total,
        _emit_posterior(alpha, beta, log_total),
        _shift_posterior(pair, alpha, beta, log_total),
    )


class ReferenceBackend:
    """The paper's recursion on the CPU, for checking and for reading."""

    name = "reference"

    def unavailable(self, device: torch.device) -> str | None:
        """The loops run on the host, so any device will do."""
        return None

    def solve(self, grid: Grid, end: End, want_posteriors: bool) -> Solution:
        """Solves pair by pair; posteriors cost little beside the loops and are dropped if unwanted."""
        batch, tgt_size, src_size = grid.log_word.shape
        nll = torch.full((batch,), math.nan, dtype=torch.float64)
        emit = torch.zeros(batch, tgt_size, src_size, dtype=torch.float64)
        shift = torch.zeros_like(emit)
        for b in range(batch):
            src_len, tgt_len = int(grid.src_lens[b]), int(grid.tgt_lens[b])
            if not (1 <= src_len <= src_size and 1 <= tgt_len <= tgt_size):
                continue
            pair = _Pair(*(g[b, :tgt_len, :src_len].tolist() for g in (grid.log_word, grid.log_emit, grid.log_shift)))
            nll[b], emit_rows, shift_rows = _solve_pair(pair, end)
            emit[b, :tgt_len, :src_len] = torch.tensor(emit_rows, dtype=torch.float64)
            shift[b, :tgt_len, :src_len] = torch.tensor(shift_rows, dtype=torch.float64)
        if not want_posteriors:
            return Solution(nll.to(grid.log_word))
        return Solution(nll.to(grid.log_word), emit.to(grid.log_word), shift.to(grid.log_word))
