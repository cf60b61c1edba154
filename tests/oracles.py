"""Independent computations that the library is checked against: full enumeration, in float64 numpy.

Nothing here uses ssnt. An alignment is a non-decreasing tuple of source positions, one a target symbol.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Enumeration:
    """Every alignment of one pair with its log score and the decisions it takes."""

    alignments: list[tuple[int, ...]]
    log_scores: Array  # (N,)
    emits: Array  # (N, J, I), 1 where the alignment emits
    shifts: Array  # (N, J, I), 1 where the alignment shifts

    @property
    def log_total(self) -> float:
        peak = self.log_scores.max()
        if peak == -math.inf:
            return -math.inf
        return float(peak + np.log(np.exp(self.log_scores - peak).sum()))

    @property
    def probabilities(self) -> Array:
        """Posterior of each alignment; zeros if none is possible."""
        if self.log_total == -math.inf:
            return np.zeros_like(self.log_scores)
        return np.exp(self.log_scores - self.log_total)

    def expectation(self, values: Array) -> Array:
        """Posterior mean of a value an alignment, ``(N, ...) -> (...)``."""
        return np.tensordot(self.probabilities, values, axes=1)

    @property
    def entropy(self) -> float:
        p = self.probabilities[self.probabilities > 0]
        return float(-(p * np.log(p)).sum())


def enumerate_pair(log_word: Array, log_emit: Array, log_shift: Array, end: str) -> Enumeration:
    """Scores every monotone alignment of one unpadded pair, grids ``(J, I)``."""
    tgt_len, src_len = log_word.shape
    alignments, scores, emits, shifts = [], [], [], []
    for alignment in itertools.combinations_with_replacement(range(src_len), tgt_len):
        if end == "last" and alignment[-1] != src_len - 1:
            continue
        emit, shift = np.zeros((tgt_len, src_len)), np.zeros((tgt_len, src_len))
        score, at = 0.0, 0
        for j, i in enumerate(alignment):
            for d in range(at, i):
                shift[j, d] = 1.0
                score += log_shift[j, d]
            emit[j, i] = 1.0
            score += log_emit[j, i] + log_word[j, i]
            at = i
        alignments.append(alignment)
        scores.append(score)
        emits.append(emit)
        shifts.append(shift)
    return Enumeration(alignments, np.array(scores), np.array(emits), np.array(shifts))


@dataclass(frozen=True)
class RandomLattices:
    """A ragged batch of lattices as plain arrays; padding holds NaN, which nobody may read."""

    log_word: Array  # (B, J, I)
    log_emit: Array
    log_shift: Array
    src_lens: NDArray[np.int64]
    tgt_lens: NDArray[np.int64]

    def pair(self, b: int) -> tuple[Array, Array, Array]:
        rows, columns = self.tgt_lens[b], self.src_lens[b]
        return tuple(g[b, :rows, :columns] for g in (self.log_word, self.log_emit, self.log_shift))

    def enumerate(self, end: str) -> list[Enumeration]:
        return [enumerate_pair(*self.pair(b), end) for b in range(len(self.src_lens))]

    def rounded(self) -> RandomLattices:
        """The same after a round trip through float32, so that both precisions see the same numbers."""
        grids = (g.astype(np.float32).astype(np.float64) for g in (self.log_word, self.log_emit, self.log_shift))
        return RandomLattices(*grids, self.src_lens, self.tgt_lens)


def random_lattices(seed: int, batch: int = 5, longest: int = 6, normalised: bool = False) -> RandomLattices:
    """Lattices of many characters: mild, peaked, extreme, unnormalised, and with minus infinity sprinkled in."""
    rng = np.random.default_rng(seed)
    src_lens = rng.integers(1, longest + 1, size=batch)
    tgt_lens = rng.integers(1, longest + 1, size=batch)
    shape = (batch, tgt_lens.max() + rng.integers(0, 2), src_lens.max() + rng.integers(0, 2))
    scale = rng.choice([0.1, 1.0, 10.0, 300.0], size=(batch, 1, 1))
    word = -rng.exponential(size=shape) * scale
    logits = rng.normal(size=shape) * rng.choice([0.3, 3.0, 100.0], size=(batch, 1, 1))
    emit, shift = -np.logaddexp(0.0, -logits), -np.logaddexp(0.0, logits)
    if rng.random() < 0.2 and not normalised:  # scores need not be probabilities
        word, shift = word + rng.normal() * 5, shift + abs(rng.normal())
    for values, rate in ((word, 0.3), (emit, 0.1), (shift, 0.2)):
        hit = rng.random(size=(batch, 1, 1)) < 0.4
        values[(rng.random(size=shape) < rate) & hit] = -np.inf
    outside = (np.arange(shape[1])[:, None] >= tgt_lens[:, None, None]) | (
        np.arange(shape[2]) >= src_lens[:, None, None]
    )
    for values in (word, emit, shift):
        values[outside] = np.nan
    return RandomLattices(word, emit, shift, src_lens, tgt_lens)
