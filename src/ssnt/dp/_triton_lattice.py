"""The lattice recursion as two Triton kernels, imported only when a Triton backend runs.

One program solves one pair, in one block of ``BLOCK`` source columns. It walks over the rows; along a row
the recursion is linear, so a scan solves it. What a row needs from the row before stays in registers.
What it needs from the block before, one number, comes through memory (``edge_in``, ``edge_out``, both
``(B, J)``), from an earlier launch: no thread ever reads what another thread of its launch wrote, so there
is no barrier to get wrong.

Two things are done because compiled scans have been wrong in ways that the interpreter never shows:

* Scans run forward only. For the backward kernel the lanes are laid from right to left instead, since
  ``reverse=True`` has an open report of wrong results (triton-lang/triton#4362).
* The launcher gives every GPU thread at least one column, since threads that repeat another's column
  have held wrong sums (triton-lang/triton#2298).

The recursion is in float64 whatever the grids hold. Offsets are int64: they come from the lengths, which are.
"""

# mypy: disallow-incomplete-defs=False

import triton
import triton.language as tl

LOG_ZERO = tl.constexpr(float("-inf"))
INFINITY = tl.constexpr(float("inf"))


@triton.jit
def _log_add(a, b):
    """``log(exp(a) + exp(b))``, where either or both may be minus infinity."""
    high = tl.maximum(a, b)
    low = tl.minimum(a, b)
    # Taking zero for a high of -inf keeps the difference from being -inf - -inf, which is NaN.
    return high + tl.log(1.0 + tl.exp(low - tl.where(high == LOG_ZERO, 0.0, high)))


@triton.jit
def _compose(log_gain_a, log_in_a, log_gain_b, log_in_b):
    """The map ``x -> gain * x + in`` of ``a``, then that of ``b``: no subtraction, so -inf is safe."""
    return log_gain_a + log_gain_b, _log_add(log_in_b, log_gain_b + log_in_a)


@triton.jit
def _solve_row(log_gain, log_in, log_edge):
    """Solves ``x[k] = in[k] + gain[k] * x[k-1]`` over the lanes, with ``x[-1] = edge``."""
    log_gains, log_sums = tl.associative_scan((log_gain, log_in), 0, _compose)
    return _log_add(log_sums, log_gains + log_edge)


@triton.jit
def _load_log(grid, cell, mask):
    return tl.load(grid + cell, mask=mask, other=LOG_ZERO).to(tl.float64)


@triton.jit
def _log_end(i, src_len, END_ANYWHERE: tl.constexpr):
    """Log of one where a path may end, and of zero elsewhere."""
    if END_ANYWHERE:
        allowed = (i >= 0) & (i < src_len)
    else:
        allowed = i == src_len - 1
    return tl.where(allowed, 0.0, LOG_ZERO).to(tl.float64)


