"""One number of threads for everything that computes.

The lattice kernels, which Numba compiles, run in as many threads as torch has, so that torch's number is the one
setting. Numba's own pool is left alone, as no kernel uses it: to ask for its size is enough to start it, and to set its
size changes torch's too where both use OpenMP.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ssnt.config import Config
from ssnt.engines.local import cores

LARGE = 256
"""Up to this hidden size matrices are so small that they only lose by being shared among threads."""


def thread_count(config: Config) -> int:
    """How many threads a process of this run gets: what the settings say, or what is likely to be fastest."""
    if config.hardware.threads is not None:
        return config.hardware.threads
    if config.model.hidden_size <= LARGE:
        return 1
    return max(1, cores() // config.hardware.devices)  # the processes of a machine share its cores


@contextmanager
def limited_threads(count: int) -> Iterator[None]:
    """Gives torch, and with it the lattice kernels, ``count`` threads, and afterwards what there were before."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
