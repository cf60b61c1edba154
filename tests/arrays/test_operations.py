"""Every function and method that stands for torch's does what torch does: values, shapes and dtypes."""

# ruff: noqa: ARG005  # every case is given the functions and a way to make arrays

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from ssnt.arrays import (
    NUMPY,
    Array,
    Namespace,
    is_array,
    is_numpy,
    namespace,
    namespace_on,
    no_grad,
    numpy_ops,
    padded_rows,
    placed,
    plain,
    wrapped,
)

INF, NAN = math.inf, math.nan
FLOATS = [np.float32, np.float64]


def both(function: Callable[[Any, Callable[..., Any]], Any]) -> None:
    """Runs a function with torch and tensors, and with NumPy and arrays; the results must be the same."""
    expected = function(torch, lambda values: torch.from_numpy(np.array(values)))
    with no_grad():
        got = function(numpy_ops, lambda values: wrapped(np.array(values)))
    same(got, expected)


def same(got: Any, expected: Any) -> None:
    if isinstance(expected, tuple):
        assert len(got) == len(expected)
        for one, other in zip(got, expected, strict=True):
            same(one, other)
    elif isinstance(expected, torch.Tensor) and expected.dim() > 0:
        assert isinstance(got, Array)
        assert got.shape == tuple(expected.shape)
        assert str(got.dtype) == str(expected.dtype).removeprefix("torch.")
        close = 2e-6 if got.dtype == np.float32 else 1e-13
        np.testing.assert_allclose(plain(got), expected.numpy(), rtol=close, atol=close)
    elif isinstance(expected, torch.Tensor):
        np.testing.assert_allclose(got, expected.item(), rtol=1e-6)
    else:
        assert got == expected


def table(dtype: Any = np.float64, *shape: int, seed: int = 0) -> np.ndarray:
    """Numbers with infinities of both signs, NaN excluded, and a row of nothing but minus infinity."""
    values = np.random.default_rng(seed).normal(size=shape or (3, 4, 5)).astype(dtype)
    flat = values.reshape(-1)
    flat[1::7], flat[3::11] = -INF, INF
    values[..., -1, :] = -INF
    return values


def places(high: int, *shape: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, high, size=shape)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("dim", [0, 1, 2, -1, -2, (0, 2), (1, 2)])
@pytest.mark.parametrize("keepdim", [False, True])
def test_reductions(dtype, dim, keepdim):
    values = table(dtype)
    with_nan = np.where(values == INF, NAN, values)
    for name in ("amax", "amin", "sum", "logsumexp"):
        both(lambda xp, t, name=name: getattr(t(values), name)(dim=dim, keepdim=keepdim))
        both(lambda xp, t, name=name: getattr(t(with_nan), name)(dim=dim, keepdim=keepdim))
    for name in ("any", "all", "sum"):
        both(lambda xp, t, name=name: getattr(t(values > 0), name)(dim=dim, keepdim=keepdim))
    both(lambda xp, t: xp.logsumexp(t(values), dim=dim, keepdim=keepdim))
    if isinstance(dim, int):
        both(lambda xp, t: tuple(t(values).max(dim=dim, keepdim=keepdim)))
        both(lambda xp, t: tuple(t(with_nan).max(dim=dim, keepdim=keepdim)))
        both(lambda xp, t: tuple(t(values > 0).max(dim=dim, keepdim=keepdim)))
        both(lambda xp, t: t(values).argmax(dim=dim, keepdim=keepdim))


def test_reductions_to_a_number():
    values = table()
    both(lambda xp, t: t(values).max())
    both(lambda xp, t: t(values > 0).any())
    both(lambda xp, t: t(values > 0).all())
    both(lambda xp, t: int(t(values > 0).sum()))
    both(lambda xp, t: int(t(values).argmax()))


def test_a_sum_of_logs_over_nothing():
    both(lambda xp, t: t(np.zeros((3, 0))).logsumexp(dim=1))
    both(lambda xp, t: t(np.zeros((0, 3))).logsumexp(dim=1))


