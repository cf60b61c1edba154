"""What torch and :mod:`ssnt.arrays.numpy_ops` have in common, for annotations: tensors stand for either kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    import torch
    from torch import Tensor


class FloatLimits(Protocol):
    """The limits of a dtype."""

    eps: float
    tiny: float


class Sorted(NamedTuple):
    """Values in some order, and where they came from."""

    values: Tensor
    indices: Tensor


class Namespace(Protocol):
    """Functions of arrays; torch's documentation says what they do."""

    float32: torch.dtype
    float64: torch.dtype
    int64: torch.dtype
    bool: torch.dtype

    def finfo(self, dtype: torch.dtype) -> FloatLimits: ...  # noqa: D102
    def promote_types(self, first: torch.dtype, second: torch.dtype) -> torch.dtype: ...  # noqa: D102
    def tensor(self, values: Any, *, dtype: torch.dtype | None = None, device: Any = None) -> Tensor: ...  # noqa: D102
    def arange(  # noqa: D102
        self, start: int, end: int | None = None, *, dtype: torch.dtype | None = None, device: Any = None
    ) -> Tensor: ...
    def full(  # noqa: D102
        self, size: Sequence[int], fill_value: float, *, dtype: torch.dtype | None = None, device: Any = None
    ) -> Tensor: ...
    def zeros(self, *size: int, dtype: torch.dtype | None = None, device: Any = None) -> Tensor: ...  # noqa: D102
    def ones(self, *size: int, dtype: torch.dtype | None = None, device: Any = None) -> Tensor: ...  # noqa: D102
    def empty(self, *size: int, dtype: torch.dtype | None = None, device: Any = None) -> Tensor: ...  # noqa: D102
    def full_like(self, like: Tensor, fill_value: float, *, dtype: torch.dtype | None = None) -> Tensor: ...  # noqa: D102
    def zeros_like(self, like: Tensor, *, dtype: torch.dtype | None = None) -> Tensor: ...  # noqa: D102
    def ones_like(self, like: Tensor, *, dtype: torch.dtype | None = None) -> Tensor: ...  # noqa: D102
    def empty_like(self, like: Tensor, *, dtype: torch.dtype | None = None) -> Tensor: ...  # noqa: D102
    def rand(  # noqa: D102
        self, *size: int, dtype: torch.dtype | None = None, device: Any = None, generator: Any = None
    ) -> Tensor: ...
    def cat(self, arrays: Sequence[Tensor], dim: int = 0) -> Tensor: ...  # noqa: D102
    def stack(self, arrays: Sequence[Tensor], dim: int = 0) -> Tensor: ...  # noqa: D102
    def where(self, condition: Tensor, first: Tensor | float, second: Tensor | float) -> Tensor: ...  # noqa: D102
    def maximum(self, first: Tensor, second: Tensor) -> Tensor: ...  # noqa: D102
    def minimum(self, first: Tensor, second: Tensor) -> Tensor: ...  # noqa: D102
    def logaddexp(self, first: Tensor, second: Tensor) -> Tensor: ...  # noqa: D102
    def bmm(self, first: Tensor, second: Tensor) -> Tensor: ...  # noqa: D102
    def equal(self, first: Tensor, second: Tensor) -> bool: ...  # type: ignore[valid-type]  # noqa: D102
    def exp(self, array: Tensor) -> Tensor: ...  # noqa: D102
    def logsumexp(self, array: Tensor, dim: int | tuple[int, ...], keepdim: Any = False) -> Tensor: ...  # noqa: D102
    def constant_pad_nd(self, array: Tensor, pad: Sequence[int], value: float = 0) -> Tensor: ...  # noqa: D102
    def sort(self, array: Tensor, *, dim: int = -1, descending: Any = False, stable: Any = False) -> Sorted: ...  # noqa: D102
    def argsort(self, array: Tensor, *, dim: int = -1, stable: Any = False) -> Tensor: ...  # noqa: D102
    def unique(self, array: Tensor, *, return_inverse: Any = False) -> Any: ...  # noqa: D102
    def bincount(self, array: Tensor, *, minlength: int = 0) -> Tensor: ...  # noqa: D102
    def broadcast_shapes(self, *shapes: Sequence[int]) -> tuple[int, ...]: ...  # noqa: D102
