"""The SSNT whose words look at source and prefix together, as the searches see it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from ssnt.decode.cell_columns import CellColumns
from ssnt.decode.model_scorer import ModelScorer, ModelSource, PrefixState
from ssnt.errors import ModelError
from ssnt.nn.joint_network import JointNetworkSSNT


@dataclass(frozen=True)
class JointSource(ModelSource):
    """Encoded sources, with their part of the hidden layer.

    Attributes:
        hidden: ``(B, I, D)``.
    """

    hidden: Tensor


class JointNetworkScorer(ModelScorer):
    """A :class:`~ssnt.nn.joint_network.JointNetworkSSNT` as the searches see it."""

    model: JointNetworkSSNT

    def __init__(self, model: Any) -> None:
        if not isinstance(model, JointNetworkSSNT):
            raise ModelError(f"model: expected a JointNetworkSSNT, got {type(model).__name__}")
        super().__init__(model)

    def source_of(self, states: Tensor, src_lens: Tensor, condition: Tensor | None) -> JointSource:
        """Wraps encoder states ``(B, I, Hs)`` that were made elsewhere, such as one position of a stream."""
        source = super().source_of(states, src_lens, condition)
        return JointSource(**vars(source), hidden=self.model.word.source_hidden(source.states))

    def columns(  # type: ignore[override]  # its own sources only
        self, source: JointSource, state: PrefixState, live: Tensor | None = None
    ) -> CellColumns:
        """The columns of the ``B * K`` rows of a state; rows that are not ``live`` ``(B, K)`` have no probability."""
        states = state.of_sources(source)
        logits = self.model.word.logits(source.hidden, source.logits, states)
        return CellColumns(logits, self.model.transition.log_grid_from(source.transition, states), source, live)
