"""A trained model with its vocabulary: text in, text out."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ssnt.checkpoint import SavedModel, load, save_model
from ssnt.config import Config
from ssnt.data.vocab import Vocabulary
from ssnt.decode import Failure, Scorer, StreamingScorer, make_scorer
from ssnt.errors import BackendError, ModelError
from ssnt.nn import Model
from ssnt.pipeline import hub
from ssnt.pipeline.attended import most_attended
from ssnt.pipeline.base import TextTransducer
from ssnt.pipeline.inputs import Numbers
from ssnt.types import Batch, Hypothesis


class Transducer(TextTransducer):
    """A trained model that reads and writes text.

    Args:
        model: The model.
        vocabulary: Its symbols and tags.
        config: The settings it was trained with.
        metrics: Its scores and what they depend on.

    Attributes:
        model: The model.
        vocabulary: Its symbols and tags.
        config: The settings it was trained with.
        metrics: Its scores and what they depend on.

    Raises:
        ModelError: Model and vocabulary do not fit.
    """

    def __init__(
        self, model: Model, vocabulary: Vocabulary, config: Config, metrics: Mapping[str, Any] | None = None
    ) -> None:
        sizes = {name: getattr(model.config, name) for name in vocabulary.model_sizes()}
        if sizes != vocabulary.model_sizes():
            raise ModelError(f"the vocabulary has {vocabulary.model_sizes()}, and the model was built for {sizes}")
        self.model = model
        self.vocabulary = vocabulary
        self.config = config
        self.metrics: Mapping[str, Any] = dict(metrics or {})

    def __repr__(self) -> str:
        sizes = f"{len(self.vocabulary.source)} source and {len(self.vocabulary.target)} target symbols"
        return f"{type(self).__name__}({self.config.model.name}, {sizes}, on {self.device})"

    @staticmethod
    def from_pretrained(
        dir_or_hub_id: str | os.PathLike[str],
        *,
        device: torch.device | str = "cpu",
        revision: str | None = None,
    ) -> Transducer:
        """Loads a model directory; nothing in it is run.

        Args:
            dir_or_hub_id: A directory, or the name of a model on the Hugging Face hub, such as ``owner/name``.
            device: Where the model is to work.
            revision: Of a model on the hub: a branch, a tag or a commit.

        Returns:
            The model; for a directory that has one for each tag set, a :class:`PerTagTransducer`, which is used in the
            same way.

        Raises:
            ModelError: There is no such model, or it is incomplete, was changed, or was written by a newer ssnt.
            BackendError: There is no such device here.
        """
        from ssnt.pipeline.per_tag import PerTagTransducer

        saved = load(hub.find_directory(dir_or_hub_id, revision))
        if isinstance(saved, SavedModel):
            return Transducer(saved.model, saved.vocabulary, saved.config, saved.metrics).to(device)
        models = {
            tags: Transducer(one.model, one.vocabulary, one.config, one.metrics) for tags, one in saved.models.items()
        }
        return PerTagTransducer(models, saved.config, saved.metrics).to(device)

    def save_pretrained(
        self, directory: str | os.PathLike[str], *, overwrite: bool = False, name: str | None = None
    ) -> None:
        """Writes a model directory, whole or not at all; see :func:`ssnt.checkpoint.save_model`.

        Args:
            directory: Where.
            overwrite: Whether a model that is there already may be replaced.
            name: What the model card calls the model; by default the directory's name.

        Raises:
            StorageError: There is something already, or it cannot be written.
        """
        own = self._saved()
        save_model(Path(directory), own.model, own.vocabulary, own.config, own.metrics, overwrite=overwrite, name=name)

    def _saved(self) -> SavedModel:
        """What a model directory has of it."""
        return SavedModel(self.model, self.vocabulary, self.config, self.metrics)

    def push_to_hub(
        self,
        repo_id: str,
        *,
        private: bool | None = None,
        revision: str | None = None,
        commit_message: str | None = None,
        token: str | None = None,
    ) -> str:
        """Puts the model on the Hugging Face hub.

        Args:
            repo_id: Its name there, such as ``owner/name``; made if it does not exist.
            private: Whether only the owner may see it, if it is made.
            revision: The branch to put it on; by default the main one.
            commit_message: What the hub's history says.
            token: The token to use; by default the one that was stored by ``hf auth login``.

        Returns:
            The model's address.

        Raises:
            ModelError: The hub cannot be reached or refuses.
        """
        with tempfile.TemporaryDirectory(prefix="ssnt-") as place:
            folder = Path(place) / "model"
            self.save_pretrained(folder, name=repo_id)
            return hub.upload(
                folder, repo_id, private=private, revision=revision, commit_message=commit_message, token=token
            )

    def to(self, device: torch.device | str) -> Transducer:
        """Moves the model, and gives this transducer back.

        Raises:
            BackendError: There is no such device here.
        """
        try:
            self.model.to(device)
        except (RuntimeError, AssertionError) as error:  # torch raises either
            reason = str(error).splitlines()[0]
            raise BackendError(f"device {str(device)!r} cannot be used here ({reason:.200}); try 'cpu'") from None
        return self

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return self.model.device

    @property
    def is_online(self) -> bool:
        """Whether the model can write while it reads."""
        return self.model.is_streaming

    @property
    def has_alignment(self) -> bool:
        """Whether outputs come with alignments; an encoder-decoder has none."""
        return self.model.has_alignment

    def transducer_for(self, tags: Iterable[str]) -> Transducer:
        """What is used for an input with these tags: this one, unless there is a model for each tag set."""
        return self

    def _scorer(self) -> Scorer[Any, Any]:
        """What searches over whole inputs are asked of."""
        scorer: Scorer[Any, Any] = make_scorer(self.model)
        return scorer

    def _streaming_scorer(self) -> StreamingScorer[Any, Any, Any]:
        self.model.eval()
        scorer: StreamingScorer[Any, Any, Any] = make_scorer(self.model)
        return scorer

    def _nll(self, batch: Batch) -> Tensor:
        """``-log p(y|x)`` of every pair of a batch, ``(B,)``."""
        return self.model.loss(batch, end=self.config.training.end, reduction="none")

    def _most_attended(
        self, numbers: Sequence[Numbers | Failure], found: Sequence[Sequence[Hypothesis] | Failure]
    ) -> Mapping[tuple[int, int], tuple[int, ...]]:
        return most_attended(self.model, numbers, found)

    @contextmanager
    def _ready(self) -> Iterator[None]:
        """Without dropout and gradients, and afterwards as it was: it may be in the middle of its training."""
        was_training = self.model.training
        self.model.eval()
        try:
            with torch.no_grad():
                yield
        finally:
            self.model.train(was_training)
