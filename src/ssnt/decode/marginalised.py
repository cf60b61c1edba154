"""A transducer as a model without an alignment: what it says of the next symbol when all alignments are summed.

A prefix's probability is exact, and so is that of each next symbol given it. What is left is a lattice with one column.
That is what ensembles are best made of: two models may write the same at different source positions, and to average
them position by position would average decisions that have nothing to do with each other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ssnt.arrays import namespace
from ssnt.decode.columns import OneColumn
from ssnt.decode.extend import log_arrivals_along
from ssnt.decode.rows import select
from ssnt.decode.scorer import Columns, Scorer, Source, as_scorer
from ssnt.dp.checks import require_end
from ssnt.types import EOS_ID, Batch, End, Grid

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from ssnt.arrays import NumpyDevice


@dataclass(frozen=True)
class MarginalSource:
    """Sources as the transducer has encoded them.

    Attributes:
        encoded: What the transducer's own scorer makes of them.
    """

    encoded: Source

    @property
    def src_lens(self) -> Tensor:
        """All lattices have one column, ``(B,)``."""
        return namespace(self.encoded.src_lens).ones_like(self.encoded.src_lens)

    @property
    def read_lens(self) -> Tensor:
        """Lengths of the sources themselves, ``(B,)``."""
        return self.encoded.read_lens

    def select(self, items: Tensor) -> MarginalSource:
        """Returns the sources ``items``, in that order."""
        return MarginalSource(self.encoded.select(items))

    def log_start(self, width: int) -> Tensor:
        """The inflow of ``width`` empty prefixes a source: all mass at the only position, ``(B, width, 1)``."""
        return self.encoded.log_start(width).logsumexp(dim=2, keepdim=True)


@dataclass(frozen=True)
class MarginalState:
    """A transducer after each prefix.

    Attributes:
        prefix: Its decoder, ``N`` rows.
        log_inflow: ``alpha(., j)`` of each prefix, by its sum: where the last symbol was written, ``(N, I)``.
    """

    prefix: Any
    log_inflow: Tensor


class MarginalisedScorer:
    """A transducer with its alignments summed out.

    Args:
        model: The transducer.
        end: Where a path may end; see :func:`ssnt.ssnt_loss`.
    """

    has_alignment = False
    is_streaming = False

    def __init__(self, model: Any, *, end: End = "any") -> None:
        require_end(end)
        self._inner: Scorer[Any, Any] = as_scorer(model)
        self._end = end
        self.vocab_size = self._inner.vocab_size
        self.model_count = self._inner.model_count

    @property
    def device(self) -> torch.device | NumpyDevice:
        """Where the transducer is."""
        return self._inner.device

    def read(self, batch: Batch) -> MarginalSource:
        """Encodes the sources of a batch."""
        return MarginalSource(self._inner.read(batch))

    def start(self, source: MarginalSource) -> MarginalState:
        """The state of the empty prefix, one row a source."""
        return MarginalState(self._inner.start(source.encoded), source.encoded.log_start(1)[:, 0])

    def advance(
        self, source: MarginalSource, state: MarginalState, rows: Tensor, items: Tensor, symbols: Tensor
    ) -> MarginalState:
        """Takes ``rows`` of a state, which belong to sources ``items``, and appends ``symbols``."""
        # Side by side for each source: one source a row would copy its logits, (I, V), for each of them.
        xp = namespace(rows)
        counts = xp.bincount(items, minlength=len(source.src_lens))
        width = int(counts.max())
        places = items * width + _ranks(items, counts)  # (N,)
        table = rows.new_zeros(len(counts) * width).index_put((places,), rows)  # any row fills a free place
        own_symbols = xp.zeros_like(table).index_put((places,), symbols).view(-1, width)
        columns = self._inner.columns(source.encoded, select(state.prefix, table))
        log_write = _log_writes(columns, state.log_inflow[table].view_as(columns.log_emit))
        own = xp.arange(width, device=rows.device).expand_as(own_symbols)
        log_alpha = (log_write + columns.log_word(own, own_symbols)).flatten(0, 1)[places]  # (N, I)
        after = self._inner.advance(source.encoded, state.prefix, rows, items, symbols)
        return MarginalState(after, _normalised(log_alpha))

    def columns(self, source: MarginalSource, state: MarginalState, live: Tensor | None = None) -> OneColumn:
        """The distribution over the next symbol, for the ``B * K`` rows of a state."""
        columns = self._inner.columns(source.encoded, state.prefix, live)
        log_inflow = state.log_inflow.view(*columns.log_emit.shape)  # (B, K, I)
        log_write = _log_writes(columns, log_inflow)
        log_next = columns.log_mixture(log_write)
        if self._end == "last":
            log_next[..., EOS_ID] = self._log_end_at_last(source, columns, log_write)
        return OneColumn(log_next, live)

    def grid(self, source: MarginalSource, tgt: Tensor, tgt_lens: Tensor) -> Grid:
        """The lattices of given outputs: one column, in which each symbol has its probability given those before."""
        xp = namespace(tgt)
        inner = self._inner.grid(source.encoded, tgt, tgt_lens)
        log_inflow = source.encoded.log_start(1)[:, 0]  # (B, I)
        inside = xp.arange(log_inflow.shape[1], device=tgt.device) < inner.src_lens[:, None]
        last = xp.arange(log_inflow.shape[1], device=tgt.device) == inner.src_lens[:, None] - 1
        log_words = []
        for j in range(tgt.shape[1]):
            log_alpha = log_arrivals_along(log_inflow, inner.log_shift[:, j]) + inner.log_emit[:, j]
            log_alpha = (log_alpha + inner.log_word[:, j]).masked_fill(~inside, -math.inf)
            if self._end == "last":  # what did not end, as searches may give, may stop anywhere
                is_end = ((tgt_lens == j + 1) & (tgt[:, j] == EOS_ID))[:, None]
                log_alpha = log_alpha.masked_fill(is_end & ~last, -math.inf)
            log_words.append(xp.logsumexp(log_alpha, dim=1))
            log_inflow = _normalised(log_alpha)
        log_word = xp.stack(log_words, dim=1)[..., None]  # (B, J, 1)
        never = xp.full_like(log_word, -math.inf)
        return Grid(log_word, xp.zeros_like(log_word), never, source.src_lens, tgt_lens)

    def _log_end_at_last(self, source: MarginalSource, columns: Columns, log_write: Tensor) -> Tensor:
        """The probability of ending at the last position, ``(B, K)``."""
        batch, width, _ = log_write.shape
        xp = namespace(log_write)
        own = xp.arange(width, device=log_write.device).expand(batch, width)
        log_end = log_write + columns.log_word(own, xp.full_like(own, EOS_ID))
        last = (source.encoded.src_lens - 1)[:, None, None].expand(-1, width, 1)
        return log_end.gather(2, last)[..., 0]


def _ranks(items: Tensor, counts: Tensor) -> Tensor:
    """The how manieth of its source each row is, from 0, for sources ``(N,)`` in any order that come so often."""
    xp = namespace(items)
    order = xp.argsort(items, stable=True)
    ranks = xp.empty_like(items)
    ranks[order] = xp.arange(len(items), device=items.device) - (counts.cumsum(0) - counts)[items[order]]
    return ranks


def _log_writes(columns: Columns, log_inflow: Tensor) -> Tensor:
    """The mass that writes the next symbol at each position, ``(B, K, I)``."""
    return log_arrivals_along(log_inflow, columns.log_shift) + columns.log_emit


def _normalised(log_alpha: Tensor) -> Tensor:
    """``(N, I)`` divided by its sum; a prefix that cannot be has no mass anywhere, and keeps none."""
    xp = namespace(log_alpha)
    log_mass = xp.logsumexp(log_alpha, dim=1, keepdim=True)
    return log_alpha - xp.where(log_mass == -math.inf, 0.0, log_mass)