@pytest.mark.parametrize("dtype", [*FLOATS, np.int64])
@pytest.mark.parametrize(("size", "k"), [(4, 1), (6, 6), (40, 3), (200, 8)])
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_topk(dtype, size, k, dim):
    shape = (size, 3) if dim == 0 else (3, size)
    values = np.random.default_rng(size).permutation(3 * size).reshape(shape).astype(dtype)  # no ties
    if dtype != np.int64:
        values[0, 0], values[1, 1] = INF, NAN
    both(lambda xp, t: tuple(t(values).topk(k, dim=dim)))


@pytest.mark.parametrize("size", [10, 100])
def test_topk_of_equals_are_different_ones(size):
    best = wrapped(np.zeros((4, size))).topk(5, dim=1)
    assert all(len(set(row)) == 5 for row in best.indices.tolist())


@pytest.mark.parametrize("dtype", [*FLOATS, np.int64, np.bool_])
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_sort_is_stable(dtype, descending, dim):
    values = np.random.default_rng(0).integers(0, 3, size=(7, 9)).astype(dtype)  # many ties
    if np.issubdtype(dtype, np.floating):
        values[0, :3], values[3, 4] = [INF, -INF, INF], NAN
    both(lambda xp, t: tuple(xp.sort(t(values), dim=dim, descending=descending, stable=True)))
    if not descending:
        both(lambda xp, t: xp.argsort(t(values), dim=dim, stable=True))


def test_sorting_nothing():
    both(lambda xp, t: tuple(xp.sort(t(np.zeros((0, 3))), dim=1, descending=True, stable=True)))
    both(lambda xp, t: tuple(xp.sort(t(np.zeros((3, 0))), dim=1, descending=True, stable=True)))


@pytest.mark.parametrize("dim", [0, 1, 2, -1, -3])
def test_gather_and_scatter(dim):
    values, sizes = table(), [3, 4, 5]
    size = sizes[dim]
    index = np.argsort(np.random.default_rng(2).random((3, 4, 5)), axis=dim).take(range(size - 1), axis=dim)
    source = table(seed=3)[tuple(slice(0, n) for n in index.shape)]
    both(lambda xp, t: t(values).gather(dim, t(index)))
    both(lambda xp, t: t(values).scatter(dim, t(index), t(source)))
    both(lambda xp, t: t(values).scatter_(dim, t(index), t(source)))
    repeated = index.copy()
    repeated[...] = 1
    for reduce in ("amin", "amax"):
        both(lambda xp, t, reduce=reduce: t(values).scatter_reduce_(dim, t(repeated), t(source), reduce))
    rows = places(size, 6)
    both(lambda xp, t: t(values).index_select(dim, t(rows)))
    both(lambda xp, t: t(values).index_fill_(dim, t(rows), -1.0))


def test_a_gather_from_fewer_rows_than_there_are():
    both(lambda xp, t: t(table()).gather(2, t(places(5, 2, 3, 4))))
    both(lambda xp, t: t(table()).gather(1, t(places(4, 3, 6))[..., None].expand(-1, -1, 5)))
    both(lambda xp, t: t(table()).gather(1, t(places(4, 3, 0, 5))))


def test_a_write_leaves_the_original_alone():
    before = wrapped(table())
    kept = before.clone()
    before.scatter(2, wrapped(places(5, 3, 4, 1)), wrapped(np.zeros((3, 4, 1))))
    before.masked_fill(before > 0, 7.0)
    before.index_put((wrapped(places(3, 2)),), 0.0)
    before.index_add(0, wrapped(places(3, 2)), before[:2])
    assert np.array_equal(plain(before), plain(kept))


def test_adding_and_putting():
    values, rows = np.arange(12.0).reshape(4, 3), np.array([2, 0, 2])
    more = np.arange(9.0).reshape(3, 3)
    both(lambda xp, t: t(values).index_add(0, t(rows), t(more)))
    both(lambda xp, t: t(values).index_add_(1, t(rows), t(values)))
    both(lambda xp, t: t(values).index_put((t(np.array([1, 3])),), t(more[:2])))
    both(lambda xp, t: t(values).index_put((t(np.array([1, 3])), t(np.array([0, 2]))), t(np.array([7.0, 8.0]))))


