"""A log-softmax over sums of a source and a target part, at every cell of a grid, a chunk of the vocabulary at a time.

The logits of ``W [h_i; s_j] + b`` split into a source part ``A = h W_h^T`` and a target part ``B = s W_s^T + b``, so
the normaliser of all cells is one matrix product, ``Z[j, i] = sum_l exp(B[j, l]) exp(A[i, l])``. It is taken in chunks
of the vocabulary, each with its own row maxima ``peak_A`` and ``peak_B`` taken out, and the chunks are added in log
space.

A product of two exponentials can underflow where ``A[i]`` and ``B[j]`` peak at different symbols. What a chunk can lose
at a cell is at most ``chunk * tiny * exp(peak_A + peak_B)``; cells where that could matter (the sum of these bounds
against Z) are computed again from the logits themselves, in float64, and so are cells whose logits are so large that
float32 rounds them coarsely. The backward pass treats the same cells the same way.

The exponentials are kept for the backward pass if there is room, which saves a quarter of the work. Most often there
is, for nothing: the gradient of a weight matrix has to be allocated anyway, and as long as a side has no more rows
than the matrix has columns, a chunk's exponentials fit where its gradient will be written.

Under autocast to bfloat16, the products with the weight matrices, forward and backward, are taken in bfloat16, as those
of any linear layer there; these are most of the work. Everything else, and what is computed again, stays as it is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from ssnt.dp.autograd import refuse_second_order
from ssnt.dp.diagonals import accumulation_dtype
from ssnt.factored_side import Side, SideGradients, narrow_dtype

_KEPT_BYTES = 384 << 20  # exponentials kept in memory of their own; beyond this they are computed again
_EXACT_BYTES = 16 << 20  # logits of cells that are computed again
ROUNDING = 2.0**-14  # rounding of the logits beyond which a cell is computed again: in float32, logits above 512


@dataclass(frozen=True)
class _Inputs:
    """Both sides, the targets ``(B, J)``, and how many symbols make a chunk."""

    src: Side
    tgt: Side
    targets: Tensor
    chunk_size: int

    @property
    def vocab_size(self) -> int:
        return self.src.weight.shape[0]

    @property
    def wide(self) -> torch.dtype:
        """The dtype in which single cells are computed exactly."""
        return accumulation_dtype(self.targets.device)

    def chunks(self) -> Iterator[slice]:
        for first in range(0, self.vocab_size, self.chunk_size):
            yield slice(first, min(first + self.chunk_size, self.vocab_size))

    def targets_in(self, chunk: slice) -> tuple[Tensor, Tensor]:
        """Where the target is in the chunk, and its index there (0 elsewhere), ``(B, J)`` each."""
        inside = (self.targets >= chunk.start) & (self.targets < chunk.stop)
        return inside, torch.where(inside, self.targets - chunk.start, 0)


@dataclass(frozen=True)
class Exponentials:
    """One side of a chunk.

    Attributes:
        exps: ``exp(logits - peak)``, ``(B, N, C)``.
        peaks: Row maxima, ``(B, N)``.
    """

    exps: Tensor
    peaks: Tensor

    @classmethod
    def of(cls, logits: Tensor) -> Exponentials:
        """Takes the logits over: they are overwritten."""
        peaks = logits.amax(dim=2)
        # A row of minus infinities has nothing to take out; its exponentials are zeros all the same.
        peaks = torch.where(peaks == -math.inf, 0.0, peaks)
        return cls(logits.sub_(peaks[..., None]).exp_(), peaks)


@dataclass(frozen=True)
class _Chunk:
    """Both sides of a chunk of the vocabulary."""

    src: Exponentials
    tgt: Exponentials

    @property
    def log_scale(self) -> Tensor:
        """What was taken out of the product at each cell, ``(B, J, I)``."""
        return self.tgt.peaks[:, :, None] + self.src.peaks[:, None, :]

    @property
    def magnitude(self) -> Tensor:
        """How large the largest logits are, which tells how coarsely they are rounded, ``(B, J, I)``."""
        return self.tgt.peaks.abs()[:, :, None] + self.src.peaks.abs()[:, None, :]


class _Rooms:
    """Where the logits of each chunk go: into weight gradients to come, memory of their own, or a scratch buffer."""

    def __init__(self, inputs: _Inputs, needed: tuple[bool, ...] | None) -> None:
        """``needed`` tells which of the five gradients will be asked for; None if there is no backward pass."""
        self._inputs = inputs
        self.gradients: list[Tensor | None] = [None, None]
        self.keeps = False
        if needed is not None:
            rooms = [inputs.src.gradient_room(needed[2]), inputs.tgt.gradient_room(needed[3])]
            homeless = sum(side.rows for side, room in zip(self._sides, rooms, strict=True) if room is None)
            element_size = inputs.src.states.element_size()
            self.keeps = homeless * inputs.vocab_size * element_size <= _KEPT_BYTES
            self.gradients = rooms if self.keeps else [None, None]
        self._scratch: list[Tensor] = []

    @property
    def _sides(self) -> tuple[Side, Side]:
        return self._inputs.src, self._inputs.tgt

    def logits(self, chunk: slice) -> list[Tensor]:
        """The chunk's logits of both sides, each in its room."""
        return [side.logits(chunk, self._room(k, chunk)) for k, side in enumerate(self._sides)]

    def exponentials(self, chunk: slice) -> _Chunk:
        """The chunk's exponentials of both sides, each in its room."""
        src, tgt = self.logits(chunk)
        return _Chunk(Exponentials.of(src), Exponentials.of(tgt))

    def _room(self, k: int, chunk: slice) -> Tensor:
        gradient = self.gradients[k]
        if gradient is not None:
            return gradient[chunk]
        if self.keeps:
            return self._sides[k].scratch(chunk.stop - chunk.start)
        if not self._scratch:
            self._scratch = [side.scratch(self._inputs.chunk_size) for side in self._sides]
        return self._scratch[k]


