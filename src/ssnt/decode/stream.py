"""Streams: outputs while the input is still arriving, in constant memory and constant time for each input symbol."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, get_args

from ssnt.arrays import namespace_on, placed, plain
from ssnt.decode.numbers import number_symbols
from ssnt.decode.options import require_symbols
from ssnt.decode.progress import Progress, first_progress, outputs, read_on
from ssnt.decode.rounds import Rules
from ssnt.decode.rows import Layout, layout, leaves, rebuilt
from ssnt.decode.scorer import HearingT, SourceT, StateT, StreamingScorer, as_scorer, require_alignment
from ssnt.errors import ConfigError, DataError, ModelError
from ssnt.types import EOS_ID, End, Hypothesis

if TYPE_CHECKING:
    from torch import Tensor

T = TypeVar("T")

Merge = Literal["sum", "max"]
"""What a prefix is worth: the sum over its alignments, or the best of them."""


@dataclass(frozen=True)
class StreamOptions:
    """Settings of a stream, checked when made.

    Attributes:
        beam: How many hypotheses a stream keeps.
        merge: Whether a prefix has the summed probability of its alignments or that of the best one.
        max_emissions: How many symbols may be written at one input symbol, the end symbol not counted.
        end: Where the output may end: ``"last"``, only at the end of the input, or ``"any"`` (the paper). An output
            that has ended is a hypothesis like the others: it has to agree before anything is committed, and if it is
            the best when ``max_delay`` or ``max_tail`` decide, what goes on differently is dropped.
        banned: Symbols that the output may not hold.
        beam_threshold: Hypotheses whose log probability is lower than the best by more than this are dropped.
        min_log_prob: Hypotheses with a lower log probability than this are dropped, the best one excepted. The
            probability of everything falls with the length of a stream, so this is for short ones.
        max_delay: A symbol of the best hypothesis is committed after at most so many further inputs, and hypotheses
            that disagree are dropped; None: only when all agree.
        emit_threshold: Instead of a beam search, write the likeliest symbol while the probability of emitting is at
            least this, and commit at once; needs ``beam=1``. At the end of the input it writes until the end symbol,
            or ``max_emissions`` symbols.
        max_tail: How many symbols may wait to be committed. Beyond it the oldest symbols of the best hypothesis are
            committed, which bounds a stream's memory and its time for an input symbol.
    """

    beam: int = 8
    merge: Merge = "sum"
    max_emissions: int = 8
    end: End = "last"
    banned: tuple[int, ...] = ()
    beam_threshold: float = math.inf
    min_log_prob: float = -math.inf
    max_delay: int | None = None
    emit_threshold: float | None = None
    max_tail: int = 1000

    def __post_init__(self) -> None:
        """Checks every setting."""
        for name, least in (("beam", 1), ("max_emissions", 1), ("max_delay", 0), ("max_tail", 1)):
            value = getattr(self, name)
            if name == "max_delay" and value is None:
                continue
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise ConfigError(f"{name} must be a whole number of at least {least}, got {value!r}")
        for name, choices in (("merge", get_args(Merge)), ("end", get_args(End))):
            if getattr(self, name) not in choices:
                expected = ", ".join(map(repr, choices))
                raise ConfigError(f"{name} must be one of {expected}, got {getattr(self, name)!r}")
        if not self.beam_threshold >= 0.0:
            raise ConfigError(f"beam_threshold must be at least 0, got {self.beam_threshold!r}")
        if not self.min_log_prob <= 0.0:
            raise ConfigError(f"min_log_prob must be at most 0, got {self.min_log_prob!r}")
        if EOS_ID in self.banned:
            raise ConfigError("banned must not hold the end symbol: no output could end")
        if self.emit_threshold is None:
            return
        if not 0.0 < self.emit_threshold <= 1.0:
            raise ConfigError(f"emit_threshold must be above 0 and at most 1, got {self.emit_threshold!r}")
        if self.beam != 1:
            raise ConfigError(f"emit_threshold writes at once and keeps one hypothesis: set beam=1, got {self.beam}")

    def rules(self) -> Rules:
        """What a step of the search must know of these options."""
        return Rules(
            beam=self.beam,
            is_max=self.merge == "max",
            max_emissions=self.max_emissions,
            end=self.end,
            prefix=(),
            banned=tuple(self.banned),
            beam_threshold=self.beam_threshold,
            min_log_prob=self.min_log_prob,
            emit_threshold=self.emit_threshold,
        )


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
        prefixes = self._progress.prefixes
        return {
            "options": {name: _plain(value) for name, value in asdict(self.options).items()},
            "is_finished": list(self._is_finished),
            "prefixes": {field.name: _copied(getattr(prefixes, field.name)) for field in fields(prefixes)},
            "decoder": [_copied(array) for array in leaves(self._progress.decoder)],
            "hearing": [_copied(array) for array in leaves(self._progress.hearing)],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on from a saved state, which must come from as many streams of the same model with the same options.

        Raises:
            ConfigError: The options differ.
            ModelError: The state is incomplete, or does not fit this model or this number of streams.
        """
        missing = {"options", "is_finished", "prefixes", "decoder", "hearing"} - state.keys()
        if not missing:
            missing = {one.name for one in fields(self._progress.prefixes)} - state["prefixes"].keys()
        if missing:
            raise ModelError(f"this is not the state of streams: {', '.join(sorted(missing))} missing")
        if len(state["is_finished"]) != len(self):
            raise ModelError(f"the state is that of {len(state['is_finished'])} streams, and these are {len(self)}")
        mine = {name: _plain(value) for name, value in asdict(self.options).items()}
        if state["options"] != mine:
            names = [name for name, value in mine.items() if state["options"].get(name) != value]
            raise ConfigError(f"the saved streams have other options: {', '.join(names)}; open streams with theirs")
        progress = self._progress
        saved = {name: placed(saved, self._device) for name, saved in state["prefixes"].items()}
        prefixes = replace(progress.prefixes, **saved)
        # All but the symbols, which have any length.
        _check_fit(layout(tuple(leaves(progress.prefixes)[2:])), layout(tuple(leaves(prefixes)[2:])))
        decoder, hearing = ([placed(one, self._device) for one in state[name]] for name in ("decoder", "hearing"))
        self._progress = Progress(prefixes, _restored(progress.decoder, decoder), _restored(progress.hearing, hearing))
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


