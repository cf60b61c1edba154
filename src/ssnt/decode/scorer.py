"""Models as the searches see them.

A search keeps ``K`` prefixes for each of ``B`` sources, as dense ``(B, K)`` layouts; row ``b * K + k`` of a flat tensor
is prefix k of source b. It asks a model for the *columns* of those prefixes: at every source position the two decisions
and whatever it needs of the distribution over the next symbol, of which there are too many to hold for all cells.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self, TypeVar, cast

import torch
from torch import Tensor

from ssnt.decode.rows import select
from ssnt.errors import ModelError
from ssnt.nn import SSNT, Encoding, Model, State, StreamingEncoder
from ssnt.nn.checks import check_device, check_same_batch
from ssnt.nn.recurrent import LSTMState
from ssnt.nn.transition import LogTransition
from ssnt.types import BOS_ID, Batch, Grid

if TYPE_CHECKING:
    from ssnt.nn.baselines import EncoderDecoder


class Source(Protocol):
    """Encoded sources.

    Attributes:
        src_lens: Lengths, ``(B,)``: how many columns their lattices have. A source whose own length is another one, as
            in models without an alignment, has that as ``read_lens``.
    """

    src_lens: Tensor

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
    """A model, or several as one."""

    vocab_size: int

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


@dataclass(frozen=True)
class ModelSource:
    """Encoded sources of one model, with the source half of the word logits.

    Attributes:
        states: ``(B, I, Hs)``, zero in padding.
        src_lens: ``(B,)``.
        condition: Tags ``(B, C)``, or None.
        logits: ``h W_h^T``, ``(B, I, V)``.
        exps: ``exp(logits - peaks)``, ``(B, I, V)``.
        peaks: ``(B, I)``.
        transition: The source half of the transition, whatever that is made of.
    """

    states: Tensor
    src_lens: Tensor
    condition: Tensor | None
    logits: Tensor
    exps: Tensor
    peaks: Tensor
    transition: Any

    def select(self, items: Tensor) -> ModelSource:
        """Returns the sources ``items``, in that order."""
        condition = None if self.condition is None else self.condition[items]
        kept = (self.logits[items], self.exps[items], self.peaks[items], select(self.transition, items))
        return ModelSource(self.states[items], self.src_lens[items], condition, *kept)

    def log_start(self, width: int) -> Tensor:
        """The inflow of ``width`` empty prefixes a source, ``(B, width, I)``."""
        batch, src_size = self.peaks.shape
        dtype = torch.promote_types(self.peaks.dtype, torch.float32)
        log_inflow = torch.full((batch, width, src_size), -math.inf, dtype=dtype, device=self.peaks.device)
        log_inflow[..., 0] = 0.0
        return log_inflow


@dataclass(frozen=True)
class PrefixState:
    """The decoder after each prefix.

    Attributes:
        recurrent: What the LSTM remembers, ``N`` rows.
        output: ``s_j``, ``(N, Ht)``.
    """

    recurrent: LSTMState
    output: Tensor


@dataclass(frozen=True)
class Hearing:
    """What a model remembers of the sources of streams.

    Attributes:
        encoder: The encoder's state, one row a stream.
        condition: Tags ``(S, C)``, or None.
    """

    encoder: State
    condition: Tensor | None


def _decisions(
    model: SSNT, source: ModelSource, prefix_states: Tensor, log_norm: Tensor, live: Tensor | None
) -> LogTransition:
    """Both decisions of every prefix at every position; rows that are not live have none."""
    decisions = model.decisions_from(source.transition, prefix_states, log_norm)
    if live is None:
        return decisions
    # Those of the others were made too: to leave them out costs more, as the source's part would have to be copied.
    dead = ~live[..., None]
    log_emit, log_shift = (one.masked_fill(dead, -math.inf) for one in (decisions.log_emit, decisions.log_shift))
    return LogTransition(log_emit, log_shift)


class ModelColumns:
    """Columns of one model; the vocabulary meets the positions in matrix products only, as in training."""

    def __init__(self, model: SSNT, source: ModelSource, output: Tensor, live: Tensor | None) -> None:
        if not model.word.is_factored:
            kind = type(model).__name__
            raise ModelError(f"model: a {kind} has a scorer of its own; use ssnt.decode.make_scorer(model)")
        batch, src_size, _ = source.states.shape
        self._source = source
        prefix_states = output.view(batch, -1, output.shape[1])  # (B, K, Ht)
        self._logits = torch.nn.functional.linear(prefix_states, model.word.tgt_weight, model.word.bias)  # (B, K, V)
        self._peaks = self._logits.amax(dim=2)  # (B, K)
        exps = torch.exp(self._logits - self._peaks[..., None])
        self._log_scale = self._peaks[:, :, None] + source.peaks[:, None, :]  # (B, K, I)
        product = torch.bmm(exps, source.exps.transpose(1, 2))
        self._log_norm = product.log() + self._log_scale
        self._unsafe = self._find_unsafe()
        if len(self._unsafe):
            rows, positions = self._unsafe // src_size, self._unsafe % src_size
            self._log_norm.view(-1)[self._unsafe] = torch.logsumexp(self._cell_logits(rows, positions), dim=1)
        decisions = _decisions(model, source, prefix_states, self._log_norm, live)  # (B, K, I)
        outside = torch.arange(src_size, device=output.device) >= source.src_lens[:, None, None]
        self.log_emit = decisions.log_emit.masked_fill(outside, -math.inf)
        self.log_shift = decisions.log_shift.masked_fill(outside, -math.inf)

    def _find_unsafe(self) -> Tensor:
        """Cells whose product of exponentials may have lost something to underflow; see ``factored_softmax``."""
        info = torch.finfo(self._log_norm.dtype)
        log_loss = self._log_scale + math.log(info.tiny * self._logits.shape[2])
        return (~(log_loss - self._log_norm <= math.log(info.eps))).flatten().nonzero()[:, 0]

    def _cell_logits(self, rows: Tensor, positions: Tensor) -> Tensor:
        """Logits of single cells, ``(P, V)``."""
        width = self._logits.shape[1]
        src_size = self._log_norm.shape[2]
        logits = self._logits.flatten(0, 1).index_select(0, rows)  # a copy, so what follows can be done in place
        logits += self._source.logits.flatten(0, 1).index_select(0, rows // width * src_size + positions)
        return logits

    def log_mixture(self, log_weights: Tensor) -> Tensor:
        """``log sum_i weight_i p(v | i)`` for all symbols, ``(B, K, V)``."""
        peak = log_weights.amax(dim=2, keepdim=True)
        peak = torch.where(peak == -math.inf, 0.0, peak)
        ratio = torch.exp(log_weights - peak + self._log_scale - self._log_norm)
        if len(self._unsafe):
            ratio.view(-1)[self._unsafe] = 0.0
        product = torch.bmm(ratio, self._source.exps)
        info = torch.finfo(product.dtype)
        # Below this a product may have lost terms to underflow, though its symbol need not be improbable.
        lost = (product < info.tiny / info.eps).any(dim=2) & (log_weights > -math.inf).any(dim=2)
        mass = product.log() + (self._logits - self._peaks[..., None])
        if len(self._unsafe):
            mass = torch.logaddexp(mass, self._unsafe_mass(log_weights - peak))
        mass += peak
        for row in lost.flatten().nonzero()[:, 0]:
            mass.flatten(0, 1)[row] = self._exact_mixture(row, log_weights.flatten(0, 1)[row])
        return mass

    def _exact_mixture(self, row: Tensor, log_weights: Tensor) -> Tensor:
        """The mixture of one prefix, from the whole distributions at the positions that have weight, ``(V,)``."""
        positions = (log_weights > -math.inf).nonzero()[:, 0]
        log_words = self.log_words(row.expand_as(positions), positions)  # (P, V)
        return torch.logsumexp(log_words + log_weights[positions, None], dim=0)

    def _unsafe_mass(self, log_weights: Tensor) -> Tensor:
        src_size = log_weights.shape[2]
        rows, positions = self._unsafe // src_size, self._unsafe % src_size
        log_share = log_weights.flatten()[self._unsafe]
        chances = torch.exp(log_share[:, None] + self.log_words(rows, positions))
        total = torch.zeros_like(self._logits).flatten(0, 1).index_add_(0, rows, chances)
        return total.log().view_as(self._logits)

    def log_word(self, prefixes: Tensor, symbols: Tensor) -> Tensor:
        """``log p(symbol | i)`` at all positions, ``(B, M, I)``."""
        src_size = self._log_norm.shape[2]
        at_source = self._source.logits.gather(2, symbols[:, None, :].expand(-1, src_size, -1)).transpose(1, 2)
        items = torch.arange(len(prefixes), device=prefixes.device)[:, None]
        at_prefix = self._logits[items, prefixes, symbols][..., None]  # (B, M, 1)
        return at_source + at_prefix - self._log_norm[items, prefixes]

    def log_words(self, rows: Tensor, positions: Tensor) -> Tensor:
        """The whole distribution at single cells, ``(P, V)``."""
        logits = self._cell_logits(rows, positions)
        logits -= self._log_norm.flatten(0, 1)[rows, positions][:, None]
        return logits

    def log_top(self, rows: Tensor, positions: Tensor, blocked: Tensor, count: int) -> TopWords:
        """The ``count`` likeliest symbols at single cells; only they are normalised."""
        best = top_words(self._cell_logits(rows, positions), blocked, count)
        log_norm = self._log_norm.flatten(0, 1)[rows, positions]
        return TopWords(best.log_probs - log_norm[:, None], best.symbols)


class ModelScorer:
    """One :class:`~ssnt.nn.SSNT` as the searches see it; dropout is the model's own affair, so call ``eval()``."""

    def __init__(self, model: SSNT) -> None:
        if not isinstance(model, SSNT):
            raise ModelError(f"model: expected an SSNT, got {type(model).__name__}")
        self.model = model
        self.vocab_size = model.config.tgt_vocab_size

    @property
    def has_alignment(self) -> bool:
        """The columns are source positions."""
        return True

    @property
    def is_streaming(self) -> bool:
        """Whether the encoder can be stepped."""
        return self.model.encoder.is_streaming

    def read(self, batch: Batch) -> ModelSource:
        """Encodes the sources of a batch."""
        warn_if_training(self.model)
        encoding = self.model.encode(batch)
        return self.source_of(encoding.states, batch.src_lens, encoding.condition)

    def source_of(self, states: Tensor, src_lens: Tensor, condition: Tensor | None) -> ModelSource:
        """Wraps encoder states ``(B, I, Hs)`` that were made elsewhere, such as one position of a stream."""
        inside = torch.arange(states.shape[1], device=states.device) < src_lens.to(states.device)[:, None]
        states = torch.where(inside[..., None], states, 0.0)
        logits = torch.nn.functional.linear(states, self.model.word.src_weight)  # (B, I, V)
        peaks = logits.amax(dim=2)
        exps = torch.exp(logits - peaks[..., None])
        transition = self.model.transition.source_half(states)
        return ModelSource(states, src_lens.to(states.device), condition, logits, exps, peaks, transition)

    def start(self, source: ModelSource) -> PrefixState:
        """The state of the empty prefix, one row a source."""
        batch = source.states.shape[0]
        begin = torch.full((batch,), BOS_ID, device=source.states.device)
        output, state = self.model.decoder.step(begin, self.model.decoder.initial_state(batch), source.condition)
        return PrefixState(state, output)

    def advance(
        self, source: ModelSource, state: PrefixState, rows: Tensor, items: Tensor, symbols: Tensor
    ) -> PrefixState:
        """Takes ``rows`` of a state and appends ``symbols``."""
        condition = None if source.condition is None else source.condition[items]
        output, recurrent = self.model.decoder.step(symbols, state.recurrent.select(rows), condition)
        return PrefixState(recurrent, output)

    def columns(self, source: ModelSource, state: PrefixState, live: Tensor | None = None) -> ModelColumns:
        """The columns of the ``B * K`` rows of a state; rows that are not ``live`` ``(B, K)`` have no probability."""
        return ModelColumns(self.model, source, state.output, live)

    def grid(self, source: ModelSource, tgt: Tensor, tgt_lens: Tensor) -> Grid:
        """The lattices of given outputs."""
        encoding = Encoding(source.states, source.condition)
        return self.model.grid_of(encoding, source.src_lens, tgt, tgt_lens)

    def listen(self, count: int, features: Tensor | None = None) -> Hearing:
        """What ``count`` streams remember before the first symbol."""
        warn_if_training(self.model)
        model = self.model
        encoder = self._streaming_encoder()
        state = encoder.initial_state(count)
        if (model.features is None) != (features is None):
            expected = "None, as this model has no tags" if model.features is None else f"tags ({count}, F)"
            got = "None" if features is None else f"shape {tuple(features.shape)}"
            raise ModelError(f"features: expected {expected}, got {got}")
        if model.features is None or features is None:
            return Hearing(state, None)
        check_device("features", features, model.word.bias.device)
        check_same_batch("features", features, "the batch of streams", count)
        return Hearing(state, model.features(features))

    def hear(self, symbols: Tensor, hearing: Hearing) -> tuple[ModelSource, Hearing]:
        """Reads one symbol (S,) of each stream."""
        output, state = self._streaming_encoder().step(symbols, hearing.encoder, hearing.condition)
        source = self.source_of(output[:, None], torch.ones_like(symbols), hearing.condition)
        return source, Hearing(state, hearing.condition)

    def _streaming_encoder(self) -> StreamingEncoder[Any]:
        encoder = self.model.encoder
        if not encoder.is_streaming and not hasattr(encoder, "initial_state"):
            raise ModelError(
                f"{type(encoder).__name__} cannot read one symbol at a time; train a model with a streaming encoder, "
                "such as the unidirectional LSTM (uniSSNT or uniSSNT+, bidirectional=False)"
            )
        return cast(StreamingEncoder[Any], encoder)  # one that has the method but cannot says so itself


