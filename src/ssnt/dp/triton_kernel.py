"""The lattice recursion on a GPU, through Triton."""

from __future__ import annotations

import importlib.util
import math
import os
from dataclasses import fields
from typing import Any

import torch
from torch import Tensor

from ssnt.dp.contract import Solution
from ssnt.errors import ConfigError
from ssnt.types import End, Grid

_WIDEST_WARP = 64


def _is_interpreted() -> bool:
    """Whether Triton runs kernels as Python on the CPU, for tests."""
    return os.environ.get("TRITON_INTERPRET") == "1"


def _contiguous(grid: Grid) -> Grid:
    """The same grid, as the kernels index it and out of autograd's sight."""
    return Grid(*(getattr(grid, field.name).detach().contiguous() for field in fields(grid)))


class TritonBackend:
    """Forward-backward in two kernel launches, with one program a pair and one scan a row.

    Nothing waits for the device. Beside the results it needs, if posteriors are wanted, a float64
    workspace of the grid's size.

    Args:
        block_limit: The most source positions that one launch solves, a power of two; longer rows
            take several launches. The default suits GPUs.

    Raises:
        ConfigError: ``block_limit`` is not a power of two.
    """

    name = "triton"

    def __init__(self, block_limit: int = 1024) -> None:
        if block_limit < 1 or block_limit & (block_limit - 1):
            raise ConfigError(f"block_limit must be a power of two such as 1024, got {block_limit}")
        self._block_limit = block_limit

    def unavailable(self, device: torch.device) -> str | None:
        """Says why the backend cannot run on ``device``, or None if it can."""
        if importlib.util.find_spec("triton") is None:
            return "triton is not installed: pip install 'ssnt[triton]'"
        if device.type == "cuda" or (device.type == "cpu" and _is_interpreted()):
            return None
        return (
            f"triton kernels run on CUDA and ROCm devices, not on {device.type!r} "
            "(to test them on a CPU, slowly, set TRITON_INTERPRET=1 before triton is imported)"
        )

    def solve(self, grid: Grid, end: End, want_posteriors: bool) -> Solution:
        """Runs the forward kernel and, if posteriors are wanted, the backward kernel."""
        shape, dtype, device = grid.log_word.shape, grid.log_word.dtype, grid.log_word.device
        log_total = torch.full(shape[:1], -math.inf, dtype=torch.float64, device=device)
        log_arrive = torch.empty(shape, dtype=torch.float64, device=device) if want_posteriors else None
        posteriors = [torch.zeros(shape, dtype=dtype, device=device) for _ in range(2 * want_posteriors)]
        if grid.log_word.numel() == 0:  # there is no launch of nothing, and no length fits an empty grid
            log_total.fill_(math.nan)
        else:
            from ssnt.dp import _triton_lattice as kernels  # needs triton, which is slow to import

            grid = _contiguous(grid)
            self._launch(kernels.forward_kernel, grid, end, log_total, log_arrive)
            if want_posteriors:
                self._launch(kernels.backward_kernel, grid, end, log_total, log_arrive, *posteriors)
        return Solution(log_total.neg().to(dtype), *posteriors)

    def _launch(self, kernel: Any, grid: Grid, end: End, *results: Tensor | None) -> None:
        """Launches a kernel for every pair, block by block; nearly always there is one block."""
        batch, tgt_size, src_size = grid.log_word.shape
        block_size = self._block_size(src_size)
        blocks = -(-src_size // block_size)
        # One more than there are blocks, since nothing comes into the first.
        edges = grid.log_word.new_full((blocks + 1, batch, tgt_size), -math.inf, dtype=torch.float64)
        inputs = (grid.log_word, grid.log_emit, grid.log_shift, grid.src_lens, grid.tgt_lens)
        options = {
            "END_ANYWHERE": end == "any",
            "BLOCK": block_size,
            "num_warps": max(1, min(8, block_size // 128)),
            "enable_fp_fusion": False,  # there is nothing to fuse, and Triton 3.9 warns unless told
        }
        # Triton launches on the current device, which need not be the grid's.
        with torch.cuda.device_of(grid.log_word):
            for block in range(blocks):
                edge = (edges[block], edges[block + 1])
                kernel[(batch,)](*inputs, *edge, *results, tgt_size, src_size, block, **options)

    def _block_size(self, src_size: int) -> int:
        """The columns that one scan solves: a power of two, and on a GPU at least one a thread."""
        least = 1 if _is_interpreted() else _WIDEST_WARP
        return min(self._block_limit, 1 << (max(src_size, least) - 1).bit_length())
