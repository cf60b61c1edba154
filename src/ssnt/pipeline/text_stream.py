"""Outputs while the text is still arriving."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ssnt.data.vocab import Vocabulary
from ssnt.decode import Stream, StreamingScorer, StreamOptions
from ssnt.decode.stream_batch import Update
from ssnt.errors import DataError, ModelError
from ssnt.pipeline.arriving_text import ArrivingText
from ssnt.types import UNK_ID, Hypothesis

if TYPE_CHECKING:
    from torch import Tensor

REMEMBERED = 10_000
"""How many of the last source symbols are kept, to be copied where the output is unknown."""

_STATE = ("stream", "text", "source", "unknown", "has_written", "is_finished")


@dataclass(frozen=True)
class TextUpdate:
    """What a piece of text has brought.

    Attributes:
        committed: Text that is certain now. It follows that of earlier updates and is never withdrawn: all of it, put
            together, is the output.
        tentative: What would follow if the best hypothesis were right, which may still change.
        symbols: The symbols of ``committed``.
        delays: For each of them how many source symbols had been read when it was committed, the source's end symbol
            counted.
        written: For each of them how many had been read where its alignment writes it.
        read: How many source symbols have been read; the last character that was pushed is read when the next one shows
            that it does not combine with it.
        tentative_symbols: The symbols of ``tentative``.
    """

    committed: str
    tentative: str
    symbols: tuple[str, ...]
    delays: tuple[int, ...]
    written: tuple[int, ...]
    read: int
    tentative_symbols: tuple[str, ...] = ()

    def followed_by(self, other: TextUpdate) -> TextUpdate:
        """This update and the next as one."""
        return TextUpdate(
            self.committed + other.committed,
            other.tentative,
            self.symbols + other.symbols,
            self.delays + other.delays,
            self.written + other.written,
            other.read,
            other.tentative_symbols,
        )


class TextSide:
    """The text of a stream: what is read as numbers, and what is written as strings; it knows no model.

    Args:
        vocabulary: The symbols.
        copy_unknown: Whether an unknown symbol in the output is replaced by the source symbol it was written at.

    Attributes:
        read: How many source symbols have been read.
        unknown: How many of them the model does not know.
    """

    def __init__(self, vocabulary: Vocabulary, *, copy_unknown: bool = True) -> None:
        self._text = ArrivingText(
            vocabulary.source_unit, lowercase=vocabulary.lowercase, digits_to_hash=vocabulary.digits_to_hash
        )
        self._vocabulary = vocabulary
        self._copy_unknown = copy_unknown
        self._separator = " " if vocabulary.target_unit.name == "tokens" else ""
        self._source: deque[str] = deque(maxlen=REMEMBERED)
        self._has_written = False
        self.read = 0
        self.unknown = 0

    def push(self, text: str) -> list[int]:
        """The numbers of the source symbols that are certain now; they count as read.

        Raises:
            DataError: It is not text.
        """
        if not isinstance(text, str):
            raise DataError(f"text must be a string, got {type(text).__name__}")
        return self._take(self._text.push(text))

    def finish(self) -> list[int]:
        """The numbers of the symbols that were waiting for more text."""
        return self._take(self._text.finish())

    def update(self, update: Update) -> TextUpdate:
        """What a stream has brought, as text."""
        return self._update(update.committed, update.tentative, update.delays, update.written)

    def end(self, rest: Hypothesis) -> TextUpdate:
        """The rest of the output, as text."""
        count = len(rest.symbols)
        return self._update(rest.symbols, (), (self.read + 1,) * count, rest.delays[:count])

    def following(self, rest: Hypothesis) -> str:
        """What the text would be after what is committed, if the rest were this one."""
        return self._joined(self._names(rest.symbols, rest.delays[: len(rest.symbols)]))

    def last_read(self, count: int) -> tuple[str, ...]:
        """The last ``count`` source symbols that have been read, as many of them as are remembered."""
        first = max(0, len(self._source) - count)
        return tuple(self._source[place] for place in range(first, len(self._source)))

    def state(self) -> dict[str, Any]:
        """All that is remembered, as numbers and strings."""
        return {
            "text": self._text.state(),
            "source": {"symbols": list(self._source), "read": self.read},
            "unknown": self.unknown,
            "has_written": self._has_written,
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Goes on from a saved state, or is left as it was."""
        source = deque(map(str, state["source"]["symbols"]), maxlen=REMEMBERED)
        read, unknown = int(state["source"]["read"]), int(state["unknown"])
        self._text.load_state(state["text"])
        self._source, self.read, self.unknown = source, read, unknown
        self._has_written = bool(state["has_written"])

    def _take(self, symbols: Sequence[str]) -> list[int]:
        numbers = self._vocabulary.source.numbers(symbols)
        self._source.extend(symbols)
        self.read += len(symbols)
        self.unknown += numbers.count(UNK_ID)
        return numbers

    def _update(
        self, committed: Sequence[int], tentative: Sequence[int], delays: tuple[int, ...], written: tuple[int, ...]
    ) -> TextUpdate:
        symbols = self._names(committed, written)
        text = self._joined(symbols)
        self._has_written = self._has_written or bool(symbols)
        guesses = tuple(self._vocabulary.target.names[number] for number in tentative)
        return TextUpdate(text, self._joined(guesses), symbols, delays, written, self.read, guesses)

    def _joined(self, symbols: Sequence[str]) -> str:
        """Text that goes on from what was written before."""
        if not symbols:
            return ""
        before = self._separator if self._has_written else ""
        return before + self._separator.join(symbols)

    def _names(self, numbers: Sequence[int], written: Sequence[int]) -> tuple[str, ...]:
        return tuple(self._name(number, at) for number, at in zip(numbers, written, strict=True))

    def _name(self, number: int, written: int) -> str:
        """A symbol as a string; an unknown one is copied from the source symbol that was read last when it came."""
        if number == UNK_ID and self._copy_unknown:
            back = self.read - written + 1  # 1 for the symbol that was read last, 0 for the end symbol
            if 1 <= back <= len(self._source):
                return self._source[-back]
        return self._vocabulary.target.names[number]


