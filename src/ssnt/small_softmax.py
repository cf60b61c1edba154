"""The log-softmax over sums of a source and a target part, at every cell of a grid, for small vocabularies on a CPU.

The arithmetic is that of :mod:`ssnt.factored_softmax` with the whole vocabulary as one chunk; here compiled loops go
over the cells, where tensor operations over the grid would cost more to call than to do. A batch with a cell that has
to be computed again, one by one, is left to that module.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ssnt.dp.autograd import refuse_second_order
from ssnt.dp.compiled import has_numba, in_threads
from ssnt.factored_softmax import ROUNDING, Exponentials

SMALL = 256
"""The largest vocabulary that counts as small: beyond it matrix products over the grid are worth their overhead."""

_PRODUCTS_WORTH_A_THREAD = 500_000  # about 0.1 ms of work


def small_log_softmax(inputs: list[Tensor], targets: Tensor, src_lens: Tensor, tgt_lens: Tensor) -> Tensor | None:
    """Returns the word grid ``(B, J, I)``, zero in padding; None if it is not for this module.

    Args:
        inputs: ``src_states, tgt_states, src_weight, tgt_weight, bias``, of one dtype, finite in padding.
        targets: ``(B, J)``, int64.
        src_lens: ``(B,)``, int64.
        tgt_lens: ``(B,)``, int64.
    """
    src_states, tgt_states, src_weight, tgt_weight, bias = inputs
    if bias.device.type != "cpu" or len(bias) > SMALL or not has_numba():
        return None
    from ssnt._numba_words import log_words

    with torch.no_grad(), torch.autocast("cpu", enabled=False):
        sides = [_Side(src_states @ src_weight.T), _Side(tgt_states @ tgt_weight.T + bias)]
    log_word = src_states.new_zeros(*targets.shape, src_states.shape[1])
    scale = torch.zeros_like(log_word)
    is_precise = np.zeros(len(targets), dtype=np.bool_)
    places = [one.numpy() for one in (targets, src_lens, tgt_lens)]
    info = torch.finfo(bias.dtype)
    limits = len(bias) * info.tiny / info.eps, ROUNDING / info.eps

    def run(first: int, stop: int) -> None:
        results = log_word.numpy(), scale.numpy(), is_precise
        log_words(sides[0].arrays(), sides[1].arrays(), *places, limits, first, stop, *results)

    in_threads(run, _work(src_lens, tgt_lens, len(bias)), _PRODUCTS_WORTH_A_THREAD)
    if not is_precise.all():
        return None
    made = _Made(log_word, scale, sides[0].parts.exps, sides[1].parts.exps)
    grid: Tensor = _Differentiable.apply(*inputs, targets, src_lens, tgt_lens, made)  # type: ignore[no-untyped-call]
    return grid


class _Side:
    """One side of the logits.

    Attributes:
        logits: ``(B, N, V)``.
        parts: Their row maxima, and the exponentials of what they are below these.
    """

    def __init__(self, logits: Tensor) -> None:
        self.logits = logits
        self.parts = Exponentials.of(logits.clone())

    def arrays(self) -> tuple[NDArray[np.floating], ...]:
        return self.logits.numpy(), self.parts.peaks.numpy(), self.parts.exps.numpy()


@dataclass(frozen=True)
class _Made:
    """What the forward pass has made: the grid and the scale of its cells, and the exponentials of both sides."""

    log_word: Tensor
    scale: Tensor
    src_exps: Tensor
    tgt_exps: Tensor


class _Differentiable(torch.autograd.Function):
    """Gives a grid that is made already its place in the graph."""

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> Tensor:
        made: _Made
        *inputs, made = arguments
        ctx.save_for_backward(*inputs, made.scale, made.src_exps, made.tgt_exps)
        return made.log_word

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        from ssnt._numba_words import gradients

        refuse_second_order("the word grid")
        src_states, tgt_states, src_weight, tgt_weight, _, targets, src_lens, tgt_lens, *made = ctx.saved_tensors
        scale, src_exps, tgt_exps = made
        grad_src, grad_tgt = torch.zeros_like(src_exps), torch.zeros_like(tgt_exps)
        values = (src_exps, tgt_exps, targets, src_lens, tgt_lens, upstream.contiguous(), scale)
        arrays, results = [one.numpy() for one in values], (grad_src.numpy(), grad_tgt.numpy())
        in_threads(
            lambda first, stop: gradients(*arrays, first, stop, *results),
            _work(src_lens, tgt_lens, src_exps.shape[2]),
            _PRODUCTS_WORTH_A_THREAD,
        )
        needs = ctx.needs_input_grad
        flat_src, flat_tgt = grad_src.flatten(0, 1), grad_tgt.flatten(0, 1)
        with torch.autocast("cpu", enabled=False):
            return (
                grad_src @ src_weight if needs[0] else None,
                grad_tgt @ tgt_weight if needs[1] else None,
                flat_src.T @ src_states.flatten(0, 1) if needs[2] else None,
                flat_tgt.T @ tgt_states.flatten(0, 1) if needs[3] else None,
                flat_tgt.sum(dim=0) if needs[4] else None,
                *[None] * 4,
            )


def _work(src_lens: Tensor, tgt_lens: Tensor, vocab_size: int) -> NDArray[np.int64]:
    """How many products each pair's cells need."""
    work: NDArray[np.int64] = (src_lens * tgt_lens * vocab_size).numpy()
    return work
