"""What a group's outcomes say: a value in percent, and the same over resamples of lemmas or sentences."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from experiments.outcomes import ABSENT, RIGHT
from experiments.plan import known_types
from experiments.reporting.bootstrap import mean_of_cells, resampled_accuracy, resampled_mean
from experiments.reporting.gathered import Group
from ssnt.errors import DataError
from ssnt.metrics.metric import Floats

TEST, DEV = "test", "dev"


@dataclass(frozen=True, eq=False)
class Measured:
    """A figure of one system on one data set with one seed.

    Attributes:
        value: In percent.
        draws: The same over resamples, ``(R,)``.
        basis: What was resampled; two figures with the same one can be compared pair by pair.
        done: How many types, or trials, it covers.
        wanted: How many there are.
    """

    value: float
    draws: Floats
    basis: tuple[object, ...]
    done: int
    wanted: int

    @property
    def is_complete(self) -> bool:
        """Whether it covers all that it should."""
        return self.done == self.wanted


@dataclass(frozen=True, eq=False)
class Cells:
    """Which lemma is right in which cell.

    Attributes:
        tags: The names of the cells, sorted.
        right: ``(C, L)``.
        present: ``(C, L)``.
    """

    tags: tuple[str, ...]
    right: NDArray[np.bool_]
    present: NDArray[np.bool_]


def cells_of(group: Group, part: str) -> Cells | None:
    """The cells of all finished trials of a group, joined; None if nothing was kept.

    Raises:
        DataError: Two trials count different lemmas, or have the same cell.
    """
    signs: dict[str, str] = {}
    for row, record in zip(group.rows, group.records, strict=True):
        for tags, text in record["outcomes"].get(part, {}).get("cells", {}).items():
            name = row.tags or tags  # a model of one type is asked without tags
            if name in signs:
                raise DataError(
                    f"{row.key}: expected a cell {name!r} once for a system, a data set and a seed, got two"
                )
            signs[name] = text
    if not signs:
        return None
    if len({len(text) for text in signs.values()}) > 1:
        raise DataError(f"{group.rows[0].key}: expected as many lemmas in every cell of {group.dataset}, got several")
    names = tuple(sorted(signs))
    table = np.array([np.frombuffer(signs[name].encode("ascii"), dtype=np.uint8) for name in names])
    return Cells(names, table == ord(RIGHT), table != ord(ABSENT))


def accuracy(group: Group, part: str = TEST, *, whole: bool = True) -> Measured | None:
    """The accuracy, with lemmas resampled.

    On a data set whose inflection types are known it is the mean over its cells, as in the paper. Elsewhere all
    questions count the same, as in the shared task: many a tag set there has a single question.

    Args:
        group: The trials.
        part: ``test`` or ``dev``.
        whole: Whether it should cover all types of the data set; else only those of the plan.
    """
    cells = cells_of(group, part)
    if cells is None:
        return None
    right, present = cells.right.astype(np.float64), cells.present.astype(np.float64)
    types = known_types().get(group.dataset)
    if types is None:  # then all cells are one
        right, present = right.sum(axis=0, keepdims=True), present.sum(axis=0, keepdims=True)
    value = float(mean_of_cells(right.sum(axis=1)[None], present.sum(axis=1)[None])[0])
    values = resampled_accuracy(right, present, group.dataset)
    if whole and types:
        done, wanted = len(set(types).intersection(cells.tags)), len(types)
    else:
        done, wanted = len(group.rows), len(group.trials)
    basis = (group.dataset, part, cells.right.shape[1], cells.tags)
    return Measured(100 * value, 100 * values, basis, done, wanted)


def items(group: Group, name: str, part: str = TEST) -> Measured | None:
    """The mean of what a metric says of each sentence, with sentences resampled."""
    found = [record["outcomes"].get(part, {}).get("items", {}).get(name) for record in group.records]
    if not found or any(one is None for one in found):
        return None
    values = np.concatenate([np.asarray(one, dtype=np.float64) for one in found])
    basis = (group.dataset, part, "items", len(values))
    draws = resampled_mean(values, group.dataset)
    return Measured(100 * float(values.mean()), 100 * draws, basis, len(group.rows), len(group.trials))
