"""One model for each tag set, used like a single one."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar, Unpack

import torch

from ssnt.checkpoint.manifest import TagSet, tag_set
from ssnt.checkpoint.save import save_models
from ssnt.config import Config
from ssnt.data.vocab import Vocabulary
from ssnt.decode import Failure
from ssnt.decode.align import LINK_THRESHOLD
from ssnt.errors import DataError, ModelError
from ssnt.nn import Model
from ssnt.pipeline.inputs import HOW_TO_GIVE_TAGS, checked_tags, failure
from ssnt.pipeline.results import AlignedPair, PairScore, Streamed, Transduction
from ssnt.pipeline.settings import SearchSettings, StreamSettings
from ssnt.pipeline.text_stream import TextStream
from ssnt.pipeline.text_streams import TextStreams
from ssnt.pipeline.transducer import Transducer
from ssnt.types import Example

ResultT = TypeVar("ResultT", Transduction, PairScore, AlignedPair, Streamed)


class NoSingleModelError(ModelError, AttributeError):
    """One of several models is meant, and it is not said which; for ``hasattr``, there is no such attribute."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"there is one {name} for each tag set: choose one of .models, such as models['PST', 'V'].{name}"
        )


class PerTagTransducer(Transducer):
    """One model for each tag set: an input goes to the model of its tags, in whatever order they are given.

    Args:
        models: The model of each tag set. The models themselves have no tags, but for ensembles to which a model for
            all tag sets belongs.
        config: The settings they were trained with.
        metrics: Their scores together.

    Attributes:
        models: The model of each tag set, whose tags are sorted.
        config: The settings they were trained with.
        metrics: Their scores together.

    Raises:
        ModelError: There are no models, or two for one tag set.
    """

    def __init__(
        self, models: Mapping[TagSet, Transducer], config: Config, metrics: Mapping[str, Any] | None = None
    ) -> None:
        by_set = {tag_set(tags): one for tags, one in models.items()}
        self.models: Mapping[TagSet, Transducer] = {tags: by_set[tags] for tags in sorted(by_set)}
        if not models or len(self.models) < len(models):
            raise ModelError(
                f"models: expected one for each tag set, got {len(models)} for {len(self.models)} tag sets"
            )
        self.config = config
        self.metrics = dict(metrics or {})

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self.models)} x {self.config.model.name}, on {self.device})"

    @property
    def model(self) -> Model:  # type: ignore[override]
        """There is not one model.

        Raises:
            NoSingleModelError: Always; it says where they are.
        """
        raise NoSingleModelError("model")

    @property
    def vocabulary(self) -> Vocabulary:  # type: ignore[override]
        """There is not one vocabulary.

        Raises:
            NoSingleModelError: Always; it says where they are.
        """
        raise NoSingleModelError("vocabulary")

    @property
    def device(self) -> torch.device:
        """Where the models are."""
        return next(iter(self.models.values())).device

    @property
    def is_online(self) -> bool:
        """Whether the models can write while they read."""
        return all(one.is_online for one in self.models.values())

    @property
    def has_alignment(self) -> bool:
        """Whether outputs come with alignments."""
        return all(one.has_alignment for one in self.models.values())

    @property
    def has_tags(self) -> bool:
        """Every input comes with tags, which say what model to use."""
        return True

    def require_online(self, what: str) -> None:
        """Refuses models that cannot write while they read."""
        for one in self.models.values():
            one.require_online(what)

    def vocabulary_for(self, tags: Iterable[str]) -> Vocabulary:
        """The vocabulary of the model for these tags; if there is none, of any, to divide text with."""
        return self.models.get(tag_set(tags), next(iter(self.models.values()))).vocabulary

    def to(self, device: torch.device | str) -> PerTagTransducer:
        """Moves the models, and gives this transducer back."""
        for one in self.models.values():
            one.to(device)
        return self

    def save_pretrained(
        self, directory: str | os.PathLike[str], *, overwrite: bool = False, name: str | None = None
    ) -> None:
        """Writes a model directory with a model for each tag set, whole or not at all."""
        saved = {tags: one._saved() for tags, one in self.models.items()}
        save_models(Path(directory), saved, self.config, self.metrics, overwrite=overwrite, name=name)

    def transduce_each(
        self, examples: Sequence[Example], **settings: Unpack[SearchSettings]
    ) -> list[Transduction | Failure]:
        """Finds the best output for each example, with a failure for each tag set that has no model."""
        return self._dispatch(examples, lambda model, own: model.transduce_each(own, **settings))

    def score_each(
        self, examples: Sequence[Example], *, batch_size: int = 64, max_length: int = 2000
    ) -> list[PairScore | Failure]:
        """Scores the targets of examples, with a failure for each tag set that has no model."""
        return self._dispatch(
            examples, lambda model, own: model.score_each(own, batch_size=batch_size, max_length=max_length)
        )

    def align_each(
        self,
        examples: Sequence[Example],
        *,
        link_threshold: float = LINK_THRESHOLD,
        batch_size: int = 64,
        max_length: int = 2000,
    ) -> list[AlignedPair | Failure]:
        """Aligns the sources of examples with their targets, with a failure for each tag set that has no model."""
        return self._dispatch(
            examples,
            lambda model, own: model.align_each(
                own, link_threshold=link_threshold, batch_size=batch_size, max_length=max_length
            ),
        )

    def stream(self, tags: Iterable[str] | None = None, **settings: Unpack[StreamSettings]) -> TextStream:
        """Opens a stream with the model of some tags.

        Raises:
            DataError: There are no tags, or no model for them.
        """
        if tags is None:
            raise DataError(f"tags: {HOW_TO_GIVE_TAGS}")
        return self.transducer_for(checked_tags(tags)).stream(**settings)

    def streams(self, **settings: Unpack[StreamSettings]) -> TextStreams:
        """There is not one model whose streams could be stepped together.

        Raises:
            NoSingleModelError: Always; it says where they are.
        """
        raise NoSingleModelError("streams")

    def stream_each(
        self, examples: Sequence[Example], *, batch_size: int = 64, **settings: Unpack[StreamSettings]
    ) -> list[Streamed | Failure]:
        """Streams whole sources, with a failure for each tag set that has no model."""
        return self._dispatch(examples, lambda model, own: model.stream_each(own, batch_size=batch_size, **settings))

    def transducer_for(self, tags: Iterable[str]) -> Transducer:
        """The model of some tags, which is asked without them unless it has tags itself, as some ensembles have.

        Raises:
            DataError: There is none; the message names the nearest.
        """
        key = tag_set(tags)
        if key in self.models:
            return self.models[key]
        nearest = max(self.models, key=lambda known: _likeness(key, known))
        raise DataError(
            f"there is no model for the tags {_shown(key)}; the nearest of the {len(self.models)} known tag sets is "
            f"{_shown(nearest)}"
        )

    def _dispatch(
        self,
        examples: Sequence[Example],
        run: Callable[[Transducer, Sequence[Example]], Sequence[ResultT | Failure]],
    ) -> list[ResultT | Failure]:
        """Sends every example to its model, and gives the results in the order of the examples."""
        results: list[ResultT | Failure | None] = [None] * len(examples)
        groups: dict[TagSet, list[int]] = {}
        for index, example in enumerate(examples):
            try:
                tags = checked_tags(example.tags)
                self.transducer_for(tags)
            except DataError as error:
                results[index] = failure(index, error)
            else:
                groups.setdefault(tag_set(tags), []).append(index)
        for tags, indices in groups.items():
            model, own = self.models[tags], [examples[index] for index in indices]
            found = run(model, own if model.has_tags else [replace(one, tags=()) for one in own])
            for index, result in zip(indices, found, strict=True):
                results[index] = replace(result, index=index) if isinstance(result, Failure) else result
        return [result for result in results if result is not None]


def _likeness(one: TagSet, other: TagSet) -> float:
    """How many of the tags of two sets are in both."""
    both = set(one) | set(other)
    return len(set(one) & set(other)) / len(both) if both else 1.0


def _shown(tags: TagSet) -> str:
    return ";".join(tags) if tags else "(none)"
