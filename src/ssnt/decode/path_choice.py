"""The best continuations of the cells of a grid, for path search.

Axes as there: ``B`` items, ``N`` prefixes of an item, ``I`` source, ``V`` vocabulary, ``K`` beam, ``P`` pairs of a
prefix and a position.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ssnt.arrays import namespace
from ssnt.decode.scorer import Columns, TopWords

if TYPE_CHECKING:
    from torch import Tensor

MAX_WORD_SCORES = 1 << 22
"""How many word probabilities are held at a time, whatever the size of batch, beam and vocabulary."""


@dataclass(frozen=True)
class Chosen:
    """The best continuations of each cell, best first; minus infinity where there are fewer than ``K``.

    Attributes:
        log_probs: ``(B, I, K)``.
        prefixes: Which prefix goes on, ``(B, I, K)``.
        symbols: With which symbol, ``(B, I, K)``.
    """

    log_probs: Tensor
    prefixes: Tensor
    symbols: Tensor

    def join(self, other: Chosen, count: int) -> Chosen:
        """Returns the ``count`` best of both; of equals, those of ``self``."""
        return Chosen(*best_of_both(self, other, count))


@dataclass(frozen=True)
class Limits:
    """What a continuation must reach to be kept.

    Attributes:
        above: Exceed this, or it cannot become one of the n best, ``(B,)``.
        at_least: Reach this.
        threshold: Fall short of the best continuation of its item by no more than this.
    """

    above: Tensor
    at_least: float
    threshold: float

    def admit(self, log_probs: Tensor, best: Tensor) -> Tensor:
        """Says which of ``log_probs`` (B, I, M) may go on, if ``best`` (B,) is the best of each item."""
        least = (best - self.threshold).clamp(min=self.at_least)
        return (log_probs > self.above[:, None, None]) & (log_probs >= least[:, None, None])


def best_of_both(first: Any, second: Any, count: int) -> list[Tensor]:
    """Joins two of the same kind along the last axis, and ranks all fields by the first of them."""
    pairs = list(zip(vars(first).values(), vars(second).values(), strict=True))
    xp = namespace(pairs[0][0])
    both = [xp.cat(pair, dim=-1) for pair in pairs]
    order = xp.sort(both[0], dim=-1, descending=True, stable=True).indices[..., :count]
    return [values.gather(-1, order) for values in both]


def force(columns: Columns, log_writing: Tensor, symbol: int) -> Chosen:
    """Continues with ``symbol``; all paths hold the same forced prefix, so a cell has one."""
    xp = namespace(log_writing)
    first = xp.zeros_like(log_writing[:, :1, 0], dtype=xp.int64)  # (B, 1)
    log_words = columns.log_word(first, xp.full_like(first, symbol))  # (B, 1, I)
    log_probs = (log_writing + log_words).transpose(1, 2)  # (B, I, 1)
    prefixes = xp.zeros_like(log_probs, dtype=xp.int64)
    return Chosen(log_probs, prefixes, xp.full_like(prefixes, symbol))


def choose(columns: Columns, log_writing: Tensor, limits: Limits, blocked: Tensor, beam: int) -> Chosen:
    """Finds the ``beam`` best continuations of each cell, exactly, without all its word distributions.

    No continuation is more probable than the prefix that it continues. So prefixes are looked at in the order of
    ``log_writing`` (B, N, I), and a cell is done when the next one is no better than its worst continuation so far.
    """
    xp = namespace(log_writing)
    count = log_writing.shape[1]
    # stable, so that equal arrivals keep their order
    ranked = xp.sort(log_writing.transpose(1, 2), dim=2, descending=True, stable=True)  # (B, I, N)
    nothing = xp.full_like(ranked.values[..., :1], -math.inf).expand(-1, -1, beam)  # (B, I, K)
    no_choice = xp.zeros_like(nothing, dtype=xp.int64)
    best = Chosen(nothing, no_choice, no_choice)
    begin, width = 0, beam
    while begin < count:
        log_bounds = ranked.values[..., begin : begin + width]  # (B, I, W)
        admitted = limits.admit(log_bounds, best=best.log_probs.amax(dim=(1, 2)))
        wanted = admitted & (log_bounds > best.log_probs[..., -1:])
        cells = wanted.nonzero(as_tuple=True)  # item, position and rank, (P,) each
        if not len(cells[0]):
            break  # those that come later are no better
        prefixes = ranked.indices[..., begin : begin + width][cells]
        words = _best_words(columns, cells[0] * count + prefixes, cells[1], blocked, beam)
        shape = (*wanted.shape[:2], int(cells[2].max()) + 1, words.symbols.shape[1])
        found = Chosen(
            _spread(words.log_probs + log_bounds[cells][:, None], cells, shape, -math.inf),
            _spread(prefixes[:, None], cells, shape, 0),
            _spread(words.symbols, cells, shape, 0),
        )
        best = best.join(found, beam)
        # Few cells get this far, and one long step costs them less than many short ones.
        begin, width = begin + width, 2 * width
    return best


def _spread(values: Tensor, cells: tuple[Tensor, ...], shape: tuple[int, ...], fill: float) -> Tensor:
    """Puts ``values`` (P, K) at ``cells`` of a table (B, I, W, K), and returns it as ``(B, I, W * K)``."""
    table = values.new_full(shape, fill)
    table[cells] = values
    return table.flatten(2)


def _best_words(columns: Columns, rows: Tensor, positions: Tensor, blocked: Tensor, count: int) -> TopWords:
    """The ``count`` most probable symbols at single cells (P,), as many cells at a time as memory allows."""
    xp = namespace(rows)
    size = max(1, MAX_WORD_SCORES // len(blocked))
    few = blocked.nonzero()[:, 0]
    parts = [columns.log_top(*some, few, count) for some in zip(rows.split(size), positions.split(size), strict=True)]
    return TopWords(xp.cat([part.log_probs for part in parts]), xp.cat([part.symbols for part in parts]))
