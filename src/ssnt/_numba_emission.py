"""Numba kernels for one core: a tanh layer with one output over all cells of a grid, which is never held.

``tanh(a + b) = (p - 1) / (p + 1)`` with ``p = exp(2a) exp(2b)``: with the exponentials of both sides taken once a row,
a cell costs a division for each hidden unit, and divisions vectorise.
"""

from __future__ import annotations

from ssnt.dp.compiled import RELAXED, kernel


@kernel(fastmath=RELAXED)
def weighted_sums(src_exps, tgt_exps, weight, first, stop, sums):
    """``sums[b, j, i] = sum_d weight[d] tanh(...)`` for the exponentials of both sides, from pair first to stop."""
    one = weight.dtype.type(1)
    for b in range(first, stop):
        for j in range(tgt_exps.shape[1]):
            for i in range(src_exps.shape[1]):
                total = weight.dtype.type(0)
                for d in range(len(weight)):
                    product = src_exps[b, i, d] * tgt_exps[b, j, d]
                    total += weight[d] * ((product - one) / (product + one))
                sums[b, j, i] = total


@kernel(fastmath=RELAXED)
def gradients(src_exps, tgt_exps, upstream, first, stop, grad_src, grad_tgt, grad_weight):
    """Adds, for the tanh t and the upstream gradient u of each cell, what is needed of it.

    That is ``u (1 - t^2)`` to the rows of both sides, and ``u t`` to the pair's row ``(B, D)`` for the weight.
    """
    one = upstream.dtype.type(1)
    for b in range(first, stop):
        for j in range(tgt_exps.shape[1]):
            for i in range(src_exps.shape[1]):
                u = upstream[b, j, i]
                for d in range(src_exps.shape[2]):
                    product = src_exps[b, i, d] * tgt_exps[b, j, d]
                    r = one / (product + one)
                    t = (product - one) * r
                    slope = u * ((one - t) * (one + t))
                    grad_weight[b, d] += u * t
                    grad_src[b, i, d] += slope
                    grad_tgt[b, j, d] += slope
