"""NumPy arrays with the methods of torch tensors that the searches use, and torch's meaning of them.

Only what is used is here, and it is checked against torch by a test for each method. NumPy's own functions see an
:class:`Array` as a plain array, and give plain arrays back.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ssnt.arrays.device import NUMPY, NumpyDevice

_view = np.ndarray.view
_largest: Any = np.maximum.reduce  # NumPy's own annotations of these do not know of an axis that may be several
_smallest: Any = np.minimum.reduce
_any_of: Any = np.logical_or.reduce
_all_of: Any = np.logical_and.reduce


class Ranked(NamedTuple):
    """Values in some order, and where they came from."""

    values: Array
    indices: Array


def wrapped(values: Any) -> Array:
    """A NumPy array as an :class:`Array`, which shares its memory."""
    return _view(values, Array) if isinstance(values, np.ndarray) else _view(np.asarray(values), Array)


def plain(values: Any) -> Any:
    """An :class:`Array` as a plain NumPy array, which shares its memory; anything else as it is."""
    return _view(values, np.ndarray) if isinstance(values, Array) else values


def ranked_down(values: np.ndarray[Any, Any], axis: int) -> np.ndarray[Any, Any]:
    """The order from the largest to the smallest; equals in their order, NaN before everything as in torch."""
    # Backwards and backwards again: to sort the negative numbers would not do for truths, nor for NaN.
    backwards = (*(slice(None),) * (axis % values.ndim), slice(None, None, -1))
    order = values[backwards].argsort(axis=axis, kind="stable")[backwards]
    return values.shape[axis] - 1 - order  # type: ignore[no-any-return]


@lru_cache(maxsize=512)
def _places(shape: tuple[int, ...], dim: int) -> tuple[Any, ...]:
    """For each axis but ``dim`` its own places, laid out so that they broadcast together."""
    return tuple(
        np.arange(size).reshape([-1 if other == axis else 1 for other in range(len(shape))])
        for axis, size in enumerate(shape)
        if axis != dim
    )


def _at(index: np.ndarray[Any, Any], dim: int) -> tuple[Any, ...]:
    """What to index with to find the element that ``index`` names along ``dim``."""
    dim = dim % index.ndim
    others = _places(index.shape, dim)
    return (*others[:dim], _view(index, np.ndarray), *others[dim:])


class Array(np.ndarray[Any, Any]):
    """A NumPy array that the searches take for a tensor; made by :func:`ssnt.arrays.wrapped`."""

    __slots__ = ()
    __hash__ = None

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """Lets NumPy's functions see plain arrays: they rely on methods whose meaning is another here."""
        return func(*(_stripped(arg) for arg in args), **{name: _stripped(value) for name, value in kwargs.items()})

    # What a tensor is made of.

    @property
    def device(self) -> NumpyDevice:  # type: ignore[override]
        """Where it is: in NumPy."""
        return NUMPY

    def dim(self) -> int:
        """How many axes there are."""
        return self.ndim

    def numel(self) -> int:
        """How many elements there are."""
        return self.size

    def element_size(self) -> int:
        """Bytes of an element."""
        return self.itemsize

    def numpy(self) -> np.ndarray[Any, Any]:
        """The same as a plain array."""
        return _view(self, np.ndarray)

    def to(self, target: Any = None, *, dtype: Any = None, device: Any = None, copy: bool = False) -> Array:
        """The same in another dtype, which may be that of another array; there is nowhere else to move it."""
        if isinstance(target, np.ndarray):
            dtype = target.dtype
        elif target is not None and not isinstance(target, NumpyDevice | str):
            dtype = target
        if dtype is None or dtype == self.dtype:
            return self.copy() if copy else self
        return self.astype(dtype)  # type: ignore[return-value]

    def double(self) -> Array:
        """In float64."""
        return self if self.dtype == np.float64 else self.astype(np.float64)  # type: ignore[return-value]

    def float(self) -> Array:
        """In float32."""
        return self if self.dtype == np.float32 else self.astype(np.float32)  # type: ignore[return-value]

    def long(self) -> Array:
        """In int64."""
        return self if self.dtype == np.int64 else self.astype(np.int64)  # type: ignore[return-value]

    def cpu(self) -> Array:
        """Itself."""
        return self

    def detach(self) -> Array:
        """Itself; there are no gradients."""
        return self

    def clone(self) -> Array:
        """A copy."""
        return self.copy()

    def contiguous(self) -> Array:
        """The same in C order."""
        return self if self.flags.c_contiguous else self.copy()

    # Shapes.

    def view(self, *shape: Any) -> Any:  # type: ignore[override]
        """The same elements in another shape; with a dtype or a type NumPy's own ``view``.

        Raises:
            ValueError: They would have to be copied: what is written to a copy would be lost.
        """
        first = shape[0] if shape else None
        if not isinstance(first, int | np.integer | tuple | list):
            return _view(self, *shape)
        viewed = self.reshape(first if isinstance(first, tuple | list) else shape)
        if not self.flags.c_contiguous and self.size and not np.may_share_memory(viewed, self):
            raise ValueError(f"view: strides {self.strides} of {self.shape} do not fit {shape}; use reshape()")
        return viewed

    def view_as(self, other: Array) -> Array:
        """In the shape of another; as :meth:`view` never a copy."""
        return self.view(other.shape)  # type: ignore[no-any-return]

    def flatten(self, start_dim: int = 0, end_dim: int = -1) -> Array:  # type: ignore[override]
        """Axes joined into one; as in torch no copy is made if none is needed."""
        if start_dim == 0 and end_dim == -1:
            return self.reshape(-1)  # type: ignore[return-value]
        first, last = start_dim % self.ndim, end_dim % self.ndim
        joined = math.prod(self.shape[first : last + 1])  # not -1, which is unknowable if another axis is empty
        return self.reshape(*self.shape[:first], joined, *self.shape[last + 1 :])  # type: ignore[return-value]

    def expand(self, *sizes: Any) -> Array:
        """Repeated along axes of size one, without a copy; -1 leaves an axis as it is."""
        wanted = sizes[0] if isinstance(sizes[0], tuple | list) else sizes
        new = len(wanted) - self.ndim
        shape = [self.shape[axis - new] if size == -1 else size for axis, size in enumerate(wanted)]
        return _view(np.broadcast_to(_view(self, np.ndarray), shape), Array)

    def expand_as(self, other: Array) -> Array:
        """Repeated to the shape of another."""
        return _view(np.broadcast_to(_view(self, np.ndarray), other.shape), Array)

    def repeat(self, *counts: int) -> Array:  # type: ignore[override]
        """Laid side by side so often along each axis."""
        return _view(np.tile(_view(self, np.ndarray), counts), Array)

    def repeat_interleave(self, count: int, dim: int | None = None) -> Array:
        """Each element, or each slice along an axis, several times in a row."""
        return _view(np.repeat(_view(self, np.ndarray), count, axis=dim), Array)

    def transpose(self, *axes: Any) -> Array:
        """Two axes exchanged."""
        return self.swapaxes(*axes) if len(axes) == 2 else np.ndarray.transpose(self, *axes)

    def permute(self, *axes: int) -> Array:
        """All axes in another order."""
        return np.ndarray.transpose(self, axes)

    def unsqueeze(self, dim: int) -> Array:
        """One more axis."""
        return _view(np.expand_dims(_view(self, np.ndarray), dim), Array)

    def unbind(self, dim: int = 0) -> tuple[Array, ...]:
        """The slices along an axis."""
        return tuple(np.moveaxis(self.numpy(), dim, 0).view(Array))

    def split(self, size: int, dim: int = 0) -> tuple[Array, ...]:
        """Parts of ``size`` along an axis, the last of which may be smaller; an empty axis is one part."""
        whole = self.swapaxes(0, dim)
        return tuple(whole[first : first + size].swapaxes(0, dim) for first in range(0, max(1, len(whole)), size))  # type: ignore[misc]

    # Taking and putting.

    def gather(self, dim: int, index: Array) -> Array:
        """The elements that ``index`` names along ``dim``."""
        return self[_at(index, dim)]  # type: ignore[no-any-return]

    def index_select(self, dim: int, index: Array) -> Array:
        """The slices that ``index`` names."""
        return self.take(index, axis=dim)  # type: ignore[return-value]

    def scatter(self, dim: int, index: Array, values: Any) -> Array:
        """A copy with ``values`` at the places that ``index`` names along ``dim``."""
        return self.copy().scatter_(dim, index, values)

    def scatter_(self, dim: int, index: Array, values: Any) -> Array:
        """Puts ``values`` at the places that ``index`` names along ``dim``."""
        self[_at(index, dim)] = values
        return self

    def scatter_reduce_(self, dim: int, index: Array, values: Array, reduce: str) -> Array:
        """Puts the smaller (``amin``) or larger (``amax``) of what is there and what comes."""
        {"amin": np.minimum, "amax": np.maximum}[reduce].at(_view(self, np.ndarray), _at(index, dim), plain(values))
        return self

    def index_add(self, dim: int, index: Array, values: Array) -> Array:
        """A copy to whose slices ``index`` those of ``values`` are added."""
        return self.copy().index_add_(dim, index, values)

    def index_add_(self, dim: int, index: Array, values: Array) -> Array:
        """Adds to the slices ``index`` those of ``values``."""
        np.add.at(self.numpy().swapaxes(0, dim), plain(index), plain(values).swapaxes(0, dim))
        return self

    def index_put(self, indices: tuple[Array, ...], values: Any) -> Array:
        """A copy with ``values`` at ``indices``."""
        copy = self.copy()
        copy[tuple(plain(index) for index in indices)] = values
        return copy

    def index_fill_(self, dim: int, index: Array, value: Any) -> Array:
        """Fills the slices ``index``."""
        self.swapaxes(0, dim)[plain(index)] = value
        return self

    def masked_fill(self, mask: Array, value: Any) -> Array:
        """A copy with ``value`` where ``mask`` is true."""
        kept = self.dtype.type(value)  # so that a number does not change the dtype
        return _view(np.where(_view(mask, np.ndarray), kept, _view(self, np.ndarray)), Array)

    def masked_fill_(self, mask: Array, value: Any) -> Array:
        """Puts ``value`` where ``mask``, which may have to be repeated, is true."""
        np.copyto(_view(self, np.ndarray), value, where=_view(mask, np.ndarray))
        return self

    def fill_(self, value: Any) -> Array:
        """Puts ``value`` everywhere."""
        self.fill(value)
        return self

    def nonzero(self, *, as_tuple: bool = False) -> Any:
        """Where it is not zero: ``(N, axes)``, or one array for each axis."""
        found = np.ndarray.nonzero(self)
        if as_tuple:
            return tuple(_view(one, Array) for one in found)
        return _view(found[0][:, None] if len(found) == 1 else np.stack(found, axis=1), Array)

    # New arrays of the same dtype.

    def new_full(self, size: Sequence[int], value: Any) -> Array:
        """Filled with ``value``."""
        return _view(np.full(size, value, dtype=self.dtype), Array)

    def new_zeros(self, *size: Any) -> Array:
        """Filled with zeros."""
        return _view(np.zeros(sizes_of(size), dtype=self.dtype), Array)

    def new_empty(self, *size: Any) -> Array:
        """Filled with anything."""
        return _view(np.empty(sizes_of(size), dtype=self.dtype), Array)

    # Numbers.

    def exp(self) -> Array:
        """The exponential of every element."""
        return _view(np.exp(_view(self, np.ndarray)), Array)

    def log(self) -> Array:
        """The logarithm of every element."""
        return _view(np.log(_view(self, np.ndarray)), Array)

    def isnan(self) -> Array:
        """Which elements are NaN."""
        return _view(np.isnan(_view(self, np.ndarray)), Array)

    def clamp(self, min: Any = None, max: Any = None) -> Array:
        """No smaller than ``min`` and no larger than ``max``."""
        bounded = self if min is None else np.maximum(self, min)
        return bounded if max is None else np.minimum(bounded, max)

    def amax(self, dim: Any = None, keepdim: bool = False) -> Any:
        """The largest elements."""
        return _reduced(_largest(_view(self, np.ndarray), axis=dim, keepdims=keepdim))

    def amin(self, dim: Any = None, keepdim: bool = False) -> Any:
        """The smallest elements."""
        return _reduced(_smallest(_view(self, np.ndarray), axis=dim, keepdims=keepdim))

    def max(self, dim: int | None = None, keepdim: bool = False) -> Any:  # type: ignore[override]
        """The largest element, or those along an axis with their places, the first of equals."""
        if dim is None:
            return _largest(_view(self, np.ndarray), axis=None)
        indices = _view(self, np.ndarray).argmax(axis=dim, keepdims=True)
        values = _view(self, np.ndarray)[_at(indices, dim)]
        if not keepdim:
            values, indices = values.squeeze(dim), indices.squeeze(dim)
        return Ranked(_view(values, Array), _view(indices, Array))

    def argmax(self, dim: int | None = None, keepdim: bool = False) -> Any:  # type: ignore[override]
        """Where the largest element is, the first of equals."""
        return _reduced(np.ndarray.argmax(self, axis=dim, keepdims=keepdim))  # type: ignore[arg-type]

    def topk(self, k: int, dim: int = -1) -> Ranked:
        """The ``k`` largest along an axis, largest first; which of several equals is left to chance, as in torch."""
        values = _view(self, np.ndarray)
        size = values.shape[dim]
        if size <= 4 * k or size < 32:  # as good as all of them
            indices = ranked_down(values, dim)
        else:
            indices = np.argpartition(values, size - k, axis=dim)
            indices = indices.swapaxes(0, dim)[size - k :].swapaxes(0, dim)
            indices = indices[_at(ranked_down(values[_at(indices, dim)], dim), dim)]
        indices = indices.swapaxes(0, dim)[:k].swapaxes(0, dim)
        return Ranked(_view(values[_at(indices, dim)], Array), _view(indices, Array))

    def any(self, dim: Any = None, keepdim: bool = False) -> Any:  # type: ignore[override]
        """Whether any element is true."""
        return _reduced(_any_of(_view(self, np.ndarray), axis=dim, keepdims=keepdim))

    def all(self, dim: Any = None, keepdim: bool = False) -> Any:  # type: ignore[override]
        """Whether all elements are true."""
        return _reduced(_all_of(_view(self, np.ndarray), axis=dim, keepdims=keepdim))

    def sum(self, dim: Any = None, keepdim: bool = False) -> Any:  # type: ignore[override]
        """The sum; that of truths counts them."""
        return _reduced(_view(self, np.ndarray).sum(axis=dim, keepdims=keepdim))

    def logsumexp(self, dim: Any, keepdim: bool = False) -> Any:
        """``log sum exp``, minus infinity for nothing but minus infinities."""
        values = _view(self, np.ndarray)
        peak = _largest(values, axis=dim, keepdims=True, initial=None if values.size else -np.inf)
        peak[np.isinf(peak)] = 0.0
        total = np.log(np.exp(values - peak).sum(axis=dim, keepdims=True)) + peak
        return _reduced(total if keepdim else total.squeeze(dim))


def sizes_of(size: tuple[Any, ...]) -> Any:
    """A shape that is given as several numbers or as one tuple."""
    return size[0] if len(size) == 1 and isinstance(size[0], tuple | list) else size


def _reduced(values: Any) -> Any:
    """What a reduction gives: an array, or a number if it was over everything."""
    return _view(values, Array) if isinstance(values, np.ndarray) else values


def _stripped(value: Any) -> Any:
    if isinstance(value, Array):
        return _view(value, np.ndarray)
    return type(value)(map(_stripped, value)) if type(value) in (tuple, list) else value
