"""The lattice of a stream, live: where the best output so far was written, given all that has been read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from ssnt.dp import AlignmentDistribution
from ssnt.errors import SsntError
from ssnt.pipeline import StreamAnswer, Transducer
from ssnt.serve.answers import rounded
from ssnt.types import EOS_ID, Batch, End


@dataclass
class LiveLattice:
    """What one stream has read and written, and what its client has seen of the lattice.

    Attributes:
        transducer: The model.
        tags: Numbers of the stream's tags.
        end: Where an output that is complete may end.
        max_cells: Up to which size the lattice is sent; a stream that outgrows it has none any more.
        source: Source symbols read, as numbers.
        source_symbols: The same as strings.
        target: Symbols committed, as numbers.
        rows: The rows that were sent last.
    """

    transducer: Transducer
    tags: tuple[int, ...]
    end: End
    max_cells: int
    source: list[int] = field(default_factory=list)
    source_symbols: list[str] = field(default_factory=list)
    target: list[int] = field(default_factory=list)
    rows: list[list[float]] = field(default_factory=list)
    is_too_large: bool = False

    def news(self, answer: StreamAnswer) -> dict[str, Any] | None:
        """What has changed with an answer of the stream, or None once the lattice is too large."""
        if self.is_too_large:
            return None
        self.source += answer.numbers
        self.source_symbols += answer.source
        self.target += answer.committed
        source, target = list(self.source), [*self.target, *answer.tentative]
        is_complete = bool(answer.outputs) and answer.outputs[0].hypothesis.is_complete
        if answer.is_end and source:
            source.append(EOS_ID)
        if is_complete:
            target.append(EOS_ID)
        # What is read is sent too, even if nothing is written yet.
        if len(source) * max(1, len(target)) > self.max_cells:
            self.is_too_large, self.source, self.source_symbols, self.target, self.rows = True, [], [], [], []
            return None
        rows, path = self._solve(source, target, self.end if is_complete else "any")
        first = next(
            (i for i, (old, new) in enumerate(zip(self.rows, rows, strict=False)) if old != new),
            min(len(self.rows), len(rows)),
        )
        self.rows = rows
        names = self.transducer.vocabulary.target.names
        return {
            "source_symbols": list(self.source_symbols),
            "target_symbols": [names[number] for number in (*self.target, *answer.tentative)],
            "first": first,
            "rows": rows[first:],
            "path": path,
        }

    def _solve(self, source: Sequence[int], target: Sequence[int], end: End) -> tuple[list[list[float]], list[int]]:
        """Posterior rows, one a source position, without the zeros at their ends; and the best path."""
        if not source or not target:
            return [[] for _ in source], []
        features = torch.tensor([self.tags], dtype=torch.int64) if self.transducer.has_tags else None
        src, tgt = torch.tensor([source]), torch.tensor([target])
        batch = Batch(src, torch.tensor([len(source)]), tgt, torch.tensor([len(target)]), features)
        with torch.no_grad():
            grid = self.transducer.model.grid(batch.to(self.transducer.device))
            distribution = AlignmentDistribution.of(grid, end=end)
            try:
                path = list(distribution.viterbi()[0].positions)
            except SsntError:  # by the limits of its arithmetic no path is left
                return [[] for _ in source], []
            emit = distribution.posteriors().emit[0]
        return [_trimmed(row) for row in rounded(emit.T.tolist())], path


def _trimmed(row: list[float]) -> list[float]:
    while row and row[-1] == 0.0:
        row.pop()
    return row
