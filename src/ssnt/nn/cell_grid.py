"""Word grids of models whose logits do not split into a source and a target part.

``J x I x V`` numbers have to be computed for them. They are held for a chunk of target rows at a time, and computed
again in the backward pass. What the logits of a cell are made of is the model's affair: see :class:`CellLogits`.

Axes: ``B`` batch, ``J`` target (or prefixes of a search), ``I`` source, ``V`` vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol, Self

import torch
from torch import Tensor

from ssnt.dp.autograd import refuse_second_order

CHUNK_BYTES = 2 << 20
"""What one chunk computes: it nearly fits the caches, and the products are large enough."""

Chunk = tuple[slice, slice]
"""Some pairs, and some target rows of each of them."""


class Gradients(Protocol):
    """Those of all that logits are made of, chunk by chunk."""

    def add(self, pairs: slice, rows: slice, slopes: Tensor, hidden: Tensor) -> None:
        """Takes what the cells of a chunk say.

        Args:
            pairs: The chunk's pairs.
            rows: Their target rows.
            slopes: Gradients of the chunk's logits, ``(b, j, I, V)``.
            hidden: What :meth:`CellLogits.of_chunk` computed on the way to them.
        """
        ...

    def in_order(self) -> tuple[Tensor | None, ...]:
        """One for each of :attr:`CellLogits.parts`; None for what is no number to be learnt."""
        ...


class CellLogits(Protocol):
    """What the logits of all cells are made of."""

    @property
    def parts(self) -> tuple[Tensor, ...]:
        """The tensors themselves; a type made of them again must be the same."""
        ...

    @classmethod
    def of_parts(cls, parts: tuple[Tensor, ...]) -> Self:
        """The inverse of :attr:`parts`."""
        ...

    @property
    def dtype(self) -> torch.dtype:
        """Of the logits."""
        ...

    @property
    def vocab_size(self) -> int:
        """Number of symbols."""
        ...

    def chunks(self, chunk_bytes: int) -> Iterator[Chunk]:
        """Cuts the target rows of all pairs into chunks of some bytes, or of a single row."""
        ...

    def of_chunk(self, pairs: slice, rows: slice) -> tuple[Tensor, Tensor]:
        """The logits of a chunk, ``(b, j, I, V)``, and what was computed on the way and gradients need."""
        ...

    def gradients(self) -> Gradients:
        """Gradients that are zero, or not computed yet."""
        ...


def cut_rows(batch: int, rows: int, row_bytes: int, chunk_bytes: int) -> Iterator[Chunk]:
    """Cuts the target rows of all pairs into chunks of at most ``chunk_bytes``, or of a single row."""
    fitting = max(1, chunk_bytes // max(1, row_bytes))
    if fitting >= rows:
        count = fitting // max(1, rows)
        for first in range(0, batch, count):
            yield slice(first, min(first + count, batch)), slice(0, rows)
        return
    for pair in range(batch):
        for first in range(0, rows, fitting):
            yield slice(pair, pair + 1), slice(first, min(first + fitting, rows))


def without_padding(states: Tensor, lens: Tensor) -> tuple[Tensor, Tensor]:
    """States (B, T, H) with zeros in padding, and where there is none, (B, T).

    Padding may hold anything, even NaN, and NaN times zero is NaN.
    """
    inside = torch.arange(states.shape[1], device=states.device) < lens.to(states.device)[:, None]
    return torch.where(inside[..., None], states, 0.0), inside


def cell_word_grid(logits: CellLogits, targets: Tensor, valid: Tensor, chunk_bytes: int = CHUNK_BYTES) -> Tensor:
    """Log probability of each target at each position, ``(B, J, I)``; zero where a cell is not ``valid``.

    Exact for any finite logits; minus infinity in a part that is added for a symbol bans it. Runs on any device;
    differentiable once. Its working memory is some four times ``chunk_bytes`` (8 MiB), or what a single target row
    takes, and between forward and backward it keeps its arguments and ``log Z`` of each cell.

    Args:
        logits: Of one dtype, float32 or float64, finite in padding.
        targets: Symbols ``(B, J)`` of the vocabulary, also in padding.
        valid: Cells of the pairs, ``(B, J, I)``.
        chunk_bytes: How many bytes are handled at once.
    """
    kind, parts = type(logits), logits.parts
    grid: Tensor = _CellLogSoftmax.apply(kind, chunk_bytes, targets, valid, *parts)  # type: ignore[no-untyped-call]
    return grid


class _CellLogSoftmax(torch.autograd.Function):
    """Forward and backward in chunks."""

    @staticmethod
    def forward(
        ctx: Any, kind: type[CellLogits], chunk_bytes: int, targets: Tensor, valid: Tensor, *parts: Tensor
    ) -> Tensor:
        logits = kind.of_parts(parts)
        log_word, log_norm = (torch.empty_like(valid, dtype=logits.dtype) for _ in range(2))
        with torch.autocast(valid.device.type, enabled=False):
            for pairs, rows in logits.chunks(chunk_bytes):
                cells, _ = logits.of_chunk(pairs, rows)
                index = targets[pairs, rows, None, None].expand(*cells.shape[:3], 1)
                log_norm[pairs, rows] = torch.logsumexp(cells, dim=3)
                log_word[pairs, rows] = cells.gather(3, index)[..., 0]
        ctx.save_for_backward(targets, valid, log_norm, *parts)
        ctx.kind, ctx.chunk_bytes = kind, chunk_bytes
        return log_word.sub_(log_norm).masked_fill_(~valid, 0.0)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        refuse_second_order("the word grid")
        targets, valid, log_norm, *parts = ctx.saved_tensors
        logits: CellLogits = ctx.kind.of_parts(tuple(parts))
        upstream = torch.where(valid, upstream, 0.0)
        found = logits.gradients()
        with torch.autocast(upstream.device.type, enabled=False):
            for pairs, rows in logits.chunks(ctx.chunk_bytes):
                cells, hidden = logits.of_chunk(pairs, rows)
                slopes = upstream[pairs, rows, :, None]
                cells.sub_(log_norm[pairs, rows, :, None]).exp_().mul_(-slopes)
                cells.scatter_add_(3, targets[pairs, rows, None, None].expand_as(slopes), slopes)
                found.add(pairs, rows, cells, hidden)
        return None, None, None, None, *found.in_order()
