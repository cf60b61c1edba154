"""The posterior over alignments as a distribution object."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Self

from ssnt.arrays import is_numpy, namespace, no_grad
from ssnt.dp.checks import checked_grid, raise_if_improper, require_count, require_end
from ssnt.dp.contract import Solution, posteriors_of
from ssnt.dp.diagonals import Moves, accumulation_dtype, valid_cells
from ssnt.dp.kbest import k_best
from ssnt.dp.scan import log_departures, solve_by_diagonals
from ssnt.errors import DataError
from ssnt.types import Alignment, End, Grid, Posteriors

if TYPE_CHECKING:
    from torch import Tensor


def _solve(grid: Grid, end: End, *, want_posteriors: bool) -> Solution:
    """Runs the recursion: a diagonal at a time on NumPy, by the fastest backend on torch."""
    if is_numpy(grid.log_word):
        solution = solve_by_diagonals(grid, end, want_posteriors)
        raise_if_improper(grid, solution.nll)
        return solution
    from ssnt.dp.dispatch import solve

    return solve(grid, end, want_posteriors)


def _log_partition(grid: Grid, end: End) -> Tensor:
    """``log p(y|x)``, ``(B,)``; differentiable on torch."""
    if is_numpy(grid.log_word):
        return -_solve(grid, end, want_posteriors=False).nll
    from ssnt.dp.autograd import negative_log_likelihood

    return -negative_log_likelihood(grid, end)


def _posteriors(grid: Grid, end: End) -> Posteriors:
    """Posterior probabilities; differentiable on torch."""
    if is_numpy(grid.log_word):
        return posteriors_of(_solve(grid, end, want_posteriors=True))
    from ssnt.dp.autograd import posteriors

    return posteriors(grid, end)


class AlignmentDistribution:
    """``p(a | x, y)``, the distribution over the monotone alignments of each pair in a batch.

    Every answer is exact. A pair that no path can explain has log partition minus infinity, zero posteriors, zero
    entropy and zero delays, no alignment among its k best, and :meth:`viterbi` and :meth:`sample` raise for it.

    The grids are tensors or NumPy arrays (:mod:`ssnt.arrays`); "differentiable" is said of tensors.
    """

    def __init__(
        self,
        log_word: Tensor,
        log_emit: Tensor,
        log_shift: Tensor,
        src_lens: Tensor,
        tgt_lens: Tensor,
        *,
        end: End = "any",
    ) -> None:
        """Checks the grids as :func:`ssnt.ssnt_loss` does, except that their weights need not be normalised.

        Args:
            log_word: Log weight of writing the target symbol at the cell, ``(B, J, I)``.
            log_emit: Log weight of emitting at the cell, same shape.
            log_shift: Log weight of shifting at the cell, same shape.
            src_lens: Source lengths, ``(B,)``.
            tgt_lens: Target lengths, ``(B,)``.
            end: Where a path may end: ``"any"`` or ``"last"``.
        """
        require_end(end)
        self.end: End = end
        self.grid = checked_grid(log_word, log_emit, log_shift, src_lens, tgt_lens)

    @classmethod
    def of(cls, grid: Grid, *, end: End = "any") -> Self:
        """The distribution of a model's grid."""
        return cls(grid.log_word, grid.log_emit, grid.log_shift, grid.src_lens, grid.tgt_lens, end=end)

    def log_partition(self) -> Tensor:
        """``log p(y|x)``, ``(B,)``; differentiable once."""
        return _log_partition(self.grid, self.end)

    def posteriors(self) -> Posteriors:
        """Posterior probabilities of emitting and of shifting at each cell; differentiable once."""
        return _posteriors(self.grid, self.end)

    def viterbi(self) -> list[Alignment]:
        """The most probable alignment of each pair.

        Raises:
            DataError: A pair has no possible alignment.
        """
        best = self.kbest(1)
        for b, alignments in enumerate(best):
            if not alignments:
                raise self._impossible(b)
        return [alignments[0] for alignments in best]

    def kbest(self, k: int) -> list[list[Alignment]]:
        """The ``k`` most probable alignments of each pair, best first; fewer where fewer are possible."""
        require_count("k", k)
        self._require_proper()
        return k_best(self.grid, self.end, k)

    def entropy(self) -> Tensor:
        """Entropy of the alignment given the pair, in nats, ``(B,)``; differentiable once."""
        # The difference of two numbers that may be large and alike: in full precision, and only then rounded.
        xp = namespace(self.grid.log_word)
        dtype = accumulation_dtype(self.grid.log_word.device)
        log_word, log_emit, log_shift = (
            values.to(dtype) for values in (self.grid.log_word, self.grid.log_emit, self.grid.log_shift)
        )
        grid = Grid(log_word, log_emit, log_shift, self.grid.src_lens, self.grid.tgt_lens)
        chances, log_partition = _posteriors(grid, self.end), _log_partition(grid, self.end)
        # A decision that is never taken adds nothing, even if its log weight is minus infinity.
        mean_log_score = (
            xp.where(chances.emit > 0, log_word + log_emit, 0.0) * chances.emit
            + xp.where(chances.shift > 0, log_shift, 0.0) * chances.shift
        ).sum(dim=(1, 2))
        entropy = xp.where(log_partition > -math.inf, log_partition - mean_log_score, 0.0)
        return entropy.to(self.grid.log_word.dtype)

    def expected_delay(self) -> Tensor:
        """Posterior mean of the source position, counted from 1, at which each target symbol is written, ``(B, J)``.

        That is the number of source symbols that have been read by then, one more than the zero-based positions of
        :meth:`viterbi` and :meth:`sample`. It is exact and differentiable once (by a first-order expectation
        recursion), so that it can regularise latency; zero in padding, so the mean delay of a batch is
        ``expected_delay().sum() / tgt_lens.sum()``.
        """
        emit = self.posteriors().emit
        positions = namespace(emit).arange(1, emit.shape[2] + 1, device=emit.device, dtype=emit.dtype)
        return (emit * positions).sum(dim=2)  # not a matrix product, which autocast would round

    def sample(self, n: int, *, generator: Any = None) -> Tensor:
        """Draws ``n`` independent alignments of each pair.

        Args:
            n: How many.
            generator: Source of randomness: a ``torch.Generator`` on the grid's device, or a NumPy one for NumPy.

        Returns:
            Zero-based source positions, ``(B, n, J)``; -1 beyond a pair's target length.

        Raises:
            DataError: A pair has no possible alignment.
        """
        require_count("n", n)
        self._require_proper()
        with no_grad():
            weights = Moves.log_weights(self.grid, self.end)
            log_leave = weights.to_grid(log_departures(weights))  # (B, J, I)
            impossible = (log_leave[:, 0, 0] == -math.inf).nonzero()
            if len(impossible):
                raise self._impossible(int(impossible[0, 0]))
            return self._walk(self._emit_chance(log_leave), n, generator)

    def _emit_chance(self, log_leave: Tensor) -> Tensor:
        """Probability of emitting (and not shifting) at each cell, for paths that finish, ``(B, J, I)``."""
        xp = namespace(log_leave)
        log_shift = xp.constant_pad_nd(log_leave[:, :, 1:], (0, 1), -math.inf)
        log_shift = log_shift + self.grid.log_shift.to(log_leave.dtype)
        # Where shifting is impossible or leads nowhere, one emits; padded cells are never visited.
        waits = xp.where(log_shift > -math.inf, xp.exp(log_shift - log_leave), 0.0)
        return 1.0 - waits

    def _walk(self, emit_chance: Tensor, n: int, generator: Any) -> Tensor:
        """Walks ``n`` paths a pair through the lattice, all in step."""
        batch, tgt_size, src_size = emit_chance.shape
        xp, device = namespace(emit_chance), emit_chance.device
        flat = emit_chance.flatten(1)  # (B, J * I)
        last_row = self.grid.tgt_lens[:, None] - 1
        i = xp.zeros(batch, n, dtype=xp.int64, device=device)
        j = xp.zeros_like(i)
        positions = xp.full((batch, n, tgt_size), -1, dtype=xp.int64, device=device)
        for _ in range(tgt_size + src_size - 1):
            walking = j <= last_row
            row = j.clamp(max=tgt_size - 1)
            draw = xp.rand(batch, n, dtype=flat.dtype, device=device, generator=generator)
            emits = walking & (draw < flat.gather(1, row * src_size + i))
            kept = positions.gather(2, row[..., None])[..., 0]
            positions.scatter_(2, row[..., None], xp.where(emits, i, kept)[..., None])
            j = j + emits.long()
            i = i + (walking & ~emits).long()
        return positions

    def _require_proper(self) -> None:
        """Raises for NaN and plus infinity, as the loss does."""
        _solve(self.grid, self.end, want_posteriors=False)

    def _impossible(self, b: int) -> DataError:
        valid = int(valid_cells(self.grid)[b].sum())
        return DataError(f"pair {b} has no possible alignment: no path through its {valid} cells has any probability")
