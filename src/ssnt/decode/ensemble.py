"""Several models as one: word and emission probabilities are averaged."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from ssnt.arrays import namespace
from ssnt.decode.scorer import Columns, Scorer, Source, StreamingScorer, TopWords, as_scorer, top_words
from ssnt.errors import ModelError
from ssnt.types import Batch, Grid

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from ssnt.arrays import NumpyDevice


def _log_mean(values: Sequence[Tensor]) -> Tensor:
    """The log of the mean of probabilities given as logs."""
    xp = namespace(values[0])
    return xp.logsumexp(xp.stack(list(values)), dim=0) - math.log(len(values))


@dataclass(frozen=True)
class EnsembleSource:
    """The sources as each model encodes them."""

    members: tuple[Source, ...]

    @property
    def src_lens(self) -> Tensor:
        """Lengths, ``(B,)``."""
        return self.members[0].src_lens

    @property
    def read_lens(self) -> Tensor:
        """Lengths of the sources themselves, ``(B,)``."""
        return self.members[0].read_lens

    def select(self, items: Tensor) -> EnsembleSource:
        """Returns the sources ``items``, in that order."""
        return EnsembleSource(tuple(source.select(items) for source in self.members))

    def log_start(self, width: int) -> Tensor:
        """The inflow of ``width`` empty prefixes a source, the same for every model, ``(B, width, I)``."""
        return self.members[0].log_start(width)


@dataclass(frozen=True)
class EnsembleState:
    """The decoder states of each model."""

    members: tuple[Any, ...]


class EnsembleColumns:
    """Averages of the models' columns."""

    def __init__(self, members: Sequence[Columns]) -> None:
        self._members = members
        self.log_emit = _log_mean([columns.log_emit for columns in members])
        self.log_shift = _log_mean([columns.log_shift for columns in members])

    def log_mixture(self, log_weights: Tensor) -> Tensor:
        """``log sum_i weight_i p(v | i)`` for all symbols."""
        return _log_mean([columns.log_mixture(log_weights) for columns in self._members])

    def log_word(self, prefixes: Tensor, symbols: Tensor) -> Tensor:
        """``log p(symbol | i)`` at all positions."""
        return _log_mean([columns.log_word(prefixes, symbols) for columns in self._members])

    def log_words(self, rows: Tensor, positions: Tensor) -> Tensor:
        """The whole distribution at single cells."""
        return _log_mean([columns.log_words(rows, positions) for columns in self._members])

    def log_top(self, rows: Tensor, positions: Tensor, blocked: Tensor, count: int) -> TopWords:
        """The ``count`` likeliest symbols at single cells."""
        return top_words(self.log_words(rows, positions), blocked, count)


class EnsembleScorer:
    """Several models over the same symbols, averaged at every decision.

    Args:
        members: The models; at least one, all with the same target vocabulary, and all with an alignment or all
            without.

    Raises:
        ModelError: There are none, or they cannot be averaged.
    """

    def __init__(self, members: Sequence[Scorer[Any, Any]]) -> None:
        members = [as_scorer(member) for member in members]
        if not members:
            raise ModelError("members: expected at least one model, got none")
        sizes = {scorer.vocab_size for scorer in members}
        if len(sizes) > 1:
            raise ModelError(f"members: expected models with one target vocabulary, got sizes {sorted(sizes)}")
        if len({scorer.has_alignment for scorer in members}) > 1:
            raise ModelError(
                "members: expected models with an alignment, or models without one, got both: an SSNT decides at every "
                "source position and an encoder-decoder at none, so that there is nothing to average; sum the "
                "alignments of the first out with MarginalisedScorer(model, end=...), which mixes with all kinds"
            )
        self._members = tuple(members)
        self.vocab_size = members[0].vocab_size
        self.model_count = sum(scorer.model_count for scorer in members)

    @property
    def has_alignment(self) -> bool:
        """Whether the columns of the models are source positions."""
        return self._members[0].has_alignment

    @property
    def device(self) -> torch.device | NumpyDevice:
        """Where the models are."""
        return self._members[0].device

    @property
    def is_streaming(self) -> bool:
        """Whether every model can read one symbol at a time."""
        return all(scorer.is_streaming for scorer in self._members)

    def read(self, batch: Batch) -> EnsembleSource:
        """Encodes the sources with every model."""
        return EnsembleSource(tuple(scorer.read(batch) for scorer in self._members))

    def start(self, source: EnsembleSource) -> EnsembleState:
        """The state of the empty prefix."""
        pairs = zip(self._members, source.members, strict=True)
        return EnsembleState(tuple(scorer.start(own) for scorer, own in pairs))

    def advance(
        self, source: EnsembleSource, state: EnsembleState, rows: Tensor, items: Tensor, symbols: Tensor
    ) -> EnsembleState:
        """Takes ``rows`` of a state and appends ``symbols``."""
        triples = zip(self._members, source.members, state.members, strict=True)
        return EnsembleState(tuple(scorer.advance(own, old, rows, items, symbols) for scorer, own, old in triples))

    def columns(self, source: EnsembleSource, state: EnsembleState, live: Tensor | None = None) -> EnsembleColumns:
        """Averages of the models' columns."""
        triples = zip(self._members, source.members, state.members, strict=True)
        return EnsembleColumns([scorer.columns(own, old, live) for scorer, own, old in triples])

    def grid(self, source: EnsembleSource, tgt: Tensor, tgt_lens: Tensor) -> Grid:
        """The lattices of given outputs, averaged cell by cell."""
        pairs = zip(self._members, source.members, strict=True)
        grids = [scorer.grid(own, tgt, tgt_lens) for scorer, own in pairs]
        word, emit, shift = (
            _log_mean([getattr(grid, name) for grid in grids]) for name in ("log_word", "log_emit", "log_shift")
        )
        return Grid(word, emit, shift, source.src_lens, tgt_lens)

    def listen(self, count: int, features: Tensor | None = None) -> tuple[Any, ...]:
        """What ``count`` streams remember before the first symbol, for every model."""
        return tuple(scorer.listen(count, features) for scorer in self._streaming())

    def hear(self, symbols: Tensor, hearing: tuple[Any, ...]) -> tuple[EnsembleSource, tuple[Any, ...]]:
        """Reads one symbol (S,) of each stream, with every model."""
        heard = [scorer.hear(symbols, own) for scorer, own in zip(self._streaming(), hearing, strict=True)]
        return EnsembleSource(tuple(source for source, _ in heard)), tuple(own for _, own in heard)

    def _streaming(self) -> Sequence[StreamingScorer[Any, Any, Any]]:
        return cast(Sequence[StreamingScorer[Any, Any, Any]], self._members)  # one that cannot says so itself
