"""Marginal search: a beam over prefixes, each scored by its exact probability summed over all alignments.

A hypothesis is a prefix with its whole column ``alpha(., j)``. Prefixes that differ only in alignment are one
hypothesis, and a beam of k needs k decoder states. The mass of a prefix bounds that of all its continuations, which
makes the search exact when the beam is wide enough, and tells when to stop.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ssnt.decode.extend import append_symbols, extend, log_start
from ssnt.decode.finish import Output, aligned
from ssnt.decode.options import SearchOptions
from ssnt.decode.scorer import Scorer, Source
from ssnt.types import Batch, Hypothesis


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

    def add(self, output: Output) -> None:
        self.outputs.append(output)
        self.outputs.sort(key=lambda o: -self._options.score(o.log_prob, o.length))
        del self.outputs[self._options.nbest :]

    def is_settled(self, log_mass: float) -> bool:
        """Whether no continuation of a prefix with ``log_mass`` can still enter the list."""
        if len(self.outputs) < self._options.nbest:
            return False
        worst = self.outputs[-1]
        # A continuation has at most the prefix's mass, and at most the longest length to divide it by.
        bound = self._options.score(log_mass, self._longest + 1)
        return self._options.score(worst.log_prob, worst.length) >= bound


class _Search:
    """One run of the search over a batch."""

    def __init__(self, scorer: Scorer[Any, Any], batch: Batch, options: SearchOptions) -> None:
        self._scorer = scorer
        self._options = options
        self.source = scorer.read(batch)
        self._longest = [options.longest(length) for length in self.source.src_lens.tolist()]
        self._finished = [_Finished(options, longest) for longest in self._longest]
        self._unfinished: list[list[Output]] = [[] for _ in self._longest]

    def run(self) -> list[list[Output]]:
        """Returns the outputs of each source, best first."""
        beam: _Beam | None = self._start()
        while beam is not None:
            beam = self._step(beam)
        results = [done.outputs for done in self._finished]
        return [done or live[: self._options.nbest] for done, live in zip(results, self._unfinished, strict=True)]

    def _start(self) -> _Beam:
        state = self._scorer.start(self.source)
        columns = self._scorer.columns(self.source, state)  # only for shape, dtype and device
        batch, _, size = columns.log_emit.shape
        items = torch.arange(batch, device=columns.log_emit.device)
        empty = torch.empty(batch, 1, 0, dtype=torch.int64, device=items.device)
        log_inflow = log_start(batch, 1, size, columns.log_emit)
        return _Beam(items, self.source, state, log_inflow, torch.zeros_like(log_inflow[..., 0]), empty)

    def _step(self, beam: _Beam) -> _Beam | None:
        """Extends every prefix by one symbol; None when all sources are settled."""
        extension = extend(self._scorer, beam.source, beam.state, beam.log_inflow, beam.symbols.shape[2], self._options)
        self._collect(beam, extension.log_ended)
        log_next = extension.log_next
        vocab_size = log_next.shape[2]
        width = min(self._options.beam, log_next.shape[1] * vocab_size)
        best = log_next.flatten(1).topk(width, dim=1)
        parents, symbols = best.indices // vocab_size, best.indices % vocab_size  # (A, K')
        log_mass = self._pruned(best.values)
        keep = self._still_searched(beam, log_mass)
        if len(keep) == 0:
            return None
        # What was dropped, or never was a continuation, must not come back through its alpha.
        log_inflow = extension.log_inflow(parents, symbols).masked_fill(log_mass[..., None] == -math.inf, -math.inf)
        prefixes = append_symbols(beam.symbols, parents, symbols)
        return self._advance(beam, keep, parents, log_inflow, log_mass, prefixes)

    def _collect(self, beam: _Beam, log_ended: Tensor) -> None:
        """Adds the prefixes to the finished outputs, and notes them as unfinished at the length limit."""
        length = beam.symbols.shape[2]
        log_ended = log_ended.masked_fill(beam.log_mass == -math.inf, -math.inf)
        rows = zip(beam.items.tolist(), log_ended.tolist(), beam.log_mass.tolist(), strict=True)
        for row, (item, ended, masses) in enumerate(rows):
            at_limit = length == self._longest[item]
            for k, (log_prob, log_mass) in enumerate(zip(ended, masses, strict=True)):
                if log_prob > max(-math.inf, self._options.min_log_prob) and not self._finished[item].is_settled(
                    log_prob
                ):
                    self._finished[item].add(Output(tuple(beam.symbols[row, k].tolist()), log_prob, True))
                if at_limit and log_mass > -math.inf:
                    self._unfinished[item].append(Output(tuple(beam.symbols[row, k].tolist()), log_mass, False))

    def _pruned(self, log_mass: Tensor) -> Tensor:
        """Drops what falls below the thresholds; the masses come best first."""
        too_low = log_mass < torch.clamp(log_mass[:, :1] - self._options.beam_threshold, min=self._options.min_log_prob)
        return log_mass.masked_fill(too_low, -math.inf)

    def _still_searched(self, beam: _Beam, log_mass: Tensor) -> list[int]:
        """The rows whose sources could still yield a better output."""
        length = beam.symbols.shape[2]
        return [
            row
            for row, (item, best) in enumerate(zip(beam.items.tolist(), log_mass[:, 0].tolist(), strict=True))
            if best > -math.inf and length < self._longest[item] and not self._finished[item].is_settled(best)
        ]

    def _advance(
        self, beam: _Beam, keep: list[int], parents: Tensor, log_inflow: Tensor, log_mass: Tensor, prefixes: Tensor
    ) -> _Beam:
        device = parents.device
        rows = torch.tensor(keep, device=device)
        width = parents.shape[1]
        state_rows = (rows[:, None] * beam.log_mass.shape[1] + parents[rows]).flatten()
        everything = len(keep) == len(beam.items)
        source = beam.source if everything else beam.source.select(rows)
        own = torch.arange(len(keep), device=device).repeat_interleave(width)
        state = self._scorer.advance(source, beam.state, state_rows, own, prefixes[rows][..., -1].flatten())
        return _Beam(beam.items[rows], source, state, log_inflow[rows], log_mass[rows], prefixes[rows])


def marginal_search(
    scorer: Scorer[Any, Any], batch: Batch, options: SearchOptions | None = None
) -> list[list[Hypothesis]]:
    """Searches the most probable outputs of each source, ``argmax_y p(y|x)``.

    Args:
        scorer: The model.
        batch: The sources; targets are not looked at.
        options: Settings of the search.

    Returns:
        For each source at most ``options.nbest`` distinct outputs, best first, with ``log p(y|x)``, the best path and
        the emission posteriors. If no output could be completed within the length limit, the best prefixes, marked as
        incomplete; if none is possible at all, an empty list.
    """
    options = options or SearchOptions()
    with torch.no_grad():
        search = _Search(scorer, batch, options)
        found = search.run()
        items = [item for item, outputs in enumerate(found) for _ in outputs]
        hypotheses = iter(aligned(scorer, search.source, items, [o for outputs in found for o in outputs], options))
        return [[next(hypotheses) for _ in outputs] for outputs in found]