@pytest.mark.parametrize("dtype", [*FLOATS, np.int64])
def test_masks(dtype):
    values = np.arange(24).reshape(2, 3, 4).astype(dtype)
    mask = np.random.default_rng(0).random((2, 3, 1)) > 0.5
    fill = -1 if dtype == np.int64 else -INF
    both(lambda xp, t: t(values).masked_fill(t(mask), fill))
    both(lambda xp, t: t(values).masked_fill_(t(mask), fill))
    both(lambda xp, t: t(values).fill_(fill))
    both(lambda xp, t: xp.where(t(mask), t(values), fill))
    both(lambda xp, t: xp.where(t(mask), fill, t(values)))
    both(lambda xp, t: xp.where(t(mask), t(values), t(values[:, ::-1].copy())))
    both(lambda xp, t: t(values).clamp(min=3))
    both(lambda xp, t: t(values).clamp(max=7))
    both(lambda xp, t: t(values).clamp(3, 7))
    both(lambda xp, t: t(values).new_full((2, 3), fill))
    both(lambda xp, t: t(values).new_zeros(2, 3))
    both(lambda xp, t: t(values).new_zeros((2, 3)))
    both(lambda xp, t: t(values).new_empty(2, 0))


def test_where_without_arrays():
    mask = np.array([True, False])
    both(lambda xp, t: xp.where(t(mask), -INF, INF))
    both(lambda xp, t: xp.where(t(mask), 1, 2))


@pytest.mark.parametrize("shape", [(3,), (2, 3), (2, 0)])
def test_nonzero(shape):
    values = np.random.default_rng(0).integers(0, 2, size=shape)
    both(lambda xp, t: t(values).nonzero())
    both(lambda xp, t: t(values > 0).nonzero(as_tuple=True))


def test_shapes():
    values = table()
    for function in (
        lambda t: t(values).view(-1),
        lambda t: t(values).view(3, 20),
        lambda t: t(values).view((4, -1)),
        lambda t: t(values).view_as(t(np.zeros((5, 12)))),
        lambda t: t(values).reshape(6, -1),
        lambda t: t(values).flatten(),
        lambda t: t(values).flatten(1),
        lambda t: t(values).flatten(0, 1),
        lambda t: t(values[:0]).flatten(1),
        lambda t: t(values[:, :0]).flatten(0, 1),
        lambda t: t(values)[:, :, None].expand(-1, -1, 2, -1),
        lambda t: t(values[0, 0]).expand(3, 2, -1),
        lambda t: t(values[0, 0]).expand((2, 5)),
        lambda t: t(values[:, :1]).expand_as(t(values)),
        lambda t: t(values).repeat(1, 2, 1),
        lambda t: t(values[0]).repeat(2, 1, 3),
        lambda t: t(np.arange(4)).repeat_interleave(3),
        lambda t: t(values).transpose(1, 2),
        lambda t: t(values).transpose(0, -1),
        lambda t: t(values).permute(2, 0, 1).contiguous(),
        lambda t: t(values).unsqueeze(1),
        lambda t: t(values).unsqueeze(-1),
        lambda t: t(values).unbind(1),
        lambda t: t(values).split(2, dim=1),
        lambda t: t(np.arange(5)).split(2),
        lambda t: t(np.arange(0)).split(2),
        lambda t: t(np.arange(7)).cumsum(0),
        lambda t: t(np.arange(7) > 2).cumsum(0),
        lambda t: tuple(t(values)),
        lambda t: t(values)[t(places(3, 4)), t(places(4, 4))],
        lambda t: t(values)[0][t(places(4, 3)), None],
        lambda t: t(values)[..., [0, 2]],
        lambda t: t(values)[t(values[..., 0] > 0)],
        lambda t: (t(values).dim(), t(values).numel(), t(values).element_size(), len(t(values))),
        lambda t: t(values[:, 0]).tolist()[1][:2],
    ):
        both(lambda xp, t, function=function: function(t))


def test_views_are_views():
    # Torch writes through them, and so do the searches.
    values = wrapped(np.zeros((2, 3, 4)))
    values.view(-1)[0] = 1.0
    values.flatten(0, 1)[1] = 2.0
    values.transpose(0, 1)[2, 0] = 3.0
    assert values[0].tolist() == [[1.0, 0.0, 0.0, 0.0], [2.0] * 4, [3.0] * 4]


