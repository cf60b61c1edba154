"""Numba kernels for one core: the lattice in scaled linear space, and in log space where that cannot be trusted.

The linear recursion does two exponentials a cell and no logarithm, and its exponentials vectorise. Row ``j`` of the
emission weights is divided by its largest value, so that every weight is at most one, and each row of arrivals and
departures carries a power of two of its own. What is lost is only what underflows; ``_loss_is_negligible`` bounds that
loss relative to the result, and a pair that fails the bound is redone in log space.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from ssnt.dp.compiled import kernel

_LOG2_E = 1.4426950408889634
_LN2_HIGH = 6.93147180369123816490e-01  # the low bits are zero, so that k * _LN2_HIGH is exact
_LN2_LOW = 1.90821492927058770002e-10
_ROUND = 6755399441055744.0  # 1.5 * 2^52: adding it leaves round(x) in the low bits of the sum
_EXP_MIN = -708.0  # below this the exponential is not a normal float64
_TINY = 2.0**-960  # values above this have lost nothing to underflow, with room for a product of one more weight
_NEVER = -(1 << 40)  # the exponent of a bound on nothing


@intrinsic
def _bits_of(typing_context: Any, value: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.IntType(64))

    return types.int64(types.float64), codegen


@intrinsic
def _float_of(typing_context: Any, bits: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.DoubleType())

    return types.float64(types.int64), codegen


@kernel(inline="always")
def _exp(x):
    """The exponential of x <= 0 without call or branch, so that loops vectorise; within 2 ulp, and 0 below -708."""
    clipped = max(x, _EXP_MIN)
    rounded = clipped * _LOG2_E + _ROUND
    k = rounded - _ROUND
    r = (clipped - k * _LN2_HIGH) - k * _LN2_LOW
    p = 1.6059043836821613e-10  # 1/13!; |r| <= ln2/2, so the next term is below 2^-57
    p = p * r + 2.08767569878681e-09
    p = p * r + 2.505210838544172e-08
    p = p * r + 2.755731922398589e-07
    p = p * r + 2.7557319223985893e-06
    p = p * r + 2.48015873015873e-05
    p = p * r + 0.0001984126984126984
    p = p * r + 0.001388888888888889
    p = p * r + 0.008333333333333333
    p = p * r + 0.041666666666666664
    p = p * r + 0.16666666666666666
    p = p * r + 0.5
    p = p * r + 1.0
    p = p * r + 1.0
    power = _float_of((_bits_of(rounded) << 52) + (1023 << 52))
    return p * power if x >= _EXP_MIN else 0.0


@kernel(inline="always")
def _larger(a, b):
    return a if a > b else b


@kernel()
def _row_peak(row):
    """The largest value; four running maxima, because one would make the loop wait for itself."""
    size = row.shape[0]
    m0 = m1 = m2 = m3 = -math.inf
    unrolled = size - size % 4
    for i in range(0, unrolled, 4):
        m0 = _larger(row[i], m0)
        m1 = _larger(row[i + 1], m1)
        m2 = _larger(row[i + 2], m2)
        m3 = _larger(row[i + 3], m3)
    for i in range(unrolled, size):
        m0 = _larger(row[i], m0)
    return _larger(_larger(m0, m1), _larger(m2, m3))


@kernel()
def _exponentiate(log_word, log_emit, log_shift, write, shift):
    """Fills the linear weights of a pair, each row of ``write`` divided by its peak.

    Returns the sum of the log peaks, or NaN if the pair must go the other way: a row of zeros, a NaN, a plus
    infinity, or a shift weight above one.
    """
    tgt_len, src_len = write.shape
    usable = True
    log_peaks = 0.0
    for j in range(tgt_len):
        row_word, row_emit, row_shift = log_word[j], log_emit[j], log_shift[j]
        row_write, row_stay = write[j], shift[j]
        for i in range(src_len):
            row_write[i] = np.float64(row_word[i]) + np.float64(row_emit[i])
        peak = _row_peak(row_write)
        if not (peak > -math.inf and peak < math.inf):
            return math.nan
        log_peaks += peak
        for i in range(src_len):
            x = row_write[i] - peak
            s = np.float64(row_shift[i])
            usable &= (x <= 0.0) & (s <= 0.0)  # NaN fails every comparison
            row_write[i] = _exp(x)
            row_stay[i] = _exp(s)
    return log_peaks if usable else math.nan


@kernel()
def _arrive(write, shift, arrive, scales, lossy):
    """Forward recursion: the true arrivals of row j are ``arrive[j] * 2^scales[j]``.

    Returns the scale of a row after the last one, or ``_NEVER`` if nothing arrives there.
    """
    tgt_len, src_len = write.shape
    scale = 0
    rescale = 1.0
    inflow = np.zeros(src_len)
    inflow[0] = 1.0
    for j in range(tgt_len):
        row, row_write, row_shift = arrive[j], write[j], shift[j]
        scales[j] = scale
        here = inflow[0] * rescale
        row[0] = here
        total = here * row_write[0]
        # The sum rides along: its additions fit into the time the recursion waits for itself.
        for i in range(1, src_len):
            here = inflow[i] * rescale + here * row_shift[i - 1]
            row[i] = here
            total += here * row_write[i]
        lossless = True
        for i in range(src_len):
            inflow[i] = row[i] * row_write[i]
            lossless &= (row[i] > _TINY) & (inflow[i] > _TINY)
        lossy[j] = not lossless
        if not total > 0.0:
            return _NEVER
        exponent = math.frexp(total)[1]
        scale += exponent
        rescale = math.ldexp(1.0, -exponent)
    return scale


@kernel()
def _depart(
    write, shift, arrive, arrive_scales, end_last, total, total_scale, scales, lossy, want, emit_out, shift_out
):
    """Backward recursion, and the posteriors if wanted: ``scales[j]`` is the power of two of row j's departures."""
    tgt_len, src_len = write.shape
    scale = 0
    after = np.full(src_len, 0.0 if end_last else 1.0)
    after[src_len - 1] = 1.0
    leave = np.zeros(src_len + 1)
    for j in range(tgt_len - 1, -1, -1):
        row, row_write, row_shift = arrive[j], write[j], shift[j]
        scales[j] = scale
        here = 0.0
        flow = 0.0
        for i in range(src_len - 1, -1, -1):
            here = row_write[i] * after[i] + here * row_shift[i]
            leave[i] = here
            flow += here
        if want:
            factor = math.ldexp(1.0 / total, arrive_scales[j] + scale - total_scale)
            row_emit_out, row_shift_out = emit_out[j], shift_out[j]
            for i in range(src_len):
                mass = row[i] * factor
                row_emit_out[i] = mass * (row_write[i] * after[i])
                row_shift_out[i] = mass * (row_shift[i] * leave[i + 1])
        exponent = math.frexp(flow)[1]
        scale += exponent
        rescale = math.ldexp(1.0, -exponent)
        lossless = True
        for i in range(src_len):
            lossless &= leave[i] > _TINY
            after[i] = leave[i] * rescale
        lossy[j] = not lossless


