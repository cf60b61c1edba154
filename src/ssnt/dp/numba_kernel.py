"""The CPU backend: Numba kernels over torch's memory, the batch shared out among threads."""

from __future__ import annotations

import importlib.util
import os
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ssnt.dp.contract import Solution
from ssnt.types import End, Grid

_CELLS_WORTH_A_THREAD = 20_000  # about 0.15 ms of work; handing it to another thread costs about 0.05 ms


@lru_cache(maxsize=1)
def _pool(workers: int) -> ThreadPoolExecutor:
    """Threads for the kernel, which releases the GIL."""
    return ThreadPoolExecutor(workers, thread_name_prefix="ssnt-lattice")


if hasattr(os, "register_at_fork"):  # a forked child has the pool's object, but not its threads
    os.register_at_fork(after_in_child=_pool.cache_clear)


def shares(cells: NDArray[np.int64], workers: int) -> list[tuple[int, int]]:
    """Splits a batch into runs of pairs with about equal numbers of cells."""
    before = np.concatenate([[0], np.cumsum(np.maximum(cells, 1))])
    cuts = np.searchsorted(before, before[-1] * np.arange(1, workers) / workers)
    edges = sorted({0, *cuts.tolist(), len(cells)})
    return list(pairwise(edges))


def _workers(cells: int) -> int:
    """As many threads as torch may use (the one setting for both), and no more than the work is worth."""
    return max(1, min(torch.get_num_threads(), cells // _CELLS_WORTH_A_THREAD))


def _plane(values: Tensor) -> NDArray[np.floating]:
    return values.detach().contiguous().numpy()


class NumbaBackend:
    """Numba on the CPU."""

    name = "numba"

    def unavailable(self, device: torch.device) -> str | None:
        """Needs host memory and Numba."""
        if device.type != "cpu":
            return f"it runs on the CPU only, and the grid is on {device}; use backend='scan' or 'triton' there"
        if importlib.util.find_spec("numba") is None:
            return "Numba is not installed; run `pip install numba`, or use backend='scan'"
        return None

    def solve(self, grid: Grid, end: End, want_posteriors: bool) -> Solution:
        """Runs the kernel on runs of pairs, in as many threads as torch has."""
        return self.solve_and_tell(grid, end, want_posteriors)[0]

    def solve_and_tell(self, grid: Grid, end: End, want_posteriors: bool) -> tuple[Solution, NDArray[np.bool_]]:
        """Solves, and tells which pairs had to be redone in log space."""
        from ssnt.dp._numba_lattice import solve_pairs

        batch, tgt_size, src_size = grid.log_word.shape
        nll = torch.full((batch,), torch.nan, dtype=torch.float64)
        emit = grid.log_word.new_empty((batch, tgt_size, src_size) if want_posteriors else (1, 1, 1))
        shift = torch.empty_like(emit)
        in_log = np.zeros(batch, dtype=np.bool_)
        src_lens, tgt_lens = grid.src_lens.contiguous().numpy(), grid.tgt_lens.contiguous().numpy()
        inputs = [_plane(values) for values in (grid.log_word, grid.log_emit, grid.log_shift)]
        outputs = (nll.numpy(), emit.numpy(), shift.numpy(), in_log)

        def run(first: int, stop: int) -> None:
            solve_pairs(*inputs, src_lens, tgt_lens, end == "last", want_posteriors, first, stop, *outputs)

        cells = src_lens * tgt_lens
        runs = shares(cells, _workers(int(cells.sum())))
        if len(runs) > 1:
            others = [_pool(torch.get_num_threads()).submit(run, *part) for part in runs[1:]]
            run(*runs[0])
            for other in others:
                other.result()
        else:
            run(*runs[0])
        solution = Solution(nll.to(grid.log_word.dtype))
        if want_posteriors:
            solution = Solution(solution.nll, emit, shift)
        return solution, in_log
