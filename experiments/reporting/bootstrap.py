"""Resamples of lemmas: how a value would vary over other sets of as many lemmas.

The cells of one lemma fail together, so a resample draws lemmas with all their cells. All systems on a data set are
scored on the same resamples, which pairs their comparisons; different data sets are resampled independently.
"""

from __future__ import annotations

import zlib
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ssnt.metrics.bootstrap import interval
from ssnt.metrics.metric import Floats

RESAMPLES = 2000
CONFIDENCE = 0.95
SEED = 2016

_CHUNK = 1 << 21
"""How many counts are held as numbers of full width at once."""

_PLACES = 10_000
"""Items are rounded to so many parts: whole numbers have the same sum in any order, and so on any machine."""


@lru_cache(maxsize=8)
def draws(name: str, size: int) -> NDArray[np.uint16]:
    """How often each of a data set's lemmas comes up in each resample, ``(R, size)``.

    Args:
        name: Of the data set: with it the random numbers begin.
        size: How many lemmas it has.
    """
    rng = np.random.default_rng([SEED, zlib.crc32(name.encode()), size])
    found = np.empty((RESAMPLES, size), dtype=np.uint16)
    step = max(1, _CHUNK // size)
    for start in range(0, RESAMPLES, step):
        many = min(step, RESAMPLES - start)
        drawn = rng.integers(size, size=(many, size)) + size * np.arange(many)[:, None]
        found[start : start + many] = np.bincount(drawn.reshape(-1), minlength=many * size).reshape(many, size)
    found.setflags(write=False)
    return found


def mean_of_cells(right: Floats, present: Floats) -> Floats:
    """The mean over cells of the share that is right, from sums ``(R, C)``; cells without any lemma are left out."""
    has_any = present > 0
    shares = np.divide(right, present, out=np.zeros_like(right), where=has_any)
    with np.errstate(invalid="ignore"):  # a resample without any cell has no value
        return np.asarray(shares.sum(axis=1) / has_any.sum(axis=1))


def resampled_accuracy(right: Floats, present: Floats, name: str) -> Floats:
    """The accuracy over each resample of lemmas, ``(R,)``.

    Args:
        right: How many answers for a lemma are right in a cell, ``(C, L)``.
        present: How often a lemma is asked for in a cell, ``(C, L)``.
        name: Of the data set.
    """
    counts = draws(name, right.shape[1])
    values = np.empty(RESAMPLES)
    step = max(1, _CHUNK // right.shape[1])
    # Sums of small whole numbers are exact even in single precision.
    columns = np.concatenate([right, present]).T.astype(np.float32)
    for start in range(0, RESAMPLES, step):
        sums = (counts[start : start + step].astype(np.float32) @ columns).astype(np.float64)
        values[start : start + step] = mean_of_cells(*np.split(sums, 2, axis=1))
    return values


def resampled_mean(values: Floats, name: str) -> Floats:
    """The mean over each resample of items, ``(R,)``; the values are taken to four places."""
    counts = draws(name, len(values))
    whole = np.round(values * _PLACES)
    means = np.empty(RESAMPLES)
    step = max(1, _CHUNK // len(values))
    for start in range(0, RESAMPLES, step):
        means[start : start + step] = counts[start : start + step].astype(np.float64) @ whole
    return means / (_PLACES * len(values))


def p_value(difference: float, differences: Floats) -> float:
    """How likely a difference at least as large is, in either direction, if two systems were equally good.

    As in :func:`ssnt.metrics.compare`: the differences over resamples are moved to have their centre at 0.
    """
    extreme = np.abs(differences - difference) >= abs(difference) * (1 - 1e-9)
    return (1 + int(extreme.sum())) / (1 + len(differences))


def ends(values: Floats) -> tuple[float, float]:
    """The ends of the 95 % percentile interval."""
    return interval(values, CONFIDENCE)
