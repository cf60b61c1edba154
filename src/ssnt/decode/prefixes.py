"""The hypotheses of an online search: which prefixes there are, and how much of each two of them have in common.

Axes: ``S`` streams, ``N = K + F`` entries of a stream (``K`` live ones, then ``F`` finished ones), ``T`` symbols.

Equal prefixes must be one entry, and finding them must cost the same however long they are. Hence the lengths of the
common prefixes of all pairs are kept and updated: prefixes grow by one symbol at a time, so a common prefix grows by
one if both entries now have the same symbol behind it, and stays otherwise. From them follow who is whose parent, which
entries are equal, and on how many symbols all agree. What is committed is cut off the front.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from ssnt.arrays import NumpyDevice, namespace, namespace_on
from ssnt.types import Alignment, Hypothesis

if TYPE_CHECKING:
    import torch
    from torch import Tensor

UNLIMITED = 2**62


class Plan(NamedTuple):
    """Where the next entries come from, all ``(S, N)``.

    Attributes:
        origin: The entry whose prefix is taken over.
        timing: The entry whose delays are taken over: another one if a better path to the prefix has come up.
        symbol: The symbol to append, or -1.
        is_marked: Whether the last symbol (of a finished entry: the end symbol) is written at this input.
        log_mass: Mass of the entry; minus infinity: there is none.
        log_best: Log probability of the best path to it.
    """

    origin: Tensor
    timing: Tensor
    symbol: Tensor
    is_marked: Tensor
    log_mass: Tensor
    log_best: Tensor

    def picked(self, index: Tensor) -> Plan:
        """The entries ``index`` (S, M) of a plan for more of them; what has no mass is nothing."""
        origin, timing, symbol, is_marked, log_mass, log_best = (values.gather(1, index) for values in self)
        is_empty = log_mass == -math.inf
        symbol, log_best = symbol.masked_fill(is_empty, -1), log_best.masked_fill(is_empty, -math.inf)
        return Plan(origin, timing, symbol, is_marked, log_mass, log_best)

    def beside(self, other: Plan) -> Plan:
        """This plan's entries, then the other's."""
        xp = namespace(self.origin)
        return Plan(*(xp.cat(pair, dim=1) for pair in zip(self, other, strict=True)))


@dataclass(frozen=True)
class Prefixes:
    """Hypotheses of ``S`` streams: the symbols that are not committed yet.

    Attributes:
        symbols: ``(S, N, T)``.
        delays: How many inputs had been read when each symbol was written, on the best path, ``(S, N, T)``; a finished
            entry's end symbol has its own behind the last symbol.
        lens: ``(S, N)``.
        shared: Length of the common prefix of two entries, ``(S, N, N)``; symmetric, the diagonal is ``lens``.
        log_mass: Log probability of the prefix here, float64 ``(S, N)``; minus infinity: an empty place.
        log_best: That of its best path, float64 ``(S, N)``.
        written: How many symbols are committed, ``(S,)``.
        longest: How many symbols an output may have, ``(S,)``.
        read: How many inputs were read, ``(S,)``.
    """

    symbols: Tensor
    delays: Tensor
    lens: Tensor
    shared: Tensor
    log_mass: Tensor
    log_best: Tensor
    written: Tensor
    longest: Tensor
    read: Tensor

    @property
    def is_alive(self) -> Tensor:
        """Which places hold a hypothesis, ``(S, N)``."""
        return self.log_mass > -math.inf

    def padded(self, spare: int) -> Prefixes:
        """The same with room for ``spare`` more symbols in every entry, and for an end symbol's delay."""
        return self.resized(max(self.symbols.shape[2], int(self.lens.max()) + spare + 1))

    def resized(self, size: int) -> Prefixes:
        """The same with room for ``size`` symbols in every entry, not less than there are."""
        missing = size - self.symbols.shape[2]
        if not missing:
            return self
        pad = namespace(self.symbols).constant_pad_nd
        return replace(self, symbols=pad(self.symbols, (0, missing)), delays=pad(self.delays, (0, missing)))

    def widened(self, finished: int) -> Prefixes:
        """The same with ``finished`` more empty places."""
        if not finished:
            return self
        pad = namespace(self.symbols).constant_pad_nd
        entries, sides = (0, 0, 0, finished), (0, finished)
        return replace(
            self,
            symbols=pad(self.symbols, entries),
            delays=pad(self.delays, entries),
            lens=pad(self.lens, sides),
            shared=pad(self.shared, (0, finished, 0, finished)),
            log_mass=pad(self.log_mass, sides, -math.inf),
            log_best=pad(self.log_best, sides, -math.inf),
        )

    def following(self, plan: Plan, live: int) -> Prefixes:
        """The entries that a plan makes of these; the first ``live`` of them are live."""
        size = self.symbols.shape[2]
        symbols = self.symbols.gather(1, plan.origin[..., None].expand(-1, -1, size))
        delays = self.delays.gather(1, plan.timing[..., None].expand(-1, -1, size))
        before = self.lens.gather(1, plan.origin)
        is_longer = plan.symbol >= 0
        lens = before + is_longer
        symbols = _written(symbols, before, plan.symbol, is_longer)
        marks = lens.clone()
        marks[:, :live] -= 1
        delays = _written(delays, marks.clamp(min=0), self.read[:, None].expand_as(marks), plan.is_marked)
        count = self.lens.shape[1]
        shared = self.shared.gather(1, plan.origin[:, :, None].expand(-1, -1, count))
        shared = shared.gather(2, plan.origin[:, None, :].expand(-1, count, -1))
        after = symbols.gather(2, shared)  # the symbol behind what is shared, if there is one
        has_more = shared < lens[:, :, None]
        shared = shared + (has_more & has_more.transpose(1, 2) & (after == after.transpose(1, 2)))
        return replace(
            self,
            symbols=symbols,
            delays=delays,
            lens=lens,
            shared=shared,
            log_mass=plan.log_mass,
            log_best=plan.log_best,
        )

    def parents(self, live: int) -> tuple[Tensor, Tensor]:
        """For each live entry: whether the prefix without its last symbol is live too, and as which entry."""
        alive, lens = self.is_alive[:, :live], self.lens[:, :live]
        is_prefix = self.shared[:, :live, :live] == lens[:, :, None]
        fits = is_prefix & (lens[:, :, None] + 1 == lens[:, None, :]) & alive[:, :, None] & alive[:, None, :]
        found, which = fits.max(dim=1)
        return found, which

    def twins(self, live: int) -> Tensor:
        """Which live entries and which finished ones have the same symbols, ``(S, K, F)``."""
        alive, lens = self.is_alive, self.lens
        is_prefix = self.shared[:, :live, live:] == lens[:, :live, None]
        same = is_prefix & (lens[:, :live, None] == lens[:, None, live:])
        return same & alive[:, :live, None] & alive[:, None, live:]

    def dropped(self, is_kept: Tensor) -> Prefixes:
        """The same without the entries that are not kept."""
        return replace(
            self,
            log_mass=self.log_mass.masked_fill(~is_kept, -math.inf),
            log_best=self.log_best.masked_fill(~is_kept, -math.inf),
        )

    def decided(self, max_delay: int | None, max_tail: int) -> tuple[Tensor, Tensor, Tensor]:
        """How much of the best entry is to be committed: entry (S,), symbols (S,), entries that agree (S, N)."""
        xp = namespace(self.lens)
        best = self.log_mass.argmax(dim=1)
        alive, here = self.is_alive, best[:, None]
        shared = self.shared.gather(1, here[..., None].expand(-1, -1, alive.shape[1]))[:, 0]  # (S, N)
        length = self.lens.gather(1, here)[:, 0]
        count = xp.where(alive, shared, UNLIMITED).amin(dim=1)
        if max_delay is not None:
            size = self.delays.shape[2]
            delays = self.delays.gather(1, here[..., None].expand(-1, -1, size))[:, 0]  # (S, T)
            is_symbol = xp.arange(size, device=best.device) < length[:, None]
            count = xp.maximum(count, (is_symbol & (delays <= self.read[:, None] - max_delay)).sum(dim=1))
        count = xp.maximum(count, length - max_tail)
        is_kept = alive & (shared >= count[:, None]) & (self.lens - count[:, None] <= max_tail)
        # those that are left may agree on more; once a stream is over there are none
        count = xp.where(is_kept, shared, UNLIMITED).amin(dim=1)
        return best, xp.where(alive.any(dim=1), count, 0), is_kept

    def cut(self, count: Tensor) -> Prefixes:
        """The same without the first ``count`` (S,) symbols, on which all entries agree."""
        xp = namespace(self.lens)
        alive = self.is_alive
        lens = xp.where(alive, self.lens - count[:, None], 0)
        pairs = alive[:, :, None] & alive[:, None, :]
        shared = xp.where(pairs, self.shared - count[:, None, None], 0)
        size = int(lens.max()) + 1
        place = xp.arange(size, device=count.device) + count[:, None]  # (S, T')
        place = place.clamp(max=self.symbols.shape[2] - 1)[:, None].expand(-1, alive.shape[1], -1)
        return replace(
            self,
            symbols=self.symbols.gather(2, place),
            delays=self.delays.gather(2, place),
            lens=lens,
            shared=shared,
            written=self.written + count,
        )

    def hypotheses(self, first: int, last: int, *, is_complete: bool) -> list[list[Hypothesis]]:
        """The entries ``first`` to ``last`` (excluded) of every stream, most probable first."""
        log_mass, order = namespace(self.lens).sort(self.log_mass[:, first:last], dim=1, descending=True, stable=True)
        order = order + first
        across = order[..., None].expand(-1, -1, self.symbols.shape[2])
        columns = (
            log_mass.tolist(),
            self.log_best.gather(1, order).tolist(),
            self.lens.gather(1, order).tolist(),
            self.symbols.gather(1, across).tolist(),
            self.delays.gather(1, across).tolist(),
        )
        return [
            [_hypothesis(*entry, is_complete) for entry in zip(*stream, strict=True) if entry[0] > -math.inf]
            for stream in zip(*columns, strict=True)
        ]


