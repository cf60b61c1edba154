"""A model asked with other numbers for symbols than its own, so that models with different vocabularies mix.

Whoever asks knows every symbol that the model knows. A target symbol that the model does not know has no probability in
it; after such a symbol, as after any other that is not in its vocabulary, the model goes on from the unknown symbol.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ssnt.arrays import namespace
from ssnt.decode.columns import OneColumn
from ssnt.decode.scorer import Scorer
from ssnt.errors import ModelError
from ssnt.types import Batch, Grid, MovesBetweenDevices

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from ssnt.arrays import NumpyDevice


@dataclass(frozen=True)
class Numbering(MovesBetweenDevices):
    """A model's numbers for symbols and tags, by those of whoever asks.

    Attributes:
        source: The model's number of each source symbol; ``UNK_ID`` for what it does not know.
        target: The model's number of each target symbol, likewise.
        tags: The model's number of each tag, 0 for what it does not know; None: it has no tags.
        known: The asker's number of each of the model's target symbols.
    """

    source: Tensor
    target: Tensor
    tags: Tensor | None
    known: Tensor


class RenumberedScorer:
    """A model without an alignment, asked with other numbers than its own.

    Args:
        inner: The model; one with an alignment has to be summed out first, by
            :class:`~ssnt.decode.marginalised.MarginalisedScorer`.
        numbering: Its numbers.

    Raises:
        ModelError: The model has an alignment.
    """

    has_alignment = False
    is_streaming = False

    def __init__(self, inner: Scorer[Any, Any], numbering: Numbering) -> None:
        if inner.has_alignment:
            raise ModelError("inner: expected a model without an alignment, got one with; sum it out first")
        self._inner = inner
        self._numbering = numbering
        self.vocab_size = len(numbering.target)
        self.model_count = inner.model_count

    @property
    def device(self) -> torch.device | NumpyDevice:
        """Where the model is."""
        return self._inner.device

    def read(self, batch: Batch) -> Any:
        """Encodes the sources of a batch."""
        tags = self._numbering.tags
        features = None if tags is None or batch.features is None else tags[batch.features]
        return self._inner.read(Batch(self._numbering.source[batch.src], batch.src_lens, features=features))

    def start(self, source: Any) -> Any:
        """The state of the empty prefix, one row a source."""
        return self._inner.start(source)

    def advance(self, source: Any, state: Any, rows: Tensor, items: Tensor, symbols: Tensor) -> Any:
        """Takes ``rows`` of a state, which belong to sources ``items``, and appends ``symbols``."""
        return self._inner.advance(source, state, rows, items, self._numbering.target[symbols])

    def columns(self, source: Any, state: Any, live: Tensor | None = None) -> OneColumn:
        """The distribution over the next symbol, for the ``B * K`` rows of a state."""
        columns = self._inner.columns(source, state, live)
        # of dead prefixes too: log_emit has minus infinity there
        log_own = columns.log_mixture(namespace(columns.log_emit).zeros_like(columns.log_emit))  # (B, K, its own V)
        log_next = log_own.new_full((*log_own.shape[:2], self.vocab_size), -math.inf)
        log_next[:, :, self._numbering.known] = log_own
        return OneColumn(log_next, live)

    def grid(self, source: Any, tgt: Tensor, tgt_lens: Tensor) -> Grid:
        """The lattices of given outputs."""
        grid = self._inner.grid(source, self._numbering.target[tgt], tgt_lens)
        log_known = grid.log_word.new_full((self.vocab_size,), -math.inf)
        log_known[self._numbering.known] = 0.0
        return replace(grid, log_word=grid.log_word + log_known[tgt][..., None])
