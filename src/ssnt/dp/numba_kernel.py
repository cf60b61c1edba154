"""The CPU backend: Numba kernels over torch's memory, the batch shared out among threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ssnt.dp.compiled import has_numba, in_threads
from ssnt.dp.contract import Solution
from ssnt.types import End, Grid

CELLS_WORTH_A_THREAD = 20_000  # about 0.15 ms of work; handing it to another thread costs about 0.05 ms


def plane(values: Tensor) -> NDArray[Any]:
    """The numbers of a tensor on the host, out of autograd's sight, contiguous as the kernels want them."""
    return values.detach().contiguous().numpy()


class NumbaBackend:
    """Numba on the CPU."""

    name = "numba"

    def unavailable(self, device: torch.device) -> str | None:
        """Needs host memory and Numba."""
        if device.type != "cpu":
            return f"it runs on the CPU only, and the grid is on {device}; use backend='scan' or 'triton' there"
        if not has_numba():
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
        inputs = [plane(values) for values in (grid.log_word, grid.log_emit, grid.log_shift)]
        outputs = (nll.numpy(), emit.numpy(), shift.numpy(), in_log)

        def run(first: int, stop: int) -> None:
            solve_pairs(*inputs, src_lens, tgt_lens, end == "last", want_posteriors, first, stop, *outputs)

        in_threads(run, src_lens * tgt_lens, CELLS_WORTH_A_THREAD)
        solution = Solution(nll.to(grid.log_word.dtype))
        if want_posteriors:
            solution = Solution(solution.nll, emit, shift)
        return solution, in_log
