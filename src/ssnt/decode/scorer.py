"""Models as the searches see them.

A search keeps ``K`` prefixes for each of ``B`` sources, as dense ``(B, K)`` layouts; row ``b * K + k`` of a flat array
is prefix k of source b. It asks a model for the *columns* of those prefixes: at every source position the two decisions
and whatever it needs of the distribution over the next symbol, of which there are too many to hold for all cells.

Arrays are torch's tensors or NumPy's (:mod:`ssnt.arrays`), whichever the scorer works with.
"""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self, TypeVar

from ssnt.errors import ModelError

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from ssnt.arrays import NumpyDevice
    from ssnt.types import Batch, Grid


class Source(Protocol):
    """Encoded sources.

    Attributes:
        src_lens: How many columns their lattices have, ``(B,)``.
        read_lens: Lengths of the sources themselves, ``(B,)``, which limit those of outputs: another number than
            ``src_lens`` in models without an alignment.
    """

    @property
    def src_lens(self) -> Tensor:  # noqa: D102
        ...

    @property
    def read_lens(self) -> Tensor:  # noqa: D102
        ...

    def select(self, items: Tensor) -> Self:
        """Returns the sources ``items``, in that order; one may be taken several times."""
        ...

    def log_start(self, width: int) -> Tensor:
        """The inflow of ``width`` empty prefixes a source: all mass at the first position, ``(B, width, I)``."""
        ...


class TopWords(NamedTuple):
    """The likeliest symbols at single cells, best first.

    Attributes:
        log_probs: ``(P, K)``.
        symbols: ``(P, K)``.
    """

    log_probs: Tensor
    symbols: Tensor


def top_words(scores: Tensor, blocked: Tensor, count: int) -> TopWords:
    """The ``count`` best of ``(P, V)`` scores, which are overwritten where symbols are ``blocked``."""
    scores.index_fill_(1, blocked, -math.inf)
    # The maximum is several times faster than the same by topk.
    best = scores.max(dim=1, keepdim=True) if count == 1 else scores.topk(min(count, scores.shape[1]), dim=1)
    return TopWords(best.values, best.indices)


class Columns(Protocol):
    """The model at every source position, for ``K`` prefixes of each source.

    Attributes:
        log_emit: Log probability of emitting, ``(B, K, I)``; minus infinity in padding.
        log_shift: Log probability of shifting, ``(B, K, I)``; minus infinity in padding.
    """

    log_emit: Tensor
    log_shift: Tensor

    def log_mixture(self, log_weights: Tensor) -> Tensor:
        """``log sum_i weight_i p(v | i)`` for all symbols, ``(B, K, I) -> (B, K, V)``."""
        ...

    def log_word(self, prefixes: Tensor, symbols: Tensor) -> Tensor:
        """``log p(symbol | i)`` at all positions, for prefixes and symbols ``(B, M)``: ``(B, M, I)``."""
        ...

    def log_words(self, rows: Tensor, positions: Tensor) -> Tensor:
        """The whole distribution at single cells: flat prefix rows ``(P,)`` and positions ``(P,)`` to ``(P, V)``.

        The result is the caller's own, to be changed at will.
        """
        ...

    def log_top(self, rows: Tensor, positions: Tensor, blocked: Tensor, count: int) -> TopWords:
        """The ``count`` likeliest symbols at single cells, the symbols ``blocked`` left out."""
        ...


SourceT = TypeVar("SourceT", bound=Source)
StateT = TypeVar("StateT")


class Scorer(Protocol[SourceT, StateT]):
    """A model, or several as one.

    Attributes:
        vocab_size: How many target symbols there are.
        model_count: How many models are asked, each of which has its own logits.
        has_alignment: Whether the columns are source positions.
        device: Where its arrays are: one of torch's devices, or :data:`ssnt.arrays.NUMPY`.
    """

    vocab_size: int
    model_count: int

    @property
    def has_alignment(self) -> bool:  # noqa: D102
        ...

    @property
    def device(self) -> torch.device | NumpyDevice:  # noqa: D102
        ...

    @property
    def is_streaming(self) -> bool:
        """Whether sources can be read one symbol at a time."""
        ...

    def read(self, batch: Batch) -> SourceT:
        """Encodes the sources of a batch; targets are not looked at."""
        ...

    def start(self, source: SourceT) -> StateT:
        """The state of the empty prefix, one row a source."""
        ...

    def advance(self, source: SourceT, state: StateT, rows: Tensor, items: Tensor, symbols: Tensor) -> StateT:
        """Takes ``rows`` of a state, which belong to sources ``items``, and appends ``symbols``, all ``(N,)``."""
        ...

    def columns(self, source: SourceT, state: StateT, live: Tensor | None = None) -> Columns:
        """The columns of the ``B * K`` rows of a state; rows that are not ``live`` ``(B, K)`` have no probability."""
        ...

    def grid(self, source: SourceT, tgt: Tensor, tgt_lens: Tensor) -> Grid:
        """The lattices of given outputs ``(B, J)``, one a source."""
        ...


HearingT = TypeVar("HearingT")


class StreamingScorer(Scorer[SourceT, StateT], Protocol[SourceT, StateT, HearingT]):
    """A scorer that can also read its sources one symbol at a time.

    What it remembers of them, like the states of prefixes, is made of tensors with a row for each stream, in
    dataclasses and tuples: see :mod:`ssnt.decode.rows`.
    """

    def listen(self, count: int, features: Tensor | None = None) -> HearingT:
        """What ``count`` streams with tags ``(count, F)`` remember before the first symbol.

        Raises:
            ModelError: The model has to see the whole source, or its tags are missing.
        """
        ...

    def hear(self, symbols: Tensor, hearing: HearingT) -> tuple[SourceT, HearingT]:
        """Reads one symbol (S,) of each stream: sources with this position alone, and what to remember."""
        ...


def as_scorer(model: Any) -> Any:
    """A model as a scorer: a model is wrapped, a scorer is taken as it is.

    Raises:
        ModelError: It is neither.
    """
    if hasattr(model, "columns"):
        return model
    models = sys.modules.get("ssnt.nn")  # not imported: whoever has a model has done so
    if models is None or not isinstance(model, models.Model):
        raise ModelError(f"scorer: expected a model such as an SSNT, or a scorer, got {type(model).__name__}")
    from ssnt.decode.model_scorer import make_scorer

    return make_scorer(model)


def require_alignment(scorer: Scorer[Any, Any], what: str, *, example: str = "biSSNT+") -> None:
    """Refuses a model without an alignment.

    Args:
        scorer: The model.
        what: What cannot be done, with which the message begins.
        example: A kind of model that can.

    Raises:
        ModelError: It has none.
    """
    if not scorer.has_alignment:
        raise ModelError(
            f"{what}: expected a model with an alignment, such as {example}, got one without, such as an "
            "encoder-decoder; it is of use to marginal search and samples alone"
        )
