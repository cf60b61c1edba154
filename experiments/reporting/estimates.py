"""Means over seeds and over data sets, and differences of two systems."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from experiments.reporting.bootstrap import ends, p_value
from experiments.reporting.gathered import Group
from experiments.reporting.measured import Measured
from ssnt.metrics.metric import Floats

Measure = Callable[[Group], Measured | None]


@dataclass(frozen=True, eq=False)
class Estimate:
    """A figure of a system: the mean over its seeds.

    Attributes:
        value: The mean.
        draws: The mean over resamples, ``(R,)``.
        basis: What was resampled.
        seeds: The value of each seed.
        missing: What it lacks to be what was planned, such as ``3 of 8 types``; empty: nothing.
        is_partial: Whether it is not even one seed's whole figure, so that it must not be compared with others.
    """

    value: float
    draws: Floats
    basis: tuple[object, ...]
    seeds: Mapping[int, float]
    missing: str = ""
    is_partial: bool = False

    @property
    def ends(self) -> tuple[float, float]:
        """The ends of its 95 % interval."""
        return ends(self.draws)


@dataclass(frozen=True)
class Difference:
    """One system's figure minus another's.

    Attributes:
        value: The difference.
        low: Lower end of its 95 % interval.
        high: Upper end.
        p: Two-sided p-value.
    """

    value: float
    low: float
    high: float
    p: float


def over_seeds(groups: Sequence[Group], measure: Measure, unit: str = "types") -> Estimate | None:
    """The mean over the seeds that are complete; if none is, the one that is closest to it, marked as partial."""
    found = {group.seed: one for group in groups if (one := measure(group)) is not None}
    if not found:
        return None
    whole = {seed: one for seed, one in found.items() if one.is_complete}
    if not whole:
        seed, best = max(found.items(), key=lambda pair: pair[1].done)
        missing = f"{best.done} of {best.wanted} {unit}"
        return Estimate(best.value, best.draws, best.basis, {seed: best.value}, missing, is_partial=True)
    first = next(iter(whole.values()))
    same = {seed: one for seed, one in whole.items() if one.basis == first.basis}
    missing = "" if len(same) == len(groups) else f"{len(same)} of {len(groups)} seeds"
    return Estimate(
        float(np.mean([one.value for one in same.values()])),
        np.mean([one.draws for one in same.values()], axis=0),
        first.basis,
        {seed: one.value for seed, one in same.items()},
        missing,
    )


def over_sets(found: Mapping[str, Estimate | None], unit: str = "sets") -> Estimate | None:
    """The mean over the data sets that are complete, each resampled by itself; partial if some are not complete."""
    whole = {name: one for name, one in found.items() if one is not None and not one.is_partial}
    if not whole:
        return None
    is_partial = len(whole) < len(found)
    missing = f"{len(whole)} of {len(found)} {unit}" if is_partial else ""
    if not missing:
        missing = ", ".join(f"{name}: {one.missing}" for name, one in whole.items() if one.missing)
    shared = set.intersection(*(set(one.seeds) for one in whole.values()))
    return Estimate(
        float(np.mean([one.value for one in whole.values()])),
        np.mean([one.draws for one in whole.values()], axis=0),
        tuple(one.basis for one in whole.values()),
        {seed: float(np.mean([one.seeds[seed] for one in whole.values()])) for seed in sorted(shared)},
        missing,
        is_partial,
    )


def difference(a: Estimate | None, b: Estimate | None) -> Difference | None:
    """A minus B on the same resamples; None if one is missing or partial, or they are about different questions."""
    if a is None or b is None or a.is_partial or b.is_partial or a.basis != b.basis:
        return None
    value, draws = a.value - b.value, a.draws - b.draws
    low, high = ends(draws)
    return Difference(value, low, high, p_value(value, draws))
