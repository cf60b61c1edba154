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


def require_backend_name(name: str) -> None:
    """Raises unless ``name`` is a backend or ``auto``."""
    if name != "auto" and name not in _BACKENDS:
        raise BackendError(f"backend must be one of 'auto', {', '.join(map(repr, _BACKENDS))}, got {name!r}")


def _unavailable(name: str, device: torch.device) -> str | None:
    if device.type == "cuda" and not torch.cuda.is_available():
        return "torch sees no CUDA device here"
    return _BACKENDS[name].unavailable(device)


def available_backends(device: torch.device | str = "cpu") -> dict[str, str | None]:
    """Every backend's name with None if it can run on ``device``, else the reason why not."""
    return {name: _unavailable(name, torch.device(device)) for name in _BACKENDS}


def resolve_backend(name: str = "auto", device: torch.device | str = "cpu") -> str:
    """The backend that ``name`` stands for on ``device``: what ``auto`` picks, or ``name`` itself.

    Raises:
        BackendError: ``name`` is unknown, or was asked for and cannot run there.
    """
    device = torch.device(device)
    require_backend_name(name)
    if name == "auto":
        return "numba" if _unavailable("numba", device) is None else "scan"
    reason = _unavailable(name, device)
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