@dataclass(frozen=True)
class _ExactCells:
    """Cells that were computed one by one, in the widest precision there is.

    Attributes:
        cells: Flat indices, ``(N,)``.
        log_norm: Their ``log Z``, ``(N,)``.
    """

    cells: Tensor
    log_norm: Tensor


@dataclass(frozen=True)
class _Normaliser:
    """What the backward pass needs of the forward pass.

    Attributes:
        log_norm: ``log Z``, ``(B, J, I)``; not to be trusted in the exact cells.
        exact: The cells that had to be computed one by one.
        kept: The chunks' exponentials, if there was room for them.
    """

    log_norm: Tensor
    exact: _ExactCells
    kept: list[_Chunk] | None


def _unsafe_cells(log_norm: Tensor, log_loss: Tensor, magnitude: Tensor) -> Tensor:
    """Cells that may have lost too much to underflow, or to the rounding of huge logits; NaN counts as lost."""
    eps = torch.finfo(log_norm.dtype).eps
    precise = (log_loss - log_norm <= math.log(eps)) & (magnitude * eps <= ROUNDING)
    return (~precise).flatten().nonzero()[:, 0]


class _CellLogits:
    """The logits of single cells, in groups small enough to be held."""

    def __init__(self, inputs: _Inputs, cells: Tensor) -> None:
        self._inputs = inputs
        self._cells = cells
        self._sides = [replace(side, narrow=None) for side in (inputs.src, inputs.tgt)]  # these are to be exact
        self._rooms = [side.scratch(inputs.chunk_size, inputs.wide) for side in self._sides]

    def groups(self, chunk: slice) -> Iterator[tuple[slice, Tensor, Tensor, Tensor]]:
        """For each group: which cells, their source rows, their target rows, and their logits ``(N, C)``."""
        inputs = self._inputs
        src, tgt = (side.logits(chunk, room) for side, room in zip(self._sides, self._rooms, strict=True))
        plane = inputs.tgt.size * inputs.src.size
        size = max(1, _EXACT_BYTES // (inputs.chunk_size * inputs.wide.itemsize))
        for first in range(0, len(self._cells), size):
            which = slice(first, first + size)
            pair, cell = self._cells[which] // plane, self._cells[which] % plane
            src_rows = pair * inputs.src.size + cell % inputs.src.size
            tgt_rows = pair * inputs.tgt.size + cell // inputs.src.size
            yield which, src_rows, tgt_rows, src.flatten(0, 1)[src_rows] + tgt.flatten(0, 1)[tgt_rows]


def _exact(inputs: _Inputs, cells: Tensor) -> tuple[_ExactCells, Tensor]:
    """Computes cells one by one from their logits; also returns their ``log_word``, ``(N,)``."""
    log_norm = torch.full(cells.shape, -math.inf, dtype=inputs.wide, device=cells.device)
    chosen = torch.full_like(log_norm, math.nan)
    targets = inputs.targets.flatten()
    cell_logits = _CellLogits(inputs, cells)
    for chunk in inputs.chunks():
        for which, _, tgt_rows, logits in cell_logits.groups(chunk):
            log_norm[which] = torch.logaddexp(log_norm[which], torch.logsumexp(logits, dim=1))
            index = targets[tgt_rows] - chunk.start
            inside = (index >= 0) & (index < logits.shape[1])
            picked = logits.gather(1, torch.where(inside, index, 0)[:, None])[:, 0]
            chosen[which] = torch.where(inside, picked, chosen[which])
    return _ExactCells(cells, log_norm), chosen - log_norm


def _pick_targets(inputs: _Inputs, chunk: slice, src: Tensor, tgt: Tensor, chosen: Tensor) -> Tensor:
    """The logit of each cell's target where the chunk has it, and what was ``chosen`` elsewhere, ``(B, J, I)``."""
    inside, index = inputs.targets_in(chunk)
    picked = src.gather(2, index[:, None, :].expand(-1, inputs.src.size, -1)).transpose(1, 2)
    return torch.where(inside[..., None], picked + tgt.gather(2, index[..., None]), chosen)


def _forward(inputs: _Inputs, rooms: _Rooms) -> tuple[Tensor, _Normaliser]:
    """Returns ``log_word``, ``(B, J, I)``, and what the backward pass needs."""
    states = inputs.src.states
    log_norm = states.new_full((states.shape[0], inputs.tgt.size, inputs.src.size), -math.inf)
    log_loss = torch.full_like(log_norm, -math.inf)
    magnitude = torch.zeros_like(log_norm)
    chosen = torch.full_like(log_norm, math.nan)  # and NaN it stays for a target that is in no chunk
    kept: list[_Chunk] = []
    for chunk in inputs.chunks():
        src_logits, tgt_logits = rooms.logits(chunk)
        chosen = _pick_targets(inputs, chunk, src_logits, tgt_logits, chosen)
        part = _Chunk(Exponentials.of(src_logits), Exponentials.of(tgt_logits))
        log_scale = part.log_scale
        product = torch.bmm(part.tgt.exps, part.src.exps.transpose(1, 2))  # (B, J, I)
        log_norm = torch.logaddexp(log_norm, product.log_().add_(log_scale))
        log_chunk_loss = math.log((chunk.stop - chunk.start) * torch.finfo(log_norm.dtype).tiny)
        log_loss = torch.logaddexp(log_loss, log_scale + log_chunk_loss)
        magnitude = torch.maximum(magnitude, part.magnitude)
        if rooms.keeps:
            kept.append(part)
    log_word = (chosen - log_norm).contiguous()
    unsafe = _unsafe_cells(log_norm, log_loss, magnitude)
    exact = _ExactCells(unsafe, log_norm.new_empty(0, dtype=inputs.wide))
    if len(unsafe):
        exact, exact_log_word = _exact(inputs, unsafe)
        log_word.view(-1)[unsafe] = exact_log_word.to(log_word.dtype)
    return log_word, _Normaliser(log_norm, exact, kept if rooms.keeps else None)


def _add_exact(
    cell_logits: _CellLogits, exact: _ExactCells, chunk: slice, upstream: Tensor, grad_src: Tensor, grad_tgt: Tensor
) -> None:
    """Adds the softmax part of the gradient for the cells that are computed one by one."""
    upstream = upstream.flatten()[exact.cells]
    for which, src_rows, tgt_rows, logits in cell_logits.groups(chunk):
        chances = torch.exp(logits - exact.log_norm[which, None]).to(upstream.dtype)
        chances *= -upstream[which, None]
        grad_src.flatten(0, 1).index_add_(0, src_rows, chances)
        grad_tgt.flatten(0, 1).index_add_(0, tgt_rows, chances)


def _softmax_ratio(normaliser: _Normaliser, grad_log_word: Tensor) -> tuple[Tensor, Tensor]:
    """Minus the upstream gradient, and ``log Z``, with the exact cells taken out: their ratio is zero."""
    negative = (-grad_log_word).contiguous()
    log_norm = normaliser.log_norm.clone(memory_format=torch.contiguous_format)
    negative.view(-1)[normaliser.exact.cells] = 0.0
    log_norm.view(-1)[normaliser.exact.cells] = math.inf
    return negative, log_norm


def _backward(
    inputs: _Inputs, normaliser: _Normaliser, grad_log_word: Tensor, src: SideGradients, tgt: SideGradients
) -> None:
    """Fills the gradients of both sides."""
    negative, log_norm = _softmax_ratio(normaliser, grad_log_word)
    kept, rooms = normaliser.kept, _Rooms(inputs, needed=None)
    cell_logits = _CellLogits(inputs, normaliser.exact.cells) if len(normaliser.exact.cells) else None
    batch, tgt_size, src_size = grad_log_word.shape
    src_scratch, tgt_scratch = inputs.src.scratch(inputs.chunk_size), inputs.tgt.scratch(inputs.chunk_size)
    # Last chunk first: the end of the weights is what the forward pass left in the caches.
    for number, chunk in reversed(list(enumerate(inputs.chunks()))):
        width = chunk.stop - chunk.start
        part = kept[number] if kept is not None else rooms.exponentials(chunk)
        ratio = (part.log_scale - log_norm).exp_().mul_(negative)  # (B, J, I)
        grad_src = src_scratch[: batch * src_size * width].view(batch, src_size, width)
        grad_tgt = tgt_scratch[: batch * tgt_size * width].view(batch, tgt_size, width)
        torch.bmm(ratio.transpose(1, 2), part.tgt.exps, out=grad_src).mul_(part.src.exps)
        torch.bmm(ratio, part.src.exps, out=grad_tgt).mul_(part.tgt.exps)
        if cell_logits is not None:
            _add_exact(cell_logits, normaliser.exact, chunk, grad_log_word, grad_src, grad_tgt)
        inside, index = inputs.targets_in(chunk)
        chosen = grad_log_word * inside[..., None]
        grad_tgt.scatter_add_(2, index[..., None], chosen.sum(dim=2, keepdim=True))
        grad_src.scatter_add_(2, index[:, None, :].expand(-1, src_size, -1), chosen.transpose(1, 2))
        src.add(chunk, grad_src)
        tgt.add(chunk, grad_tgt)


class FactoredLogSoftmax(torch.autograd.Function):
    """Forward and backward in chunks; nothing of size ``(B, J, I, V)`` ever exists."""

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> Tensor:
        """Takes states, weights, bias, targets, the valid cells, the chunk size, and whether there will be a backward.

        In the order ``src_states, tgt_states, src_weight, tgt_weight, bias, targets, valid, chunk_size, is_training``.
        """
        src_states, tgt_states, src_weight, tgt_weight, bias, targets, valid, chunk_size, is_training = arguments
        ctx.narrow = narrow_dtype(src_states)
        src, tgt = Side(src_states, src_weight, None, ctx.narrow), Side(tgt_states, tgt_weight, bias, ctx.narrow)
        inputs = _Inputs(src, tgt, targets, chunk_size)
        rooms = _Rooms(inputs, ctx.needs_input_grad[:5] if is_training else None)
        with torch.autocast(bias.device.type, enabled=False):
            log_word, normaliser = _forward(inputs, rooms)
        exact = normaliser.exact
        ctx.save_for_backward(*arguments[:7], normaliser.log_norm, exact.cells, exact.log_norm)
        ctx.chunk_size = chunk_size
        ctx.kept, ctx.weight_gradients = normaliser.kept, rooms.gradients
        return log_word.masked_fill_(~valid, 0.0)

    @staticmethod
    def backward(ctx: Any, grad_log_word: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients of states, weights and bias."""
        refuse_second_order("the word grid")
        src_states, tgt_states, src_weight, tgt_weight, bias, targets, valid, *results = ctx.saved_tensors
        src_side = Side(src_states, src_weight, None, ctx.narrow)
        tgt_side = Side(tgt_states, tgt_weight, bias, ctx.narrow)
        inputs = _Inputs(src_side, tgt_side, targets, ctx.chunk_size)
        log_norm, cells, exact_log_norm = results
        normaliser = _Normaliser(log_norm, _ExactCells(cells, exact_log_norm), ctx.kept)
        needs = ctx.needs_input_grad
        src = SideGradients(inputs.src, ctx.weight_gradients[0], needs[0], needs[2], False)
        tgt = SideGradients(inputs.tgt, ctx.weight_gradients[1], needs[1], needs[3], needs[4])
        # The gradients are written over the exponentials: a second backward pass has to compute them again.
        ctx.kept, ctx.weight_gradients = None, (None, None)
        upstream = torch.where(valid, grad_log_word, 0.0)
        with torch.autocast(bias.device.type, enabled=False):
            _backward(inputs, normaliser, upstream, src, tgt)
        return src.states, tgt.states, src.weight, tgt.weight, tgt.bias, None, None, None, None