def test_a_view_is_never_a_copy():
    # What is written to a copy is lost; torch refuses as well.
    values = np.zeros((2, 3, 4))
    for make in (wrapped, torch.from_numpy):
        turned = make(values).transpose(1, 2)
        with pytest.raises((ValueError, RuntimeError)):
            turned.view(-1)
        with pytest.raises((ValueError, RuntimeError)):
            turned.view_as(make(values))
        assert tuple(turned.view(2, 2, 2, 3).shape) == (2, 2, 2, 3)  # no copy is needed for this one
        assert tuple(turned[:0].view(0, 12).shape) == (0, 12)
        assert tuple(turned.reshape(-1).shape) == (24,)


@pytest.mark.parametrize("dtype", FLOATS)
def test_numbers(dtype):
    first, second = table(dtype), table(dtype, seed=5)
    first[0, 0, 0], second[0, 0, 1] = NAN, NAN
    for function in (
        lambda xp, a, b: xp.maximum(a, b),
        lambda xp, a, b: xp.minimum(a, b),
        lambda xp, a, b: xp.logaddexp(a, b),
        lambda xp, a, b: xp.exp(a),
        lambda xp, a, b: a.exp(),
        lambda xp, a, b: a.exp().log(),
        lambda xp, a, b: a.isnan(),
        lambda xp, a, b: a + b,
        lambda xp, a, b: a - 1.5,
        lambda xp, a, b: a / b,
        lambda xp, a, b: -a,
        lambda xp, a, b: (a > b) & ~(a == -INF),
        lambda xp, a, b: xp.cat([a, b], dim=1),
        lambda xp, a, b: xp.cat((a, b), dim=-1),
        lambda xp, a, b: xp.stack([a, b]),
        lambda xp, a, b: xp.stack([a, b], dim=2),
        lambda xp, a, b: a.double() + b.float() if a.dtype == xp.float64 else a.to(xp.float64),
        lambda xp, a, b: (a > 0).long(),
        lambda xp, a, b: a.to(b),
        lambda xp, a, b: xp.constant_pad_nd(a, (1, 0), -INF),
        lambda xp, a, b: xp.constant_pad_nd(a, (0, 0, 2, 1), 3.0),
        lambda xp, a, b: xp.constant_pad_nd(a[:, :0], (0, 0, 0, 2)),
        lambda xp, a, b: xp.full_like(a, -INF),
        lambda xp, a, b: xp.zeros_like(a, dtype=xp.int64),
        lambda xp, a, b: xp.ones_like(a, dtype=xp.bool),
        lambda xp, a, b: xp.empty_like(a[:0]),
    ):
        both(lambda xp, t, function=function: function(xp, t(first), t(second)))
    matrices = np.random.default_rng(0).normal(size=(2, 3, 4)).astype(dtype)
    both(lambda xp, t: xp.bmm(t(matrices), t(matrices).transpose(1, 2)))
    both(lambda xp, t: (xp.finfo(t(matrices).dtype).eps, xp.finfo(t(matrices).dtype).tiny))


def test_a_copy_is_its_own():
    values = wrapped(table())
    for copy in (values.clone(), values.to(np.float64, copy=True)):
        copy[:] = 0.0
    assert values.to(np.float64) is values
    assert plain(values).any()


