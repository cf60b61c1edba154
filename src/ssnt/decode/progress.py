"""What streams remember between two inputs, and how they read on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Generic

from ssnt.arrays import namespace, namespace_on, no_grad
from ssnt.decode.prefixes import Prefixes, first_prefixes
from ssnt.decode.rounds import BeamPosition, GreedyPosition, Rules
from ssnt.decode.rows import join, leaves, select
from ssnt.decode.scorer import HearingT, SourceT, StateT, StreamingScorer
from ssnt.types import EOS_ID, Hypothesis

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Progress(Generic[StateT, HearingT]):
    """All that ``S`` streams remember.

    Attributes:
        prefixes: Their hypotheses.
        decoder: The decoder's states, ``S * K`` rows.
        hearing: What the encoder remembers, ``S`` rows.
    """

    prefixes: Prefixes
    decoder: StateT
    hearing: HearingT

    def chosen(self, streams: Tensor) -> Progress[StateT, HearingT]:
        """The streams ``streams`` (M,), in that order."""
        rows = _slots(streams, self._width)
        return Progress(select(self.prefixes, streams), select(self.decoder, rows), select(self.hearing, streams))

    def replaced(self, streams: Tensor, other: Progress[StateT, HearingT]) -> Progress[StateT, HearingT]:
        """The same with the streams ``streams`` (M,) taken from ``other``, which has only them."""
        xp = namespace(streams)
        count = self.prefixes.lens.shape[0]
        order = xp.arange(count, device=streams.device)
        order[streams] = xp.arange(count, count + len(streams), device=streams.device)
        return self._picked(other, order)

    def joined(self, other: Progress[StateT, HearingT]) -> Progress[StateT, HearingT]:
        """These streams, then those of ``other``."""
        lens = self.prefixes.lens
        count = len(lens) + len(other.prefixes.lens)
        return self._picked(other, namespace(lens).arange(count, device=lens.device))

    def _picked(self, other: Progress[StateT, HearingT], order: Tensor) -> Progress[StateT, HearingT]:
        """The streams ``order`` (M,) of these and of ``other``, whose numbers count on from these."""
        size = max(self.prefixes.symbols.shape[2], other.prefixes.symbols.shape[2])
        mine, others = self.prefixes.resized(size), other.prefixes.resized(size)
        rows = _slots(order, self._width)
        decoder, hearing = join((self.decoder, other.decoder), rows), join((self.hearing, other.hearing), order)
        return Progress(join((mine, others), order), decoder, hearing)

    @property
    def _width(self) -> int:
        return leaves(self.decoder)[0].shape[0] // self.prefixes.lens.shape[0]


def _slots(streams: Tensor, width: int) -> Tensor:
    """The decoder rows of streams."""
    return (streams[:, None] * width + namespace(streams).arange(width, device=streams.device)).flatten()


@no_grad()
def first_progress(
    scorer: StreamingScorer[SourceT, StateT, HearingT], count: int, rules: Rules, features: Tensor | None
) -> Progress[StateT, HearingT]:
    """``count`` streams that have read nothing."""
    hearing = scorer.listen(count, features)
    device = leaves(hearing)[0].device
    xp = namespace_on(device)
    # The state of the empty prefix is asked for with a source but does not depend on it, so any symbol will do.
    source, _ = scorer.hear(xp.full((count,), EOS_ID, device=device), hearing)
    rows = xp.arange(count, device=device).repeat_interleave(rules.beam)
    prefixes = first_prefixes(count, rules.beam, rules.finished, device)
    return Progress(prefixes, select(scorer.start(source), rows), hearing)


@no_grad()
def read_on(
    scorer: StreamingScorer[SourceT, StateT, HearingT],
    rules: Rules,
    progress: Progress[StateT, HearingT],
    symbols: Tensor,
    *,
    is_last: bool = False,
) -> Progress[StateT, HearingT]:
    """Reads one symbol (S,) of each stream, and searches."""
    source, hearing = scorer.hear(symbols, progress.hearing)
    prefixes = replace(progress.prefixes, read=progress.prefixes.read + 1).padded(rules.max_emissions)
    if is_last:  # outputs may end now, if not before
        prefixes = prefixes.widened(2 * rules.beam - prefixes.lens.shape[1])
    kind = BeamPosition if rules.emit_threshold is None else GreedyPosition
    position = kind(scorer, rules, source, prefixes, progress.decoder, is_last)
    position.run()
    return Progress(position.prefixes, position.state, hearing)


def outputs(
    rules: Rules, before: Progress[StateT, HearingT], after: Progress[StateT, HearingT]
) -> list[list[Hypothesis]]:
    """What the streams have written, most probable first, from their states before and after the last input.

    A stream in which no output could end, because of the limits on length or because the end symbol is impossible,
    gives its most probable unfinished one.
    """
    done = after.prefixes.hypotheses(rules.beam, 2 * rules.beam, is_complete=True)
    if all(done):
        return done
    written = after.prefixes.hypotheses(0, rules.beam, is_complete=False)  # left by the greedy policy only
    unfinished = before.prefixes.hypotheses(0, rules.beam, is_complete=False)
    return [ended or live[:1] or old[:1] for ended, live, old in zip(done, written, unfinished, strict=True)]
