"""The training loss: the exact negative log-likelihood, summed over all alignments, and the delay beside it."""

from __future__ import annotations

import math
from typing import Any, Literal, get_args

from torch import Tensor, nn

from ssnt.dp.autograd import LikelihoodAndDelay, likelihood_and_delay, negative_log_likelihood
from ssnt.dp.checks import checked_grid, require_end
from ssnt.dp.dispatch import require_backend_name
from ssnt.errors import ConfigError, DataError
from ssnt.types import End, Grid

_ROUNDING = 1e-2  # nats: what sums of float32 log probabilities may exceed zero by

Reduction = Literal["none", "sum", "mean", "token"]


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float))


def _check_options(end: str, backend: str, fastemit: float, reduction: str = "none", delay_weight: float = 0.0) -> None:
    require_end(end)
    require_backend_name(backend)
    if reduction not in get_args(Reduction):
        expected = ", ".join(map(repr, get_args(Reduction)))
        raise ConfigError(f"reduction must be one of {expected}, got {reduction!r}")
    for name, value in (("fastemit", fastemit), ("delay_weight", delay_weight)):
        if not _is_number(value) or not (0.0 <= value < math.inf):
            raise ConfigError(f"{name} must be a finite number of at least 0, got {value!r}")


def _raise_if_more_than_certain(nll: Tensor) -> None:
    """On the host, raises if a probability exceeds one by more than rounding explains."""
    if nll.device.type != "cpu" or not bool((nll < -_ROUNDING).any()):
        return
    b = int((nll < -_ROUNDING).nonzero()[0])
    raise DataError(
        f"pair {b} has log p(y|x) = {-nll[b].item():.4g}, which is above 0: log_word, log_emit and log_shift must be "
        "log probabilities; apply log_softmax to word logits, logsigmoid(z) and logsigmoid(-z) to an emission logit z "
        "(for weights that need not be normalised there is AlignmentDistribution.log_partition)"
    )


def ssnt_loss(
    log_word: Tensor,
    log_emit: Tensor,
    log_shift: Tensor,
    src_lens: Tensor,
    tgt_lens: Tensor,
    *,
    end: End = "any",
    reduction: Reduction = "mean",
    backend: str = "auto",
    fastemit: float = 0.0,
    delay_weight: float = 0.0,
) -> Tensor:
    """Negative log-likelihood ``-log p(y|x)``, with the alignment summed out exactly.

    The recursion runs in float64 whatever autocast does (make log probabilities from ``logits.float()`` under autocast:
    what was rounded before cannot be mended here). A pair that no path can explain has an infinite loss and a zero
    gradient; ``reduction="none"`` shows which. On the CPU a NaN in a valid cell raises; on other devices, where looking
    would make the device wait, it makes the loss NaN. The loss can be differentiated once; a second time raises.

    Args:
        log_word: ``log p(y_j | h_i, s_j)``, ``(B, J, I)``, float32 or float64 (half precision is widened). ``s_j`` may
            depend on the target symbols before ``y_j`` only, and not on the alignment.
        log_emit: Log probability of emitting at the cell, same shape.
        log_shift: Log probability of shifting at the cell, same shape; emitting and shifting sum to one.
        src_lens: Source lengths, ``(B,)``.
        tgt_lens: Target lengths, ``(B,)``.
        end: ``"any"``: a path may end at any source position (the paper); ``"last"``: it must consume the input.
        reduction: ``"none"`` gives ``(B,)``; ``"sum"``; ``"mean"`` over pairs; ``"token"`` divides the sum by the
            number of target symbols.
        backend: ``"auto"``, ``"reference"``, ``"scan"``, ``"numba"`` or ``"triton"``.
        fastemit: Extra weight of emissions in the gradient, as in FastEmit: the gradients of ``log_word`` and
            ``log_emit`` are multiplied by ``1 + fastemit``, those of ``log_shift`` and the loss itself are not.
        delay_weight: Weight of the expected delay, which is added to the loss of a pair and differentiated exactly: the
            sum over its target symbols of the posterior mean of the source position (counted from 1, divided by the
            source length) where the symbol is written. So it is the price in nats, for each target symbol, of
            writing at the end of the source rather than at its start. ``fastemit`` does not scale its gradient.

    Returns:
        The loss, a scalar or ``(B,)``, in the dtype of the grids (float32 for half precision).

    Raises:
        ShapeError: A tensor has the wrong rank, size, dtype or device, or a length is out of range.
        DataError: A valid cell holds NaN or plus infinity, or a pair has a probability above one (CPU only).
        ConfigError: An option is unknown or out of range.
        BackendError: The backend cannot run on this device.
    """
    _check_options(end, backend, fastemit, reduction, delay_weight)
    grid = checked_grid(log_word, log_emit, log_shift, src_lens, tgt_lens)
    if delay_weight:
        terms = loss_terms(grid, end=end, backend=backend, fastemit=fastemit)
        losses = terms.nll + delay_weight * terms.delay
    else:
        losses = negative_log_likelihood(grid, end, backend, emission_scale=1.0 + fastemit)
        _raise_if_more_than_certain(losses)
    if reduction == "none":
        return losses
    if reduction == "sum":
        return losses.sum()
    if reduction == "mean":
        return losses.mean()
    return losses.sum() / grid.tgt_lens.sum()


def loss_terms(grid: Grid, *, end: End = "any", backend: str = "auto", fastemit: float = 0.0) -> LikelihoodAndDelay:
    """The two terms of :func:`ssnt_loss` with a ``delay_weight``, apart and for each pair; both differentiable once.

    Args:
        grid: The lattices.
        end: As of :func:`ssnt_loss`.
        backend: As of :func:`ssnt_loss`.
        fastemit: As of :func:`ssnt_loss`; for the likelihood alone.
    """
    _check_options(end, backend, fastemit)
    grid = checked_grid(grid.log_word, grid.log_emit, grid.log_shift, grid.src_lens, grid.tgt_lens)
    terms = likelihood_and_delay(grid, end, backend, emission_scale=1.0 + fastemit)
    _raise_if_more_than_certain(terms.nll)
    return terms


class SSNTLoss(nn.Module):
    """:func:`ssnt_loss` as a module that holds the options and nothing else."""

    def __init__(
        self,
        *,
        end: End = "any",
        reduction: Reduction = "mean",
        backend: str = "auto",
        fastemit: float = 0.0,
        delay_weight: float = 0.0,
    ) -> None:
        """Keeps the options of :func:`ssnt_loss`, having checked them."""
        super().__init__()
        _check_options(end, backend, fastemit, reduction, delay_weight)
        self.options: dict[str, Any] = {
            "end": end,
            "reduction": reduction,
            "backend": backend,
            "fastemit": fastemit,
            "delay_weight": delay_weight,
        }

    def forward(
        self, log_word: Tensor, log_emit: Tensor, log_shift: Tensor, src_lens: Tensor, tgt_lens: Tensor
    ) -> Tensor:
        """Returns the loss of the grids."""
        return ssnt_loss(log_word, log_emit, log_shift, src_lens, tgt_lens, **self.options)

    def extra_repr(self) -> str:
        """The options, for ``print(module)``."""
        return ", ".join(f"{name}={value!r}" for name, value in self.options.items())
