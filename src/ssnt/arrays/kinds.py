"""Which kind an array is, and what goes with it; torch is looked for only where somebody has imported it already."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

import numpy as np

from ssnt.arrays import numpy_ops
from ssnt.arrays.array import Array, plain, wrapped
from ssnt.arrays.device import NumpyDevice

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from ssnt.arrays.protocol import Namespace

P = ParamSpec("P")
T = TypeVar("T")

_NUMPY: Namespace = cast("Any", numpy_ops)
_modules: dict[str, Any] = sys.modules
_known_kinds: set[type] = {Array}


def namespace(array: Tensor | Array) -> Namespace:
    """The functions for arrays of this kind: torch, or :mod:`ssnt.arrays.numpy_ops`."""
    return _NUMPY if isinstance(array, Array) else _modules["torch"]


def namespace_on(device: torch.device | NumpyDevice | str) -> Namespace:
    """The functions for arrays on a device: :data:`ssnt.arrays.NUMPY`, or any of torch's."""
    if isinstance(device, NumpyDevice):
        return _NUMPY
    import torch

    return cast("Namespace", torch)


def is_numpy(array: object) -> bool:
    """Whether an array is NumPy's."""
    return isinstance(array, Array)


def is_array(value: object) -> bool:
    """Whether something is an array of either kind."""
    kind = type(value)
    if kind in _known_kinds:  # asked for every array of every state that is reordered
        return True
    tensor = getattr(_modules.get("torch"), "Tensor", None)
    if not isinstance(value, Array) and (tensor is None or not isinstance(value, tensor)):
        return False
    _known_kinds.add(kind)
    return True


def unrounded(array: Tensor | Array) -> AbstractContextManager[Any]:
    """A context in which matrix products of arrays of this kind are as precise as these, whatever autocast says."""
    if isinstance(array, Array):
        return nullcontext()
    torch, kind = _modules["torch"], array.device.type
    return torch.autocast(kind, enabled=False) if torch.is_autocast_enabled(kind) else nullcontext()


def placed(values: Any, device: torch.device | NumpyDevice | str) -> Tensor:
    """An array of either kind on a device; what is there already stays as it is."""
    if isinstance(device, NumpyDevice):
        return cast("Tensor", wrapped(values.detach().cpu().numpy() if hasattr(values, "detach") else values))
    import torch

    if isinstance(values, np.ndarray):
        values = torch.from_numpy(plain(values) if values.flags.writeable else np.array(values))
    return cast("Tensor", values.to(device))


def padded_rows(rows: Sequence[Sequence[int]], device: torch.device | NumpyDevice | str) -> Tensor:
    """Rows of whole numbers as one array, int64 ``(B, T)``, with zeros behind the shorter ones."""
    table = np.zeros((len(rows), max(map(len, rows), default=0)), dtype=np.int64)
    for place, row in enumerate(rows):
        table[place, : len(row)] = row
    return placed(table, device)


class no_grad:  # noqa: N801  # torch's name, and used as that is
    """Torch's ``no_grad``, if there is torch; NumPy's warnings of infinities are off. A context or a decorator."""

    __slots__ = ("_gradients", "_warnings")

    def __enter__(self) -> None:
        make = getattr(_modules.get("torch"), "no_grad", None)
        self._gradients = None if make is None else make()
        if self._gradients is not None:
            self._gradients.__enter__()
        # Infinite log probabilities are what impossible things have.
        self._warnings = np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore")
        self._warnings.__enter__()

    def __exit__(self, *error: Any) -> None:
        self._warnings.__exit__(*error)
        if self._gradients is not None:
            self._gradients.__exit__(*error)

    def __call__(self, function: Callable[P, T]) -> Callable[P, T]:
        """Decorates a function."""

        @wraps(function)
        def without(*args: P.args, **kwargs: P.kwargs) -> T:
            with no_grad():
                return function(*args, **kwargs)

        return without
