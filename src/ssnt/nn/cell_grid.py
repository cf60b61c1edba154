"""Word grids of models whose logits do not split into a source and a target part.

``J x I x V`` numbers have to be computed for them. They are held for a chunk of target rows at a time, and computed
again in the backward pass. What the logits of a cell are made of is the model's affair: see :class:`CellLogits`.

Axes: ``B`` batch, ``J`` target (or prefixes of a search), ``I`` source, ``V`` vocabulary.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor

from ssnt.dp.autograd import refuse_second_order

CHUNK_BYTES = 2 << 20
"""What one chunk computes: it nearly fits the caches, and the products are large enough."""


@dataclass(frozen=True)
class Chunk:
    """Some pairs, and some target rows of each of them."""

    pairs: slice
    rows: slice


@dataclass(frozen=True)
class Cells:
    """The cells of a chunk.

    Attributes:
        logits: ``(b, j, I, V)``.
        inner: What was computed on the way to them, ``(b, j, I, D)``; gradients need it.
    """

    logits: Tensor
    inner: Tensor


class CellGradients(ABC):
    """Gradients of all that logits are made of, chunk by chunk."""

    @abstractmethod
    def add(self, chunk: Chunk, of_logits: Tensor, inner: Tensor) -> None:
        """Takes what the cells of a chunk say.

        Args:
            chunk: Which cells.
            of_logits: Gradients of their logits, ``(b, j, I, V)``.
            inner: See :class:`Cells`.
        """

    @abstractmethod
    def in_order(self) -> tuple[Tensor | None, ...]:
        """One for each of :attr:`CellLogits.parts`; None for what is not learnt."""


@dataclass(frozen=True)
class CellLogits(ABC):
    """What the logits of all cells are made of: tensors, one a field.

    Attributes:
        src: Source part, ``(B, I, V)``.
        tgt: Target part with the bias, ``(B, J, V)``.
    """

    src: Tensor
    tgt: Tensor

    @property
    def parts(self) -> tuple[Tensor, ...]:
        """The fields, in their order."""
        return tuple(getattr(self, field.name) for field in fields(self))

    @property
    @abstractmethod
    def inner_size(self) -> int:
        """How many numbers a cell has beside its logits; see :class:`Cells`."""

    @abstractmethod
    def of_chunk(self, chunk: Chunk) -> Cells:
        """The cells of a chunk."""

    @abstractmethod
    def gradients(self) -> CellGradients:
        """Gradients that are zero, or not computed yet."""

    def chunks(self, chunk_bytes: int) -> Iterator[Chunk]:
        """Cuts the target rows of all pairs into chunks of some bytes of logits and inner numbers, or of one row."""
        batch, positions, vocab_size = self.src.shape
        row_bytes = positions * (vocab_size + self.inner_size) * self.src.element_size()
        return cut_rows(batch, self.tgt.shape[1], row_bytes, chunk_bytes)


def cut_rows(batch: int, rows: int, row_bytes: int, chunk_bytes: int) -> Iterator[Chunk]:
    """Cuts the target rows of all pairs into chunks of at most ``chunk_bytes``, or of a single row."""
    fitting = max(1, chunk_bytes // max(1, row_bytes))
    if fitting >= rows:
        count = fitting // max(1, rows)
        for first in range(0, batch, count):
            yield Chunk(slice(first, min(first + count, batch)), slice(0, rows))
        return
    for pair in range(batch):
        for first in range(0, rows, fitting):
            yield Chunk(slice(pair, pair + 1), slice(first, min(first + fitting, rows)))


def cell_word_grid(logits: CellLogits, targets: Tensor, valid: Tensor, chunk_bytes: int = CHUNK_BYTES) -> Tensor:
    """Log probability of each target at each position, ``(B, J, I)``; zero where a cell is not ``valid``.

    Exact for any finite logits; minus infinity in ``tgt`` bans a symbol. Runs on any device; differentiable once. Its
    working memory is some four times ``chunk_bytes`` (8 MiB), or what a single target row takes, and between forward
    and backward it keeps its arguments and ``log Z`` of each cell.

    Args:
        logits: Of one dtype, float32 or float64, finite in padding.
        targets: Symbols ``(B, J)`` of the vocabulary, also in padding.
        valid: Cells of the pairs, ``(B, J, I)``.
        chunk_bytes: How many bytes are handled at once.
    """
    arguments = type(logits), chunk_bytes, targets, valid, *logits.parts
    grid: Tensor = _CellLogSoftmax.apply(*arguments)  # type: ignore[no-untyped-call]  # torch's own has no types
    return grid


class _CellLogSoftmax(torch.autograd.Function):
    """Forward and backward in chunks."""

    @staticmethod
    def forward(
        ctx: Any, kind: type[CellLogits], chunk_bytes: int, targets: Tensor, valid: Tensor, *parts: Tensor
    ) -> Tensor:
        logits = kind(*parts)
        log_word, log_norm = (torch.empty_like(valid, dtype=logits.src.dtype) for _ in range(2))
        with torch.autocast(valid.device.type, enabled=False):
            for chunk in logits.chunks(chunk_bytes):
                at, cells = (chunk.pairs, chunk.rows), logits.of_chunk(chunk).logits
                index = targets[at][:, :, None, None].expand(*cells.shape[:3], 1)
                log_norm[at] = torch.logsumexp(cells, dim=3)
                log_word[at] = cells.gather(3, index)[..., 0]
        ctx.save_for_backward(targets, valid, log_norm, *parts)
        ctx.kind, ctx.chunk_bytes = kind, chunk_bytes
        return log_word.sub_(log_norm).masked_fill_(~valid, 0.0)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        refuse_second_order("the word grid")
        targets, valid, log_norm, *parts = ctx.saved_tensors
        logits: CellLogits = ctx.kind(*parts)
        upstream = torch.where(valid, upstream, 0.0)
        found = logits.gradients()
        with torch.autocast(upstream.device.type, enabled=False):
            for chunk in logits.chunks(ctx.chunk_bytes):
                at, cells = (chunk.pairs, chunk.rows), logits.of_chunk(chunk)
                slopes = upstream[at][..., None]
                of_logits = cells.logits.sub_(log_norm[at][..., None]).exp_().mul_(-slopes)
                of_logits.scatter_add_(3, targets[at][:, :, None, None].expand_as(slopes), slopes)
                found.add(chunk, of_logits, cells.inner)
        return None, None, None, None, *found.in_order()
