"""The alignment lattice: exact sums over all monotone alignments (see the README beside this file)."""

from ssnt.dp.contract import Backend, Solution
from ssnt.dp.dispatch import available_backends, resolve_backend, solve
from ssnt.dp.distribution import AlignmentDistribution

__all__ = [
    "AlignmentDistribution",
    "Backend",
    "Solution",
    "available_backends",
    "resolve_backend",
    "solve",
]
