"""Models of torch as the searches see them: the SSNT and what is built like it; ``one_column`` has the others."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor

from ssnt.decode.columns import FactoredSource, ModelColumns, SourceWords
from ssnt.errors import ModelError
from ssnt.nn import SSNT, Encoding, Model, State, StreamingEncoder
from ssnt.nn.checks import check_device, check_same_batch
from ssnt.nn.padding import inside
from ssnt.nn.recurrent import LSTMState
from ssnt.types import BOS_ID, Batch, Grid

if TYPE_CHECKING:
    from ssnt.nn.baselines import EncoderDecoder


@dataclass(frozen=True)
class ModelSource(FactoredSource):
    """Encoded sources of one model, with the source half of the word logits.

    Attributes:
        states: ``(B, I, Hs)``, zero in padding.
        condition: Tags ``(B, C)``, or None.
        transition: The source half of the transition, whatever that is made of.
    """

    states: Tensor
    condition: Tensor | None
    transition: Any


@dataclass(frozen=True)
class PrefixState:
    """The decoder after each prefix.

    Attributes:
        recurrent: What the LSTM remembers, ``N`` rows.
        output: ``s_j``, ``(N, Ht)``.
    """

    recurrent: LSTMState
    output: Tensor

    def of_sources(self, source: ModelSource) -> Tensor:
        """The states of each source's prefixes, ``(B, K, Ht)``."""
        return self.output.view(len(source.states), -1, self.output.shape[1])


@dataclass(frozen=True)
class Hearing:
    """What a model remembers of the sources of streams.

    Attributes:
        encoder: The encoder's state, one row a stream.
        condition: Tags ``(S, C)``, or None.
    """

    encoder: State
    condition: Tensor | None


class ModelScorer:
    """One :class:`~ssnt.nn.SSNT` as the searches see it; dropout is the model's own affair, so call ``eval()``."""

    model_count = 1

    def __init__(self, model: SSNT) -> None:
        if not isinstance(model, SSNT):
            raise ModelError(f"model: expected an SSNT, got {type(model).__name__}")
        self.model = model
        self.vocab_size = model.config.tgt_vocab_size

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return self.model.device

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
        states = torch.where(inside(states, src_lens)[..., None], states, 0.0)
        logits = self.model.word.source_logits(states)
        transition = self.model.transition.source_half(states)
        return ModelSource(src_lens.to(states.device), SourceWords.of(logits), states, condition, transition)

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
        model = self.model
        if not model.word.is_factored:
            kind = type(model).__name__
            raise ModelError(f"model: a {kind} has a scorer of its own; use ssnt.decode.make_scorer(model)")
        prefix_states = state.of_sources(source)
        logits = model.word.product(prefix_states, model.word.tgt_weight, model.word.bias)  # (B, K, V)
        return ModelColumns(
            source, logits, lambda log_norm: model.decisions_from(source.transition, prefix_states, log_norm), live
        )

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
    if model.config.architecture == "joint-network":
        from ssnt.decode.joint_network import JointNetworkScorer

        return JointNetworkScorer(model)
    return ModelScorer(cast(SSNT, model))
