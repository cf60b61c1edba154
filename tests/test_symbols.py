"""Symbols are checked alike, whichever kind of array they are in."""

from typing import Any

import numpy as np
import pytest
import torch

from ssnt.arrays import wrapped
from ssnt.errors import DataError, ShapeError
from ssnt.symbols import check_symbols

KINDS = {"torch": torch.from_numpy, "numpy": wrapped}


@pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("values", [[[0, 3], [1, 2]], np.zeros((2, 0), np.int64), np.zeros((0, 2), np.int64)])
def test_symbols_of_the_vocabulary_are_fine(make: Any, values: Any):
    check_symbols("src", make(np.array(values)), ("B", "I"), 4)


@pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize(
    ("name", "values", "kind", "message"),
    [
        ("src", [0, 3], ShapeError, r"src: expected shape \(B, I\), got \(2,\); the batch axis comes first"),
        ("src", [[0.0]], ShapeError, r"src: expected dtype (torch\.)?int64, got (torch\.)?float64; .*\.long\(\)"),
        ("src", [[0, 1], [2, 4]], DataError, r"src: expected symbols from 0 to 3 .*, got 4 at \[1, 1\]; map unknown"),
        ("tgt", [[-1, 1], [2, 4]], DataError, r"tgt: expected symbols from 0 to 3 .*, got -1 at \[0, 0\]; map unknown"),
        ("features", [[7]], DataError, r"features: .*, got 7 at \[0, 0\]; leave unknown tags out"),
    ],
)
def test_others_are_refused(make: Any, name: str, values: Any, kind: type[Exception], message: str):
    with pytest.raises(kind, match=message):
        check_symbols(name, make(np.array(values)), ("B", "I"), 4)


def test_one_axis_is_shown_as_one():
    with pytest.raises(ShapeError, match=r"expected shape \(S,\), got \(1, 1\)"):
        check_symbols("symbols", torch.zeros(1, 1, dtype=torch.int64), ("S",), 4)


def test_values_beyond_the_cpu_are_not_looked_at():
    # a meta tensor has no values: a check that asked for one, and so made a GPU wait, would raise
    check_symbols("src", torch.zeros(2, 3, dtype=torch.int64, device="meta"), ("B", "I"), 4)
