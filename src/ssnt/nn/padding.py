"""What is padding in a batch."""

from __future__ import annotations

import torch
from torch import Tensor


def inside(values: Tensor, lens: Tensor) -> Tensor:
    """Where values ``(B, T, ...)`` are no padding, ``(B, T)``; ``lens`` ``(B,)`` may be on another device."""
    return torch.arange(values.shape[1], device=values.device) < lens.to(values.device)[:, None]
