"""The columns of models, from what a model gives of them: arrays of either kind, and no model.

Axes: ``B`` sources, ``K`` prefixes, ``I`` source positions, ``V`` symbols, ``P`` single cells.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, Self

from ssnt.arrays import namespace, unrounded
from ssnt.decode.rows import select
from ssnt.decode.scorer import TopWords, top_words

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class SourceWords:
    """The source half of the word logits, with what columns need of it, once for all prefixes.

    Attributes:
        logits: ``(B, I, V)``.
        exps: ``exp(logits - peaks)``, ``(B, I, V)``.
        peaks: The largest of each position, ``(B, I)``.
    """

    logits: Tensor
    exps: Tensor
    peaks: Tensor

    @classmethod
    def of(cls, logits: Tensor) -> Self:
        """Takes peaks and exponentials, in float32 at least."""
        logits = _wide(logits)
        peaks = logits.amax(dim=2)
        return cls(logits, namespace(logits).exp(logits - peaks[..., None]), peaks)


def _wide(logits: Tensor) -> Tensor:
    """In float32 at least, as everything is computed here: logits of half precision would be summed up in it."""
    xp = namespace(logits)
    return logits.to(xp.promote_types(logits.dtype, xp.float32))


@dataclass(frozen=True)
class FactoredSource:
    """Encoded sources with the source half of the word logits; a scorer's own adds what else it has of them.

    Attributes:
        src_lens: ``(B,)``.
        words: Their part of the word logits.
    """

    src_lens: Tensor
    words: SourceWords

    @property
    def read_lens(self) -> Tensor:
        """Lengths of the sources themselves, ``(B,)``."""
        return self.src_lens

    @property
    def logits(self) -> Tensor:
        """Their part of the word logits, ``(B, I, V)``."""
        return self.words.logits

    def select(self, items: Tensor) -> Self:
        """Returns the sources ``items``, in that order."""
        return select(self, items)

    def log_start(self, width: int) -> Tensor:
        """The inflow of ``width`` empty prefixes a source, ``(B, width, I)``."""
        peaks = self.words.peaks
        xp = namespace(peaks)
        batch, src_size = peaks.shape
        dtype = xp.promote_types(peaks.dtype, xp.float32)
        log_inflow = xp.full((batch, width, src_size), -math.inf, dtype=dtype, device=peaks.device)
        log_inflow[..., 0] = 0.0
        return log_inflow


class Decisions(Protocol):
    """Both decisions of every prefix at every position, ``(B, K, I)``, in log space."""

    @property
    def log_emit(self) -> Tensor:
        """Log probability of emitting."""
        ...

    @property
    def log_shift(self) -> Tensor:
        """Log probability of shifting."""
        ...


@dataclass(frozen=True)
class LogDecisions:
    """Both decisions of every prefix at every position, for scorers that have no type of their own for them.

    Attributes:
        log_emit: Log probability of emitting, ``(B, K, I)``.
        log_shift: Log probability of shifting, ``(B, K, I)``.
    """

    log_emit: Tensor
    log_shift: Tensor


def possible_decisions(decisions: Decisions, src_lens: Tensor, live: Tensor | None) -> LogDecisions:
    """The decisions, without probability in padding and for prefixes that are not ``live`` (B, K)."""
    xp = namespace(decisions.log_emit)
    outside = xp.arange(decisions.log_emit.shape[2], device=src_lens.device) >= src_lens[:, None, None]
    nowhere = outside if live is None else outside | ~live[..., None]
    log_emit, log_shift = (one.masked_fill(nowhere, -math.inf) for one in (decisions.log_emit, decisions.log_shift))
    return LogDecisions(log_emit, log_shift)


class ModelColumns:
    """Columns of a model whose word logits are sums of a source and a prefix part.

    The vocabulary meets the positions in matrix products only, as in training.

    Args:
        source: The sources, with their part of the logits.
        logits: The prefixes' part, ``(B, K, V)``.
        decide: Both decisions, given the log of the sum over all word logits' exponentials, ``(B, K, I)``; most models
            have no use for it.
        live: Which prefixes there are, ``(B, K)``; the others have no probability. None: all.
    """

    def __init__(
        self,
        source: FactoredSource,
        logits: Tensor,
        decide: Callable[[Tensor], Decisions],
        live: Tensor | None = None,
    ) -> None:
        xp = namespace(logits)
        words = source.words
        src_size = words.peaks.shape[1]
        self._words, self._logits = words, _wide(logits)
        self._peaks = self._logits.amax(dim=2)  # (B, K)
        exps = xp.exp(self._logits - self._peaks[..., None])
        self._log_scale = self._peaks[:, :, None] + words.peaks[:, None, :]  # (B, K, I)
        with unrounded(exps):
            product = xp.bmm(exps, words.exps.transpose(1, 2))
        self._log_norm = product.log() + self._log_scale
        self._unsafe = self._find_unsafe()
        if len(self._unsafe):
            rows, positions = self._unsafe // src_size, self._unsafe % src_size
            self._log_norm.view(-1)[self._unsafe] = xp.logsumexp(self._cell_logits(rows, positions), dim=1)
        # Those of other prefixes are made too: to leave them out costs more, as the source would have to be copied.
        decisions = possible_decisions(decide(self._log_norm), source.src_lens, live)
        self.log_emit, self.log_shift = decisions.log_emit, decisions.log_shift

    def _find_unsafe(self) -> Tensor:
        """Cells whose product of exponentials may have lost something to underflow; see ``factored_softmax``."""
        info = namespace(self._log_norm).finfo(self._log_norm.dtype)
        log_loss = self._log_scale + math.log(info.tiny * self._logits.shape[2])
        return (~(log_loss - self._log_norm <= math.log(info.eps))).flatten().nonzero()[:, 0]

    def _cell_logits(self, rows: Tensor, positions: Tensor) -> Tensor:
        """Logits of single cells, ``(P, V)``."""
        width = self._logits.shape[1]
        src_size = self._log_norm.shape[2]
        logits = self._logits.flatten(0, 1).index_select(0, rows)  # a copy, so what follows can be done in place
        logits += self._words.logits.flatten(0, 1).index_select(0, rows // width * src_size + positions)
        return logits

    def log_mixture(self, log_weights: Tensor) -> Tensor:
        """``log sum_i weight_i p(v | i)`` for all symbols, ``(B, K, V)``."""
        xp = namespace(log_weights)
        peak = log_weights.amax(dim=2, keepdim=True)
        peak = xp.where(peak == -math.inf, 0.0, peak)
        ratio = xp.exp(log_weights - peak + self._log_scale - self._log_norm)
        if len(self._unsafe):
            ratio.view(-1)[self._unsafe] = 0.0
        with unrounded(ratio):
            product = xp.bmm(ratio, self._words.exps)
        info = xp.finfo(product.dtype)
        # Below this a product may have lost terms to underflow, though its symbol need not be improbable.
        has_weight = log_weights > -math.inf
        lost = ((product < info.tiny / info.eps).any(dim=2) & has_weight.any(dim=2)).flatten()
        if len(self._unsafe):
            lost[self._unsafe[has_weight.flatten()[self._unsafe]] // log_weights.shape[2]] = True
        mass = product.log() + (self._logits - self._peaks[..., None]) + peak
        for row in lost.nonzero()[:, 0].tolist():
            mass.flatten(0, 1)[row] = self._exact_mixture(row, log_weights.flatten(0, 1)[row])
        return mass

    def _exact_mixture(self, row: int, log_weights: Tensor) -> Tensor:
        """The mixture of one prefix, from the whole distributions at the positions that have weight, ``(V,)``."""
        xp = namespace(log_weights)
        positions = (log_weights > -math.inf).nonzero()[:, 0]
        log_words = self.log_words(xp.full_like(positions, row), positions)  # (P, V)
        return xp.logsumexp(log_words + log_weights[positions, None], dim=0)

    def log_word(self, prefixes: Tensor, symbols: Tensor) -> Tensor:
        """``log p(symbol | i)`` at all positions, ``(B, M, I)``."""
        src_size = self._log_norm.shape[2]
        at_source = self._words.logits.gather(2, symbols[:, None, :].expand(-1, src_size, -1)).transpose(1, 2)
        items = namespace(prefixes).arange(len(prefixes), device=prefixes.device)[:, None]
        at_prefix = self._logits[items, prefixes, symbols][..., None]  # (B, M, 1)
        return at_source + at_prefix - self._log_norm[items, prefixes]

    def log_words(self, rows: Tensor, positions: Tensor) -> Tensor:
        """The whole distribution at single cells, ``(P, V)``."""
        logits = self._cell_logits(rows, positions)
        logits -= self._log_norm.flatten(0, 1)[rows, positions][:, None]
        return logits

    def log_top(self, rows: Tensor, positions: Tensor, blocked: Tensor, count: int) -> TopWords:
        """The ``count`` likeliest symbols at single cells; only they are normalised."""
        best = top_words(self._cell_logits(rows, positions), blocked, count)
        log_norm = self._log_norm.flatten(0, 1)[rows, positions]
        return TopWords(best.log_probs - log_norm[:, None], best.symbols)


class OneColumn:
    """The distribution over the next symbol, for ``K`` prefixes of each source, as the only column of a lattice.

    Args:
        log_probs: ``(B, K, V)``.
        live: Which prefixes there are, ``(B, K)``; None: all.
    """

    def __init__(self, log_probs: Tensor, live: Tensor | None) -> None:
        self._log_probs = log_probs
        self.log_emit = log_probs.new_zeros(*log_probs.shape[:2], 1)
        if live is not None:
            self.log_emit = self.log_emit.masked_fill(~live[..., None], -math.inf)
        self.log_shift = namespace(log_probs).full_like(self.log_emit, -math.inf)

    def log_mixture(self, log_weights: Tensor) -> Tensor:
        """The log probability of all symbols, weighted by ``(B, K, 1)``."""
        return self._log_probs + log_weights

    def log_word(self, prefixes: Tensor, symbols: Tensor) -> Tensor:
        """``log p(symbol)`` for prefixes and symbols ``(B, M)``: ``(B, M, 1)``."""
        items = namespace(prefixes).arange(len(prefixes), device=prefixes.device)[:, None]
        return self._log_probs[items, prefixes, symbols][..., None]

    def log_words(self, rows: Tensor, positions: Tensor) -> Tensor:
        """The whole distribution of flat prefix rows ``(P,)``: ``(P, V)``."""
        del positions
        return self._log_probs.flatten(0, 1).index_select(0, rows)

    def log_top(self, rows: Tensor, positions: Tensor, blocked: Tensor, count: int) -> TopWords:
        """The ``count`` likeliest symbols of flat prefix rows."""
        return top_words(self.log_words(rows, positions), blocked, count)
