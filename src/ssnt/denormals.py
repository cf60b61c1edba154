"""Numbers below the normal range, which some CPUs are slower with, are taken for zero in training.

The surer a model is, the more of its probabilities and gradients come there. What is lost is at most 1e-38 (1e-308 in
float64) of each. Searches keep them, as what they find is to be the same in any thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

_DENORMAL = 2.0**-140  # in float32


def denormals_are_zero() -> bool:
    """Whether this thread takes such numbers for zero."""
    # of as many numbers as vector instructions take at once
    return not bool((torch.full((16,), _DENORMAL, dtype=torch.float32, device="cpu") * 1.0).any())


@contextmanager
def without_denormals() -> Iterator[None]:
    """Takes such numbers for zero, in this thread and in those that it starts, where the CPU can.

    Afterwards this thread keeps them again if it did before; a pool of threads that was started meanwhile stays as it
    is, and one that was there before is not asked.
    """
    before = denormals_are_zero()
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)
