"""Many text streams that are stepped together, each at its own pace."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ssnt.data.vocab import Vocabulary
from ssnt.decode import StreamBatch, StreamingScorer, StreamOptions, open_streams
from ssnt.decode.stream_batch import Update, joined_updates
from ssnt.errors import DataError, ModelError
from ssnt.pipeline.text_stream import TextSide, TextUpdate
from ssnt.types import Hypothesis

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class StreamOutput:
    """One of the outputs that a stream ends with.

    Attributes:
        text: What follows the text of earlier answers.
        hypothesis: The same as numbers, with the probability of the whole output.
    """

    text: str
    hypothesis: Hypothesis


@dataclass(frozen=True)
class StreamAnswer:
    """What a stream has to say, once all that it was fed is read.

    Attributes:
        stream: Which one.
        update: What is new since the last answer.
        numbers: The source symbols read since then, without the end symbol, as numbers.
        source: The same as strings, those that the model does not know included.
        committed: The newly committed symbols, as numbers.
        tentative: The tentative ones, as numbers.
        is_end: Whether the stream has ended.
        outputs: At its end all outputs that were kept, most probable first; none if nothing was read.
        unknown: How many source symbols of the whole stream the model does not know.
    """

    stream: Hashable
    update: TextUpdate
    numbers: tuple[int, ...]
    source: tuple[str, ...]
    committed: tuple[int, ...]
    tentative: tuple[int, ...]
    is_end: bool = False
    outputs: tuple[StreamOutput, ...] = ()
    unknown: int = 0


@dataclass
class _Member:
    """A stream between two steps.

    Attributes:
        name: What it is called.
        side: Its text.
        tags: Numbers of its tags.
        waiting: Source symbols that are still to be read.
        read: Those that have been read since the last answer.
        updates: What they have brought.
        is_asked: Whether an answer is due when nothing waits any more.
        is_ending: Whether the input ends when nothing waits any more.
        has_row: Whether it is part of the batch.
        is_gone: Whether it was closed or has ended, so that its row can go.
    """

    name: Hashable
    side: TextSide
    tags: tuple[int, ...]
    waiting: deque[int] = field(default_factory=deque)
    read: list[int] = field(default_factory=list)
    updates: list[Update] = field(default_factory=list)
    is_asked: bool = False
    is_ending: bool = False
    has_row: bool = False
    is_gone: bool = False


class TextStreams:
    """Streams of one model with the same settings, stepped as one batch; see :meth:`ssnt.Transducer.streams`.

    Streams come and go, and are fed text of any length at any time. :meth:`step` reads one symbol of each stream that
    has any to read, so that nobody waits for somebody else's long text.

    Args:
        scorer: A model with a unidirectional encoder.
        vocabulary: Its symbols.
        options: The settings.
        features_of: Makes the tags of several streams, as numbers, what the model takes; None if it has none.
        copy_unknown: Whether an unknown symbol in the output is replaced by the source symbol it was written at.
    """

    def __init__(
        self,
        scorer: StreamingScorer[Any, Any, Any],
        vocabulary: Vocabulary,
        options: StreamOptions,
        *,
        features_of: Callable[[Sequence[Sequence[int]]], Tensor] | None = None,
        copy_unknown: bool = True,
    ) -> None:
        self._scorer = scorer
        self._vocabulary = vocabulary
        self._options = options
        self._features_of = features_of
        self._copy_unknown = copy_unknown
        self._members: dict[Hashable, _Member] = {}
        # Rows of the batch; streams that are new are given theirs when they are first stepped.
        self._batch: StreamBatch[Any, Any, Any] | None = None
        self._rows: list[_Member] = []

    def __len__(self) -> int:
        return len(self._members)

    def __contains__(self, stream: Hashable) -> bool:
        return stream in self._members

    def open(self, stream: Hashable, tags: Iterable[int] = ()) -> None:
        """Opens a stream.

        Args:
            stream: What it is to be called; a name is free again when its stream has ended or was closed.
            tags: Numbers of its tags, for a model that has them.

        Raises:
            DataError: There is one of this name.
        """
        if stream in self._members:
            raise DataError(f"stream: there is a stream {stream!r} already; close it first, or use another name")
        side = TextSide(self._vocabulary, copy_unknown=self._copy_unknown)
        self._members[stream] = _Member(stream, side, tuple(tags))

    def feed(self, stream: Hashable, text: str) -> None:
        """Gives a stream text to read; the answer comes from the step that reads the last of it.

        Raises:
            DataError: It is not text, or there is no such stream.
            ModelError: Its input has ended.
        """
        member = self._open_member(stream)
        member.waiting.extend(member.side.push(text))
        member.is_asked = True

    def end(self, stream: Hashable) -> None:
        """Ends the input of a stream; the answer comes from the step that reads the last of it.

        Raises:
            DataError: There is no such stream.
            ModelError: Its input has ended already.
        """
        member = self._open_member(stream)
        member.waiting.extend(member.side.finish())
        member.is_asked = member.is_ending = True

    def close(self, stream: Hashable) -> None:
        """Forgets a stream, whatever it has to say; one that is not there any more is no mistake."""
        if stream in self._members:
            self._forget(self._members[stream])

    @property
    def is_idle(self) -> bool:
        """Whether a step would do nothing."""
        return not any(member.is_asked for member in self._members.values())

    @property
    def reading(self) -> int:
        """How many streams have a symbol to read."""
        return sum(bool(member.waiting) for member in self._members.values())

    def step(self) -> list[StreamAnswer]:
        """Reads one symbol of each stream that has one to read.

        Returns:
            The answers of the streams that have read all they were fed; a stream that has ended is forgotten.
        """
        self._arrange()
        self._read()
        due = [member for member in self._members.values() if member.is_asked and not member.waiting]
        ending = [member for member in due if member.is_ending]
        outputs = dict(zip(map(id, ending), self._ended(ending), strict=True))
        return [self._answer(member, outputs.get(id(member), [])) for member in due]

    def _open_member(self, stream: Hashable) -> _Member:
        if stream not in self._members:
            raise DataError(f"stream: there is no stream {stream!r}, or it has ended")
        member = self._members[stream]
        if member.is_ending:
            raise ModelError("the stream is finished already and reads no more; open a new one")
        return member

    def _forget(self, member: _Member) -> None:
        del self._members[member.name]
        member.is_gone = True

    def _arrange(self) -> None:
        """Gives new streams a row, and takes those of streams that are gone."""
        gone = [row for row, member in enumerate(self._rows) if member.is_gone]
        if len(gone) == len(self._rows):
            self._batch, self._rows = None, []
        elif gone and self._batch is not None:
            self._batch.remove(gone)
            self._rows = [member for member in self._rows if not member.is_gone]
        new = [member for member in self._members.values() if member.is_asked and not member.has_row]
        if not new:
            return
        features = None if self._features_of is None else self._features_of([member.tags for member in new])
        if self._batch is None:
            self._batch = open_streams(self._scorer, len(new), self._options, features)
        else:
            self._batch.add(len(new), features)
        self._rows += new
        for member in new:
            member.has_row = True

    def _read(self) -> None:
        if self._batch is None:
            return
        symbols = [member.waiting.popleft() if member.waiting else None for member in self._rows]
        for member, symbol, update in zip(self._rows, symbols, self._batch.push(symbols), strict=True):
            if member.is_asked:
                member.updates.append(update)
            if symbol is not None:
                member.read.append(symbol)

    def _ended(self, members: list[_Member]) -> list[list[Hypothesis]]:
        """The outputs of streams whose input ends now; a stream that has read nothing has none."""
        places = {id(member): row for row, member in enumerate(self._rows)}
        rows = [places[id(member)] for member in members if member.side.read]
        found = iter(self._batch.finish(rows) if rows and self._batch is not None else [])
        return [next(found) if member.side.read else [] for member in members]

    def _answer(self, member: _Member, outputs: list[Hypothesis]) -> StreamAnswer:
        joined = joined_updates(member.updates)
        update, numbers = member.side.update(joined), tuple(member.read)
        committed, tentative = joined.committed, joined.tentative
        member.updates, member.read, member.is_asked = [], [], False
        texts = tuple(StreamOutput(update.committed + member.side.following(one), one) for one in outputs)
        if member.is_ending:
            self._forget(member)
        if outputs:
            update = update.followed_by(member.side.end(outputs[0]))
            committed, tentative = committed + outputs[0].symbols, ()
        return StreamAnswer(
            stream=member.name,
            update=update,
            numbers=numbers,
            source=member.side.last_read(len(numbers)),
            committed=committed,
            tentative=tentative,
            is_end=member.is_ending,
            outputs=texts,
            unknown=member.side.unknown,
        )
