"""The training loss: the exact negative log-likelihood, summed over all alignments."""

from __future__ import annotations

import math
from typing import Any, Literal, get_args

from torch import Tensor, nn

from ssnt.dp.autograd import negative_log_likelihood
from ssnt.dp.checks import checked_grid, require_end
from ssnt.errors import ConfigError
from ssnt.types import End

Reduction = Literal["none", "sum", "mean", "token"]


def _check_options(end: str, reduction: str, fastemit: float) -> None:
    require_end(end)
    if reduction not in get_args(Reduction):
        expected = ", ".join(map(repr, get_args(Reduction)))
        raise ConfigError(f"reduction must be one of {expected}, got {reduction!r}")
    if not (0.0 <= fastemit < math.inf):
        raise ConfigError(f"fastemit must be a finite number of at least 0, got {fastemit!r}")


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
) -> Tensor:
    """Negative log-likelihood ``-log p(y|x)``, with the alignment summed out exactly.

    The recursion runs in float64 whatever autocast does. A pair that no path can explain has an infinite loss and a
    zero gradient. On the CPU a NaN in a valid cell raises; on other devices, where looking would make the device wait,
    it makes the loss NaN. The loss can be differentiated once; a second time raises.

    Args:
        log_word: ``log p(y_j | h_i, s_j)``, ``(B, J, I)``, float32 or float64.
        log_emit: Log probability of emitting at the cell, same shape.
        log_shift: Log probability of shifting at the cell, same shape.
        src_lens: Source lengths, ``(B,)``.
        tgt_lens: Target lengths, ``(B,)``.
        end: ``"any"``: a path may end at any source position (the paper); ``"last"``: it must consume the input.
        reduction: ``"none"`` gives ``(B,)``; ``"sum"``; ``"mean"`` over pairs; ``"token"`` divides the sum by the
            number of target symbols.
        backend: ``"auto"``, ``"reference"``, ``"scan"``, ``"numba"`` or ``"triton"``.
        fastemit: Extra weight of emissions in the gradient, as in FastEmit: the gradients of ``log_word`` and
            ``log_emit`` are multiplied by ``1 + fastemit``, those of ``log_shift`` and the loss itself are not.

    Returns:
        The loss, a scalar or ``(B,)``, in the dtype of the grids (float32 for half precision).

    Raises:
        ShapeError: A tensor has the wrong rank, size, dtype or device, or a length is out of range.
        DataError: A valid cell holds NaN or plus infinity (CPU only).
        ConfigError: An option is unknown or out of range.
        BackendError: The backend cannot run on this device.
    """
    _check_options(end, reduction, fastemit)
    grid = checked_grid(log_word, log_emit, log_shift, src_lens, tgt_lens)
    nll = negative_log_likelihood(grid, end, backend, emission_scale=1.0 + fastemit)
    if reduction == "none":
        return nll
    if reduction == "sum":
        return nll.sum()
    if reduction == "mean":
        return nll.mean()
    return nll.sum() / grid.tgt_lens.sum()


class SSNTLoss(nn.Module):
    """:func:`ssnt_loss` as a module that holds the options and nothing else."""

    def __init__(
        self,
        *,
        end: End = "any",
        reduction: Reduction = "mean",
        backend: str = "auto",
        fastemit: float = 0.0,
    ) -> None:
        """Keeps the options of :func:`ssnt_loss`, having checked them."""
        super().__init__()
        _check_options(end, reduction, fastemit)
        self.options: dict[str, Any] = {
            "end": end,
            "reduction": reduction,
            "backend": backend,
            "fastemit": fastemit,
        }

    def forward(
        self, log_word: Tensor, log_emit: Tensor, log_shift: Tensor, src_lens: Tensor, tgt_lens: Tensor
    ) -> Tensor:
        """Returns the loss of the grids."""
        return ssnt_loss(log_word, log_emit, log_shift, src_lens, tgt_lens, **self.options)

    def extra_repr(self) -> str:
        """The options, for ``print(module)``."""
        return ", ".join(f"{name}={value!r}" for name, value in self.options.items())
