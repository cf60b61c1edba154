"""Numba kernels for one core: the word grid over a small vocabulary, cell by cell.

The arithmetic is that of :mod:`ssnt.factored_softmax`; what it spends on dozens of small tensor operations is more than
all of it costs while the vocabulary has a few hundred symbols, such as letters or phones.
"""

from __future__ import annotations

import math

from ssnt.dp.compiled import RELAXED, kernel


@kernel(fastmath=RELAXED)
def _product(a, b):
    total = a.dtype.type(0)
    for v in range(len(a)):
        total += a[v] * b[v]
    return total


@kernel()
def log_words(src, tgt, targets, src_lens, tgt_lens, limits, first, stop, log_word, scale, is_precise):
    """Fills the grid of the pairs from first to stop.

    Args:
        src: Logits ``(B, I, V)``, their peaks ``(B, I)``, and the exponentials of what they are below these.
        tgt: The same of the other side, ``(B, J, V)``.
        targets: ``(B, J)``.
        src_lens: ``(B,)``.
        tgt_lens: ``(B,)``.
        limits: The smallest sum of products of exponentials that has lost nothing to underflow, and the largest sum of
            peaks that is not rounded too coarsely.
        first: The first pair.
        stop: The first pair after the last.
        log_word: ``(B, J, I)``, to be filled where there is a cell.
        scale: One over the sum of products, ``(B, J, I)``, likewise.
        is_precise: ``(B,)``, whether all of a pair's cells are within the limits; it ends at the first that is not.
    """
    src_logits, src_peaks, src_exps = src
    tgt_logits, tgt_peaks, tgt_exps = tgt
    smallest, largest = limits
    for b in range(first, stop):
        is_precise[b] = True
        for j in range(tgt_lens[b]):
            y = targets[b, j]
            for i in range(src_lens[b]):
                total = _product(tgt_exps[b, j], src_exps[b, i])
                if not (total >= smallest and abs(src_peaks[b, i]) + abs(tgt_peaks[b, j]) <= largest):  # or is NaN
                    is_precise[b] = False
                    return  # the whole batch is left to others
                scale[b, j, i] = 1.0 / total
                chosen = src_logits[b, i, y] + tgt_logits[b, j, y]
                log_word[b, j, i] = chosen - (math.log(total) + (src_peaks[b, i] + tgt_peaks[b, j]))


@kernel(fastmath=RELAXED)
def _add(row, factor, other):
    for v in range(len(row)):
        row[v] += factor * other[v]


@kernel(fastmath=RELAXED)
def _multiply(row, other):
    for v in range(len(row)):
        row[v] *= other[v]


@kernel()
def gradients(src_exps, tgt_exps, targets, src_lens, tgt_lens, upstream, scale, first, stop, grad_src, grad_tgt):
    """Fills the gradients of both sides' logits, which begin as zeros, ``(B, I, V)`` and ``(B, J, V)``."""
    for b in range(first, stop):
        for j in range(tgt_lens[b]):
            for i in range(src_lens[b]):
                factor = -upstream[b, j, i] * scale[b, j, i]
                _add(grad_src[b, i], factor, tgt_exps[b, j])
                _add(grad_tgt[b, j], factor, src_exps[b, i])
        for i in range(src_lens[b]):
            _multiply(grad_src[b, i], src_exps[b, i])
        for j in range(tgt_lens[b]):
            _multiply(grad_tgt[b, j], tgt_exps[b, j])
            y = targets[b, j]
            for i in range(src_lens[b]):
                grad_src[b, i, y] += upstream[b, j, i]
                grad_tgt[b, j, y] += upstream[b, j, i]
