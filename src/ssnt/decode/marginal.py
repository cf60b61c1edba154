"""Marginal search: a beam over prefixes, each scored by its exact probability summed over all alignments.

A hypothesis is a prefix with its whole column ``alpha(., j)``. Prefixes that differ only in alignment are one
hypothesis, and a beam of k needs k decoder states. The mass of a prefix bounds that of all its continuations, which
makes the search exact when the beam is wide enough, and tells when to stop.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ssnt.arrays import namespace, no_grad
from ssnt.decode.extend import append_symbols, extend
from ssnt.decode.finish import Output, aligned, hypotheses_of, without_alignments
from ssnt.decode.likeliest import follow_likeliest
from ssnt.decode.options import SearchOptions
from ssnt.decode.rows import select as select_rows
from ssnt.decode.scorer import Scorer, Source
from ssnt.types import Batch, Hypothesis

if TYPE_CHECKING:
    from torch import Tensor


@dataclass
class _Beam:
    """The live prefixes of the sources that are still searched; ``A`` of them, with ``K`` prefixes each.

    Attributes:
        items: Which source of the batch each row belongs to, ``(A,)``.
        source: The sources themselves.
        state: Decoder states, ``A * K`` rows.
        log_inflow: ``alpha(., j)`` of each prefix, ``(A, K, I)``.
        log_mass: Its sum, ``(A, K)``; minus infinity where there is no prefix.
        symbols: The prefixes, ``(A, K, j)``.
    """

    items: Tensor
    source: Source
    state: Any
    log_inflow: Tensor
    log_mass: Tensor
    symbols: Tensor


class _Finished:
    """The best complete outputs of one source."""

    def __init__(self, options: SearchOptions, longest: int) -> None:
        self._options = options
        self._longest = longest
        self.outputs: list[Output] = []

    def has(self, symbols: tuple[int, ...]) -> bool:
        """Whether an output is in the list."""
        return any(output.symbols == symbols for output in self.outputs)

    def add(self, output: Output) -> None:
        """Puts an output into the list, if it is good enough."""
        self.outputs.append(output)
        self.outputs.sort(key=lambda o: -self._options.score(o.log_prob, o.length))
        del self.outputs[self._options.nbest :]

    @property
    def log_least(self) -> float:
        """No continuation of a prefix with at most this log mass can still enter the list."""
        if len(self.outputs) < self._options.nbest:
            return -math.inf
        worst = self.outputs[-1]
        # A continuation has at most the prefix's mass, and at most the longest length to divide it by.
        longest = self._longest + 1
        return self._options.score(worst.log_prob, worst.length) * math.pow(longest, self._options.length_normalisation)


class _Search:
    """One run of the beam over encoded sources."""

    def __init__(self, scorer: Scorer[Any, Any], source: Source, options: SearchOptions) -> None:
        self._scorer = scorer
        self._options = options
        self._source = source
        self._longest = [options.longest(length) for length in source.read_lens.tolist()]
        self._finished = [_Finished(options, longest) for longest in self._longest]
        self._unfinished: list[list[Output]] = [[] for _ in self._longest]

    def seed(self, item: int, output: Output) -> None:
        """Tells the search of a complete output that is known already: what cannot beat it is not followed."""
        self._finished[item].add(output)

    def run(self) -> list[list[Output]]:
        """Returns the outputs of each source, best first."""
        beam: _Beam | None = self._start()
        while beam is not None:
            beam = self._step(beam)
        results = [done.outputs for done in self._finished]
        return [done or live[: self._options.nbest] for done, live in zip(results, self._unfinished, strict=True)]

    def _start(self) -> _Beam:
        state = self._scorer.start(self._source)
        log_inflow = self._source.log_start(1)
        xp = namespace(log_inflow)
        items = xp.arange(len(log_inflow), device=log_inflow.device)
        empty = xp.empty(len(items), 1, 0, dtype=xp.int64, device=items.device)
        return _Beam(items, self._source, state, log_inflow, xp.zeros_like(log_inflow[..., 0]), empty)

    def _step(self, beam: _Beam) -> _Beam | None:
        """Extends every prefix by one symbol; None when all sources are settled."""
        extension = extend(self._scorer, beam.source, beam.state, beam.log_inflow, beam.symbols.shape[2], self._options)
        self._collect(beam, extension.log_ended)
        log_next = extension.log_next
        vocab_size = log_next.shape[2]
        width = min(self._options.beam, log_next.shape[1] * vocab_size)
        best = log_next.flatten(1).topk(width, dim=1)
        log_mass = self._pruned(beam, best.values)
        keep = self._still_searched(beam, log_mass)
        if len(keep) == 0:
            return None
        # Masses come best first, so what is alive stands in front: no work for what is not.
        alive = int((log_mass[keep] > -math.inf).sum(dim=1).max())
        log_mass, chosen = log_mass[:, :alive], best.indices[:, :alive]
        parents, symbols = chosen // vocab_size, chosen % vocab_size  # (A, K')
        # What was dropped, or never was a continuation, must not come back through its alpha.
        log_inflow = extension.log_inflow(parents, symbols).masked_fill(log_mass[..., None] == -math.inf, -math.inf)
        prefixes = append_symbols(beam.symbols, parents, symbols)
        return self._advance(beam, keep, parents, log_inflow, log_mass, prefixes)

    def _collect(self, beam: _Beam, log_ended: Tensor) -> None:
        """Adds the prefixes to the finished outputs, and notes them as unfinished at the length limit."""
        length = beam.symbols.shape[2]
        log_ended = log_ended.masked_fill(beam.log_mass == -math.inf, -math.inf)
        least = self._log_least(beam.items)[:, None]
        for row, k in ((log_ended > least) & (log_ended >= self._options.min_log_prob)).nonzero().tolist():
            item = int(beam.items[row])
            output = Output(tuple(beam.symbols[row, k].tolist()), log_ended[row, k].item(), True)
            if not self._finished[item].has(output.symbols):
                self._finished[item].add(output)
        for row, item in enumerate(beam.items.tolist()):
            if length == self._longest[item] and not self._finished[item].outputs:
                prefixes = zip(beam.symbols[row].tolist(), beam.log_mass[row].tolist(), strict=True)
                self._unfinished[item] = [Output(tuple(p), mass, False) for p, mass in prefixes if mass > -math.inf]

    def _log_least(self, items: Tensor) -> Tensor:
        """What a prefix's log mass must exceed to be worth following, or an output's log probability to be kept."""
        least = [self._finished[item].log_least for item in items.tolist()]
        xp = namespace(items)
        return xp.tensor(least, dtype=xp.float64, device=items.device)

    def _pruned(self, beam: _Beam, log_mass: Tensor) -> Tensor:
        """Drops what falls below the thresholds, and what cannot enter the list any more; masses come best first."""
        floor = (log_mass[:, :1] - self._options.beam_threshold).clamp(min=self._options.min_log_prob)
        hopeless = log_mass <= self._log_least(beam.items)[:, None]
        return log_mass.masked_fill((log_mass < floor) | hopeless, -math.inf)

    def _still_searched(self, beam: _Beam, log_mass: Tensor) -> list[int]:
        """The rows whose sources could still yield a better output."""
        length = beam.symbols.shape[2]
        return [
            row
            for row, (item, best) in enumerate(zip(beam.items.tolist(), log_mass[:, 0].tolist(), strict=True))
            if best > -math.inf and length < self._longest[item]
        ]

    def _advance(
        self, beam: _Beam, keep: list[int], parents: Tensor, log_inflow: Tensor, log_mass: Tensor, prefixes: Tensor
    ) -> _Beam:
        xp, device = namespace(parents), parents.device
        rows = xp.tensor(keep, device=device)
        width = parents.shape[1]
        live = log_mass[rows] > -math.inf
        state_rows = rows[:, None] * beam.log_mass.shape[1] + parents[rows]
        source = beam.source if len(keep) == len(beam.items) else beam.source.select(rows)
        own = xp.arange(len(keep), device=device)[:, None].expand(-1, width)
        symbols = prefixes[rows][..., -1]
        state = self._scorer.advance(source, beam.state, state_rows[live], own[live], symbols[live])
        # Only live prefixes went through the decoder; the others take any state, to fill their places.
        places = (live.flatten().cumsum(0) - 1).clamp(min=0)
        state = select_rows(state, places)
        return _Beam(beam.items[rows], source, state, log_inflow[rows], log_mass[rows], prefixes[rows])


def marginal_search(
    scorer: Scorer[Any, Any], batch: Batch, options: SearchOptions | None = None
) -> list[list[Hypothesis]]:
    """Searches the most probable outputs of each source, ``argmax_y p(y|x)``.

    Args:
        scorer: The model.
        batch: The sources, each with its end symbol; targets are not looked at.
        options: Settings of the search.

    Returns:
        For each source at most ``options.nbest`` distinct outputs, best first, with ``log p(y|x)``, the best path and
        the emission posteriors. If no output could be completed within the length limit, the best prefixes, marked as
        incomplete; if none is possible at all, an empty list.
    """
    options = options or SearchOptions()
    options.require_vocabulary(scorer.vocab_size)
    with no_grad():
        source = scorer.read(batch)
        if options.nbest > 1 or options.length_normalisation > 0.0:
            found = _aligned(scorer, source, _Search(scorer, source, options).run(), options)
        else:
            found = _best_outputs(scorer, source, options)
        return without_alignments(scorer, source, found)


def _best_outputs(scorer: Scorer[Any, Any], source: Source, options: SearchOptions) -> list[list[Hypothesis]]:
    """The most probable output of each source."""
    # The likeliest symbol each time is often the likeliest output too, and then that can be proved without a beam.
    guesses, trail = follow_likeliest(scorer, source, options)
    proved = {item: guess.output for item, guess in enumerate(guesses) if guess.is_best and guess.output is not None}
    others = [item for item in range(len(guesses)) if item not in proved]
    xp, device = namespace(source.src_lens), source.src_lens.device
    found: dict[int, list[Hypothesis]] = {}
    if proved:
        tgt_lens = xp.tensor([output.length for output in proved.values()], device=device)
        grid = trail.grid(xp.tensor(list(proved), device=device), tgt_lens)
        hypotheses = hypotheses_of(grid, list(proved.values()), options.end, options)
        found |= {item: [hypothesis] for item, hypothesis in zip(proved, hypotheses, strict=True)}
    if others:
        left = source.select(xp.tensor(others, device=device))
        search = _Search(scorer, left, options)
        for row, item in enumerate(others):
            guess = guesses[item].output
            if guess is not None:
                search.seed(row, guess)
        found |= dict(zip(others, _aligned(scorer, left, search.run(), options), strict=True))
    return [found[item] for item in range(len(guesses))]


def _aligned(
    scorer: Scorer[Any, Any], source: Source, found: list[list[Output]], options: SearchOptions
) -> list[list[Hypothesis]]:
    """The outputs of each source with their alignments."""
    items = [item for item, outputs in enumerate(found) for _ in outputs]
    hypotheses = iter(aligned(scorer, source, items, [o for outputs in found for o in outputs], options))
    return [[next(hypotheses) for _ in outputs] for outputs in found]
