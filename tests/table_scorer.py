"""A scorer made of random tables, on arrays of either kind; importing it does not import torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ssnt.arrays import namespace, namespace_on, padded_rows, placed
from ssnt.decode.columns import FactoredSource, LogDecisions, ModelColumns, SourceWords
from ssnt.errors import DataError, ModelError
from ssnt.types import BOS_ID, EOS_ID, Batch, Grid

SRC_VOCAB = 7
STATES = 11


@dataclass(frozen=True)
class TableSource(FactoredSource):
    """Sources, and the emission logits of their positions."""

    emission: Any
    tags: Any


@dataclass(frozen=True)
class TableState:
    """After each prefix one of some states, `(N,)`."""

    number: Any


@dataclass(frozen=True)
class TableHearing:
    """What was read last, and how much, `(S,)`; and the tags."""

    last: Any
    read: Any
    tags: Any


class TableScorer:
    """Source symbols and states of prefixes have logits in tables; a state follows from the one before and a symbol.

    Args:
        seed: Of the tables.
        device: Where they are.
        vocab_size: How many target symbols there are.
        dtype: Of the tables.
        scale: The larger, the surer of itself; a hundred in float32 makes products underflow.
        has_tags: Whether tags choose the state of the empty prefix.
    """

    model_count = 1
    has_alignment = True
    is_streaming = True

    def __init__(
        self,
        seed: int,
        device: Any,
        *,
        vocab_size: int = 6,
        dtype: str = "float64",
        scale: float = 1.5,
        has_tags: bool = False,
    ) -> None:
        random = np.random.default_rng(seed)
        self.vocab_size, self.device, self.has_tags = vocab_size, device, has_tags
        sizes = ((SRC_VOCAB, vocab_size), (STATES, vocab_size), (SRC_VOCAB,), (STATES,))
        tables = [random.normal(scale=scale, size=size) for size in sizes]
        tables[1][:, EOS_ID] -= 2.0  # or all outputs are empty
        self._tables = [placed(one.astype(dtype), device) for one in tables]

    def read(self, batch: Batch) -> TableSource:
        if (batch.features is not None) != self.has_tags:
            raise ModelError("features: expected those of the model")
        return self._source(batch.src, batch.src_lens, batch.features)

    def _source(self, src: Any, src_lens: Any, tags: Any) -> TableSource:
        if int(src.max()) >= SRC_VOCAB:
            raise DataError(f"src: expected symbols below {SRC_VOCAB}, got {int(src.max())}")
        words, _, emission, _ = self._tables
        return TableSource(src_lens, SourceWords.of(words[src]), emission[src], tags)

    def start(self, source: TableSource) -> TableState:
        first = namespace(source.src_lens).full_like(source.src_lens, BOS_ID)
        return TableState(first if source.tags is None else (first + source.tags.sum(dim=1)) % STATES)

    def advance(self, source: TableSource, state: TableState, rows: Any, items: Any, symbols: Any) -> TableState:
        assert len(rows) == len(items) == len(symbols)
        return TableState((state.number[rows] * 3 + symbols * 5 + 1) % STATES)

    def columns(self, source: TableSource, state: TableState, live: Any = None) -> ModelColumns:
        _, words, _, emission = self._tables
        numbers = state.number.view(len(source.src_lens), -1)  # (B, K)
        logits = source.emission[:, None, :] + emission[numbers][:, :, None]
        return ModelColumns(source, words[numbers], lambda _: decisions(logits), live)

    def grid(self, source: TableSource, tgt: Any, tgt_lens: Any) -> Grid:
        xp = namespace_on(self.device)
        rows = xp.arange(len(tgt), device=self.device)
        state, parts = self.start(source), []
        for j in range(tgt.shape[1]):
            columns = self.columns(source, state)
            log_word = columns.log_word(xp.zeros_like(tgt[:, j : j + 1]), tgt[:, j : j + 1])
            parts.append((log_word[:, 0], columns.log_emit[:, 0], columns.log_shift[:, 0]))
            state = self.advance(source, state, rows, rows, tgt[:, j])
        planes = [xp.stack(list(plane), dim=1) for plane in zip(*parts, strict=True)]
        return Grid(*planes, source.src_lens, tgt_lens)

    def listen(self, count: int, features: Any = None) -> TableHearing:
        if (features is not None) != self.has_tags:
            raise ModelError("features: expected those of the model")
        nothing = namespace_on(self.device).full((count,), BOS_ID, device=self.device)
        return TableHearing(nothing, nothing * 0, features)

    def hear(self, symbols: Any, hearing: TableHearing) -> tuple[TableSource, TableHearing]:
        ones = namespace(symbols).ones_like(symbols)
        source = self._source(symbols[:, None], ones, hearing.tags)
        return source, TableHearing(symbols, hearing.read + 1, hearing.tags)


def decisions(logits: Any) -> LogDecisions:
    """Both decisions from the logits of emitting."""
    xp = namespace(logits)
    nothing = xp.zeros_like(logits)
    return LogDecisions(-xp.logaddexp(nothing, -logits), -xp.logaddexp(nothing, logits))


def random_sources(seed: int, lengths: list[int]) -> list[list[int]]:
    """Sources of so many symbols, without end symbols."""
    random = np.random.default_rng(seed)
    return [random.integers(4, SRC_VOCAB, size=length).tolist() for length in lengths]


def make_batch(sources: list[list[int]], device: Any, *, targets: Any = None, tags: Any = None) -> Batch:
    """Sources with their end symbols, and targets and tags if there are any."""

    def lens(rows: Any) -> Any:
        return placed(np.array([len(row) + 1 for row in rows]), device)

    ended = [[*row, EOS_ID] for row in sources]
    sides = () if targets is None else (padded_rows([[*row, EOS_ID] for row in targets], device), lens(targets))
    features = None if tags is None else padded_rows(tags, device)
    return Batch(padded_rows(ended, device), lens(sources), *(sides or (None, None)), features)
