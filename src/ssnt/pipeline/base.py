"""Text in, text out, whatever computes the model: what transducers of PyTorch and of ONNX Runtime share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack

from ssnt.config import Config
from ssnt.data.vocab import Vocabulary
from ssnt.decode import Failure, Scorer, StreamingScorer, copy_unknowns, decode
from ssnt.decode.align import LINK_THRESHOLD
from ssnt.errors import DataError
from ssnt.pipeline.inputs import (
    HOW_TO_GIVE_TAGS,
    HOW_TO_LEAVE_TAGS,
    Numbers,
    check_list,
    checked_tags,
    failure,
    make_examples,
    number_examples,
    pair_examples,
    tag_features,
    usable_examples,
)
from ssnt.pipeline.pairs import align_pairs, score_pairs
from ssnt.pipeline.refusals import not_online, without_alignment
from ssnt.pipeline.results import (
    AlignedPair,
    PairScore,
    Streamed,
    Transduction,
    all_good,
    in_order,
    transduction,
)
from ssnt.pipeline.settings import SearchSettings, StreamSettings, plan_search, plan_stream
from ssnt.pipeline.streaming import stream_sources
from ssnt.pipeline.text_stream import TextStream
from ssnt.pipeline.text_streams import TextStreams
from ssnt.types import Batch, Example, Hypothesis

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from ssnt.arrays import NumpyDevice


class TextTransducer(ABC):
    """A trained model that reads and writes text; what computes it is a subclass's affair.

    Attributes:
        vocabulary: Its symbols and tags.
        config: The settings it was trained with.
    """

    vocabulary: Vocabulary
    config: Config

    @property
    @abstractmethod
    def device(self) -> torch.device | NumpyDevice:
        """Where the model is."""

    @property
    @abstractmethod
    def is_online(self) -> bool:
        """Whether the model can write while it reads."""

    @property
    @abstractmethod
    def has_alignment(self) -> bool:
        """Whether outputs come with alignments; an encoder-decoder has none."""

    @property
    def has_tags(self) -> bool:
        """Whether every input comes with tags."""
        return self.vocabulary.tags is not None

    def require_online(self, what: str) -> None:
        """Refuses a model that cannot write while it reads.

        Args:
            what: What it is asked for, with which the message begins.

        Raises:
            ModelError: It cannot; the message says what to train instead.
        """
        if not self.is_online:
            raise not_online(what, self.config.model)

    def vocabulary_for(self, tags: Iterable[str]) -> Vocabulary:
        """The vocabulary of the model that is used for an input with these tags; a single model has but one."""
        return self.vocabulary

    def transducer_for(self, tags: Iterable[str]) -> TextTransducer:
        """What is used for an input with these tags: this one, unless there is a model for each tag set."""
        return self

    def transduce(
        self,
        texts: Sequence[str],
        tags: Sequence[Sequence[str]] | None = None,
        **settings: Unpack[SearchSettings],
    ) -> list[Transduction]:
        """Finds the best output for each input.

        Args:
            texts: The inputs.
            tags: The tags of each input, for a model that has them; their order does not matter.
            **settings: How to search; see :class:`SearchSettings`.

        Raises:
            DataError: An input cannot be used; the message says which.
            ModelError: The model cannot search in this way.
        """
        check_list("texts", texts, "['one']")
        examples = make_examples(texts, None, tags, has_tags=self.has_tags, argument="texts")
        return all_good("texts", self.transduce_each(examples, **settings))

    def transduce_each(
        self, examples: Sequence[Example], **settings: Unpack[SearchSettings]
    ) -> list[Transduction | Failure]:
        """Finds the best output for each example, with a failure in the place of each that cannot be used.

        Targets are not looked at. In a model with tags, an example without any has the empty set of tags.

        Args:
            examples: The inputs with their tags.
            **settings: How to search; see :class:`SearchSettings`.

        Raises:
            ModelError: The model cannot search in this way.
        """
        plan = plan_search(self.config, **settings)
        if plan.search == "path":
            self._require_alignment("search 'path'")
        elif plan.search == "online":
            self.require_online("search 'online'")
        numbers = number_examples(self.vocabulary, examples, needs_target=False)
        features = [() if isinstance(one, Failure) else one.tags for one in numbers] if self.has_tags else None
        with self._ready():
            found = decode(
                self._scorer(),
                [() if isinstance(one, Failure) else one.source_numbers for one in numbers],
                plan.search,
                plan.options,
                features=features,
                max_source_length=plan.max_source_length,
                batch_size=plan.batch_size,
                device=self.device,
            )
            places = self._most_attended(numbers, found) if plan.copy_unknown else {}
        return [
            one if isinstance(one, Failure) else self._result(index, one, hypotheses, plan.copy_unknown, places)
            for index, (one, hypotheses) in enumerate(zip(numbers, found, strict=True))
        ]

    def score(self, pairs: Sequence[tuple[str, str]], tags: Sequence[Sequence[str]] | None = None) -> list[float]:
        """The exact ``log p(y|x)`` of each pair of input and output, summed over all alignments.

        Args:
            pairs: Inputs with their outputs.
            tags: The tags of each input, for a model that has them.

        Raises:
            DataError: A pair cannot be used; the message says which.
        """
        return [
            one.log_prob
            for one in all_good("pairs", self.score_each(pair_examples(pairs, tags, has_tags=self.has_tags)))
        ]

    def score_each(
        self, examples: Sequence[Example], *, batch_size: int = 64, max_length: int = 2000
    ) -> list[PairScore | Failure]:
        """Scores the targets of examples, with a failure in the place of each that cannot be scored.

        Args:
            examples: Inputs with outputs and tags.
            batch_size: How many pairs, of about the same length, are scored together.
            max_length: Pairs with a longer side are refused.
        """
        pairs, failures = usable_examples(self.vocabulary, examples, max_length, needs_target=True)
        with self._ready():
            scores = score_pairs(self._nll, pairs, has_tags=self.has_tags, device=self.device, batch_size=batch_size)
            return in_order(failures, scores)

    def align(
        self,
        pairs: Sequence[tuple[str, str]],
        tags: Sequence[Sequence[str]] | None = None,
        *,
        link_threshold: float = LINK_THRESHOLD,
    ) -> list[AlignedPair]:
        """Aligns each pair of input and output exactly: which part of one wrote which part of the other.

        Args:
            pairs: Inputs with their outputs.
            tags: The tags of each input, for a model that has them.
            link_threshold: How probable a link must be to join segments; see :func:`ssnt.decode.align.find_segments`.

        Raises:
            DataError: A pair cannot be used; the message says which.
        """
        return all_good(
            "pairs", self.align_each(pair_examples(pairs, tags, has_tags=self.has_tags), link_threshold=link_threshold)
        )

    def align_each(
        self,
        examples: Sequence[Example],
        *,
        link_threshold: float = LINK_THRESHOLD,
        batch_size: int = 64,
        max_length: int = 2000,
    ) -> list[AlignedPair | Failure]:
        """Aligns the sources of examples with their targets, with a failure in the place of each that cannot be.

        Args:
            examples: Inputs with outputs and tags.
            link_threshold: How probable a link must be to join segments.
            batch_size: How many pairs, of about the same length, are aligned together.
            max_length: Pairs with a longer side are refused.
        """
        self._require_alignment("align")
        pairs, failures = usable_examples(self.vocabulary, examples, max_length, needs_target=True)
        end = self.config.training.end
        with self._ready():
            found = align_pairs(
                self._scorer(),
                pairs,
                has_tags=self.has_tags,
                end=end,
                batch_size=batch_size,
                link_threshold=link_threshold,
            )
            return in_order(failures, found)

    def stream(self, tags: Iterable[str] | None = None, **settings: Unpack[StreamSettings]) -> TextStream:
        """Opens a stream, which writes while its input is still arriving.

        Args:
            tags: The tags of the input, for a model that has them.
            **settings: How to write; see :class:`StreamSettings`.

        Raises:
            ModelError: The model has to see the whole input, or has no alignment.
            DataError: There are tags for a model without, or none for a model with tags.
            ConfigError: A setting is out of range.
        """
        self.require_online("stream")
        numbers = self.stream_tags(tags)
        features = self._features([numbers]) if self.has_tags else None
        options, copy_unknown = plan_stream(self.config, **settings)
        scorer = self._streaming_scorer()
        return TextStream(scorer, self.vocabulary, options, features, copy_unknown=copy_unknown)

    def streams(self, **settings: Unpack[StreamSettings]) -> TextStreams:
        """Streams that are stepped together, each at its own pace; they are opened with :meth:`TextStreams.open`.

        Args:
            **settings: How to write, the same for all; see :class:`StreamSettings`.

        Raises:
            ModelError: The model has to see the whole input, or has no alignment.
            ConfigError: A setting is out of range.
        """
        self.require_online("stream")
        options, copy_unknown = plan_stream(self.config, **settings)
        features_of = self._features if self.has_tags else None
        scorer = self._streaming_scorer()
        return TextStreams(scorer, self.vocabulary, options, features_of=features_of, copy_unknown=copy_unknown)

    def stream_tags(self, tags: Iterable[str] | None) -> list[int]:
        """The numbers of the tags of a stream, those left out that the model does not know.

        Raises:
            DataError: There are tags for a model without, or none for a model with tags.
        """
        known = () if tags is None else checked_tags(tags)
        if self.has_tags and tags is None:
            raise DataError(f"tags: {HOW_TO_GIVE_TAGS}")
        if known and not self.has_tags:
            raise DataError(f"tags: {HOW_TO_LEAVE_TAGS}")
        return list(self.vocabulary.tag_numbers(known)[0])

    def stream_each(
        self, examples: Sequence[Example], *, batch_size: int = 64, **settings: Unpack[StreamSettings]
    ) -> list[Streamed | Failure]:
        """Streams whole sources, to see what is committed when; a failure in the place of each that cannot be used.

        Args:
            examples: The inputs with their tags.
            batch_size: How many streams are stepped together.
            **settings: How to write; see :class:`StreamSettings`.

        Raises:
            ModelError: The model has to see the whole input, or has no alignment.
        """
        self.require_online("stream")
        options, copy_unknown = plan_stream(self.config, **settings)
        sources, failures = usable_examples(self.vocabulary, examples, 2000, needs_target=False)
        results: list[Streamed | Failure | None] = list(failures)
        with self._ready():
            scorer = self._streaming_scorer()
            for index, written in stream_sources(
                scorer, sources, options, has_tags=self.has_tags, batch_size=batch_size
            ):
                one = sources[index]
                symbols = written.names(one, self.vocabulary.target.names, copy_unknown=copy_unknown)
                src_len = len(one.source) + 1
                delays = (*written.delays, *([src_len] if written.is_complete else []))
                text = self.vocabulary.join_target(symbols)
                results[index] = Streamed(text, symbols, delays, src_len, written.is_complete)
        return [result for result in results if result is not None]

    def _result(
        self,
        index: int,
        one: Numbers,
        hypotheses: list[Hypothesis] | Failure,
        copy_unknown: bool,
        places: Mapping[tuple[int, int], tuple[int, ...]],
    ) -> Transduction | Failure:
        if isinstance(hypotheses, Failure):
            return failure(index, hypotheses.error)
        if not hypotheses:
            return failure(index, DataError("the model gives no output for the source"))
        names = self.vocabulary.target.names
        found = []
        for rank, hypothesis in enumerate(hypotheses):
            symbols = [names[number] for number in hypothesis.symbols]
            if copy_unknown:
                symbols = copy_unknowns(hypothesis, one.source, names, places.get((index, rank)))
            found.append(transduction(hypothesis, one, symbols, self.vocabulary.join_target(symbols)))
        return replace(found[0], alternatives=tuple(found[1:]))

    @abstractmethod
    def _scorer(self) -> Scorer[Any, Any]:
        """What searches over whole inputs are asked of."""

    @abstractmethod
    def _streaming_scorer(self) -> StreamingScorer[Any, Any, Any]:
        """What streams are asked of, which may outlive this call."""

    @abstractmethod
    def _nll(self, batch: Batch) -> Tensor:
        """``-log p(y|x)`` of every pair of a batch, ``(B,)``."""

    @abstractmethod
    def _ready(self) -> AbstractContextManager[None]:
        """In what state the model has to be while it is asked."""

    def _most_attended(
        self, numbers: Sequence[Numbers | Failure], found: Sequence[Sequence[Hypothesis] | Failure]
    ) -> Mapping[tuple[int, int], tuple[int, ...]]:
        """From where a model without an alignment copies what it does not know, by the place of its input and rank."""
        return {}

    def _features(self, rows: Sequence[Sequence[int]]) -> Tensor:
        """Numbers of tags as the model takes them."""
        return tag_features(rows, self.device)

    def _require_alignment(self, what: str) -> None:
        if not self.has_alignment:
            raise without_alignment(what, self.config.model)
