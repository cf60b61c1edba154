"""The word grid ``log p(y_j | h_i, s_j)`` of a softmax over ``W [h_i; s_j] + b``, without the vocabulary meeting the grid.

The logits split into a source part ``A = h W_h^T`` and a target part ``B = s W_s^T + b``, so the normaliser of all cells is
one matrix product, ``Z[j, i] = sum_l exp(B[j, l]) exp(A[i, l])``. It is taken in chunks of the vocabulary, each with its
own row maxima ``peak_A`` and ``peak_B`` taken out, and the chunks are added in log space.

A product of two exponentials can underflow where ``A[i]`` and ``B[j]`` peak at different symbols. What a chunk can lose at
a cell is at most ``chunk * tiny * exp(peak_A + peak_B)``; cells where that could matter (the sum of these bounds
against Z) are computed again, exactly, from the logits themselves. The backward pass treats the same cells the
same way.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ssnt.dp.checks import checked_lengths, require_tensor
from ssnt.errors import ConfigError, DataError, ShapeError

_CHUNK_BYTES = 8 << 20  # logits of one chunk: small enough for the caches, large enough for fast matrix products
_KEPT_BYTES = 96 << 20  # exponentials kept for the backward pass; beyond this they are computed again
_EXACT_BYTES = 16 << 20  # logits of cells that are computed again


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

    def src_logits(self, chunk: slice) -> Tensor:
        """``A``, ``(B, I, C)``."""
        return torch.matmul(self.src_states, self.src_weight[chunk].T)

    def tgt_logits(self, chunk: slice) -> Tensor:
        """``B``, ``(B, J, C)``."""
        batch, tgt_size, width = self.tgt_states.shape
        flat = torch.addmm(self.bias[chunk], self.tgt_states.reshape(-1, width), self.tgt_weight[chunk].T)
        return flat.view(batch, tgt_size, -1)

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


@dataclass(frozen=True)
class _Forward:
    """What the forward pass computes.

    Attributes:
        log_word: ``(B, J, I)``.
        log_norm: ``log Z``, ``(B, J, I)``.
        unsafe: Flat indices of the cells that had to be computed exactly, ``(N,)``.
        kept: The chunks' exponentials, if they were small enough to keep.
    """

    log_word: Tensor
    log_norm: Tensor
    unsafe: Tensor
    kept: list[_Chunk] | None


def _unsafe_cells(log_norm: Tensor, log_loss: Tensor) -> Tensor:
    """Cells whose underflow may exceed the rounding error; also those whose normaliser is zero or NaN."""
    precise = log_loss - log_norm <= math.log(torch.finfo(log_norm.dtype).eps)
    return (~precise).flatten().nonzero()[:, 0]


def _exact_cells(inputs: _Inputs, cells: Tensor) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Groups of cells, few enough for their logits to be held: (cells, source rows, target rows)."""
    tgt_size, src_size = inputs.tgt_states.shape[1], inputs.src_states.shape[1]
    element = inputs.bias.element_size()
    for group in cells.split(max(1, _EXACT_BYTES // (inputs.chunk_size * element))):
        pair, cell = group // (tgt_size * src_size), group % (tgt_size * src_size)
        yield group, pair * src_size + cell % src_size, pair * tgt_size + cell // src_size


def _exact_log_norm(inputs: _Inputs, cells: Tensor) -> Tensor:
    """``log sum_l exp(A[i, l] + B[j, l])`` of single cells, ``(N,)``."""
    log_norm = inputs.bias.new_full((len(cells),), -math.inf)
    for chunk in inputs.chunks():
        src, tgt = inputs.src_logits(chunk).flatten(0, 1), inputs.tgt_logits(chunk).flatten(0, 1)
        parts = [
            torch.logsumexp(src[src_rows] + tgt[tgt_rows], dim=1)
            for _, src_rows, tgt_rows in _exact_cells(inputs, cells)
        ]
        log_norm = torch.logaddexp(log_norm, torch.cat(parts))
    return log_norm


def _forward(inputs: _Inputs, keep: bool) -> _Forward:
    batch, src_size, _ = inputs.src_states.shape
    tgt_size = inputs.tgt_states.shape[1]
    log_norm = inputs.bias.new_full((batch, tgt_size, src_size), -math.inf)
    log_loss = torch.full_like(log_norm, -math.inf)
    chosen = torch.zeros_like(log_norm)
    log_tiny = math.log(torch.finfo(log_norm.dtype).tiny)
    kept: list[_Chunk] = []
    for chunk in inputs.chunks():
        src_logits, tgt_logits = inputs.src_logits(chunk), inputs.tgt_logits(chunk)
        inside, index = inputs.targets_in(chunk)
        picked = src_logits.gather(2, index[:, None, :].expand(-1, src_size, -1)).transpose(1, 2)
        picked = picked + tgt_logits.gather(2, index[..., None])
        chosen = torch.where(inside[..., None], picked, chosen)
        halves = _Chunk(_Half.of(src_logits), _Half.of(tgt_logits))
        log_scale = halves.log_scale
        product = torch.bmm(halves.tgt.exps, halves.src.exps.transpose(1, 2))  # (B, J, I)
        log_norm = torch.logaddexp(log_norm, product.log_().add_(log_scale))
        log_loss = torch.logaddexp(log_loss, log_scale + (log_tiny + math.log(chunk.stop - chunk.start)))
        if keep:
            kept.append(halves)
    unsafe = _unsafe_cells(log_norm, log_loss)
    if len(unsafe):
        log_norm.view(-1)[unsafe] = _exact_log_norm(inputs, unsafe)
    return _Forward(chosen - log_norm, log_norm, unsafe, kept if keep else None)


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
    inputs: _Inputs, forward: _Forward, chunk: slice, grad_log_word: Tensor, grad_src: Tensor, grad_tgt: Tensor
) -> None:
    """Adds the softmax part of the gradient for the cells whose product of exponentials underflowed."""
    src, tgt = inputs.src_logits(chunk).flatten(0, 1), inputs.tgt_logits(chunk).flatten(0, 1)
    log_norm, upstream = forward.log_norm.flatten(), grad_log_word.flatten()
    grad_src, grad_tgt = grad_src.flatten(0, 1), grad_tgt.flatten(0, 1)
    for cells, src_rows, tgt_rows in _exact_cells(inputs, forward.unsafe):
        chances = torch.exp(src[src_rows] + tgt[tgt_rows] - log_norm[cells, None])
        chances *= -upstream[cells, None]
        grad_src.index_add_(0, src_rows, chances)
        grad_tgt.index_add_(0, tgt_rows, chances)


def _backward(
    inputs: _Inputs, forward: _Forward, grad_log_word: Tensor, needed: tuple[bool, ...]
) -> list[Tensor | None]:
    src_size = inputs.src_states.shape[1]
    gradients = _Gradients(inputs, needed)
    negative = -grad_log_word
    negative.view(-1)[forward.unsafe] = 0.0  # these are added one by one
    log_norm = forward.log_norm.clone()
    log_norm.view(-1)[forward.unsafe] = math.inf
    for number, chunk in enumerate(inputs.chunks()):
        if forward.kept is not None:
            halves = forward.kept[number]
        else:
            halves = _Chunk(_Half.of(inputs.src_logits(chunk)), _Half.of(inputs.tgt_logits(chunk)))
        ratio = (halves.log_scale - log_norm).exp_().mul_(negative)  # (B, J, I)
        grad_tgt = torch.bmm(ratio, halves.src.exps).mul_(halves.tgt.exps)
        grad_src = torch.bmm(ratio.transpose(1, 2), halves.tgt.exps).mul_(halves.src.exps)
        if len(forward.unsafe):
            _add_exact(inputs, forward, chunk, grad_log_word, grad_src, grad_tgt)
        inside, index = inputs.targets_in(chunk)
        chosen = grad_log_word * inside[..., None]
        grad_tgt.scatter_add_(2, index[..., None], chosen.sum(dim=2, keepdim=True))
        grad_src.scatter_add_(2, index[:, None, :].expand(-1, src_size, -1), chosen.transpose(1, 2))
        gradients.add(chunk, grad_src, grad_tgt)
    return gradients.tensors


class _LinearWordGrid(torch.autograd.Function):
    """Forward and backward in chunks; nothing of size ``(B, J, I, V)`` ever exists."""

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> Tensor:
        *tensors, valid, chunk_size, keep = arguments
        inputs = _Inputs(*tensors, chunk_size)
        with torch.autocast(inputs.bias.device.type, enabled=False):
            forward = _forward(inputs, keep)
        ctx.save_for_backward(*tensors, valid, forward.log_norm, forward.unsafe)
        ctx.kept = forward.kept
        ctx.chunk_size = chunk_size
        return forward.log_word.masked_fill_(~valid, 0.0)

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, grad_log_word: Tensor) -> tuple[Tensor | None, ...]:
        *tensors, valid, log_norm, unsafe = ctx.saved_tensors
        inputs = _Inputs(*tensors, ctx.chunk_size)
        forward = _Forward(grad_log_word, log_norm, unsafe, ctx.kept)
        upstream = torch.where(valid, grad_log_word, 0.0)
        with torch.autocast(inputs.bias.device.type, enabled=False):
            gradients = _backward(inputs, forward, upstream, ctx.needs_input_grad[:5])
        return *gradients, None, None, None, None


