"""How kernels for a CPU are compiled, and how the pairs of a batch are shared out among threads."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

RELAXED = {"contract", "reassoc", "nsz"}
"""For kernels with sums in any order, which is what lets them be vectorised; NaN and infinity stay what they are."""


_HAS_NUMBA = importlib.util.find_spec("numba") is not None  # looking takes longer than a kernel for a small batch


def has_numba() -> bool:
    """Whether kernels can be compiled."""
    return _HAS_NUMBA


def kernel(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Compiles with Numba for one core, keeping the machine code on disk where there is a place to keep it."""
    from numba import njit

    # `contract` lets the compiler fuse multiply and add; nothing else about floating point is relaxed.
    options = {"nogil": True, "error_model": "numpy", "fastmath": {"contract"}, **options}

    def compile_lazily(function: Callable[..., Any]) -> Any:
        try:
            return njit(cache=True, **options)(function)
        except RuntimeError:  # no writable directory for the cache: compile anew in each process
            return njit(**options)(function)

    return compile_lazily


@lru_cache(maxsize=1)
def _pool(workers: int) -> ThreadPoolExecutor:
    """Threads for kernels, which release the GIL."""
    return ThreadPoolExecutor(workers, thread_name_prefix="ssnt-kernel")


if hasattr(os, "register_at_fork"):  # a forked child has the pool's object, but not its threads
    os.register_at_fork(after_in_child=_pool.cache_clear)


def shares(work: NDArray[np.int64], workers: int) -> list[tuple[int, int]]:
    """Splits a batch into runs of pairs with about equal amounts of work."""
    before = np.concatenate([[0], np.cumsum(np.maximum(work, 1))])
    cuts = np.searchsorted(before, before[-1] * np.arange(1, workers) / workers)
    edges = sorted({0, *cuts.tolist(), len(work)})
    return list(pairwise(edges))


def in_threads(run: Callable[[int, int], None], work: NDArray[np.int64], worth_a_thread: int) -> None:
    """Calls a kernel on runs of pairs, in as many threads as torch may use (the one setting for both).

    Args:
        run: Called with the first pair of a run, and the first after it.
        work: The amount of work of each pair, ``(B,)``.
        worth_a_thread: The amount below which handing it to another thread costs more than it brings.
    """
    if not len(work):
        return
    workers = max(1, min(torch.get_num_threads(), int(work.sum()) // worth_a_thread))
    first, *others = shares(work, workers)
    results = [_pool(torch.get_num_threads()).submit(run, *part) for part in others]
    run(*first)
    for result in results:
        result.result()
