"""The emission grid: one number for each cell, from a tanh layer over the sum of a source and a target part.

Written out, the layer has ``B * J * I * D`` hidden units. On a CPU it is computed cell by cell instead, forward and
backward, in memory that does not grow with ``D``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ssnt.dp.autograd import refuse_second_order
from ssnt.dp.compiled import has_numba, in_threads

_UNITS_WORTH_A_THREAD = 500_000  # hidden units; about 0.1 ms of work

# Beyond this exp(2a) exp(2b) could overflow before it is a product, or be rounded to zero where it matters.
_LARGEST = {torch.float32: 20.0, torch.float64: 150.0}


def emission_logits(src_part: Tensor, tgt_part: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Returns ``weight · tanh(src_part[b, i] + tgt_part[b, j]) + bias`` for each cell, ``(B, J, I)``.

    Runs on any device, and never holds the hidden layer on a CPU (if Numba is there and no part is beyond 20, or 150 in
    float64). There it is differentiable once.

    Args:
        src_part: ``(B, I, D)``.
        tgt_part: ``(B, J, D)``.
        weight: ``(D,)``.
        bias: ``(1,)``.
    """
    dtype = torch.promote_types(src_part.dtype, torch.float32)
    parts = src_part.to(dtype), tgt_part.to(dtype)
    weight, bias = weight.to(dtype), bias.to(dtype)
    if _fits_the_kernel(*parts):
        logits: Tensor = _TanhLayer.apply(*parts, weight)  # type: ignore[no-untyped-call]
        return logits + bias
    hidden = torch.tanh(parts[0][:, None] + parts[1][:, :, None])  # (B, J, I, D)
    with torch.autocast(weight.device.type, enabled=False):
        return hidden @ weight + bias


@dataclass(frozen=True)
class SourceSide:
    """The source part of the layer, for a search that asks for the same sources again and again.

    Attributes:
        part: ``(B, I, D)``.
        exps: ``exp(2 part)``, or None if the kernel cannot take it.
    """

    part: Tensor
    exps: Tensor | None

    @classmethod
    def of(cls, part: Tensor) -> SourceSide:
        """Takes the exponentials, once for all."""
        part = part.to(torch.promote_types(part.dtype, torch.float32))
        return cls(part, _exponentials(part) if _fits_the_kernel(part) else None)

    def logits(self, tgt_part: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        """Returns what :func:`emission_logits` does; only that is differentiable."""
        if self.exps is None or torch.is_grad_enabled() or not _fits_the_kernel(tgt_part.to(self.part.dtype)):
            return emission_logits(self.part, tgt_part, weight, bias)
        dtype = self.part.dtype
        return _weighted_sums(self.exps, _exponentials(tgt_part.to(dtype)), weight.to(dtype)) + bias.to(dtype)


def _exponentials(part: Tensor) -> Tensor:
    return torch.exp(part * 2).contiguous()


def _weighted_sums(src_exps: Tensor, tgt_exps: Tensor, weight: Tensor) -> Tensor:
    """The layer without its bias, from the exponentials of both sides."""
    from ssnt._numba_emission import weighted_sums

    (batch, src_size, width), tgt_size = src_exps.shape, tgt_exps.shape[1]
    sums = src_exps.new_empty(batch, tgt_size, src_size)
    arrays = [one.detach().numpy() for one in (src_exps, tgt_exps, weight.contiguous())]
    work = np.full(batch, tgt_size * src_size * width)
    in_threads(lambda first, stop: weighted_sums(*arrays, first, stop, sums.numpy()), work, _UNITS_WORTH_A_THREAD)
    return sums


def _fits_the_kernel(*parts: Tensor) -> bool:
    if any(part.device.type != "cpu" for part in parts) or not has_numba():
        return False
    if any(part.numel() == 0 for part in parts):
        return False
    largest = _LARGEST[parts[0].dtype]
    # NaN is not below anything
    return all(bool((torch.stack(torch.aminmax(part)).abs() <= largest).all()) for part in parts)


class _TanhLayer(torch.autograd.Function):
    """The layer without its bias."""

    @staticmethod
    def forward(ctx: Any, src_part: Tensor, tgt_part: Tensor, weight: Tensor) -> Tensor:
        exps = _exponentials(src_part), _exponentials(tgt_part)
        ctx.save_for_backward(*exps, weight)
        return _weighted_sums(*exps, weight)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        from ssnt._numba_emission import gradients

        refuse_second_order("the emission grid")
        src_exps, tgt_exps, weight = ctx.saved_tensors
        (batch, src_size, width), tgt_size = src_exps.shape, tgt_exps.shape[1]
        grad_src, grad_tgt = torch.zeros_like(src_exps), torch.zeros_like(tgt_exps)
        grad_weight = weight.new_zeros(batch, width)
        arrays = [one.numpy() for one in (src_exps, tgt_exps, upstream.contiguous())]
        results = [one.numpy() for one in (grad_src, grad_tgt, grad_weight)]
        work = np.full(batch, tgt_size * src_size * width)
        in_threads(lambda first, stop: gradients(*arrays, first, stop, *results), work, _UNITS_WORTH_A_THREAD)
        return grad_src.mul_(weight), grad_tgt.mul_(weight), grad_weight.sum(dim=0)
