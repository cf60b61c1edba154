"""A log-softmax over sums of a source and a target part, at every cell of a grid, a chunk of the vocabulary at a time.

The logits of ``W [h_i; s_j] + b`` split into a source part ``A = h W_h^T`` and a target part ``B = s W_s^T + b``, so
the normaliser of all cells is one matrix product, ``Z[j, i] = sum_l exp(B[j, l]) exp(A[i, l])``. It is taken in chunks
of the vocabulary, each with its own row maxima ``peak_A`` and ``peak_B`` taken out, and the chunks are added in log
space.

A product of two exponentials can underflow where ``A[i]`` and ``B[j]`` peak at different symbols. What a chunk can lose
at a cell is at most ``chunk * tiny * exp(peak_A + peak_B)``; cells where that could matter (the sum of these bounds
against Z) are computed again from the logits themselves, in float64, and so are cells whose logits are so large that
float32 rounds them coarsely. The backward pass treats the same cells the same way.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ssnt.dp.autograd import refuse_second_order
from ssnt.dp.diagonals import accumulation_dtype

_EXACT_BYTES = 16 << 20  # logits of cells that are computed again
_ROUNDING = 2.0**-14  # rounding of the logits beyond which a cell is computed again: in float32, logits above 512


@dataclass(frozen=True)
class _Inputs:
    """The tensors of one call, in one dtype, with the padding taken out of the states.

    Attributes:
        src_states: ``(B, I, Hs)``.
        tgt_states: ``(B, J, Ht)``.
        src_weight: ``(V, Hs)``.
        tgt_weight: ``(V, Ht)``.
        bias: ``(V,)``.
        targets: ``(B, J)``.
        chunk_size: Symbols a chunk.
    """

    src_states: Tensor
    tgt_states: Tensor
    src_weight: Tensor
    tgt_weight: Tensor
    bias: Tensor
    targets: Tensor
    chunk_size: int

    @property
    def vocab_size(self) -> int:
        return self.bias.shape[0]

    def chunks(self) -> Iterator[slice]:
        for first in range(0, self.vocab_size, self.chunk_size):
            yield slice(first, min(first + self.chunk_size, self.vocab_size))

    @property
    def wide(self) -> torch.dtype:
        """The dtype in which single cells are computed exactly."""
        return accumulation_dtype(self.bias.device)

    def src_logits(self, chunk: slice, dtype: torch.dtype) -> Tensor:
        """``A``, ``(B, I, C)``."""
        return torch.matmul(self.src_states.to(dtype), self.src_weight[chunk].to(dtype).T)

    def tgt_logits(self, chunk: slice, dtype: torch.dtype) -> Tensor:
        """``B``, ``(B, J, C)``."""
        batch, tgt_size, width = self.tgt_states.shape
        states, weight = self.tgt_states.to(dtype).reshape(-1, width), self.tgt_weight[chunk].to(dtype)
        return torch.addmm(self.bias[chunk].to(dtype), states, weight.T).view(batch, tgt_size, -1)

    def halves(self, chunk: slice) -> _Chunk:
        """Both sides of a chunk, from logits that nobody else needs."""
        dtype = self.bias.dtype
        return _Chunk(_Half.of(self.src_logits(chunk, dtype)), _Half.of(self.tgt_logits(chunk, dtype)))

    def targets_in(self, chunk: slice) -> tuple[Tensor, Tensor]:
        """Where the target is in the chunk, and its index there (0 elsewhere), ``(B, J)`` each."""
        inside = (self.targets >= chunk.start) & (self.targets < chunk.stop)
        return inside, torch.where(inside, self.targets - chunk.start, 0)


@dataclass(frozen=True)
class _Half:
    """One side of a chunk: exponentials with the row maxima taken out.

    Attributes:
        exps: ``exp(logits - peak)``, ``(B, N, C)``.
        peaks: Row maxima, ``(B, N)``.
    """

    exps: Tensor
    peaks: Tensor

    @classmethod
    def of(cls, logits: Tensor) -> _Half:
        """Takes the logits over: they are overwritten."""
        peaks = logits.amax(dim=2)
        # A row of minus infinities has nothing to take out; its exponentials are zeros all the same.
        peaks = torch.where(peaks == -math.inf, torch.zeros_like(peaks), peaks)
        return cls(logits.sub_(peaks[..., None]).exp_(), peaks)


@dataclass(frozen=True)
class _Chunk:
    """Both sides of a chunk of the vocabulary."""

    src: _Half
    tgt: _Half

    @property
    def log_scale(self) -> Tensor:
        """What was taken out of the product at each cell, ``(B, J, I)``."""
        return self.tgt.peaks[:, :, None] + self.src.peaks[:, None, :]

    @property
    def magnitude(self) -> Tensor:
        """How large the largest logits are, which tells how coarsely they are rounded, ``(B, J, I)``."""
        return self.tgt.peaks.abs()[:, :, None] + self.src.peaks.abs()[:, None, :]


@dataclass(frozen=True)
class _ExactCells:
    """Cells whose product of exponentials may have underflowed, in the widest precision there is.

    Attributes:
        cells: Flat indices, ``(N,)``.
        log_norm: Their ``log Z``, ``(N,)``.
    """

    cells: Tensor
    log_norm: Tensor


@dataclass(frozen=True)
class _Forward:
    """What the forward pass computes.

    Attributes:
        log_word: ``(B, J, I)``.
        log_norm: ``log Z``, ``(B, J, I)``.
        exact: The cells that had to be computed one by one.
        kept: The chunks' exponentials, if they were small enough to keep.
    """

    log_word: Tensor
    log_norm: Tensor
    exact: _ExactCells
    kept: list[_Chunk] | None


def _unsafe_cells(log_norm: Tensor, log_loss: Tensor, magnitude: Tensor) -> Tensor:
    """Cells that may have lost too much to underflow, or to the rounding of huge logits; NaN counts as lost."""
    eps = torch.finfo(log_norm.dtype).eps
    precise = (log_loss - log_norm <= math.log(eps)) & (magnitude * eps <= _ROUNDING)
    return (~precise).flatten().nonzero()[:, 0]


def _in_groups(inputs: _Inputs, cells: Tensor) -> Iterator[tuple[slice, Tensor, Tensor]]:
    """Groups of cells, few enough for their logits to be held: (which cells, source rows, target rows)."""
    tgt_size, src_size = inputs.tgt_states.shape[1], inputs.src_states.shape[1]
    size = max(1, _EXACT_BYTES // (inputs.chunk_size * inputs.wide.itemsize))
    for first in range(0, len(cells), size):
        which = slice(first, first + size)
        pair, cell = cells[which] // (tgt_size * src_size), cells[which] % (tgt_size * src_size)
        yield which, pair * src_size + cell % src_size, pair * tgt_size + cell // src_size


def _exact(inputs: _Inputs, cells: Tensor) -> tuple[_ExactCells, Tensor]:
    """Computes cells one by one from their logits; also returns their ``log_word``, ``(N,)``."""
    log_norm = torch.full(cells.shape, -math.inf, dtype=inputs.wide, device=cells.device)
    chosen = torch.zeros_like(log_norm)
    targets = inputs.targets.flatten()
    for chunk in inputs.chunks():
        src = inputs.src_logits(chunk, inputs.wide).flatten(0, 1)
        tgt = inputs.tgt_logits(chunk, inputs.wide).flatten(0, 1)
        for which, src_rows, tgt_rows in _in_groups(inputs, cells):
            logits = src[src_rows] + tgt[tgt_rows]  # (N, C)
            log_norm[which] = torch.logaddexp(log_norm[which], torch.logsumexp(logits, dim=1))
            index = targets[tgt_rows] - chunk.start
            inside = (index >= 0) & (index < logits.shape[1])
            picked = logits.gather(1, torch.where(inside, index, 0)[:, None])[:, 0]
            chosen[which] = torch.where(inside, picked, chosen[which])
    return _ExactCells(cells, log_norm), chosen - log_norm


def _forward(inputs: _Inputs, keep: bool) -> _Forward:
    batch, src_size, _ = inputs.src_states.shape
    tgt_size = inputs.tgt_states.shape[1]
    log_norm = inputs.bias.new_full((batch, tgt_size, src_size), -math.inf)
    log_loss = torch.full_like(log_norm, -math.inf)
    magnitude = torch.zeros_like(log_norm)
    chosen = torch.zeros_like(log_norm)
    log_tiny = math.log(torch.finfo(log_norm.dtype).tiny)
    kept: list[_Chunk] = []
    for chunk in inputs.chunks():
        src_logits, tgt_logits = inputs.src_logits(chunk, log_norm.dtype), inputs.tgt_logits(chunk, log_norm.dtype)
        inside, index = inputs.targets_in(chunk)
        picked = src_logits.gather(2, index[:, None, :].expand(-1, src_size, -1)).transpose(1, 2)
        picked = picked + tgt_logits.gather(2, index[..., None])
        chosen = torch.where(inside[..., None], picked, chosen)
        halves = _Chunk(_Half.of(src_logits), _Half.of(tgt_logits))
        log_scale = halves.log_scale
        product = torch.bmm(halves.tgt.exps, halves.src.exps.transpose(1, 2))  # (B, J, I)
        log_norm = torch.logaddexp(log_norm, product.log_().add_(log_scale))
        log_loss = torch.logaddexp(log_loss, log_scale + (log_tiny + math.log(chunk.stop - chunk.start)))
        magnitude = torch.maximum(magnitude, halves.magnitude)
        if keep:
            kept.append(halves)
    log_word = (chosen - log_norm).contiguous()
    unsafe = _unsafe_cells(log_norm, log_loss, magnitude)
    exact = _ExactCells(unsafe, unsafe.new_empty(0, dtype=inputs.wide))
    if len(unsafe):
        exact, exact_log_word = _exact(inputs, unsafe)
        log_word.view(-1)[unsafe] = exact_log_word.to(log_word.dtype)
    return _Forward(log_word, log_norm, exact, kept if keep else None)


class _Gradients:
    """Collects the gradients chunk by chunk; those nobody needs are not computed."""

    def __init__(self, inputs: _Inputs, needed: tuple[bool, ...]) -> None:
        self.inputs = inputs
        values = (inputs.src_states, inputs.tgt_states, inputs.src_weight, inputs.tgt_weight, inputs.bias)
        # The states gather a sum over chunks; weights and bias are written once, a chunk each.
        self.tensors = [
            (torch.zeros_like if k < 2 else torch.empty_like)(value, memory_format=torch.contiguous_format)
            if need
            else None
            for k, (value, need) in enumerate(zip(values, needed, strict=True))
        ]

    def add(self, chunk: slice, grad_src: Tensor, grad_tgt: Tensor) -> None:
        """Takes the gradients of a chunk's logits, ``(B, I, C)`` and ``(B, J, C)``."""
        src_states, tgt_states, src_weight, tgt_weight, bias = self.tensors
        self._add_side(grad_src, self.inputs.src_states, self.inputs.src_weight[chunk], src_states, src_weight, chunk)
        self._add_side(grad_tgt, self.inputs.tgt_states, self.inputs.tgt_weight[chunk], tgt_states, tgt_weight, chunk)
        if bias is not None:
            bias[chunk] = grad_tgt.sum(dim=(0, 1))

    @staticmethod
    def _add_side(
        grad_logits: Tensor,
        states: Tensor,
        weight: Tensor,
        grad_states: Tensor | None,
        grad_weight: Tensor | None,
        chunk: slice,
    ) -> None:
        flat = grad_logits.flatten(0, 1)
        if grad_states is not None:
            grad_states.view(-1, states.shape[2]).addmm_(flat, weight)
        if grad_weight is not None:
            torch.mm(flat.T, states.flatten(0, 1), out=grad_weight[chunk])


