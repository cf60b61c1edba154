"""Numbers below the normal range, which a CPU is many times slower with, are taken for zero in training and searches.

The surer a model is, the more of its probabilities and gradients come there: without this, the last epochs of a
training take up to twice as long as the first ones, and searches of its model too. What is lost is below 1e-38
(1e-308 in float64), in sums of numbers that are not; log probabilities never come there.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

_DENORMAL = 2.0**-140  # in float32


def denormals_are_zero() -> bool:
    """Whether this thread takes such numbers for zero."""
    # of as many numbers as vector instructions take at once
    return not bool((torch.full((16,), _DENORMAL, dtype=torch.float32) * 1.0).any())


@contextmanager
def without_denormals() -> Iterator[None]:
    """Takes such numbers for zero, in this thread and in those that it starts, where the CPU can."""
    before = denormals_are_zero()
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)