@triton.jit(do_not_specialize=["block"])
def forward_kernel(
    log_word,
    log_emit,
    log_shift,
    src_lens,
    tgt_lens,
    edge_in,
    edge_out,
    log_total,
    log_arrive,
    tgt_size,
    src_size,
    block,
    END_ANYWHERE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Adds a block's paths to ``log_total``, and writes ``log_arrive`` unless that is None.

    Blocks go from left to right, and lane ``k`` holds column ``i = block * BLOCK + k``. The total becomes and
    stays NaN for an improper pair. ``log_alpha`` is ``alpha(i, j-1)``, or for ``j = 0`` the start.
    """
    pair = tl.program_id(0).to(tl.int64)
    src_len = tl.load(src_lens + pair)
    tgt_len = tl.load(tgt_lens + pair)
    if (src_len < 1) | (src_len > src_size) | (tgt_len < 1) | (tgt_len > tgt_size):
        # Nothing is read at lengths that do not fit the grid.
        tl.store(log_total + pair, float("nan"))
        return
    if block * BLOCK >= src_len:
        return
    corner = pair * tgt_size * src_size
    edge = pair * tgt_size
    lane = tl.arange(0, BLOCK)
    i = block * BLOCK + lane
    valid = i < src_len
    proper = tl.full((BLOCK,), 1, tl.int1)
    log_alpha = tl.where(i == 0, 0.0, LOG_ZERO).to(tl.float64)
    for j in range(tgt_len):
        cell = corner + j * src_size + i
        log_write = _load_log(log_word, cell, valid) + _load_log(log_emit, cell, valid)
        # A sum with NaN or +inf anywhere in it is NaN or +inf, so one test stands for three cells.
        proper = proper & (log_write + _load_log(log_shift, cell, valid) < INFINITY)
        log_come = _load_log(log_shift, cell - 1, valid & (i > 0))
        log_here = _solve_row(log_come, log_alpha, tl.load(edge_in + edge + j))
        tl.store(edge_out + edge + j + 0 * lane, log_here, mask=lane == BLOCK - 1)
        if log_arrive is not None:
            tl.store(log_arrive + cell, log_here, mask=valid)
        log_alpha = log_here + log_write
    log_ended = tl.reduce(log_alpha + _log_end(i, src_len, END_ANYWHERE), 0, _log_add)
    # Only the thread that stores the total uses what it loads here, so it cannot load too late.
    before = tl.load(log_total + pair)
    all_proper = (tl.min(proper.to(tl.int32)) == 1) & (before < INFINITY)
    tl.store(log_total + pair, tl.where(all_proper, _log_add(before, log_ended), float("nan")))


@triton.jit(do_not_specialize=["block"])
def backward_kernel(
    log_word,
    log_emit,
    log_shift,
    src_lens,
    tgt_lens,
    edge_in,
    edge_out,
    log_total,
    log_arrive,
    emit,
    shift,
    tgt_size,
    src_size,
    block,
    END_ANYWHERE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Writes a block's posteriors, for the pairs that have any; the rest keep the zeros they came with.

    Blocks and lanes go from right to left: lane ``k`` holds column ``i = src_len - 1 - block * BLOCK - k``.
    ``log_stay`` is ``leave(i, j)`` and ``log_next`` is ``leave(i+1, j)``: the same values twice, so that no
    lane asks its neighbour. Both start as what lies after the last row.
    """
    pair = tl.program_id(0).to(tl.int64)
    total = tl.load(log_total + pair)
    if not (total > LOG_ZERO):
        # No path, or an improper pair, whose lengths may not fit the grid either.
        return
    src_len = tl.load(src_lens + pair)
    tgt_len = tl.load(tgt_lens + pair)
    if block * BLOCK >= src_len:
        return
    corner = pair * tgt_size * src_size
    edge = pair * tgt_size
    lane = tl.arange(0, BLOCK)
    i = src_len - 1 - (block * BLOCK + lane)
    valid = i >= 0
    has_right = valid & (i < src_len - 1)
    log_stay = _log_end(i, src_len, END_ANYWHERE)
    log_next = _log_end(i + 1, src_len, END_ANYWHERE)
    for step in range(tgt_len):
        j = tgt_len - 1 - step
        cell = corner + j * src_size + i
        log_write = _load_log(log_word, cell, valid) + _load_log(log_emit, cell, valid)
        log_go = _load_log(log_shift, cell, valid)
        log_write_right = _load_log(log_word, cell + 1, has_right) + _load_log(log_emit, cell + 1, has_right)
        log_go_right = _load_log(log_shift, cell + 1, has_right)
        log_next = _solve_row(log_go_right, log_write_right + log_next, tl.load(edge_in + edge + j))
        tl.store(edge_out + edge + j + 0 * lane, log_next, mask=lane == BLOCK - 1)
        log_written = log_write + log_stay
        log_gone = log_go + log_next
        log_weight = _load_log(log_arrive, cell, valid) - total
        tl.store(emit + cell, tl.exp(log_weight + log_written), mask=valid)
        tl.store(shift + cell, tl.exp(log_weight + log_gone), mask=valid)
        log_stay = _log_add(log_written, log_gone)