def _check_shapes(named: dict[str, Any], targets: Any) -> None:
    for name, value in {**named, "targets": targets}.items():
        require_tensor(name, value)
        if name != "targets" and not value.is_floating_point():
            raise ShapeError(f"{name} must have a floating-point dtype, got {value.dtype}")
        if value.device != named["src_states"].device:
            raise ShapeError(f"{name} must be on src_states' device, {named['src_states'].device}, got {value.device}")
    src, tgt, src_weight, tgt_weight, bias = named.values()
    if src.ndim != 3 or 0 in src.shape:
        raise ShapeError(f"src_states must have shape (B, I, Hs) with no empty axis, got {tuple(src.shape)}")
    if tgt.ndim != 3 or 0 in tgt.shape or tgt.shape[0] != src.shape[0]:
        expected = f"({src.shape[0]}, J, Ht) with no empty axis"
        raise ShapeError(f"tgt_states must have shape {expected}, got {tuple(tgt.shape)}")
    if bias.ndim != 1 or len(bias) == 0:
        raise ShapeError(f"bias must have shape (V,) with V at least 1, got {tuple(bias.shape)}")
    for name, weight, states in (("src_weight", src_weight, src), ("tgt_weight", tgt_weight, tgt)):
        if weight.shape != (len(bias), states.shape[2]):
            expected = f"(V, H) = ({len(bias)}, {states.shape[2]})"
            raise ShapeError(f"{name} must have shape {expected}, got {tuple(weight.shape)}")
    if targets.dtype not in (torch.int32, torch.int64):
        raise ShapeError(f"targets must be int32 or int64, got {targets.dtype}")
    if targets.shape != tgt.shape[:2]:
        raise ShapeError(f"targets must have shape (B, J) = {tuple(tgt.shape[:2])}, got {tuple(targets.shape)}")