def warn_if_training(model: Model) -> None:
    """Warns of a model whose answers dropout would change."""
    if model.training and (model.config.input_dropout or model.config.output_dropout):
        warnings.warn("the model is in training mode, so dropout changes every answer; call model.eval()", stacklevel=3)


def make_scorer(model: Model) -> Any:
    """A model of any architecture as the searches see it: a :class:`Scorer`, a :class:`StreamingScorer` if it streams.

    Raises:
        ModelError: It is no model.
    """
    if not isinstance(model, Model):
        raise ModelError(f"model: expected an ssnt.nn.Model, such as an SSNT, got {type(model).__name__}")
    if not model.has_alignment:
        from ssnt.decode.one_column import OneColumnScorer

        return OneColumnScorer(cast("EncoderDecoder", model))  # anything else is refused there
    if model.config.architecture == "prefix-attention":
        from ssnt.decode.prefix_attention import PrefixAttentionScorer

        return PrefixAttentionScorer(model)
    return ModelScorer(cast(SSNT, model))


def as_scorer(model: Any) -> Any:
    """A model as a scorer: a model is wrapped, a scorer is taken as it is."""
    if isinstance(model, Model):
        return make_scorer(model)
    if not hasattr(model, "columns"):
        raise ModelError(f"scorer: expected a model such as an SSNT, or a scorer, got {type(model).__name__}")
    return model


def has_alignment(scorer: Scorer[Any, Any]) -> bool:
    """Whether the columns of a scorer are source positions; a scorer of one's own that does not say has them."""
    return bool(getattr(scorer, "has_alignment", True))


def require_alignment(scorer: Scorer[Any, Any], what: str, *, example: str = "biSSNT+") -> None:
    """Refuses a model without an alignment.

    Args:
        scorer: The model.
        what: What cannot be done, with which the message begins.
        example: A kind of model that can.

    Raises:
        ModelError: It has none.
    """
    if not has_alignment(scorer):
        raise ModelError(
            f"{what}: expected a model with an alignment, such as {example}, got one without, such as an "
            "encoder-decoder; it is of use to marginal search and samples alone"
        )


def model_count(scorer: Scorer[Any, Any]) -> int:
    """How many models a scorer asks, each of which has its own logits; one, if it does not say."""
    return int(getattr(scorer, "model_count", 1))


def lengths_read(source: Source) -> Tensor:
    """Lengths of the sources themselves, ``(B,)``, which limit those of outputs; a lattice may have fewer columns."""
    lens: Tensor = getattr(source, "read_lens", source.src_lens)
    return lens