def test_whole_numbers():
    numbers = np.array([5, -3, 7, 0, -8])
    both(lambda xp, t: t(numbers) // 3)
    both(lambda xp, t: t(numbers) % 3)
    both(lambda xp, t: t(numbers) + (t(numbers) > 0))
    both(lambda xp, t: xp.bincount(t(np.array([1, 1, 4]))))
    both(lambda xp, t: xp.bincount(t(np.array([1, 1, 4])), minlength=7))
    both(lambda xp, t: xp.unique(t(np.array([3, 1, 3, 2])), return_inverse=True))
    both(lambda xp, t: xp.unique(t(np.array([[3, 1], [3, 2]]))))
    both(lambda xp, t: xp.equal(t(numbers), t(numbers)))
    both(lambda xp, t: xp.equal(t(numbers), t(numbers[:2])))
    both(lambda xp, t: str(xp.promote_types(xp.float32, xp.float64)).removeprefix("torch."))
    both(lambda xp, t: tuple(xp.broadcast_shapes((2, 1), (1, 3))))


def test_new_arrays():
    both(lambda xp, t: xp.tensor([1, 2]))
    both(lambda xp, t: xp.tensor([1.5, INF]))
    both(lambda xp, t: xp.tensor((), dtype=xp.int64))
    both(lambda xp, t: xp.tensor([True, False]))
    both(lambda xp, t: xp.tensor([0.1], dtype=xp.float64))
    both(lambda xp, t: xp.arange(4))
    both(lambda xp, t: xp.arange(2, 5))
    both(lambda xp, t: xp.arange(1, 4, dtype=xp.float64))
    both(lambda xp, t: xp.full((2, 3), -INF))
    both(lambda xp, t: xp.full((2,), 3))
    both(lambda xp, t: xp.full((2,), -INF, dtype=xp.float64))
    both(lambda xp, t: xp.zeros(2, 3))
    both(lambda xp, t: xp.zeros(2, dtype=xp.bool))
    both(lambda xp, t: xp.ones(2, dtype=xp.int64))
    both(lambda xp, t: xp.empty(2, 1, 0, dtype=xp.int64))


def test_draws_are_uniform():
    draws = numpy_ops.rand(1000, 3, dtype=np.float64, generator=np.random.default_rng(0))
    assert draws.shape == (1000, 3)
    assert 0.0 <= plain(draws).min() < 0.01
    assert 0.99 < plain(draws).max() < 1.0
    again = numpy_ops.rand(1000, 3, dtype=np.float64, generator=np.random.default_rng(0))
    assert np.array_equal(plain(draws), plain(again))


def test_numpy_sees_a_plain_array():
    values = wrapped(table())
    assert type(np.max(values, axis=0)) is np.ndarray
    assert np.array_equal(np.sort(values, axis=0), np.sort(plain(values), axis=0))
    assert np.array_equal(np.nonzero(values)[1], np.nonzero(plain(values))[1])
    assert np.array_equal(np.concatenate([values, values]), np.concatenate([plain(values)] * 2))
    assert values.view(np.int64).shape == values.shape


def test_kinds():
    array, tensor = wrapped(np.zeros(2)), torch.zeros(2)
    assert namespace(array) is numpy_ops
    assert namespace(tensor) is torch
    assert namespace_on(array.device) is numpy_ops
    assert namespace_on("cpu") is namespace_on(tensor.device) is torch
    assert is_array(array)
    assert is_array(tensor)
    assert not is_array([0.0])
    assert is_numpy(array)
    assert not is_numpy(tensor)
    assert array.device is NUMPY
    assert array.device.type == "cpu"


def test_everything_promised_is_there():
    names = [name for name in vars(Namespace) if not name.startswith("_")]
    names += Namespace.__annotations__
    assert len(names) > 30
    for name in names:
        assert hasattr(torch, name)
        assert hasattr(numpy_ops, name)


def test_arrays_change_their_kind():
    values = np.arange(6).reshape(2, 3)
    tensor = placed(values, "cpu")
    assert isinstance(tensor, torch.Tensor)
    array = placed(tensor, NUMPY)
    assert isinstance(array, Array)
    assert array.tolist() == placed(array, torch.device("cpu")).tolist() == values.tolist()
    read_only = np.broadcast_to(values, (4, 2, 3))
    placed(read_only, "cpu")[0] = 7
    assert values[0, 0] == 0


@pytest.mark.parametrize("device", ["cpu", NUMPY])
def test_rows_are_padded(device):
    rows = padded_rows([[1, 2], [], [3, 4, 5]], device)
    assert rows.tolist() == [[1, 2, 0], [0, 0, 0], [3, 4, 5]]
    assert tuple(padded_rows([], device).shape) == (0, 0)
    assert tuple(padded_rows([[], []], device).shape) == (2, 0)


def test_gradients_and_warnings_are_off(recwarn):
    weight = torch.ones(1, requires_grad=True)

    @no_grad()
    def halved(values: Any) -> Any:
        """Says so."""
        return values / 2

    assert halved.__doc__ == "Says so."
    assert not halved(weight).requires_grad
    assert halved(values=weight).item() == 0.5
    with no_grad():
        assert wrapped(np.zeros(1)).log().tolist() == [-INF]
        with no_grad():
            pass
        assert not (weight * 2).requires_grad
    assert (weight * 2).requires_grad
    assert not recwarn.list