def _check_targets(targets: Tensor, valid_rows: Tensor, vocab_size: int) -> Tensor:
    """Returns the targets with padding replaced by symbol 0; on the host, raises for symbols that do not exist."""
    wrong = valid_rows & ((targets < 0) | (targets >= vocab_size))
    if targets.device.type == "cpu" and bool(wrong.any()):
        b, j = wrong.nonzero()[0].tolist()
        raise DataError(f"targets[{b}, {j}] must be between 0 and {vocab_size - 1}, got {int(targets[b, j])}")
    return torch.where(valid_rows, targets, 0).long()


def _raise_if_nan(log_word: Tensor, named: dict[str, Tensor], valid: dict[str, Tensor]) -> None:
    """On the host, names the argument that made the result NaN."""
    if log_word.device.type != "cpu" or not bool(log_word.isnan().any()):
        return
    for name, value in named.items():
        improper = ~value.isfinite() if name != "bias" else ~(value < math.inf)
        if name in valid:
            improper &= valid[name][..., None]
        if bool(improper.any()):
            index = improper.nonzero()[0].tolist()
            raise DataError(f"{name}{index} must be finite, got {float(value[tuple(index)])}")
    raise DataError("the logits overflow: src_states @ src_weight.T or tgt_states @ tgt_weight.T is not finite")


