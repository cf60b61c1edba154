"""The word grid ``log p(y_j | h_i, s_j)``: the public function and its checks."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from ssnt.dp.checks import checked_lengths, require_count, require_tensor
from ssnt.errors import DataError, ShapeError
from ssnt.factored_softmax import FactoredLogSoftmax
from ssnt.small_softmax import small_log_softmax

_FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_CHUNK_BYTES = 4 << 20  # logits of one chunk: they fit the caches, and the matrix products are still large


def _check_shapes(named: dict[str, Any], targets: Any) -> None:
    for name, value in {**named, "targets": targets}.items():
        require_tensor(name, value)
        if name != "targets" and value.dtype not in _FLOATS:
            expected = ", ".join(str(dtype).removeprefix("torch.") for dtype in _FLOATS)
            raise ShapeError(f"{name} must have one of the dtypes {expected}, got {value.dtype}")
        if value.device != named["src_states"].device:
            raise ShapeError(f"{name} must be on src_states' device, {named['src_states'].device}, got {value.device}")
    src, tgt, src_weight, tgt_weight, bias = named.values()
    if src.ndim != 3 or 0 in src.shape:
        raise ShapeError(f"src_states must have shape (B, I, Hs) with no empty axis, got {tuple(src.shape)}")
    if tgt.ndim != 3 or 0 in tgt.shape or tgt.shape[0] != src.shape[0]:
        expected = f"({src.shape[0]}, J, Ht) with no empty axis"
        raise ShapeError(f"tgt_states must have shape {expected}, got {tuple(tgt.shape)}")
    if src_weight.ndim != 2 or 0 in src_weight.shape:
        raise ShapeError(f"src_weight must have shape (V, Hs) with no empty axis, got {tuple(src_weight.shape)}")
    vocab_size = src_weight.shape[0]
    for name, weight, states in (("src_weight", src_weight, src), ("tgt_weight", tgt_weight, tgt)):
        if weight.shape != (vocab_size, states.shape[2]):
            expected = f"(V, H) = ({vocab_size}, {states.shape[2]}), as src_weight and the states have"
            raise ShapeError(f"{name} must have shape {expected}, got {tuple(weight.shape)}")
    if bias.shape != (vocab_size,):
        raise ShapeError(f"bias must have shape (V,) = ({vocab_size},), as src_weight has, got {tuple(bias.shape)}")
    if targets.dtype not in (torch.int32, torch.int64):
        raise ShapeError(f"targets must be int32 or int64, got {targets.dtype}")
    if targets.shape != tgt.shape[:2]:
        expected = f"(B, J) = {tuple(tgt.shape[:2])}, as tgt_states has"
        raise ShapeError(f"targets must have shape {expected}, got {tuple(targets.shape)}")


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
            raise DataError(f"{name}{index} must be finite, got {value[tuple(index)].item()}")
    if bool((named["bias"] == -math.inf).all()):
        raise DataError("bias must leave at least one symbol possible, got minus infinity everywhere")
    raise DataError("the logits overflow: src_states @ src_weight.T or tgt_states @ tgt_weight.T is not finite")


def _lengths(lengths: Tensor | None, name: str, axis: str, states: Tensor) -> Tensor:
    """The lengths ``(B,)``; those of all rows if there are none."""
    batch, size, _ = states.shape
    if lengths is None:
        return torch.full((batch,), size, device=states.device)
    return checked_lengths(name, lengths, batch, size, axis, states.device)


def _rows_within(lengths: Tensor, size: int) -> Tensor:
    """True for rows within the lengths, ``(B, N)``."""
    return torch.arange(size, device=lengths.device) < lengths[:, None]


def _of_one_dtype(values: list[Tensor]) -> list[Tensor]:
    """The values in the widest of their dtypes, float32 at least."""
    dtype = torch.float32
    for value in values:
        dtype = torch.promote_types(dtype, value.dtype)
    return [value.to(dtype) for value in values]


def _default_chunk_size(rows: int, vocab_size: int, element_size: int) -> int:
    """As many symbols as fit ``_CHUNK_BYTES``, in steps that keep the rows of a chunk well aligned in memory."""
    fitting = max(256, _CHUNK_BYTES // (rows * element_size))
    # Rows that start off a cache line, or all on the same cache sets, slow the matrix products by a third.
    aligned = fitting // 32 * 32 + 16
    return min(vocab_size, aligned)


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

    ``log_word[b, j, i]`` is ``log softmax(logits)[targets[b, j]]`` with
    ``logits = src_weight @ src_states[b, i] + tgt_weight @ tgt_states[b, j] + bias``.

    Exact for any logits: cells where the factored normaliser could underflow are found and computed again. Runs on any
    device. Half precision is computed in float32, tensors of different dtypes in the widest of them; under autocast to
    bfloat16, the products with the weights of a large vocabulary are rounded as those of a linear layer. Differentiable
    once, with respect to states, weights and bias; the weights may be views of one matrix, tied, or an embedding.
    Between forward and backward it holds as much memory as the gradients of the weights, or at most 384 MiB more, where
    it keeps what it would otherwise compute twice; call it under ``torch.no_grad()`` if there will be no backward.

    Args:
        src_states: ``(B, I, Hs)``.
        tgt_states: ``(B, J, Ht)``; row j is the state *before* symbol j, made from the symbols before it only.
        src_weight: ``(V, Hs)``.
        tgt_weight: ``(V, Ht)``.
        bias: ``(V,)``, zeros for none; minus infinity bans a symbol.
        targets: Symbols ``(B, J)``.
        src_lens: Source lengths ``(B,)``; positions beyond them are ignored, whatever they hold.
        tgt_lens: Target lengths ``(B,)``, likewise.
        chunk_size: Symbols of the vocabulary handled at once; chosen by size if None, and then a small vocabulary is
            handled by compiled loops on a CPU.

    Returns:
        ``log_word``, ``(B, J, I)``; zero in padding.

    Raises:
        ShapeError: A tensor has the wrong rank, size, dtype or device, or a length is out of range.
        DataError: A target is outside the vocabulary, or an input is not finite (CPU only; elsewhere the result is
            NaN).
        ConfigError: ``chunk_size`` is below 1.
    """
    if chunk_size is not None:
        require_count("chunk_size", chunk_size)
    given = {
        "src_states": src_states,
        "tgt_states": tgt_states,
        "src_weight": src_weight,
        "tgt_weight": tgt_weight,
        "bias": bias,
    }
    _check_shapes(given, targets)
    src_lens = _lengths(src_lens, "src_lens", "source (I)", src_states)
    tgt_lens = _lengths(tgt_lens, "tgt_lens", "target (J)", tgt_states)
    valid_columns = _rows_within(src_lens, src_states.shape[1])
    valid_rows = _rows_within(tgt_lens, tgt_states.shape[1])
    symbols = _check_targets(targets, valid_rows, len(bias))
    inputs = _of_one_dtype(list(given.values()))
    # Padding may hold anything, even NaN, and NaN times zero is NaN: it must not enter the products.
    inputs[0] = torch.where(valid_columns[..., None], inputs[0], 0.0)
    inputs[1] = torch.where(valid_rows[..., None], inputs[1], 0.0)
    if chunk_size is None and (grid := small_log_softmax(inputs, symbols, src_lens, tgt_lens)) is not None:
        return grid
    rows, element_size = valid_columns.numel() + valid_rows.numel(), inputs[0].element_size()
    chunk_size = min(chunk_size or _default_chunk_size(rows, len(bias), element_size), len(bias))
    needs_gradient = torch.is_grad_enabled() and any(value.requires_grad for value in inputs)
    valid = valid_rows[:, :, None] & valid_columns[:, None, :]
    log_word: Tensor = FactoredLogSoftmax.apply(*inputs, symbols, valid, chunk_size, needs_gradient)  # type: ignore[no-untyped-call]
    _raise_if_nan(log_word, given, {"src_states": valid_columns, "tgt_states": valid_rows})
    return log_word