def _add_exact(
    inputs: _Inputs, exact: _ExactCells, chunk: slice, grad_log_word: Tensor, grad_src: Tensor, grad_tgt: Tensor
) -> None:
    """Adds the softmax part of the gradient for the cells whose product of exponentials underflowed."""
    src = inputs.src_logits(chunk, inputs.wide).flatten(0, 1)
    tgt = inputs.tgt_logits(chunk, inputs.wide).flatten(0, 1)
    upstream = grad_log_word.flatten()[exact.cells]
    grad_src, grad_tgt = grad_src.flatten(0, 1), grad_tgt.flatten(0, 1)
    for which, src_rows, tgt_rows in _in_groups(inputs, exact.cells):
        chances = torch.exp(src[src_rows] + tgt[tgt_rows] - exact.log_norm[which, None]).to(upstream.dtype)
        chances *= -upstream[which, None]
        grad_src.index_add_(0, src_rows, chances)
        grad_tgt.index_add_(0, tgt_rows, chances)


def _backward(
    inputs: _Inputs, forward: _Forward, grad_log_word: Tensor, needed: tuple[bool, ...]
) -> list[Tensor | None]:
    src_size = inputs.src_states.shape[1]
    gradients = _Gradients(inputs, needed)
    negative = (-grad_log_word).contiguous()
    log_norm = forward.log_norm.clone(memory_format=torch.contiguous_format)
    # The cells that are added one by one take no part in the products: their ratio is zero.
    negative.view(-1)[forward.exact.cells] = 0.0
    log_norm.view(-1)[forward.exact.cells] = math.inf
    for number, chunk in enumerate(inputs.chunks()):
        halves = forward.kept[number] if forward.kept is not None else inputs.halves(chunk)
        ratio = (halves.log_scale - log_norm).exp_().mul_(negative)  # (B, J, I)
        grad_tgt = torch.bmm(ratio, halves.src.exps).mul_(halves.tgt.exps)
        grad_src = torch.bmm(ratio.transpose(1, 2), halves.tgt.exps).mul_(halves.src.exps)
        if len(forward.exact.cells):
            _add_exact(inputs, forward.exact, chunk, grad_log_word, grad_src, grad_tgt)
        inside, index = inputs.targets_in(chunk)
        chosen = grad_log_word * inside[..., None]
        grad_tgt.scatter_add_(2, index[..., None], chosen.sum(dim=2, keepdim=True))
        grad_src.scatter_add_(2, index[:, None, :].expand(-1, src_size, -1), chosen.transpose(1, 2))
        gradients.add(chunk, grad_src, grad_tgt)
    return gradients.tensors