def first_prefixes(count: int, live: int, finished: int, device: torch.device | NumpyDevice) -> Prefixes:
    """``count`` streams that have read nothing: one live hypothesis each, the empty output."""
    xp = namespace_on(device)
    width = live + finished
    log_mass = xp.full((count, width), -math.inf, dtype=xp.float64, device=device)
    log_mass[:, 0] = 0.0
    zeros = xp.zeros(count, dtype=xp.int64, device=device)
    entries = zeros[:, None].expand(-1, width)
    return Prefixes(
        symbols=entries[..., None].clone(),
        delays=entries[..., None].clone(),
        lens=entries.clone(),
        shared=entries[..., None].repeat(1, 1, width),
        log_mass=log_mass,
        log_best=log_mass.clone(),
        written=zeros,
        longest=xp.full_like(zeros, UNLIMITED),
        read=zeros,
    )


def _written(rows: Tensor, places: Tensor, values: Tensor, where: Tensor) -> Tensor:
    """Rows (S, N, T) with a value (S, N) written at a place of some."""
    at = places[..., None]
    return rows.scatter(2, at, namespace(rows).where(where[..., None], values[..., None], rows.gather(2, at)))


def _hypothesis(
    log_mass: float, log_best: float, length: int, symbols: list[int], delays: list[int], is_complete: bool
) -> Hypothesis:
    when = tuple(delays[: length + is_complete])
    path = Alignment(tuple(delay - 1 for delay in when), log_best)
    return Hypothesis(tuple(symbols[:length]), log_mass, log_mass, path, when, is_complete)
