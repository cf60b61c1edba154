"""One stream, of symbols or of text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ssnt.decode.numbers import number_symbols
from ssnt.decode.scorer import StreamingScorer
from ssnt.decode.stream_batch import StreamBatch, Update, checked_symbol, joined_updates
from ssnt.decode.stream_options import StreamOptions
from ssnt.errors import DataError
from ssnt.types import Hypothesis

if TYPE_CHECKING:
    from torch import Tensor


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