class FactoredLogSoftmax(torch.autograd.Function):
    """Forward and backward in chunks; nothing of size ``(B, J, I, V)`` ever exists."""

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> Tensor:
        """Takes the tensors of :class:`_Inputs`, the valid cells, the chunk size, and whether to keep exponentials."""
        src_states, tgt_states, src_weight, tgt_weight, bias, targets, valid, chunk_size, keep = arguments
        tensors = (src_states, tgt_states, src_weight, tgt_weight, bias, targets)
        inputs = _Inputs(*tensors, chunk_size)
        with torch.autocast(inputs.bias.device.type, enabled=False):
            forward = _forward(inputs, keep)
        ctx.save_for_backward(*tensors, valid, forward.log_norm, forward.exact.cells, forward.exact.log_norm)
        ctx.kept = forward.kept
        ctx.chunk_size = chunk_size
        return forward.log_word.masked_fill_(~valid, 0.0)

    @staticmethod
    def backward(ctx: Any, grad_log_word: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients of states, weights and bias."""
        refuse_second_order("the word grid")
        src_states, tgt_states, src_weight, tgt_weight, bias, targets, valid, *results = ctx.saved_tensors
        inputs = _Inputs(src_states, tgt_states, src_weight, tgt_weight, bias, targets, ctx.chunk_size)
        log_norm, cells, exact_log_norm = results
        forward = _Forward(grad_log_word, log_norm, _ExactCells(cells, exact_log_norm), ctx.kept)
        upstream = torch.where(valid, grad_log_word, 0.0)
        with torch.autocast(inputs.bias.device.type, enabled=False):
            gradients = _backward(inputs, forward, upstream, ctx.needs_input_grad[:5])
        return *gradients, None, None, None, None