class TextStream:
    """A stream that reads and writes text; made by :meth:`ssnt.Transducer.stream`.

    How the text is cut into pieces makes no difference to the output, not even between a letter and its accent.

    Args:
        scorer: A model with a unidirectional encoder.
        vocabulary: Its symbols.
        options: The settings.
        features: Its tags, ``(1, F)``, for a model that has them.
        copy_unknown: Whether an unknown symbol in the output is replaced by the source symbol it was written at.

    Attributes:
        log_prob: ``log p(y|x)`` of the whole output, after :meth:`finish`; None before, and if nothing was read.
        is_complete: Whether the output ended in its end symbol, after :meth:`finish`.
    """

    def __init__(
        self,
        scorer: StreamingScorer[Any, Any, Any],
        vocabulary: Vocabulary,
        options: StreamOptions,
        features: Tensor | None = None,
        *,
        copy_unknown: bool = True,
    ) -> None:
        self._side = TextSide(vocabulary, copy_unknown=copy_unknown)
        self._stream = Stream(scorer, options, features)
        self._is_finished = False
        self.log_prob: float | None = None
        self.is_complete = False

    @property
    def unknown(self) -> int:
        """How many source symbols the model does not know."""
        return self._side.unknown

    def push(self, text: str) -> TextUpdate:
        """Reads some more text, of any length.

        Raises:
            DataError: It is not text.
            ModelError: The stream is finished.
        """
        if self._is_finished:
            raise ModelError("the stream is finished already and reads no more; open a new one")
        return self._side.update(self._stream.push(self._side.push(text)))

    def finish(self) -> TextUpdate:
        """Ends the input; the update has the rest of the output. A stream that has read nothing writes nothing.

        Raises:
            ModelError: The stream is finished already.
        """
        if self._is_finished:
            raise ModelError("the stream is finished already; open a new one")
        before = self._side.update(self._stream.push(self._side.finish()))
        self._is_finished = True
        if not self._side.read:
            return before
        rest = self._stream.finish()
        self.log_prob, self.is_complete = rest.log_prob, rest.is_complete
        return before.followed_by(self._side.end(rest))

    def state_dict(self) -> dict[str, Any]:
        """All that the stream remembers, as tensors, numbers and strings, for ``torch.save``; nothing in it is code."""
        return {"stream": self._stream.state_dict(), **self._side.state(), "is_finished": self._is_finished}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on from a saved state, which must come from a stream of the same model with the same settings.

        Raises:
            ConfigError: The settings differ.
            ModelError: The state is incomplete or does not fit this model.
        """
        missing = [name for name in _STATE if name not in state]
        if missing:
            raise ModelError(f"this is not the state of a text stream: {', '.join(missing)} missing")
        before = self._side.state()
        try:
            self._side.load_state(state)
            self._stream.load_state_dict(state["stream"])
        except Exception as error:
            self._side.load_state(before)
            if not isinstance(error, KeyError | TypeError | ValueError | AttributeError):
                raise
            if isinstance(error, DataError | ModelError) or type(error).__module__.startswith("ssnt"):
                raise
            raise ModelError(f"this is not the state of a text stream: {type(error).__name__}: {error}") from None
        self._is_finished = bool(state["is_finished"])
