"""Rows that are in a file more than once, found by their hashes: sixteen bytes and a line number a row."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from functools import lru_cache

import numpy as np
import numpy.typing as npt


class Repeats:
    """Finds equal rows, and equal sources that have different targets.

    Rows are compared by 64-bit hashes: in a file of ten million rows the chance that any two are mistaken for one
    another is one in a few hundred thousand.
    """

    def __init__(self) -> None:
        self._rows, self._questions, self._lines = array("q"), array("q"), array("q")

    def add(self, source: str, target: str, tags: tuple[str, ...], line: int) -> None:
        """Adds a row; tags are a set."""
        question = hash((source, _as_set(tags)))
        self._questions.append(question)
        self._rows.append(hash((question, target)))
        self._lines.append(line)

    def duplicates(self) -> Iterator[tuple[int, int]]:
        """The line of each row that was there before, with the line where it was first."""
        first = self._first_places()
        lines = np.asarray(self._lines)
        for place in np.flatnonzero(first != np.arange(len(first))):
            yield int(lines[place]), int(lines[first[place]])

    def several_targets(self) -> tuple[int, int]:
        """How many sources have several targets, and the line of the first second target; 0 and 0 if none has."""
        first = self._first_places()
        different = np.flatnonzero(first == np.arange(len(first)))  # each row once
        questions = np.asarray(self._questions)[different]
        _, where, counts = np.unique(questions, return_inverse=True, return_counts=True)
        several = int((counts > 1).sum())
        if not several:
            return 0, 0
        seen: set[int] = set()
        for place in different[counts[where] > 1]:
            question = self._questions[place]
            if question in seen:
                return several, self._lines[place]
            seen.add(question)
        raise RuntimeError("a question was counted twice and found once")

    def _first_places(self) -> npt.NDArray[np.int64]:
        """For each row the place of the first row that equals it."""
        rows = np.asarray(self._rows)
        order = np.argsort(rows, kind="stable")  # stable: of equal rows the first comes first
        ordered = rows[order]
        begins = np.ones(len(rows), dtype=bool)
        begins[1:] = ordered[1:] != ordered[:-1]
        starts = np.flatnonzero(begins)
        first = np.empty(len(rows), dtype=np.int64)
        first[order] = order[starts[np.cumsum(begins) - 1]]
        return first


@lru_cache(maxsize=1 << 16)
def _as_set(tags: tuple[str, ...]) -> frozenset[str]:
    return frozenset(tags)
