"""The alignment lattice: exact sums over all monotone alignments (see the README beside this file).

Names are imported when they are first asked for: the distribution of NumPy arrays needs no torch, all else does.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ssnt.dp.contract import Backend, Solution
    from ssnt.dp.dispatch import available_backends, resolve_backend, solve
    from ssnt.dp.distribution import AlignmentDistribution

_HOMES = {
    "contract": ("Backend", "Solution"),
    "dispatch": ("available_backends", "resolve_backend", "solve"),
    "distribution": ("AlignmentDistribution",),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'ssnt.dp' has no attribute {name!r}")
    value = getattr(import_module(f"ssnt.dp.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


__all__ = [
    "AlignmentDistribution",
    "Backend",
    "Solution",
    "available_backends",
    "resolve_backend",
    "solve",
]
