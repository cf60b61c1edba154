"""Whole sources through streams, to see what is committed when."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ssnt.decode import StreamingScorer, StreamOptions, open_streams
from ssnt.pipeline.inputs import Numbers, tag_features
from ssnt.types import UNK_ID


class Written:
    """What a stream has written so far.

    Attributes:
        symbols: Committed symbols.
        delays: For each of them how many source symbols had been read when it was committed.
        written: For each of them how many had been read where its alignment writes it.
        is_complete: Whether the output ended in its end symbol.
    """

    def __init__(self) -> None:
        self.symbols: list[int] = []
        self.delays: list[int] = []
        self.written: list[int] = []
        self.is_complete = False

    def extend(self, symbols: Sequence[int], delays: Sequence[int], written: Sequence[int]) -> None:
        """Takes what was committed next."""
        self.symbols += symbols
        self.delays += delays
        self.written += written

    def names(self, one: Numbers, names: Sequence[str], *, copy_unknown: bool) -> tuple[str, ...]:
        """The symbols as strings; unknown ones copied from the source, if that is wanted."""
        return tuple(
            one.source[at - 1] if copy_unknown and number == UNK_ID and at <= len(one.source) else names[number]
            for number, at in zip(self.symbols, self.written, strict=True)
        )


def stream_sources(
    scorer: StreamingScorer[Any, Any, Any],
    sources: Mapping[int, Numbers],
    options: StreamOptions,
    *,
    has_tags: bool,
    batch_size: int,
) -> Iterator[tuple[int, Written]]:
    """Streams sources, those of about the same length together."""
    order = sorted(sources, key=lambda index: len(sources[index].source))
    for first in range(0, len(order), batch_size):
        group = order[first : first + batch_size]
        features = tag_features([sources[index].tags for index in group], scorer.device) if has_tags else None
        rows = [sources[index].source_numbers for index in group]
        streams = open_streams(scorer, len(group), options, features)
        written = [Written() for _ in group]
        for position in range(len(rows[-1]) + 1):
            ending = [k for k, row in enumerate(rows) if len(row) == position]
            for k, hypotheses in zip(ending, streams.finish(ending), strict=True):
                best = hypotheses[0]
                count = len(best.symbols)
                written[k].extend(best.symbols, [position + 1] * count, best.delays[:count])
                written[k].is_complete = best.is_complete
            if position == len(rows[-1]):
                break
            updates = streams.push([row[position] if position < len(row) else None for row in rows])
            for one, update in zip(written, updates, strict=True):
                one.extend(update.committed, update.delays, update.written)
        yield from zip(group, written, strict=True)
