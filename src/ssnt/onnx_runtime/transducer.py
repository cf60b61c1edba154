"""An exported model with its vocabulary: text in, text out."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from ssnt.arrays import NUMPY, NumpyDevice, no_grad
from ssnt.data.vocab import Vocabulary
from ssnt.decode.likelihood import log_likelihood
from ssnt.onnx_runtime.manifest import ExportManifest
from ssnt.onnx_runtime.scorer import OnnxScorer
from ssnt.pipeline.base import TextTransducer
from ssnt.types import Batch

if TYPE_CHECKING:
    from torch import Tensor


class OnnxTransducer(TextTransducer):
    """An exported model that reads and writes text, as :class:`ssnt.Transducer` does; made by :func:`load`.

    Results are the same, with NumPy's arrays in the places of tensors.

    Args:
        scorer: The model as the searches see it.
        vocabulary: Its symbols and tags.
        manifest: What its directory says of it.

    Attributes:
        vocabulary: Its symbols and tags.
        config: The settings it was trained with.
        manifest: What its directory says of it.
    """

    def __init__(self, scorer: OnnxScorer, vocabulary: Vocabulary, manifest: ExportManifest) -> None:
        self.vocabulary = vocabulary
        self.config = manifest.config
        self.manifest = manifest
        self.metrics: Mapping[str, Any] = {}
        self._model = scorer

    def __repr__(self) -> str:
        sizes = f"{len(self.vocabulary.source)} source and {len(self.vocabulary.target)} target symbols"
        return f"{type(self).__name__}({self.config.model.name}, {sizes}, {self.manifest.precision})"

    @property
    def device(self) -> NumpyDevice:
        """Where its arrays are: in NumPy."""
        return NUMPY

    @property
    def is_online(self) -> bool:
        """Whether the model can write while it reads."""
        return self._model.is_streaming

    @property
    def has_alignment(self) -> bool:
        """Whether outputs come with alignments."""
        return self._model.has_alignment

    def _scorer(self) -> OnnxScorer:
        return self._model

    def _streaming_scorer(self) -> OnnxScorer:
        return self._model

    def _nll(self, batch: Batch) -> Tensor:
        return -log_likelihood(self._model, batch, end=self.config.training.end)

    def _ready(self) -> AbstractContextManager[None]:
        return no_grad()
