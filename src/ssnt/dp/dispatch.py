"""Chooses a backend and runs it."""

from __future__ import annotations

import torch

from ssnt.dp.checks import raise_if_improper
from ssnt.dp.contract import Backend, Solution
from ssnt.dp.numba_kernel import NumbaBackend
from ssnt.dp.reference import ReferenceBackend
from ssnt.dp.scan import ScanBackend
from ssnt.dp.triton_kernel import TritonBackend
from ssnt.errors import BackendError
from ssnt.types import End, Grid

_BACKENDS: dict[str, Backend] = {
    backend.name: backend for backend in (ReferenceBackend(), ScanBackend(), NumbaBackend(), TritonBackend())
}


def available_backends(device: torch.device | str = "cpu") -> dict[str, str | None]:
    """Every backend's name with None if it can run on ``device``, else the reason why not."""
    return {name: backend.unavailable(torch.device(device)) for name, backend in _BACKENDS.items()}


def resolve_backend(name: str = "auto", device: torch.device | str = "cpu") -> str:
    """The backend that ``name`` stands for on ``device``: what ``auto`` picks, or ``name`` itself.

    Raises:
        BackendError: ``name`` is unknown, or was asked for and cannot run there.
    """
    device = torch.device(device)
    if name == "auto":
        numba = _BACKENDS["numba"]
        return "numba" if numba.unavailable(device) is None else "scan"
    if name not in _BACKENDS:
        raise BackendError(f"backend must be one of 'auto', {', '.join(map(repr, _BACKENDS))}, got {name!r}")
    reason = _BACKENDS[name].unavailable(device)
    if reason is not None:
        raise BackendError(f"backend {name!r} cannot run here: {reason}")
    return name


def solve(grid: Grid, end: End, want_posteriors: bool, backend: str = "auto") -> Solution:
    """Runs forward, and backward if posteriors are wanted, on a checked grid.

    Raises:
        BackendError: The backend cannot run on the grid's device.
        DataError: On the CPU, a valid cell holds NaN or plus infinity.
    """
    chosen = _BACKENDS[resolve_backend(backend, grid.log_word.device)]
    solution = chosen.solve(grid, end, want_posteriors)
    raise_if_improper(grid, solution.nll)
    return solution
