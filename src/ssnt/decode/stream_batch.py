"""Streams that are stepped together: outputs while the inputs are still arriving.

Memory, and time for each input symbol, do not grow with what has been read.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic

from ssnt.arrays import namespace_on
from ssnt.decode.options import require_symbols
from ssnt.decode.progress import Progress, first_progress, outputs, read_on
from ssnt.decode.scorer import HearingT, SourceT, StateT, StreamingScorer, as_scorer, require_alignment
from ssnt.decode.stream_options import StreamOptions
from ssnt.decode.stream_state import restored_streams, saved_streams
from ssnt.errors import ConfigError, DataError, ModelError
from ssnt.types import EOS_ID, Hypothesis

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Update:
    """What a push has brought.

    Attributes:
        committed: Symbols that are certain now; they follow those of earlier updates and are never withdrawn.
        tentative: What the best hypothesis has written after them, which may still change.
        delays: For each newly committed symbol how many inputs had been read when it was committed, which is what a
            reader of the output has to wait for: the delays that latency is measured by.
        written: For each newly committed symbol how many inputs had been read where the best path to the best
            hypothesis writes it: its alignment. Never more than its delay.
        read: How many inputs have been read.
    """

    committed: tuple[int, ...]
    tentative: tuple[int, ...]
    delays: tuple[int, ...]
    written: tuple[int, ...]
    read: int


class StreamBatch(Generic[SourceT, StateT, HearingT]):
    """Streams that are stepped together; made by :func:`open_streams`.

    Attributes:
        options: The settings.
    """

    def __init__(
        self,
        scorer: StreamingScorer[SourceT, StateT, HearingT],
        count: int = 1,
        options: StreamOptions | None = None,
        features: Tensor | None = None,
    ) -> None:
        _require_count(count)
        scorer = as_scorer(scorer)
        require_alignment(scorer, "stream", example="uniSSNT+")
        self.options = options or StreamOptions()
        if not isinstance(self.options, StreamOptions):
            raise ConfigError(f"options: expected StreamOptions, got {type(options).__name__}")
        self._scorer = scorer
        self._rules = self.options.rules()
        require_symbols("banned", self.options.banned, scorer.vocab_size)
        self._progress = first_progress(scorer, count, self._rules, features)
        self._device = self._progress.prefixes.lens.device
        self._xp = namespace_on(self._device)
        self._is_finished = [False] * count

    def __len__(self) -> int:
        return len(self._is_finished)

    def push(self, symbols: Sequence[int | None]) -> list[Update]:
        """Reads one more source symbol of each stream.

        Args:
            symbols: One symbol for each stream, or None for a stream that has no input now. The source's end symbol
                is left to :meth:`finish`.

        Returns:
            One update a stream, those without input included.

        Raises:
            DataError: There are too few or too many symbols, or one is outside the vocabulary; nothing was read.
            ModelError: A stream that gets a symbol is finished.
        """
        if len(symbols) != len(self):
            raise DataError(f"symbols: expected one for each of {len(self)} streams, got {len(symbols)}")
        streams = [stream for stream, symbol in enumerate(symbols) if symbol is not None]
        self._check_open(streams)
        values = [checked_symbol(symbol) for symbol in symbols if symbol is not None]
        if streams:
            self._progress = self._merged(streams, self._read(streams, values))
        return self._commit()

    def finish(self, streams: Iterable[int] | None = None) -> list[list[Hypothesis]]:
        """Ends the input of some streams, by default all that are not finished.

        Args:
            streams: Their indices.

        Returns:
            For each of them its outputs, most probable first, *from the first symbol that is not committed*: they all
            begin with what is. Their probabilities are those of the whole output. A single one that is not complete,
            if none could end.

        Raises:
            ModelError: A stream is finished already.
        """
        chosen = range(len(self)) if streams is None else [operator.index(stream) for stream in streams]
        if streams is None:
            chosen = [stream for stream in chosen if not self._is_finished[stream]]
        if any(not 0 <= stream < len(self) for stream in chosen) or len(set(chosen)) < len(chosen):
            raise DataError(f"streams: expected different indices below {len(self)}, got {list(chosen)}")
        self._check_open(chosen)
        if not chosen:
            return []
        xp, index = self._xp, self._numbers(chosen)
        before = self._progress.chosen(index)
        after = read_on(self._scorer, self._rules, before, xp.full_like(index, EOS_ID), is_last=True)
        for stream in chosen:
            self._is_finished[stream] = True
        is_kept = xp.tensor([not ended for ended in self._is_finished], device=self._device)[:, None]
        prefixes = self._progress.prefixes
        prefixes = replace(prefixes, read=prefixes.read.index_add(0, index, xp.ones_like(index)))
        self._progress = replace(self._progress, prefixes=prefixes.dropped(is_kept.expand_as(prefixes.lens)))
        return outputs(self._rules, before, after)

    def add(self, count: int = 1, features: Tensor | None = None) -> range:
        """Opens more streams, which are stepped together with those that are there.

        Args:
            count: How many.
            features: Their tags, ``(count, F)``, for a model that has them.

        Returns:
            Their indices: they come after the others.
        """
        _require_count(count)
        before = len(self)
        self._progress = self._progress.joined(first_progress(self._scorer, count, self._rules, features))
        self._is_finished += [False] * count
        return range(before, len(self))

    def remove(self, streams: Iterable[int]) -> None:
        """Forgets streams, finished or not; those after them move up.

        Raises:
            DataError: There is no such stream, or no other would be left.
        """
        gone = {operator.index(stream) for stream in streams}
        if any(not 0 <= stream < len(self) for stream in gone):
            raise DataError(f"streams: expected indices below {len(self)}, got {sorted(gone)}")
        kept = [stream for stream in range(len(self)) if stream not in gone]
        if not kept:
            raise DataError(f"streams: expected fewer than all {len(self)}; open new ones with open_streams()")
        self._progress = self._progress.chosen(self._numbers(kept))
        self._is_finished = [self._is_finished[stream] for stream in kept]

    def state_dict(self) -> dict[str, Any]:
        """All that the streams remember, as arrays, numbers and lists, for ``torch.save``; nothing in it is code.

        Arrays are tensors or, of a model without torch, plain NumPy arrays.
        """
        return saved_streams(self.options, self._is_finished, self._progress)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on from a saved state, which must come from as many streams of the same model with the same options.

        Raises:
            ConfigError: The options differ.
            ModelError: The state is incomplete, or does not fit this model or this number of streams.
        """
        self._progress = restored_streams(state, self.options, len(self), self._progress)
        self._is_finished = [bool(ended) for ended in state["is_finished"]]

    def snapshot(self) -> Progress[StateT, HearingT]:
        """What the streams remember now; :meth:`rewind` goes back to it. It is never changed, so this costs nothing."""
        return self._progress

    def rewind(self, progress: Progress[StateT, HearingT]) -> None:
        """Goes back to a snapshot that was taken since the last stream was finished."""
        self._progress = progress

    def _read(self, streams: list[int], values: list[int]) -> Progress[StateT, HearingT]:
        progress = self._progress
        if len(streams) < len(self):
            progress = progress.chosen(self._numbers(streams))
        return read_on(self._scorer, self._rules, progress, self._numbers(values))

    def _merged(self, streams: list[int], progress: Progress[StateT, HearingT]) -> Progress[StateT, HearingT]:
        if len(streams) == len(self):
            return progress
        return self._progress.replaced(self._numbers(streams), progress)

    def _numbers(self, values: Sequence[int]) -> Tensor:
        return self._xp.tensor(values, device=self._device)

    def _commit(self) -> list[Update]:
        """Commits what the options say is certain."""
        prefixes = self._progress.prefixes
        best, count, is_kept = prefixes.decided(self.options.max_delay, self.options.max_tail)
        at = best[:, None, None].expand(-1, -1, prefixes.symbols.shape[2])
        columns = (
            count.tolist(),
            self._xp.where(prefixes.is_alive.any(dim=1), prefixes.lens.gather(1, best[:, None])[:, 0], 0).tolist(),
            prefixes.symbols.gather(1, at)[:, 0].tolist(),
            prefixes.delays.gather(1, at)[:, 0].tolist(),
            prefixes.read.tolist(),
        )
        if any(columns[0]) or not self._xp.equal(is_kept, prefixes.is_alive):
            self._progress = replace(self._progress, prefixes=prefixes.dropped(is_kept).cut(count))
        return [
            Update(tuple(symbols[:done]), tuple(symbols[done:length]), (read,) * done, tuple(written[:done]), read)
            for done, length, symbols, written, read in zip(*columns, strict=True)
        ]

    def _check_open(self, streams: Iterable[int]) -> None:
        ended = [stream for stream in streams if self._is_finished[stream]]
        if ended:
            raise ModelError(f"stream {ended[0]} is finished already and reads no more; open a new one")


