"""The likeliest symbol each time, and a proof, if there is one, that the output is the likeliest of all."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ssnt.arrays import namespace
from ssnt.decode.extend import append_symbols, extend
from ssnt.decode.finish import Output
from ssnt.decode.options import SearchOptions
from ssnt.decode.scorer import Columns, Scorer, Source
from ssnt.types import EOS_ID, Grid

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Guess:
    """What following the likeliest symbol led to.

    Attributes:
        output: The output, or None if it did not end within the limits.
        is_best: Whether every other output is proved to be no likelier: each leaves the path that was followed
            somewhere, and no prefix that leaves it has more mass than the output has probability.
    """

    output: Output | None
    is_best: bool


class Trail:
    """The lattices of the outputs that were followed: their rows were needed on the way, and need not be made again."""

    def __init__(self, src_lens: Tensor) -> None:
        self._src_lens = src_lens
        self._rows: list[tuple[Tensor, tuple[Tensor, Tensor, Tensor]]] = []

    def add(self, items: Tensor, columns: Columns, log_word: Tensor) -> None:
        """Notes the next row of the sources ``items`` ``(A,)``, with the word that each is about to write."""
        self._rows.append((items, (log_word[:, 0], columns.log_emit[:, 0], columns.log_shift[:, 0])))

    def grid(self, items: Tensor, tgt_lens: Tensor) -> Grid:
        """The lattices of sources whose outputs have ended, with lengths ``(N,)``, the end symbol counted."""
        count, src_size = len(self._src_lens), self._rows[0][1][0].shape[1]
        planes = [first.new_zeros(count, len(self._rows), src_size) for first in self._rows[0][1]]
        for j, (own, rows) in enumerate(self._rows):
            for plane, row in zip(planes, rows, strict=True):
                plane[own, j] = row
        longest = int(tgt_lens.max())
        log_word, log_emit, log_shift = (plane[items, :longest] for plane in planes)
        return Grid(log_word, log_emit, log_shift, self._src_lens[items], tgt_lens)


def follow_likeliest(scorer: Scorer[Any, Any], source: Source, options: SearchOptions) -> tuple[list[Guess], Trail]:
    """Follows the likeliest continuation of each source to its end."""
    xp = namespace(source.src_lens)
    trail = Trail(source.src_lens)
    state = scorer.start(source)
    longest = [options.longest(length) for length in source.read_lens.tolist()]
    items = xp.arange(len(longest), device=source.src_lens.device)
    log_inflow = source.log_start(1)
    prefixes = xp.empty(len(longest), 1, 0, dtype=xp.int64, device=items.device)
    log_aside = xp.full((len(longest),), -math.inf, dtype=log_inflow.dtype, device=items.device)
    guesses: list[Guess] = [Guess(None, False)] * len(longest)
    while len(items):
        length = prefixes.shape[2]
        extension = extend(scorer, source, state, log_inflow, length, options)
        best = extension.log_next[:, 0].topk(min(2, extension.log_next.shape[2]), dim=1)  # (A, 2)
        ended, going = extension.log_ended[:, 0], best.values[:, 0]
        # Whatever is not followed is left aside: the next best symbol, and ending or going on.
        second = best.values[:, 1] if best.values.shape[1] > 1 else xp.full_like(going, -math.inf)
        ends = ended >= going
        log_aside = xp.maximum(log_aside, xp.where(ends, going, xp.maximum(second, ended)))
        for row in ends.nonzero()[:, 0].tolist():
            guesses[int(items[row])] = _guess(prefixes[row, 0], ended[row], log_aside[row], options)
        limits = xp.tensor([longest[item] for item in items.tolist()], device=items.device)
        rows = (~ends & (limits > length)).nonzero()[:, 0]
        symbols = best.indices[:, :1]
        written = symbols.masked_fill(ends[:, None], EOS_ID)
        log_word = extension.columns.log_word(xp.zeros_like(written), written)  # (A, 1, I)
        trail.add(items, extension.columns, log_word)
        log_inflow = (extension.log_write + log_word)[rows]
        prefixes = append_symbols(prefixes, xp.zeros_like(symbols), symbols)[rows]
        log_aside, items = log_aside[rows], items[rows]
        if len(rows) and len(rows) < len(ends):
            source = source.select(rows)
        if len(rows):
            state = scorer.advance(source, state, rows, xp.arange(len(rows), device=rows.device), symbols[rows, 0])
    return guesses, trail


def _guess(prefix: Tensor, log_prob: Tensor, log_aside: Tensor, options: SearchOptions) -> Guess:
    if not log_prob > max(-math.inf, options.min_log_prob):
        return Guess(None, False)
    output = Output(tuple(prefix.tolist()), log_prob.item(), True)
    return Guess(output, bool(log_prob >= log_aside))
