"""Functions with torch's names and meanings, for NumPy arrays: what :func:`ssnt.arrays.namespace` gives for them.

``device`` is taken and ignored wherever torch takes it.
"""

# ruff: noqa: ARG001  # for that reason

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from ssnt.arrays.array import Array, Ranked, plain, ranked_down, sizes_of

float32, float64 = np.dtype(np.float32), np.dtype(np.float64)
int64, bool = np.dtype(np.int64), np.dtype(np.bool_)

_view = np.ndarray.view
_Dtype = Any
_DEFAULTS: dict[str, Any] = {
    "f": float32,
    "i": int64,
}  # what torch makes of Python's numbers; NumPy differs


@dataclass(frozen=True)
class FloatInfo:
    """The limits of a dtype, as Python's numbers.

    Attributes:
        eps: The distance from 1 to the next number.
        tiny: The smallest number in full precision.
    """

    eps: float
    tiny: float


@lru_cache(maxsize=8)
def finfo(dtype: _Dtype) -> FloatInfo:
    """The limits of a dtype."""
    info = np.finfo(dtype)
    return FloatInfo(float(info.eps), float(info.tiny))


def promote_types(first: _Dtype, second: _Dtype) -> _Dtype:
    """The dtype that can hold both."""
    return np.promote_types(first, second)


# New arrays.


def tensor(values: Any, *, dtype: _Dtype = None, device: Any = None) -> Array:
    """Numbers as an array: int64, or float32 as in torch, unless a dtype is given."""
    made = np.array(plain(values), dtype=dtype)
    if dtype is None and not isinstance(values, np.ndarray | np.generic):
        made = made.astype(_DEFAULTS.get(made.dtype.kind, made.dtype), copy=False)
    return _view(made, Array)


def arange(start: int, end: int | None = None, step: int = 1, *, dtype: _Dtype = None, device: Any = None) -> Array:
    """Whole numbers up to ``end`` (excluded)."""
    first, last = (0, start) if end is None else (start, end)
    return _view(np.arange(first, last, step, dtype=dtype or np.int64), Array)


def full(size: Sequence[int], fill_value: Any, *, dtype: _Dtype = None, device: Any = None) -> Array:
    """Filled with a value; a fraction is float32 unless a dtype is given."""
    if dtype is None:
        made = np.asarray(fill_value).dtype
        dtype = _DEFAULTS.get(made.kind, made)
    return _view(np.full(size, fill_value, dtype=dtype), Array)


def zeros(*size: Any, dtype: _Dtype = None, device: Any = None) -> Array:
    """Filled with zeros."""
    return _view(np.zeros(sizes_of(size), dtype=dtype or np.float32), Array)


def ones(*size: Any, dtype: _Dtype = None, device: Any = None) -> Array:
    """Filled with ones."""
    return _view(np.ones(sizes_of(size), dtype=dtype or np.float32), Array)


def empty(*size: Any, dtype: _Dtype = None, device: Any = None) -> Array:
    """Filled with anything."""
    return _view(np.empty(sizes_of(size), dtype=dtype or np.float32), Array)


def full_like(like: Array, fill_value: Any, *, dtype: _Dtype = None) -> Array:
    """Filled with a value, in another's shape and dtype."""
    return _view(np.full(like.shape, fill_value, dtype=dtype or like.dtype), Array)


def zeros_like(like: Array, *, dtype: _Dtype = None) -> Array:
    """Filled with zeros, in another's shape and dtype."""
    return _view(np.zeros(like.shape, dtype=dtype or like.dtype), Array)


def ones_like(like: Array, *, dtype: _Dtype = None) -> Array:
    """Filled with ones, in another's shape and dtype."""
    return _view(np.ones(like.shape, dtype=dtype or like.dtype), Array)


def empty_like(like: Array, *, dtype: _Dtype = None) -> Array:
    """Filled with anything, in another's shape and dtype."""
    return _view(np.empty(like.shape, dtype=dtype or like.dtype), Array)


def rand(*size: Any, dtype: _Dtype = None, device: Any = None, generator: np.random.Generator | None = None) -> Array:
    """Draws from 0 to 1 (excluded)."""
    generator = generator or np.random.default_rng()
    return _view(generator.random(sizes_of(size), dtype=dtype or np.float32), Array)


# Several arrays to one.


