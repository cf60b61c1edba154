"""States as rows: dataclasses and tuples, nested, of arrays that all have the same first axis.

A search reorders states that it does not look into, those of decoders, of encoders, and its own. Whatever they are made
of, a row of each of their arrays belongs to one prefix or to one stream.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from ssnt.arrays import is_array, namespace

if TYPE_CHECKING:
    from torch import Tensor

T = TypeVar("T")

Layout = list[tuple[tuple[int, ...], Any]]
"""The shapes and dtypes of the arrays of a state."""


@dataclass(frozen=True)
class Growing:
    """Rows that grow, each to its own length; what is beyond that is zero.

    Attributes:
        values: ``(N, T, ...)``.
        lens: ``(N,)``.
    """

    values: Tensor
    lens: Tensor

    def with_one_more(self, items: Tensor) -> Growing:
        """The same with one more item (N, ...) at the end of each row."""
        size = max(self.values.shape[1], int(self.lens.max()) + 1)
        values = _lengthened(self.values, size).clone()
        values[namespace(values).arange(len(values), device=values.device), self.lens] = items
        return Growing(values, self.lens + 1)


def _lengthened(values: Tensor, size: int) -> Tensor:
    """The same with zeros after the end of the second axis."""
    if values.shape[1] == size:
        return values
    longer = values.new_zeros(values.shape[0], size, *values.shape[2:])
    longer[:, : values.shape[1]] = values
    return longer


def select(value: T, rows: Tensor) -> T:
    """The rows ``rows`` (N,), in that order; one may be taken several times or not at all."""
    return _mapped(lambda array: array.index_select(0, rows), value)


def join(values: Sequence[T], rows: Tensor) -> T:
    """The rows ``rows`` (N,) of several states laid end to end: those of the second count on from the first's."""
    return _mapped(lambda *arrays: namespace(rows).cat(arrays).index_select(0, rows), *values)


def layout(value: object) -> Layout:
    """Shapes and dtypes of all arrays of a state, less the lengths to which rows have grown."""
    if isinstance(value, Growing):
        values = value.values
        return [((values.shape[0], *values.shape[2:]), values.dtype), (tuple(value.lens.shape), value.lens.dtype)]
    if is_array(value):
        return [(tuple(value.shape), value.dtype)]  # type: ignore[attr-defined]
    if is_dataclass(value):
        value = tuple(getattr(value, field.name) for field in fields(value))
    return [found for part in value for found in layout(part)] if isinstance(value, tuple) else []


def leaves(value: object) -> list[Tensor]:
    """All arrays of a state, in a fixed order."""
    found: list[Tensor] = []
    _mapped(found.append, value)
    return found


def rebuilt(value: T, arrays: Iterator[Tensor]) -> T:
    """The same state with its arrays replaced by others, in the order of :func:`leaves`."""
    return _mapped(lambda _: next(arrays), value)


def _of_one_length(rows: Sequence[Growing]) -> list[Growing]:
    size = max(one.values.shape[1] for one in rows)
    return [Growing(_lengthened(one.values, size), one.lens) for one in rows]


def _mapped(function: Callable[..., Any], first: T, *others: T) -> T:
    """Applies a function to the arrays that stand at the same place in all values."""
    kind: Any = type(first)
    if isinstance(first, Growing) and others:  # arrays that are laid end to end have to be equally long
        first, *others = _of_one_length((first, *others))  # type: ignore[arg-type, assignment]
    if is_array(first):
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
