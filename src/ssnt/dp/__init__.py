"""The alignment lattice: exact sums over all monotone alignments (see the README beside this file).

Names are imported when they are first asked for: the distribution of NumPy arrays needs no torch, all else does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ssnt.lazy import lazy_names

if TYPE_CHECKING:
    from ssnt.dp.contract import Backend, Solution
    from ssnt.dp.dispatch import available_backends, resolve_backend, solve
    from ssnt.dp.distribution import AlignmentDistribution

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        ".contract": ("Backend", "Solution"),
        ".dispatch": ("available_backends", "resolve_backend", "solve"),
        ".distribution": ("AlignmentDistribution",),
    },
)

__all__ = [
    "AlignmentDistribution",
    "Backend",
    "Solution",
    "available_backends",
    "resolve_backend",
    "solve",
]
