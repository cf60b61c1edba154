"""One more symbol for every prefix, with all alignments summed: what marginal search and sampling share."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ssnt.arrays import namespace
from ssnt.decode.options import SearchOptions
from ssnt.decode.scorer import Columns, Scorer, Source
from ssnt.types import EOS_ID

if TYPE_CHECKING:
    from torch import Tensor


def log_arrivals_along(log_inflow: Tensor, log_shift: Tensor) -> Tensor:
    """Solves ``arrive(i) = inflow(i) + arrive(i - 1) * shift(i - 1)`` along the last axis, in log space.

    By doubling, in ``log2 I`` steps: after step d each position has summed what reaches it over up to ``2^d`` shifts.
    There is no subtraction, so minus infinity is safe.
    """
    xp = namespace(log_inflow)
    size = log_inflow.shape[-1]
    log_arrive = log_inflow
    log_gain = xp.constant_pad_nd(log_shift[..., :-1], (1, 0), -math.inf)  # of coming from the position before
    span = 1
    while span < size:
        carried = xp.constant_pad_nd(log_arrive[..., :-span], (span, 0), -math.inf) + log_gain
        log_arrive = xp.logaddexp(log_arrive, carried)
        log_gain = log_gain + xp.constant_pad_nd(log_gain[..., :-span], (span, 0), -math.inf)
        span *= 2
    return log_arrive


@dataclass(frozen=True)
class Extension:
    """Where ``K`` prefixes of each of ``A`` sources can go.

    Attributes:
        columns: The model at every source position.
        log_write: Mass that writes the next symbol at each position, ``(A, K, I)``.
        log_next: Mass of each prefix continued by each symbol, ``(A, K, V)``; none for the end symbol.
        log_ended: Probability of each prefix as a complete output, ``(A, K)``.
    """

    columns: Columns
    log_write: Tensor
    log_next: Tensor
    log_ended: Tensor

    def log_inflow(self, parents: Tensor, symbols: Tensor) -> Tensor:
        """``alpha`` of the prefixes ``parents`` continued by ``symbols``, both ``(A, M)``: ``(A, M, I)``."""
        across = parents[..., None].expand(-1, -1, self.log_write.shape[2])
        return self.log_write.gather(1, across) + self.columns.log_word(parents, symbols)


def append_symbols(prefixes: Tensor, parents: Tensor, symbols: Tensor) -> Tensor:
    """The prefixes ``parents`` of ``(A, K, j)`` with one more symbol each, ``(A, M, j + 1)``."""
    across = parents[..., None].expand(-1, -1, prefixes.shape[2])
    return namespace(prefixes).cat([prefixes.gather(1, across), symbols[..., None]], dim=2)


def extend(
    scorer: Scorer[Any, Any], source: Source, state: Any, log_inflow: Tensor, length: int, options: SearchOptions
) -> Extension:
    """Continues prefixes of ``length`` symbols, given their ``alpha``, within what the options allow."""
    columns = scorer.columns(source, state, (log_inflow > -math.inf).any(dim=2))
    log_write = log_arrivals_along(log_inflow, columns.log_shift) + columns.log_emit
    log_ended = _log_ended(source, columns, log_write, options)
    log_next = columns.log_mixture(log_write)
    log_next[..., EOS_ID] = -math.inf
    if options.banned:
        log_next[..., list(options.banned)] = -math.inf
    if length < len(options.prefix):
        forced = options.prefix[length]
        kept = log_next[..., forced].clone()
        log_next.fill_(-math.inf)
        log_next[..., forced] = kept
        log_ended.fill_(-math.inf)
    return Extension(columns, log_write, log_next, log_ended)


def _log_ended(source: Source, columns: Columns, log_write: Tensor, options: SearchOptions) -> Tensor:
    xp = namespace(log_write)
    ends = xp.full(log_write.shape[:2], EOS_ID, dtype=xp.int64, device=log_write.device)
    own = xp.arange(log_write.shape[1], device=log_write.device).expand_as(ends)
    log_end = log_write + columns.log_word(own, ends)  # (A, K, I)
    if options.end == "last":
        last = (source.src_lens - 1)[:, None, None].expand(-1, log_end.shape[1], 1)
        log_end = log_end.gather(2, last)
    return xp.logsumexp(log_end, dim=2)