def open_streams(
    scorer: StreamingScorer[SourceT, StateT, HearingT],
    count: int = 1,
    options: StreamOptions | None = None,
    features: Tensor | None = None,
) -> StreamBatch[SourceT, StateT, HearingT]:
    """Opens streams that are stepped as one batch.

    Args:
        scorer: A model with a unidirectional encoder.
        count: How many streams.
        options: Their settings.
        features: Their tags, ``(count, F)``, for a model that has them.

    Raises:
        ModelError: The model has to see the whole source.
    """
    return StreamBatch(scorer, count, options, features)


def joined_updates(updates: Sequence[Update]) -> Update:
    """The updates of one stream, at least one of them, as if all had been read at once."""
    committed = (symbol for update in updates for symbol in update.committed)
    delays = (delay for update in updates for delay in update.delays)
    written = (delay for update in updates for delay in update.written)
    return Update(tuple(committed), updates[-1].tentative, tuple(delays), tuple(written), updates[-1].read)


def checked_symbol(symbol: Any) -> int:
    """A source symbol as an integer; the encoder knows how many there are, and checks that itself.

    Raises:
        DataError: It is none.
    """
    try:
        value = operator.index(symbol)
    except TypeError:
        raise DataError(f"expected a source symbol, an integer, got {symbol!r}; look it up in the vocabulary") from None
    if value < 0:
        raise DataError(f"expected a source symbol of at least 0, got {value}")
    if value == EOS_ID:
        raise DataError(f"the end symbol ({EOS_ID}) is not pushed: call finish()")
    return value


def _require_count(count: int) -> None:
    if count < 1:
        raise ConfigError(f"count must be at least 1, got {count}")
