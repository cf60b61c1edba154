"""States as rows: dataclasses and tuples, nested, of tensors that all have the same first axis.

A search reorders states that it does not look into, those of decoders, of encoders, and its own. Whatever they are made
of, a row of each of their tensors belongs to one prefix or to one stream.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor

T = TypeVar("T")


def select(value: T, rows: Tensor) -> T:
    """The rows ``rows`` (N,), in that order; one may be taken several times or not at all."""
    return _mapped(lambda tensor: tensor.index_select(0, rows), value)


def join(values: Sequence[T], rows: Tensor) -> T:
    """The rows ``rows`` (N,) of several states laid end to end: those of the second count on from the first's."""
    return _mapped(lambda *tensors: torch.cat(tensors).index_select(0, rows), *values)


def leaves(value: object) -> list[Tensor]:
    """All tensors of a state, in a fixed order."""
    found: list[Tensor] = []
    _mapped(found.append, value)
    return found


def rebuilt(value: T, tensors: Iterator[Tensor]) -> T:
    """The same state with its tensors replaced by others, in the order of :func:`leaves`."""
    return _mapped(lambda _: next(tensors), value)


def _mapped(function: Callable[..., Any], first: T, *others: T) -> T:
    """Applies a function to the tensors that stand at the same place in all values."""
    kind: Any = type(first)
    if isinstance(first, Tensor):
        result: Any = function(first, *others)
    elif is_dataclass(first):
        names = [field.name for field in fields(first)]
        result = kind(*(_mapped(function, *(getattr(value, name) for value in (first, *others))) for name in names))
    elif isinstance(first, tuple):
        parts = [_mapped(function, *items) for items in zip(first, *others, strict=True)]
        result = kind(*parts) if hasattr(first, "_fields") else tuple(parts)
    else:
        result = first  # a setting, the same in all rows
    return result  # type: ignore[no-any-return]