class Stream:
    """One stream.

    Args:
        scorer: The model.
        options: The settings.
        features: Its tags, ``(1, F)``, for a model that has them.
        table: The number of each source symbol, for streams that are to read text; a character is a symbol.

    Attributes:
        nbest: After :meth:`finish` all outputs that were kept, most probable first.
        unknown: How many characters of text the table did not have; they were read as ``UNK_ID``.
    """

    def __init__(
        self,
        scorer: StreamingScorer[Any, Any, Any],
        options: StreamOptions | None = None,
        features: Tensor | None = None,
        table: Mapping[str, int] | None = None,
    ) -> None:
        self._batch = StreamBatch(scorer, 1, options, features)
        self._table = table
        self.nbest: tuple[Hypothesis, ...] = ()
        self.unknown = 0

    @property
    def options(self) -> StreamOptions:
        """The settings."""
        return self._batch.options

    def push(self, symbols: int | str | Iterable[int]) -> Update:
        """Reads a source symbol or several; how they are divided into pushes makes no difference to the output.

        Args:
            symbols: One or several, or text if the stream has a table; none at all gives an update without news.

        Raises:
            DataError: A symbol is outside the vocabulary; nothing was read.
            ModelError: The stream is finished.
        """
        unknown = 0
        if isinstance(symbols, str) and self._table is not None:
            numbered = number_symbols(symbols, self._table)
            symbols, unknown = numbered.symbols, numbered.unknown
        values: list[int | None] = [
            checked_symbol(symbol) for symbol in (symbols if isinstance(symbols, Iterable) else [symbols])
        ]
        before = self._batch.snapshot()
        self.unknown += unknown
        try:
            updates = [self._batch.push([value])[0] for value in values or [None]]
        except DataError:
            self._batch.rewind(before)
            raise
        return joined_updates(updates)

    def finish(self) -> Hypothesis:
        """Ends the input.

        Returns:
            The most probable output *from the first symbol that is not committed*; its probability is that of the
            whole output.

        Raises:
            ModelError: The stream is finished already.
        """
        self.nbest = tuple(self._batch.finish([0])[0])
        return self.nbest[0]

    def state_dict(self) -> dict[str, Any]:
        """All that the stream remembers; see :meth:`StreamBatch.state_dict`."""
        return self._batch.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on from a saved state; see :meth:`StreamBatch.load_state_dict`."""
        self._batch.load_state_dict(state)


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


def _require_count(count: int) -> None:
    if count < 1:
        raise ConfigError(f"count must be at least 1, got {count}")


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


def _copied(array: Tensor) -> Any:
    """A copy that shares nothing, also not the rest of a larger array that this is a part of; NumPy's as plain ones."""
    return plain(array.detach().clone().contiguous())


def _plain(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value


def _restored(mine: T, saved: list[Tensor]) -> T:
    """The saved arrays in the place of mine."""
    if len(saved) != len(leaves(mine)):
        _check_fit(layout(mine), layout(tuple(saved)))
    restored = rebuilt(mine, iter(saved))
    _check_fit(layout(mine), layout(restored))
    return restored


def _check_fit(mine: Layout, saved: Layout) -> None:
    if mine != saved:
        raise ModelError(
            f"the saved streams do not fit: expected {mine}, got {saved}; "
            "load them into as many streams of the model that they were saved from"
        )
