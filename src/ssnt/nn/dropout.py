"""Dropout whose masks cost little to draw on a CPU."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ssnt.errors import ConfigError

_STEPS = 1 << 16
"""Masks come from 16 random bits a number, so that the chance of being kept is a multiple of ``1 / _STEPS``."""


class Dropout(nn.Module):
    """``nn.Dropout``, with masks that are drawn faster on a CPU.

    There torch draws one random number for each element. One of 64 bits is enough for four. What is kept is scaled by
    the chance that it really has, so that the mean is exact.

    Args:
        p: The chance that an element becomes zero, to a precision of 2^-17.

    Raises:
        ConfigError: ``p`` is no probability.
    """

    def __init__(self, p: float = 0.0) -> None:
        super().__init__()
        if not 0.0 <= p <= 1.0:
            raise ConfigError(f"dropout: expected a probability between 0 and 1, got {p}")
        self.p = p

    def forward(self, values: Tensor) -> Tensor:
        """Drops elements in training, and returns the values as they are otherwise."""
        if not self.training or self.p == 0.0:
            return values
        if values.device.type != "cpu":
            return nn.functional.dropout(values, self.p)
        kept = round((1.0 - self.p) * _STEPS)
        if kept == _STEPS:  # never, as far as this precision goes
            return values
        return values * _mask(values, kept)

    def extra_repr(self) -> str:
        """The chance, for ``print(module)``."""
        return f"p={self.p}"


def _mask(values: Tensor, kept: int) -> Tensor:
    """Ones where a draw is among ``kept`` of ``_STEPS``, scaled to keep the mean, and zeros elsewhere."""
    if kept == 0:
        return torch.zeros_like(values)
    lowest = torch.iinfo(torch.int64).min
    bits = torch.empty((values.numel() + 3) // 4, dtype=torch.int64).random_(lowest, None)
    draws = bits.view(torch.int16)[: values.numel()].view(values.shape)  # from -2^15 to 2^15 - 1
    mask = torch.empty(values.shape, dtype=values.dtype)
    torch.lt(draws, kept - _STEPS // 2, out=mask)
    return mask.mul_(_STEPS / kept)
