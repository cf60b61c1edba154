"""Numba kernels for one core: a tanh layer with one output over all cells of a grid, which is never held.

``tanh(a + b) = 1 - 2 / (1 + exp(2a) exp(2b))``: with the exponentials of both sides taken once a row, a cell costs a
division for each hidden unit, and divisions vectorise.
"""

from __future__ import annotations

from ssnt.dp.compiled import kernel

# Sums over hidden units in any order, which is what lets them be vectorised; NaN and infinity stay what they are.
_RELAXED = {"contract", "reassoc", "nsz"}


@kernel(fastmath=_RELAXED)
def weighted_sums(src_exps, tgt_exps, weight, first, stop, sums):
    """``sums[b, j, i] = sum_d weight[d] / (1 + src_exps[b, i, d] tgt_exps[b, j, d])``, from pair first to stop."""
    one = weight.dtype.type(1)
    for b in range(first, stop):
        for j in range(tgt_exps.shape[1]):
            for i in range(src_exps.shape[1]):
                total = weight.dtype.type(0)
                for d in range(len(weight)):
                    total += weight[d] / (one + src_exps[b, i, d] * tgt_exps[b, j, d])
                sums[b, j, i] = total


@kernel(fastmath=_RELAXED)
def gradients(src_exps, tgt_exps, upstream, first, stop, grad_src, grad_tgt, grad_weight):
    """Adds, for ``r = 1 / (1 + src_exps tgt_exps)`` and the upstream gradient u of each cell, what is needed of it.

    That is ``u r (1 - r)`` to the rows of both sides, and ``u r`` to the pair's row ``(B, D)`` for the weight.
    """
    one = upstream.dtype.type(1)
    for b in range(first, stop):
        for j in range(tgt_exps.shape[1]):
            for i in range(src_exps.shape[1]):
                u = upstream[b, j, i]
                for d in range(src_exps.shape[2]):
                    r = one / (one + src_exps[b, i, d] * tgt_exps[b, j, d])
                    part = u * r
                    grad_weight[b, d] += part
                    grad_src[b, i, d] += part - part * r
                    grad_tgt[b, j, d] += part - part * r
