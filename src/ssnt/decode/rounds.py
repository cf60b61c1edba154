"""Online search at one input position, for many streams at once.

Axes: ``S`` streams, ``K`` live hypotheses of a stream, ``F`` finished ones, ``V`` symbols.

Mass that arrives at a position either shifts on or emits a symbol, by which it arrives again, with a longer prefix. The
recursion is linear, so the sum over alignments is exact in rounds: each round takes only the mass that the round before
has brought, leaves the part that shifts, and hands the rest to the children. A prefix is ranked by what it holds, the
mass left and the mass just come, and never by mass that has gone on to its children. These are probabilities of
exclusive events.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Generic

from ssnt.arrays import namespace
from ssnt.decode.prefixes import Plan, Prefixes
from ssnt.decode.rows import join, select
from ssnt.decode.scorer import Scorer, SourceT, StateT
from ssnt.types import EOS_ID, End

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Rules:
    """What a step must know of the options.

    Attributes:
        beam: Live hypotheses, and finished ones.
        is_max: Whether a prefix has the probability of its best path instead of the sum of all.
        max_emissions: Symbols that may be written at one position, the end symbol not counted.
        end: Where outputs may end.
        prefix: Symbols that every output begins with.
        banned: Symbols that are never written.
        beam_threshold: How far below the best hypothesis others may be.
        min_log_prob: Below which log probability hypotheses are dropped, the best excepted.
        emit_threshold: At which probability of emitting a symbol is written at once; None: beam search.
    """

    beam: int
    is_max: bool
    max_emissions: int
    end: End
    prefix: tuple[int, ...]
    banned: tuple[int, ...]
    beam_threshold: float
    min_log_prob: float
    emit_threshold: float | None

    @property
    def finished(self) -> int:
        """How many places for finished hypotheses a stream has before its last input."""
        return self.beam if self.end == "any" or self.emit_threshold is not None else 0


@dataclass(frozen=True)
class Look:
    """The model at this position, for the present prefixes; forbidden symbols have minus infinity.

    Attributes:
        log_step: Emitting each symbol, ``(S, K, V)`` in the model's precision; the end symbol is left out.
        log_eos: Emitting the end symbol, float64 ``(S, K)``.
        log_emit: Emitting anything, float64 ``(S, K)``.
        log_shift: Going on to the next input, float64 ``(S, K)``.
    """

    log_step: Tensor
    log_eos: Tensor
    log_emit: Tensor
    log_shift: Tensor


class Position(Generic[SourceT, StateT]):
    """One input position: the streams' hypotheses and decoder states, on which the rounds work.

    Args:
        scorer: The model.
        rules: What is allowed.
        source: The position alone, one for each stream.
        prefixes: The hypotheses that arrive here, this input counted as read, with room for all that may be written
            and, if outputs may end here, for as many that do.
        state: Their decoder states, ``S * K`` rows.
        is_last: Whether the input ends here.
    """

    def __init__(
        self,
        scorer: Scorer[SourceT, StateT],
        rules: Rules,
        source: SourceT,
        prefixes: Prefixes,
        state: StateT,
        is_last: bool,
    ) -> None:
        self.prefixes, self.state = prefixes, state
        self._scorer, self._rules, self._source, self._is_last = scorer, rules, source, is_last
        self._may_end = is_last or rules.end == "any"
        xp, device = namespace(prefixes.lens), prefixes.lens.device
        self._xp = xp
        self._places = xp.arange(rules.beam, device=device)
        self._row_starts = xp.arange(prefixes.lens.shape[0], device=device)[:, None] * rules.beam
        self._prefix = xp.tensor(rules.prefix or (0,), device=device)
        self._banned = xp.tensor(rules.banned, dtype=xp.int64, device=device)

    def look(self, is_full: bool) -> Look:
        """Asks the model about the present prefixes; when the position ``is_full`` they may only end."""
        xp, rules, lens = self._xp, self._rules, self.prefixes.lens[:, : self._rules.beam]
        columns = self._scorer.columns(self._source, self.state)
        rows = (self._row_starts + self._places).flatten()
        log_word = columns.log_words(rows, xp.zeros_like(rows))
        log_step = columns.log_emit + log_word.view(*lens.shape, -1)  # (S, K, V)
        if len(self._banned):
            log_step[..., self._banned] = -math.inf
        total = lens + self.prefixes.written[:, None]
        if rules.prefix:
            is_forced = total < len(rules.prefix)
            wanted = self._prefix[total.clamp(max=len(rules.prefix) - 1)]
            is_other = xp.arange(log_step.shape[2], device=lens.device) != wanted[..., None]
            log_step = log_step.masked_fill(is_forced[..., None] & is_other, -math.inf)
        log_eos = log_step[..., EOS_ID].to(xp.float64, copy=True)
        log_step[..., EOS_ID] = -math.inf
        if is_full:
            log_step.fill_(-math.inf)
        else:
            log_step.masked_fill_((total >= self.prefixes.longest[:, None])[..., None], -math.inf)
        log_shift = columns.log_shift[..., 0].double()
        if self._is_last:  # there is nothing to go on to
            log_shift = xp.full_like(log_shift, -math.inf)
        return Look(log_step, log_eos, columns.log_emit[..., 0].double(), log_shift)

    def follow(self, live: Plan, done: Plan | None) -> None:
        """Carries out a plan for the live entries, and one for the finished ones if there are any."""
        beam = self._rules.beam
        plan = live if done is None else live.beside(done)
        is_new = live.symbol >= 0
        self.prefixes = self.prefixes.following(plan, beam)
        rows = (self._row_starts + live.origin).flatten()
        new = is_new.flatten().nonzero()[:, 0]
        if not len(new):
            self.state = select(self.state, rows)
            return
        symbols = live.symbol.flatten()[new]
        grown = self._scorer.advance(self._source, self.state, rows[new], new // beam, symbols)
        old_count = rows.shape[0]
        rows[new] = self._xp.arange(old_count, old_count + len(new), device=rows.device)
        self.state = join((self.state, grown), rows)

    def unchanged(self, first: int, last: int) -> Plan:
        """A plan that keeps the entries ``first`` to ``last`` (excluded) as they are."""
        xp, streams = self._xp, self.prefixes.lens.shape[0]
        places = xp.arange(first, last, device=self._places.device).expand(streams, -1)
        no_symbol = xp.full_like(places, -1)
        masses = self.prefixes.log_mass[:, first:last], self.prefixes.log_best[:, first:last]
        return Plan(places, places, no_symbol, xp.zeros_like(places, dtype=xp.bool), *masses)


@dataclass(frozen=True)
class Flow:
    """Where the mass of the live hypotheses is between two rounds, all float64 ``(S, K)``.

    Attributes:
        fresh: What the last round has brought.
        moving: The part of it that is worth emitting from; the rest only shifts.
        stay: What has been left to shift.
        log_shift: Log probability of shifting, as far as the model has been asked.
    """

    fresh: Tensor
    moving: Tensor
    stay: Tensor
    log_shift: Tensor


class BeamPosition(Position[SourceT, StateT]):
    """One position of a beam search."""

    def run(self) -> None:
        """Lets hypotheses emit, merges equal ones, and shifts all."""
        fresh = self.prefixes.log_mass[:, : self._rules.beam]
        nothing = self._xp.full_like(fresh, -math.inf)
        flow = Flow(fresh, fresh, nothing, nothing)
        streams = self._xp.arange(fresh.shape[0], device=fresh.device)
        aside: list[tuple[Tensor, Prefixes, StateT]] = []
        for written in range(self._rules.max_emissions + 1):
            is_busy = (flow.moving > -math.inf).any(dim=1)
            count = int(is_busy.sum())
            if not count:
                break
            if 4 * count <= len(streams):  # a batch has always some stream that goes on for long; spare the others
                aside.append(self._take(streams, flow, (~is_busy).nonzero()[:, 0]))
                busy = is_busy.nonzero()[:, 0]
                streams, flow = streams[busy], self._keep(flow, busy)
            flow = self._round(flow, is_full=written == self._rules.max_emissions)
        self._shift(flow)
        if aside:
            self._reunite([*aside, (streams, self.prefixes, self.state)])

    def _round(self, flow: Flow, is_full: bool) -> Flow:
        """Lets the moving mass emit; when the position ``is_full`` it may only end."""
        beam, width = self._rules.beam, self.prefixes.lens.shape[1]
        now = self.look(is_full)
        stay = self._merged(flow.stay, flow.fresh + now.log_shift)
        done = self.unchanged(beam, width) if width > beam else None
        if self._may_end:
            done = self._plan_done(now, flow.moving)
        if is_full:
            self.follow(self.unchanged(0, beam), done)
            nothing = self._xp.full_like(stay, -math.inf)
            return Flow(nothing, nothing, stay, now.log_shift)
        live, fresh, stay = self._plan_live(now, flow.moving, stay)
        self.follow(live, done)
        return Flow(fresh, self._moving(fresh), stay, now.log_shift.gather(1, live.origin))

    def _take(self, streams: Tensor, flow: Flow, quiet: Tensor) -> tuple[Tensor, Prefixes, StateT]:
        """The streams ``quiet`` (M,), shifted."""
        part = self._part(quiet)
        part._shift(select(flow, quiet))
        return streams[quiet], part.prefixes, part.state

    def _keep(self, flow: Flow, busy: Tensor) -> Flow:
        """Goes on with the streams ``busy`` (M,) only."""
        part = self._part(busy)
        self.prefixes, self.state, self._source = part.prefixes, part.state, part._source
        self._row_starts = part._row_starts
        return select(flow, busy)

    def _part(self, streams: Tensor) -> BeamPosition[SourceT, StateT]:
        rows = (self._row_starts[streams] + self._places).flatten()
        source, prefixes = self._source.select(streams), select(self.prefixes, streams)
        return BeamPosition(self._scorer, self._rules, source, prefixes, select(self.state, rows), self._is_last)

    def _reunite(self, parts: list[tuple[Tensor, Prefixes, StateT]]) -> None:
        streams, prefixes, states = zip(*parts, strict=True)
        order = self._xp.argsort(self._xp.cat(streams))
        self.prefixes = join(prefixes, order)
        self.state = join(states, (order[:, None] * self._rules.beam + self._places).flatten())

    def _merged(self, first: Tensor, second: Tensor) -> Tensor:
        return self._xp.maximum(first, second) if self._rules.is_max else self._xp.logaddexp(first, second)

    def _moving(self, fresh: Tensor) -> Tensor:
        """The part of newly arrived mass that is worth emitting from; the rest only shifts."""
        if self._rules.beam_threshold == math.inf:
            return fresh
        best = self.prefixes.log_mass[:, : self._rules.beam].amax(dim=1, keepdim=True)
        return self._xp.where(fresh >= best - self._rules.beam_threshold, fresh, -math.inf)

    def _plan_done(self, now: Look, moving: Tensor) -> Plan:
        """Outputs that end now: added to those that ended with the same symbols before, or in competition with them."""
        xp, beam, prefixes = self._xp, self._rules.beam, self.prefixes
        twins = prefixes.twins(beam)
        found, which = twins.max(dim=1)  # (S, F)
        log_mass, log_best = moving + now.log_eos, prefixes.log_best[:, :beam] + now.log_eos  # (S, K)
        old_mass, old_best = prefixes.log_mass[:, beam:], prefixes.log_best[:, beam:]
        more = xp.where(found, log_mass.gather(1, which), -math.inf)
        path = xp.where(found, log_best.gather(1, which), -math.inf)
        is_better = path > old_best
        places = self._places.expand_as(old_mass)
        pool = Plan(
            origin=xp.cat([places + beam, places], dim=1),
            timing=xp.cat([xp.where(is_better, which, places + beam), places], dim=1),
            symbol=places.new_full((1, 1), -1).expand(places.shape[0], 2 * beam),
            is_marked=xp.cat([is_better, xp.ones_like(is_better)], dim=1),
            log_mass=xp.cat([self._merged(old_mass, more), log_mass.masked_fill(twins.any(dim=2), -math.inf)], dim=1),
            log_best=xp.cat([xp.maximum(old_best, path), log_best], dim=1),
        )
        return pool.picked(pool.log_mass.topk(beam, dim=1).indices)

    def _plan_live(self, now: Look, moving: Tensor, stay: Tensor) -> tuple[Plan, Tensor, Tensor]:
        """Children: those that are there already get more mass, the best of the others compete with all.

        Returns:
            The plan and, in its order, the mass that arrives with it and the mass left before.
        """
        xp, beam, prefixes, vocab = self._xp, self._rules.beam, self.prefixes, now.log_step.shape[2]
        scale = moving.amax(dim=1, keepdim=True)
        scale = xp.where(scale == -math.inf, 0.0, scale)  # so that little is lost in the model's precision
        steps = now.log_step.flatten(1)  # (S, K * V)
        children = (now.log_step + (moving - scale).to(steps.dtype)[..., None]).flatten(1)
        found, which = prefixes.parents(beam)
        last = prefixes.symbols.gather(2, (prefixes.lens[:, :beam, None] - 1).clamp(min=0))  # (S, K, 1)
        at = which * vocab + last[..., 0]
        log_best = prefixes.log_best[:, :beam]
        more = xp.where(found, children.gather(1, at).double() + scale, -math.inf)
        path = xp.where(found, log_best.gather(1, which) + steps.gather(1, at), -math.inf)
        is_better = path > log_best
        children.scatter_reduce_(1, at, xp.where(found, -math.inf, math.inf).to(steps.dtype), "amin")
        new, at = children.topk(beam, dim=1)
        new_mass, parent = new.double() + scale, at // vocab
        places = self._places.expand_as(parent)
        log_mass = xp.cat([self._merged(stay, more), new_mass], dim=1)
        if self._rules.beam_threshold < math.inf:
            worst = log_mass.amax(dim=1, keepdim=True) - self._rules.beam_threshold
            log_mass[:, beam:] = xp.where(new_mass >= worst, new_mass, -math.inf)
        pool = Plan(
            origin=xp.cat([places, parent], dim=1),
            timing=xp.cat([xp.where(is_better, which, places), parent], dim=1),
            symbol=xp.cat([xp.full_like(places, -1), at % vocab], dim=1),
            is_marked=xp.cat([is_better, xp.ones_like(is_better)], dim=1),
            log_mass=log_mass,
            log_best=xp.cat([xp.maximum(log_best, path), log_best.gather(1, parent) + steps.gather(1, at)], 1),
        )
        index = log_mass.topk(beam, dim=1).indices
        plan = pool.picked(index)
        nothing = xp.full_like(stay, -math.inf)
        fresh, stay = (xp.cat(pair, 1).gather(1, index) for pair in ((more, new_mass), (stay, nothing)))
        return plan, fresh, stay

    def _shift(self, flow: Flow) -> None:
        """Moves what has not been emitted to the next position, and prunes."""
        xp, beam, rules, prefixes = self._xp, self._rules.beam, self._rules, self.prefixes
        stay = self._merged(flow.stay, flow.fresh + flow.log_shift)
        log_best = xp.where(stay == -math.inf, -math.inf, prefixes.log_best[:, :beam] + flow.log_shift)
        log_best = xp.cat([log_best, prefixes.log_best[:, beam:]], dim=1)
        log_mass = log_best if rules.is_max else xp.cat([stay, prefixes.log_mass[:, beam:]], dim=1)
        prefixes = replace(prefixes, log_mass=log_mass, log_best=log_best)
        if rules.min_log_prob > -math.inf or rules.beam_threshold < math.inf:
            top = log_mass[:, :beam].amax(dim=1, keepdim=True)
            is_kept = (log_mass >= top - rules.beam_threshold) & (log_mass >= rules.min_log_prob)
            is_kept[:, :beam] |= log_mass[:, :beam] == top  # an unlikely input must not end the stream
            prefixes = prefixes.dropped(is_kept)
        self.prefixes = prefixes


class GreedyPosition(Position[SourceT, StateT]):
    """One position of the policy that writes the likeliest symbol while emitting is likely enough; beam 1."""

    def run(self) -> None:
        """Writes, then shifts; at the last position writes until the end symbol, for nothing else is left to do."""
        rules, threshold = self._rules, math.log(self._rules.emit_threshold or 1.0)
        now = self.look(is_full=False)
        for written in range(rules.max_emissions + 1):
            log_step = now.log_step.double()
            if self._may_end:
                log_step[..., EOS_ID] = now.log_eos
            gain, symbol = log_step.max(dim=2)  # (S, 1)
            writes = (now.log_emit >= threshold) | self._is_last
            writes = writes & self.prefixes.is_alive[:, :1] & (gain > -math.inf)
            if written == rules.max_emissions:
                writes = writes & (symbol == EOS_ID)
            if not bool(writes.any()):
                break
            self._write(symbol, gain, writes)
            now = self.look(is_full=False)
        if not self._is_last:
            shift = self._xp.cat([now.log_shift, self._xp.zeros_like(now.log_shift)], dim=1)
            masses = {name: getattr(self.prefixes, name) + shift for name in ("log_mass", "log_best")}
            self.prefixes = replace(self.prefixes, **masses)

    def _write(self, symbol: Tensor, gain: Tensor, writes: Tensor) -> None:
        xp = self._xp
        ends = writes & (symbol == EOS_ID)
        goes_on = writes & ~ends
        live, done = self.unchanged(0, 1), self.unchanged(1, 2)
        log_mass = live.log_mass + xp.where(writes, gain, 0.0)
        left = log_mass.masked_fill(ends, -math.inf)
        ended = xp.where(ends, log_mass, done.log_mass)
        place = xp.where(ends, live.origin, done.origin)
        symbol = xp.where(goes_on, symbol, -1)
        self.follow(
            live._replace(symbol=symbol, is_marked=goes_on, log_mass=left, log_best=left),
            done._replace(origin=place, timing=place, is_marked=ends, log_mass=ended, log_best=ended),
        )
