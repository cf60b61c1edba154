"""Transitions: the probability of emitting at a cell of the grid, or shifting to the next source symbol."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ssnt.emission_grid import SourceSide, emission_logits
from ssnt.errors import DataError, ModelError, ShapeError


@dataclass(frozen=True)
class LogTransition:
    """The two decisions at a point, in log space; their probabilities sum to one.

    Attributes:
        log_emit: Log probability of emitting.
        log_shift: Log probability of shifting, of the same shape.
    """

    log_emit: Tensor
    log_shift: Tensor


class Transition(Protocol):
    """What a model needs of its transition, which must also be an ``nn.Module``."""

    def log_grid(self, src_states: Tensor, tgt_states: Tensor) -> LogTransition:
        """Returns both decisions at every cell, (B, J, I), for states (B, I, Hs) and (B, J, Ht)."""
        ...

    def source_half(self, src_states: Tensor) -> Any:
        """Returns what can be computed from the source alone, for a search that asks again and again.

        It is made of tensors with a row for each source, in dataclasses and tuples.
        """
        ...

    def log_grid_from(self, src_half: Any, tgt_states: Tensor) -> LogTransition:
        """Returns what :meth:`log_grid` does, from the source half; need not be differentiable."""
        ...

    def log_probs(self, src_states: Tensor, tgt_states: Tensor) -> LogTransition:
        """Returns both decisions (...) for states (..., Hs) and (..., Ht) that broadcast."""
        ...


class GeometricTransition(nn.Module):
    """One emission probability for all cells, estimated from lengths in closed form and not learnt.

    The buffer ``length_sums`` holds the two sums of lengths rather than their ratio: integers survive
    every change of precision, and zeros say that there is no estimate yet.
    """

    length_sums: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("length_sums", torch.zeros(2, dtype=torch.int64))  # source, target
        self._is_estimated = False

    @property
    def emit_prob(self) -> float:
        """The estimate ``e = sum J / (sum I + sum J)``."""
        self._check_estimated()
        src_sum, tgt_sum = self.length_sums.tolist()
        return float(tgt_sum / (src_sum + tgt_sum))

    def estimate(self, src_lens: Tensor | Iterable[int], tgt_lens: Tensor | Iterable[int]) -> None:
        """Sets the maximum likelihood estimate from the lengths of all training pairs.

        Args:
            src_lens: Source lengths, end symbols included as in a Batch.
            tgt_lens: Target lengths, one for each source length.
        """
        src, tgt = _lengths("src_lens", src_lens), _lengths("tgt_lens", tgt_lens)
        if len(src) != len(tgt):
            raise ShapeError(
                f"tgt_lens: expected {len(src)} lengths, as many as src_lens has, got {len(tgt)}; "
                "give both lengths of every training pair"
            )
        self.length_sums.copy_(torch.tensor([sum(src), sum(tgt)]))

    def log_grid(self, src_states: Tensor, tgt_states: Tensor) -> LogTransition:
        """Returns both decisions at every cell, (B, J, I)."""
        return self.log_probs(src_states[:, None], tgt_states[:, :, None])

    def source_half(self, src_states: Tensor) -> Tensor:
        """The states themselves, of which only the shape matters."""
        return src_states

    def log_grid_from(self, src_half: Tensor, tgt_states: Tensor) -> LogTransition:
        """Returns both decisions at every cell, (B, J, I)."""
        return self.log_grid(src_half, tgt_states)

    def log_probs(self, src_states: Tensor, tgt_states: Tensor) -> LogTransition:
        """Returns both decisions (...), the same everywhere."""
        self._check_estimated()
        shape = torch.broadcast_shapes(src_states.shape[:-1], tgt_states.shape[:-1])
        logs = self.length_sums.to(_grid_dtype(src_states)).log()
        log_shift, log_emit = (logs - logs.logsumexp(0)).unbind()
        return LogTransition(log_emit.expand(shape), log_shift.expand(shape))

    def _check_estimated(self) -> None:
        if self._is_estimated:  # asks a GPU once, not at every batch
            return
        if not bool(self.length_sums.all()):
            raise ModelError(
                "the geometric transition has no emission probability yet; call "
                "estimate_transition(src_lens, tgt_lens) with the lengths of all training pairs, "
                "or load a trained state dict"
            )
        self._is_estimated = True


class NeuralTransition(nn.Module):
    """The paper's ``sigmoid(MLP(W_t [h_i; s_j] + b_t))``: one tanh layer, then one number.

    ``W_t`` is kept as its source and target halves, so that each state is multiplied once, not per cell.
    """

    def __init__(self, src_size: int, tgt_size: int, hidden_size: int) -> None:
        super().__init__()
        self.src_layer = nn.Linear(src_size, hidden_size)  # its bias is b_t
        self.tgt_layer = nn.Linear(tgt_size, hidden_size, bias=False)
        self.output_layer = nn.Linear(hidden_size, 1)

    def log_grid(self, src_states: Tensor, tgt_states: Tensor) -> LogTransition:
        """Returns both decisions at every cell, (B, J, I)."""
        parts = self.src_layer(src_states), self.tgt_layer(tgt_states)
        return _decisions(emission_logits(*parts, *self._output()))

    def source_half(self, src_states: Tensor) -> SourceSide:
        """The source's part of the hidden layer, before the tanh."""
        return SourceSide.of(self.src_layer(src_states))

    def log_grid_from(self, src_half: SourceSide, tgt_states: Tensor) -> LogTransition:
        """Returns both decisions at every cell, (B, J, I)."""
        return _decisions(src_half.logits(self.tgt_layer(tgt_states), *self._output()))

    def _output(self) -> tuple[Tensor, Tensor]:
        return self.output_layer.weight[0], self.output_layer.bias

    def log_probs(self, src_states: Tensor, tgt_states: Tensor) -> LogTransition:
        """Returns both decisions (...) for states (..., Hs) and (..., Ht) that broadcast."""
        hidden = torch.tanh(self.src_layer(src_states) + self.tgt_layer(tgt_states))  # (..., D)
        return _decisions(self.output_layer(hidden).squeeze(-1))


def _decisions(logits: Tensor) -> LogTransition:
    logits = logits.to(_grid_dtype(logits))
    return LogTransition(F.logsigmoid(logits), F.logsigmoid(-logits))


def _grid_dtype(states: Tensor) -> torch.dtype:
    """Log probabilities are kept in float32 at least, also under autocast."""
    return torch.promote_types(states.dtype, torch.float32)


def _lengths(name: str, lens: Tensor | Iterable[int]) -> list[int]:
    """Checks lengths and returns them as integers."""
    if isinstance(lens, Tensor):
        if lens.dim() != 1 or lens.is_floating_point() or lens.is_complex() or lens.dtype == torch.bool:
            raise ShapeError(
                f"{name}: expected integers of shape (N,), got {lens.dtype} of shape {tuple(lens.shape)}; "
                "concatenate the lengths of all training pairs"
            )
        lens = lens.tolist()
    try:
        values = [operator.index(length) for length in lens]
    except TypeError as error:
        raise ShapeError(f"{name}: expected integers, one for each training pair, got {error}") from None
    if not values:
        raise DataError(f"{name}: expected at least one length, got none; give those of all training pairs")
    if min(values) < 1:
        raise DataError(
            f"{name}: expected lengths of at least 1, got {min(values)} for pair "
            f"{values.index(min(values))}; lengths count the end symbol"
        )
    return values