@kernel()
def _log2_gain(write, shift):
    """Bounds, as a power of two, how much a unit of mass in a row can become in the next one.

    Single weights are at most one, but a unit of mass may be written here *and* shifted on and written there.
    """
    gain = 0.0
    most = 1.0
    for i in range(write.shape[0] - 1, -1, -1):
        gain = write[i] + gain * shift[i]
        most = _larger(gain, most)
    return math.frexp(most)[1]


@kernel()
def _loss_is_negligible(write, shift, scales, lossy, log2_total):
    """Bounds what underflow took away: True if it is below 2^-60 of the result.

    A value that underflows in row j is below 2^-1021 in units of its row, and what passes through it is multiplied by
    at most the largest value of the other side: for arrivals these are the departures of the row, at most ``src_len *
    2^scales[1, j]`` plus what later rows lost; for departures the arrivals, at most ``2^scales[0, j]`` plus what
    earlier rows lost. What is lost may grow from row to row, by :func:`_log2_gain` at most. In a row that is not lossy
    every value, and every outflow, exceeds ``_TINY``: compared with that, what underflowed there is nothing.
    """
    tgt_len, src_len = write.shape
    operations = 2 + int(np.ceil(math.log2(4.0 * src_len * src_len * tgt_len)))
    later = np.empty(tgt_len, np.int64)
    lost = _NEVER
    for j in range(tgt_len - 1, -1, -1):
        if lost > _NEVER:
            lost += _log2_gain(write[j], shift[j])
        if lossy[1, j]:
            lost = max(lost, scales[1, j] - 1021 + operations)
        later[j] = max(lost, scales[1, j])
    lost = _NEVER
    for j in range(tgt_len):
        if lossy[0, j]:
            lost = max(lost, scales[0, j] - 1021 + operations)
        if max(lost, scales[0, j]) + later[j] - log2_total > 1021 - 60 - operations:
            return False
        if lost > _NEVER:
            lost += _log2_gain(write[j], shift[j])
    return True


@kernel()
def _solve_linear(log_word, log_emit, log_shift, tgt_len, src_len, end_last, workspace, want, emit_out, shift_out):
    """One pair in scaled linear space; NaN if it has to be done in log space instead."""
    cells = tgt_len * src_len
    write = workspace[0, :cells].reshape(tgt_len, src_len)
    shift = workspace[1, :cells].reshape(tgt_len, src_len)
    arrive = workspace[2, :cells].reshape(tgt_len, src_len)
    log_peaks = _exponentiate(log_word, log_emit, log_shift, write, shift)
    if math.isnan(log_peaks):
        return math.nan
    scales = np.empty((2, tgt_len), np.int64)
    lossy = np.empty((2, tgt_len), np.bool_)
    if _arrive(write, shift, arrive, scales[0], lossy[0]) == _NEVER:
        return math.nan
    last = tgt_len - 1
    total = 0.0
    for i in range(src_len - 1 if end_last else 0, src_len):
        total += arrive[last, i] * write[last, i]
    if not total > _TINY:
        return math.nan
    total_scale = scales[0, last]
    if want or lossy[0].any():
        _depart(
            write,
            shift,
            arrive,
            scales[0],
            end_last,
            total,
            total_scale,
            scales[1],
            lossy[1],
            want,
            emit_out,
            shift_out,
        )
        log2_total = math.log2(total) + total_scale
        if not _loss_is_negligible(write, shift, scales, lossy, log2_total):
            return math.nan
    return -(log_peaks + math.log(total) + total_scale * math.log(2.0))


