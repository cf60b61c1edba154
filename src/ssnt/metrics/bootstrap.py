"""The bootstrap: how a value would vary over other sets of as many items.

A resample draws as many items as there are, with replacement. The percentile interval with confidence ``c`` over ``R``
resamples leaves out the ``k = floor((R - 1) (1 - c) / 2)`` lowest and the ``k`` highest values: its ends are values
that came up, so that infinite ones do no harm.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from numbers import Integral, Real

import numpy as np

from ssnt.errors import ConfigError
from ssnt.metrics.metric import Floats, Indices, Statistics

CHUNK = 1 << 20
"""How many drawn items are held at once: some 32 MB."""

FEW = 8
"""Drawing the count of one kind of row takes about as long as drawing this many items."""


@dataclass(frozen=True, slots=True)
class Bootstrap:
    """Settings of the bootstrap.

    Attributes:
        confidence: The share of resamples that an interval holds.
        resamples: How many are drawn; 0 for no intervals.
        seed: Of the random numbers. Each value is computed from this seed afresh, whatever is computed beside it.

    Raises:
        ConfigError: A setting is out of range.
    """

    confidence: float = 0.95
    resamples: int = 1000
    seed: int = 1

    def __post_init__(self) -> None:
        if not isinstance(self.confidence, Real) or not 0 < self.confidence < 1:
            raise ConfigError(f"confidence must be between 0 and 1, got {self.confidence!r}; 0.95 stands for 95 %")
        for name in ("resamples", "seed"):
            value = getattr(self, name)
            if not isinstance(value, Integral) or value < 0:
                raise ConfigError(f"{name} must be a whole number of at least 0, got {value!r}")

    def fields(self) -> tuple[str, ...]:
        """The fields of a signature."""
        if not self.resamples:
            return ("bootstrap:none",)
        return (f"bootstrap:{self.resamples}", f"seed:{self.seed}", f"conf:{self.confidence:g}")


def resampled_values(parts: Sequence[Statistics], settings: Bootstrap) -> Floats:
    """The values of each part over the same resamples, ``(len(parts), R)``.

    Args:
        parts: Different statistics of the same items.
        settings: How many resamples, and the seed.
    """
    joint = _Joint.of(parts)
    values = np.empty((len(parts), settings.resamples))
    done = 0
    for counts in _draw(joint.kind_of, joint.size, settings):
        for row, part, member in zip(values, parts, joint.members, strict=True):
            row[done : done + len(counts)] = part.values(_collect(counts, member, part.size))
        done += len(counts)
    return values


def interval(values: Floats, confidence: float) -> tuple[float, float]:
    """Ends of the percentile interval of at least one value."""
    ordered = np.sort(values)
    cut = math.floor((len(ordered) - 1) * (1 - confidence) / 2 + 1e-9)  # 1 - 0.8 is a little less than 0.2
    return float(ordered[cut]), float(ordered[-1 - cut])


@dataclass(frozen=True, eq=False)
class _Joint:
    """The kinds that items fall into when they are told apart by all of several statistics.

    Attributes:
        kind_of: For each item the number of its joint kind.
        size: The number of joint kinds.
        members: For each statistics the kind that each joint kind belongs to.
    """

    kind_of: Indices
    size: int
    members: tuple[Indices, ...]

    @classmethod
    def of(cls, parts: Sequence[Statistics]) -> _Joint:
        columns = np.stack([part.kind_of for part in parts], axis=1)
        kinds, kind_of = np.unique(columns, axis=0, return_inverse=True)
        return cls(kind_of.reshape(-1), len(kinds), tuple(kinds.T))


def _draw(kind_of: Indices, size: int, settings: Bootstrap) -> Iterator[Floats]:
    """How often each kind comes up in each resample, some resamples at a time: ``(R', size)``.

    The counts of kinds are multinomial. They are drawn as such if there are few kinds, and else by drawing items and
    counting, which is quicker then and comes to the same.
    """
    rng = np.random.default_rng(settings.seed)
    n = len(kind_of)
    shares = np.bincount(kind_of, minlength=size) / n
    has_few = size * FEW <= n
    step = max(1, CHUNK // (size if has_few else n))
    for start in range(0, settings.resamples, step):
        many = min(step, settings.resamples - start)
        if has_few:
            yield rng.multinomial(n, shares, size=many).astype(np.float64)
            continue
        drawn = kind_of[rng.integers(n, size=(many, n))]
        drawn += size * np.arange(many)[:, None]  # so that one count serves all resamples
        yield np.bincount(drawn.reshape(-1), minlength=many * size).reshape(many, size).astype(np.float64)


def _collect(counts: Floats, member: Indices, size: int) -> Floats:
    """Sums counts of joint kinds into those of the kinds that they belong to: ``(R', joint)`` -> ``(R', size)``."""
    order = np.argsort(member, kind="stable")
    kinds, starts = np.unique(member[order], return_index=True)
    collected = np.zeros((len(counts), size))
    collected[:, kinds] = np.add.reduceat(counts[:, order], starts, axis=1)
    return collected