def cat(arrays: Sequence[Array], dim: int = 0) -> Array:
    """Laid end to end along an axis."""
    return _view(np.concatenate([_view(one, np.ndarray) for one in arrays], axis=dim), Array)


def stack(arrays: Sequence[Array], dim: int = 0) -> Array:
    """Laid on each other along a new axis."""
    return _view(np.stack([_view(one, np.ndarray) for one in arrays], axis=dim), Array)


def where(condition: Array, first: Any, second: Any) -> Array:
    """``first`` where the condition is true, ``second`` elsewhere; numbers take the dtype of the array beside them."""
    if isinstance(first, np.ndarray):
        first = _view(first, np.ndarray)
        second = _view(second, np.ndarray) if isinstance(second, np.ndarray) else first.dtype.type(second)
    elif isinstance(second, np.ndarray):
        second = _view(second, np.ndarray)
        first = second.dtype.type(first)
    elif isinstance(first, float) or isinstance(second, float):
        first, second = np.float32(first), np.float32(second)
    return _view(np.where(_view(condition, np.ndarray), first, second), Array)


def maximum(first: Array, second: Array) -> Array:
    """The larger of two, element by element; NaN if one is."""
    return _view(np.maximum(_view(first, np.ndarray), _view(second, np.ndarray)), Array)


def minimum(first: Array, second: Array) -> Array:
    """The smaller of two, element by element; NaN if one is."""
    return _view(np.minimum(_view(first, np.ndarray), _view(second, np.ndarray)), Array)


def logaddexp(first: Array, second: Array) -> Array:
    """``log(exp(first) + exp(second))``."""
    return _view(np.logaddexp(_view(first, np.ndarray), _view(second, np.ndarray)), Array)


def bmm(first: Array, second: Array) -> Array:
    """A product of matrices for each item of a batch."""
    return _view(np.matmul(_view(first, np.ndarray), _view(second, np.ndarray)), Array)


def equal(first: Array, second: Array) -> Any:
    """Whether shapes and all elements are equal."""
    return np.array_equal(_view(first, np.ndarray), _view(second, np.ndarray))


# One array.


def exp(array: Array) -> Array:
    """The exponential of every element."""
    return array.exp()


def logsumexp(array: Array, dim: Any, keepdim: Any = False) -> Array:
    """``log sum exp`` along axes."""
    return array.logsumexp(dim, keepdim)  # type: ignore[no-any-return]


def constant_pad_nd(array: Array, pad: Sequence[int], value: float = 0) -> Array:
    """More elements before and after those of the last axes: the last one's two numbers come first."""
    before = [0] * array.ndim
    shape = list(array.shape)
    for k in range(len(pad) // 2):
        axis = array.ndim - 1 - k
        before[axis] = pad[2 * k]
        shape[axis] += pad[2 * k] + pad[2 * k + 1]
    padded = np.full(shape, value, dtype=array.dtype)
    padded[tuple(slice(skip, skip + size) for skip, size in zip(before, array.shape, strict=True))] = array
    return _view(padded, Array)


def sort(array: Array, *, dim: int = -1, descending: Any = False, stable: Any = False) -> Ranked:
    """In order along an axis, with the places where they were; always stable."""
    values = _view(array, np.ndarray)
    order = ranked_down(values, dim) if descending else values.argsort(axis=dim, kind="stable")
    indices = _view(order, Array)
    return Ranked(array.gather(dim, indices), indices)


def argsort(array: Array, *, dim: int = -1, stable: Any = False) -> Array:
    """The order from small to large along an axis; always stable."""
    return _view(_view(array, np.ndarray).argsort(axis=dim, kind="stable"), Array)


def unique(array: Array, *, return_inverse: Any = False) -> Any:
    """All different elements in order and, if asked for, which of them each element is."""
    if not return_inverse:
        return _view(np.unique(_view(array, np.ndarray)), Array)
    values, inverse = np.unique(_view(array, np.ndarray), return_inverse=True)
    return _view(values, Array), _view(inverse.reshape(array.shape), Array)


def bincount(array: Array, *, minlength: int = 0) -> Array:
    """How often each whole number from 0 on comes."""
    return _view(np.bincount(_view(array, np.ndarray), minlength=minlength), Array)


def broadcast_shapes(*shapes: Sequence[int]) -> tuple[int, ...]:
    """The shape that arrays of these shapes have together."""
    return np.broadcast_shapes(*map(tuple, shapes))