@kernel()
def _log_add(a, b):
    high, low = (a, b) if a > b else (b, a)
    if low == -math.inf:
        return high
    return high + math.log1p(math.exp(low - high))


@kernel()
def _is_proper(log_word, log_emit, log_shift, tgt_len, src_len):
    for j in range(tgt_len):
        for i in range(src_len):
            if not (log_word[j, i] < math.inf and log_emit[j, i] < math.inf and log_shift[j, i] < math.inf):
                return False
    return True


@kernel()
def _arrive_log(write, log_shift, arrive, end_last):
    """Forward recursion in log space; returns the log-likelihood."""
    tgt_len, src_len = write.shape
    for j in range(tgt_len):
        here = -math.inf
        for i in range(src_len):
            inflow = arrive[j - 1, i] + write[j - 1, i] if j > 0 else (0.0 if i == 0 else -math.inf)
            waited = here + log_shift[j, i - 1] if i > 0 else -math.inf
            here = _log_add(inflow, waited)
            arrive[j, i] = here
    total = -math.inf
    for i in range(src_len - 1 if end_last else 0, src_len):
        total = _log_add(total, arrive[tgt_len - 1, i] + write[tgt_len - 1, i])
    return total


@kernel()
def _depart_log(write, log_shift, arrive, end_last, log_total, emit_out, shift_out):
    """Backward recursion in log space, and the posteriors."""
    tgt_len, src_len = write.shape
    after = np.full(src_len, -math.inf if end_last else 0.0)
    after[src_len - 1] = 0.0
    for j in range(tgt_len - 1, -1, -1):
        leave = -math.inf
        for i in range(src_len - 1, -1, -1):
            written = write[j, i] + after[i]
            waited = log_shift[j, i] + leave if i + 1 < src_len else -math.inf
            emit_out[j, i] = math.exp(arrive[j, i] + written - log_total)
            shift_out[j, i] = math.exp(arrive[j, i] + waited - log_total)
            leave = _log_add(written, waited)
            after[i] = leave


@kernel()
def _solve_log(log_word, log_emit, log_shift, tgt_len, src_len, end_last, workspace, want, emit_out, shift_out):
    """One pair in log space: any value, any length, several times slower."""
    if not _is_proper(log_word, log_emit, log_shift, tgt_len, src_len):
        return math.nan
    cells = tgt_len * src_len
    write = workspace[0, :cells].reshape(tgt_len, src_len)
    arrive = workspace[1, :cells].reshape(tgt_len, src_len)
    for j in range(tgt_len):
        for i in range(src_len):
            write[j, i] = np.float64(log_word[j, i]) + np.float64(log_emit[j, i])
    log_total = _arrive_log(write, log_shift, arrive, end_last)
    if want and log_total > -math.inf:
        _depart_log(write, log_shift, arrive, end_last, log_total, emit_out, shift_out)
    elif want:
        emit_out[:tgt_len, :src_len] = 0.0
        shift_out[:tgt_len, :src_len] = 0.0
    return -log_total


@kernel()
def _clear_padding(out, tgt_len, src_len):
    out[:tgt_len, src_len:] = 0.0
    out[tgt_len:] = 0.0


@kernel()
def solve_pairs(
    log_word, log_emit, log_shift, src_lens, tgt_lens, end_last, want, first, stop, nll, emit, shift, in_log
):
    """Solves pairs ``first .. stop - 1``; ``in_log`` tells which of them were done in log space."""
    _, tgt_size, src_size = log_word.shape
    largest = min((tgt_lens[first:stop] * src_lens[first:stop]).max(), tgt_size * src_size)
    workspace = np.empty((3, max(largest, 1)))
    for b in range(first, stop):
        src_len, tgt_len = src_lens[b], tgt_lens[b]
        if not (1 <= src_len <= src_size and 1 <= tgt_len <= tgt_size):
            nll[b] = math.nan
            continue
        # Whole padded planes, not slices of them: their rows are contiguous, which lets the loops vectorise.
        planes = (log_word[b], log_emit[b], log_shift[b], tgt_len, src_len, end_last, workspace, want)
        out = b if want else 0  # without posteriors the outputs are dummies of one pair
        loss = _solve_linear(*planes, emit[out], shift[out])
        in_log[b] = math.isnan(loss)
        if in_log[b]:
            loss = _solve_log(*planes, emit[out], shift[out])
        nll[b] = loss
        if want:
            _clear_padding(emit[b], tgt_len, src_len)
            _clear_padding(shift[b], tgt_len, src_len)