def _rows_within(lengths: Tensor | None, name: str, axis: str, states: Tensor) -> Tensor:
    """True for rows within the lengths, ``(B, N)``; all of them if there are no lengths."""
    batch, size, _ = states.shape
    if lengths is None:
        return torch.ones(batch, size, dtype=torch.bool, device=states.device)
    lengths = checked_lengths(name, lengths, batch, size, axis, states.device)
    return torch.arange(size, device=states.device) < lengths[:, None]


def _default_chunk_size(rows: int, vocab_size: int, element_size: int) -> int:
    return min(vocab_size, max(256, _CHUNK_BYTES // (rows * element_size)))


def linear_word_grid(
    src_states: Tensor,
    tgt_states: Tensor,
    src_weight: Tensor,
    tgt_weight: Tensor,
    bias: Tensor,
    targets: Tensor,
    *,
    src_lens: Tensor | None = None,
    tgt_lens: Tensor | None = None,
    chunk_size: int | None = None,
) -> Tensor:
    """Log probability of each target symbol at each source position, in memory that does not grow with ``I * J * V``.

    ``log_word[b, j, i] = log softmax(src_weight @ src_states[b, i] + tgt_weight @ tgt_states[b, j] + bias)[targets[b, j]]``

    Exact for any logits: cells where the factored normaliser could underflow are found and computed again. Runs on any
    device. Half precision is computed in float32, tensors of different dtypes in the widest of them. Differentiable
    once, with respect to states, weights and bias; the weights may be views of one matrix, tied, or an embedding.

    Args:
        src_states: ``(B, I, Hs)``.
        tgt_states: ``(B, J, Ht)``.
        src_weight: ``(V, Hs)``.
        tgt_weight: ``(V, Ht)``.
        bias: ``(V,)``; minus infinity bans a symbol.
        targets: Symbols ``(B, J)``.
        src_lens: Source lengths ``(B,)``; positions beyond them are ignored, whatever they hold.
        tgt_lens: Target lengths ``(B,)``, likewise.
        chunk_size: Symbols of the vocabulary handled at once; chosen by size if None.

    Returns:
        ``log_word``, ``(B, J, I)``; zero in padding.

    Raises:
        ShapeError: A tensor has the wrong rank, size, dtype or device, or a length is out of range.
        DataError: A target is outside the vocabulary, or an input is not finite (CPU only; elsewhere the result is NaN).
        ConfigError: ``chunk_size`` is below 1.
    """
    if chunk_size is not None and chunk_size < 1:
        raise ConfigError(f"chunk_size must be at least 1, got {chunk_size}")
    given = {
        "src_states": src_states,
        "tgt_states": tgt_states,
        "src_weight": src_weight,
        "tgt_weight": tgt_weight,
        "bias": bias,
    }
    _check_shapes(given, targets)
    valid_columns = _rows_within(src_lens, "src_lens", "source (I)", src_states)
    valid_rows = _rows_within(tgt_lens, "tgt_lens", "target (J)", tgt_states)
    symbols = _check_targets(targets, valid_rows, len(bias))
    dtype = torch.float32
    for value in given.values():
        dtype = torch.promote_types(dtype, value.dtype)
    inputs = [value.to(dtype) for value in given.values()]
    # Padding may hold anything, even NaN, and NaN times zero is NaN: it must not enter the products.
    inputs[0] = torch.where(valid_columns[..., None], inputs[0], 0.0)
    inputs[1] = torch.where(valid_rows[..., None], inputs[1], 0.0)
    rows, element_size = valid_columns.numel() + valid_rows.numel(), inputs[0].element_size()
    chunk_size = min(chunk_size or _default_chunk_size(rows, len(bias), element_size), len(bias))
    needs_gradient = torch.is_grad_enabled() and any(value.requires_grad for value in inputs)
    keep = needs_gradient and rows * len(bias) * element_size <= _KEPT_BYTES
    valid = valid_rows[:, :, None] & valid_columns[:, None, :]
    log_word: Tensor = _LinearWordGrid.apply(*inputs, symbols, valid, chunk_size, keep)  # type: ignore[no-untyped-call]
    _raise_if_nan(log_word, given, {"src_states": valid_columns, "tgt_states": valid_rows})
    return log_word
