"""An exported model as the searches see it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ssnt.arrays import NUMPY, Array, NumpyDevice, wrapped
from ssnt.decode.columns import FactoredSource, LogDecisions, ModelColumns, SourceWords
from ssnt.dp.checks import checked_lengths, require_count
from ssnt.errors import ModelError, ShapeError
from ssnt.onnx_runtime.layout import DECISIONS, DECODER_STEP, ENCODER, ENCODER_STEP, FEATURES
from ssnt.onnx_runtime.manifest import Sizes
from ssnt.onnx_runtime.sessions import Session
from ssnt.symbols import check_symbols
from ssnt.types import BOS_ID, Batch, Grid

if TYPE_CHECKING:
    from torch import Tensor

_MOST_UNITS = 4 << 20
"""Hidden units of decisions that are made at once: 16 MiB in float32."""


@dataclass(frozen=True)
class OnnxSource(FactoredSource):
    """Encoded sources.

    Attributes:
        transition: Their half of the decision, ``(B, I, D)``.
        condition: Tags ``(B, C)``, or None.
    """

    transition: Tensor
    condition: Tensor | None


@dataclass(frozen=True)
class OnnxState:
    """The decoder after each prefix, ``N`` rows.

    Attributes:
        hidden: ``(N, L, H)``.
        cell: ``(N, L, H)``.
        logits: The prefix half of the word logits, ``(N, V)``.
        transition: The prefix half of the decision, ``(N, D)``.
    """

    hidden: Tensor
    cell: Tensor
    logits: Tensor
    transition: Tensor


@dataclass(frozen=True)
class OnnxHearing:
    """What the model remembers of the sources of streams, one row a stream.

    Attributes:
        hidden: ``(S, L, H)``.
        cell: ``(S, L, H)``.
        condition: Tags ``(S, C)``, or None.
    """

    hidden: Tensor
    cell: Tensor
    condition: Tensor | None


class OnnxScorer:
    """The graphs of a model with an alignment, as the searches see them; its arrays are NumPy's.

    Args:
        sessions: The graphs by the names of their files.
        sizes: Their sizes.
    """

    has_alignment = True
    model_count = 1

    def __init__(self, sessions: Mapping[str, Session], sizes: Sizes) -> None:
        self.vocab_size = sizes.target_symbols
        self._sessions = sessions
        self._sizes = sizes
        self._encoder, self._decoder_step = sessions[ENCODER], sessions[DECODER_STEP]
        self._decisions = sessions[DECISIONS]

    @property
    def device(self) -> NumpyDevice:
        """Where its arrays are: in NumPy."""
        return NUMPY

    @property
    def is_streaming(self) -> bool:
        """Whether sources can be read one symbol at a time."""
        return ENCODER_STEP in self._sessions

    def read(self, batch: Batch) -> OnnxSource:
        """Encodes the sources of a batch.

        Raises:
            DataError: A symbol is outside the vocabulary.
            ShapeError: Sources or lengths are no batch.
            ModelError: There are tags for a model without, or none for a model with tags.
        """
        _check_symbols("src", batch.src, ("B", "I"), self._sizes.source_symbols)
        count, src_size = batch.src.shape
        src_lens = checked_lengths("src_lens", batch.src_lens, count, src_size, "src", NUMPY)
        condition = self._condition(batch.features, count)
        logits, transition = self._encoder(batch.src, src_lens, condition)
        return OnnxSource(src_lens, SourceWords.of(logits), transition, condition)

    def start(self, source: OnnxSource) -> OnnxState:
        """The state of the empty prefix, one row a source."""
        count = len(source.src_lens)
        state = _zeros(count, self._sizes.decoder_layers, self._sizes.hidden)
        return self._stepped(_full(count, BOS_ID), state, state, source.condition)

    def advance(self, source: OnnxSource, state: OnnxState, rows: Tensor, items: Tensor, symbols: Tensor) -> OnnxState:
        """Takes ``rows`` of a state, which belong to sources ``items``, and appends ``symbols``."""
        _check_symbols("symbols", symbols, ("N",), self.vocab_size)
        condition = None if source.condition is None else source.condition[items]
        return self._stepped(symbols, state.hidden.index_select(0, rows), state.cell.index_select(0, rows), condition)

    def columns(self, source: OnnxSource, state: OnnxState, live: Tensor | None = None) -> ModelColumns:
        """The columns of the ``B * K`` rows of a state; rows that are not ``live`` ``(B, K)`` have no probability."""
        batch = len(source.src_lens)
        transition = state.transition.view(batch, -1, self._sizes.transition)
        return self._columns(source, state.logits.view(batch, -1, self.vocab_size), transition, live)

    def grid(self, source: OnnxSource, tgt: Tensor, tgt_lens: Tensor) -> Grid:
        """The lattices of given outputs ``(B, J)``, one a source."""
        _check_symbols("tgt", tgt, ("B", "J"), self.vocab_size)
        state = self.start(source)
        states = [state]
        for j in range(tgt.shape[1] - 1):
            state = self._stepped(tgt[:, j], state.hidden, state.cell, source.condition)
            states.append(state)
        logits, transition = (
            _array(np.stack([getattr(one, name) for one in states], axis=1)) for name in ("logits", "transition")
        )
        columns = self._columns(source, logits, transition, None)
        rows = _array(np.broadcast_to(np.arange(tgt.shape[1]), tgt.shape))
        return Grid(columns.log_word(rows, tgt), columns.log_emit, columns.log_shift, source.src_lens, tgt_lens)

    def listen(self, count: int, features: Tensor | None = None) -> OnnxHearing:
        """What ``count`` streams with tags ``(count, F)`` remember before the first symbol.

        Raises:
            ModelError: The model has to see the whole source, or its tags are missing.
        """
        self._encoder_step()
        require_count("count", count)
        state = _zeros(count, self._sizes.encoder_layers, self._sizes.hidden)
        return OnnxHearing(state, state, self._condition(features, count))

    def hear(self, symbols: Tensor, hearing: OnnxHearing) -> tuple[OnnxSource, OnnxHearing]:
        """Reads one symbol (S,) of each stream."""
        _check_symbols("symbols", symbols, ("S",), self._sizes.source_symbols)
        step = self._encoder_step()
        logits, transition, hidden, cell = step(symbols, hearing.hidden, hearing.cell, hearing.condition)
        words = SourceWords.of(logits[:, None])
        source = OnnxSource(_full(len(symbols), 1), words, transition[:, None], hearing.condition)
        return source, OnnxHearing(hidden, cell, hearing.condition)

    def _stepped(self, symbols: Tensor, hidden: Tensor, cell: Tensor, condition: Tensor | None) -> OnnxState:
        logits, transition, hidden, cell = self._decoder_step(symbols, hidden, cell, condition)
        return OnnxState(hidden, cell, logits, transition)

    def _columns(self, source: OnnxSource, logits: Tensor, transition: Tensor, live: Tensor | None) -> ModelColumns:
        def decide(log_norm: Tensor) -> LogDecisions:
            return self._decided(source.transition, transition, log_norm)

        return ModelColumns(source, logits, decide, live)

    def _decided(self, source: Tensor, prefix: Tensor, log_norm: Tensor) -> LogDecisions:
        """Both decisions at each cell, of a few sources at a time: the layer between has ``D`` units a cell."""
        batch, units = len(log_norm), log_norm[:1].size * self._sizes.transition  # type: ignore[operator]
        count = max(1, _MOST_UNITS // max(1, units))
        if count >= batch:
            return LogDecisions(*self._decisions(source, prefix, log_norm))
        slices = [slice(first, first + count) for first in range(0, batch, count)]
        parts = [self._decisions(source[part], prefix[part], log_norm[part]) for part in slices]
        return LogDecisions(*(_array(np.concatenate(one)) for one in zip(*parts, strict=True)))

    def _condition(self, features: Tensor | None, count: int) -> Tensor | None:
        if (FEATURES in self._sessions) != (features is not None):
            expected = f"tags ({count}, F)" if features is None else "None, as this model has no tags"
            got = "None" if features is None else f"shape {tuple(features.shape)}"
            raise ModelError(f"features: expected {expected}, got {got}")
        if features is None:
            return None
        _check_symbols("features", features, ("B", "F"), self._sizes.tags)
        if len(features) != count:
            raise ShapeError(
                f"features: expected {count} rows, one for each source, got shape {tuple(features.shape)}; give every "
                "source its tags, and an empty row to one that has none"
            )
        (condition,) = self._sessions[FEATURES](features)
        return cast("Tensor", condition)

    def _encoder_step(self) -> Session:
        if not self.is_streaming:
            raise ModelError(
                "the encoder cannot read one symbol at a time: its states depend on the whole source; export a model "
                "with a unidirectional encoder, such as uniSSNT+"
            )
        return self._sessions[ENCODER_STEP]


def _check_symbols(name: str, symbols: Any, axes: tuple[str, ...], vocab_size: int) -> None:
    """Refuses what is no array of symbols, and symbols that the model does not have.

    Nothing at all is refused too, unless it is tags: ONNX Runtime's LSTM does not survive an empty batch.

    Raises:
        ShapeError: It is no array of whole numbers with these axes.
        DataError: A symbol is outside the vocabulary.
    """
    if not isinstance(symbols, Array):
        raise ShapeError(
            f"{name}: expected an array ({', '.join(axes)}), got {type(symbols).__name__}; use ssnt.arrays.placed"
        )
    check_symbols(name, cast("Tensor", symbols), axes, vocab_size)
    if not symbols.size and name != "features":
        raise ShapeError(
            f"{name}: expected an array ({', '.join(axes)}) with no empty axis, got shape {symbols.shape}; leave it out"
        )


def _zeros(*shape: int) -> Tensor:
    return _array(np.zeros(shape, dtype=np.float32))


def _full(count: int, value: int) -> Tensor:
    return _array(np.full(count, value, dtype=np.int64))


def _array(values: np.ndarray[Any, Any]) -> Tensor:
    """An array as the searches see it: by the names of a tensor's methods."""
    return cast("Tensor", wrapped(values))
