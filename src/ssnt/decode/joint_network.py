"""The SSNT whose words look at source and prefix together, as the searches see it."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from ssnt.decode.cell_columns import CellScorer
from ssnt.decode.model_scorer import ModelSource
from ssnt.nn.joint_network import JointLogits, JointNetworkSSNT


@dataclass(frozen=True)
class JointSource(ModelSource):
    """Encoded sources, with their part of the hidden layer.

    Attributes:
        hidden: ``(B, I, D)``.
    """

    hidden: Tensor


class JointNetworkScorer(CellScorer):
    """A :class:`~ssnt.nn.joint_network.JointNetworkSSNT` as the searches see it."""

    _kind = JointNetworkSSNT
    model: JointNetworkSSNT

    def source_of(self, states: Tensor, src_lens: Tensor, condition: Tensor | None) -> JointSource:
        """Wraps encoder states ``(B, I, Hs)`` that were made elsewhere, such as one position of a stream."""
        source = super().source_of(states, src_lens, condition)
        return JointSource(**vars(source), hidden=self.model.word.source_hidden(source.states))

    def _cell_logits(self, source: JointSource, prefix_states: Tensor) -> JointLogits:
        return self.model.word.logits(source.logits, source.hidden, prefix_states)
