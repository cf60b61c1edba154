"""Numba kernels for one core: the expected delay of a pair and its gradient, from the posteriors of its lattice.

Given the pair, the path is a Markov chain: it comes to a cell by writing or by shifting, and leaves it in one of the
two ways, with probabilities that are ratios of neighbouring posteriors. So the mean delay up to a cell, and from it on,
are averages over two neighbours each, for which it does not matter how the posteriors were found. Nothing is scaled
and nothing overflows; an error of a posterior changes the results by that much times the largest delay.
"""

from __future__ import annotations

import math

import numpy as np

from ssnt.dp._numba_lattice import _clear_padding, _solve_linear, _solve_log
from ssnt.dp.compiled import kernel

_NEVER_VISITED = 2.0**-960  # its inverse is finite; what passes through a cell that is less probable counts for nothing


@kernel()
def _waiting_cost(tgt_len, src_len, j):
    """What a shift in row j adds to the delay: symbol j and all after it are written one position later."""
    return (tgt_len - j) / src_len


@kernel()
def _delay_of(shift):
    """The sum over target symbols of the expected source position, counted from 1 and divided by the source length."""
    tgt_len, src_len = shift.shape
    delay = tgt_len / src_len  # of a path that writes everything at the first position
    for j in range(tgt_len):
        waits = 0.0
        for i in range(src_len):
            waits += shift[j, i]
        delay += waits * _waiting_cost(tgt_len, src_len, j)
    return delay


@kernel()
def _paid(emit, shift, paid):
    """Fills ``paid``: the mean delay that the paths through a cell have taken on before they reach it."""
    tgt_len, src_len = emit.shape
    written = np.zeros(src_len)  # the posterior of coming from the row before, and what was paid there
    before = np.zeros(src_len)
    waited_share = np.zeros(src_len)
    for j in range(tgt_len):
        row, row_shift = paid[j], shift[j]
        cost = _waiting_cost(tgt_len, src_len, j)
        for i in range(1, src_len):
            mass = written[i] + row_shift[i - 1]
            inverse = 1.0 / mass if mass > _NEVER_VISITED else 0.0
            waited_share[i] = row_shift[i - 1] * inverse
            row[i] = written[i] * inverse * before[i] + waited_share[i] * cost
        here = before[0]
        row[0] = here
        for i in range(1, src_len):
            here = row[i] + waited_share[i] * here
            row[i] = here
        written, before = emit[j], row


@kernel()
def _gradient(emit, shift, paid, mean, emit_out, shift_out):
    """Fills the derivatives, ``P(move) * (mean over the paths through it - mean)``; the rest to pay rides along."""
    tgt_len, src_len = emit.shape
    after = np.zeros(src_len)  # the rest to pay once symbol j is written
    rest = np.zeros(src_len + 1)  # the rest to pay from a cell of row j on; nobody goes beyond the last
    waits_share = np.empty(src_len)
    for j in range(tgt_len - 1, -1, -1):
        row_emit, row_shift, row_paid = emit[j], shift[j], paid[j]
        row_emit_out, row_shift_out = emit_out[j], shift_out[j]
        cost = _waiting_cost(tgt_len, src_len, j)
        for i in range(src_len):
            mass = row_emit[i] + row_shift[i]
            inverse = 1.0 / mass if mass > _NEVER_VISITED else 0.0
            waits_share[i] = row_shift[i] * inverse
            rest[i] = row_emit[i] * inverse * after[i] + waits_share[i] * cost
        here = 0.0
        for i in range(src_len - 1, -1, -1):
            here = rest[i] + waits_share[i] * here
            rest[i] = here
        for i in range(src_len):
            excess = row_paid[i] - mean
            row_emit_out[i] = row_emit[i] * (excess + after[i])
            row_shift_out[i] = row_shift[i] * (excess + cost + rest[i + 1])
        after[:] = rest[:src_len]


@kernel()
def _copy(source, out):
    tgt_len, src_len = source.shape
    for j in range(tgt_len):
        row, row_out = source[j], out[j]
        for i in range(src_len):
            row_out[i] = row[i]


@kernel()
def solve_delays(
    log_word,
    log_emit,
    log_shift,
    src_lens,
    tgt_lens,
    end_last,
    want,
    first,
    stop,
    nll,
    delay,
    emit,
    shift,
    delay_emit,
    delay_shift,
):
    """Solves pairs ``first .. stop - 1``; posteriors and derivatives are filled in only if wanted."""
    _, tgt_size, src_size = log_word.shape
    largest = max(1, min((tgt_lens[first:stop] * src_lens[first:stop]).max(), tgt_size * src_size))
    workspace = np.empty((3, largest))
    posteriors = np.empty((2, largest))  # in full precision, whatever that of the grid
    for b in range(first, stop):
        src_len, tgt_len = src_lens[b], tgt_lens[b]
        if not (1 <= src_len <= src_size and 1 <= tgt_len <= tgt_size):
            nll[b] = delay[b] = math.nan
            continue
        cells = tgt_len * src_len
        writes = posteriors[0, :cells].reshape(tgt_len, src_len)
        waits = posteriors[1, :cells].reshape(tgt_len, src_len)
        planes = (log_word[b], log_emit[b], log_shift[b], tgt_len, src_len, end_last, workspace, True)
        loss = _solve_linear(*planes, writes, waits)
        if math.isnan(loss):
            loss = _solve_log(*planes, writes, waits)
        nll[b] = loss
        if not loss < math.inf:  # no path, or no numbers
            delay[b] = math.nan if math.isnan(loss) else 0.0
            if want:
                emit[b] = shift[b] = delay_emit[b] = delay_shift[b] = 0.0
            continue
        delay[b] = _delay_of(waits)
        if want:
            paid = workspace[0, :cells].reshape(tgt_len, src_len)
            _paid(writes, waits, paid)
            _gradient(writes, waits, paid, delay[b] - tgt_len / src_len, delay_emit[b], delay_shift[b])
            _copy(writes, emit[b])
            _copy(waits, shift[b])
            for out in (emit[b], shift[b], delay_emit[b], delay_shift[b]):
                _clear_padding(out, tgt_len, src_len)
