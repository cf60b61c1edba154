"""The emission grid: the same as the layer written out, whatever computes it."""

import pytest
import torch

from ssnt import emission_grid
from ssnt.emission_grid import emission_logits
from ssnt.errors import BackendError


def written_out(src: torch.Tensor, tgt: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Cell by cell, unit by unit."""
    logits = torch.empty(len(src), tgt.shape[1], src.shape[1], dtype=src.dtype)
    for b in range(len(src)):
        for j in range(tgt.shape[1]):
            for i in range(src.shape[1]):
                units = [weight[d] * torch.tanh(src[b, i, d] + tgt[b, j, d]) for d in range(len(weight))]
                logits[b, j, i] = torch.stack(units).sum() + bias[0]
    return logits


def random_parts(*sizes: int, scale: float = 1.0, dtype: torch.dtype = torch.float64) -> list[torch.Tensor]:
    batch, src_size, tgt_size, width = sizes
    shapes = (batch, src_size, width), (batch, tgt_size, width), (width,), (1,)
    scales = scale, scale, 1.0, 1.0
    return [(torch.randn(*shape) * by).to(dtype).requires_grad_() for shape, by in zip(shapes, scales, strict=True)]


@pytest.mark.parametrize("sizes", [(1, 1, 1, 1), (2, 3, 4, 5), (3, 5, 2, 17), (2, 1, 6, 33)])
@pytest.mark.parametrize("scale", [0.0, 1.0, 30.0, 1000.0])
def test_values_and_gradients_are_those_of_the_layer_written_out(sizes: tuple[int, ...], scale: float):
    torch.manual_seed(0)
    parts = random_parts(*sizes, scale=scale)
    got, expected = emission_logits(*parts), written_out(*parts)
    torch.testing.assert_close(got, expected, rtol=1e-12, atol=1e-12)
    upstream = torch.randn_like(expected)
    gradients = (torch.autograd.grad(value, parts, upstream) for value in (got, expected))
    for ours, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)


def test_float32_is_precise_where_both_sides_are_large_and_cancel():
    src, tgt, weight, bias = random_parts(2, 3, 3, 64, scale=6.0, dtype=torch.float32)
    got = emission_logits(src, tgt, weight, bias)
    expected = emission_logits(src.double(), tgt.double(), weight.double(), bias.double())
    assert (got.double() - expected).abs().max() < 1e-4


@pytest.mark.parametrize("width", [16, 128, 512])
@pytest.mark.parametrize("scale", [0.001, 0.1, 1.0, 8.0])
def test_float32_loses_no_more_than_rounding(width: int, scale: float):
    torch.manual_seed(width)
    src, tgt, weight, bias = random_parts(2, 4, 3, width, scale=scale, dtype=torch.float32)
    weight = weight.detach().abs().requires_grad_()  # of one sign, so that nothing is averaged out
    exact = [part.detach().double().requires_grad_() for part in (src, tgt, weight, bias)]
    got, expected = emission_logits(src, tgt, weight, bias), emission_logits(*exact)
    eps = torch.finfo(torch.float32).eps
    # a part of size s is rounded by s * eps, and each of its exponentials by eps
    assert (got.double() - expected).abs().max() < 2 * (1 + scale) * eps * weight.sum()
    upstream = torch.rand(got.shape)
    ours = torch.autograd.grad(got, (src, tgt, weight, bias), upstream)
    theirs = torch.autograd.grad(expected, exact, upstream.double())
    for one, other in zip(ours, theirs, strict=True):
        assert (one.double() - other).abs().max() < 8 * (1 + scale) * eps * upstream.sum() * max(1.0, weight.max())


def test_autocast_does_not_lower_the_precision():
    src, tgt, weight, bias = random_parts(1, 2, 2, 8, dtype=torch.float32)
    with torch.no_grad():
        src[0, 0, 0] = 30.0  # beyond the kernel
    expected = emission_logits(src, tgt, weight, bias)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.testing.assert_close(emission_logits(src, tgt, weight, bias), expected)


def test_nothing_gives_nothing():
    src, tgt, weight, bias = random_parts(0, 2, 3, 4)
    assert emission_logits(src, tgt, weight, bias).shape == (0, 3, 2)


def test_what_is_too_large_for_the_kernel_is_written_out(monkeypatch: pytest.MonkeyPatch):
    src, tgt, weight, bias = random_parts(1, 2, 2, 3, dtype=torch.float32)
    with torch.no_grad():
        src[0, 0, 0], tgt[0, 0, 0] = 90.0, -89.5  # exp(2 * 90) is infinite in float32
    expected = emission_logits(src.double(), tgt.double(), weight.double(), bias.double())
    torch.testing.assert_close(emission_logits(src, tgt, weight, bias).double(), expected, rtol=1e-5, atol=1e-5)
    monkeypatch.setitem(emission_grid._LARGEST, torch.float32, 1e9)
    assert not torch.isfinite(emission_logits(src, tgt, weight, bias)).all()


def test_not_a_number_stays_one():
    src, tgt, weight, bias = random_parts(1, 2, 2, 3, dtype=torch.float32)
    with torch.no_grad():
        src[0, 1, 2] = torch.nan
    assert emission_logits(src, tgt, weight, bias).isnan().tolist() == [[[False, True], [False, True]]]


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_threads_change_nothing(threads: int, monkeypatch: pytest.MonkeyPatch):
    torch.manual_seed(1)
    parts = random_parts(7, 4, 3, 8)
    expected = emission_logits(*parts)
    upstream = torch.randn_like(expected)
    gradients = torch.autograd.grad(expected, parts, upstream)
    monkeypatch.setattr(emission_grid, "_UNITS_WORTH_A_THREAD", 1)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        got = emission_logits(*parts)
        again = torch.autograd.grad(got, parts, upstream)
    finally:
        torch.set_num_threads(before)
    assert torch.equal(got, expected)
    assert all(torch.equal(one, other) for one, other in zip(again, gradients, strict=True))


def test_half_precision_is_widened():
    parts = random_parts(1, 2, 3, 4, dtype=torch.bfloat16)
    got = emission_logits(*parts)
    assert got.dtype == torch.float32
    got.sum().backward()
    assert all(part.grad.dtype == torch.bfloat16 for part in parts)
    torch.testing.assert_close(got, emission_logits(*(part.float() for part in parts)))


def test_sides_that_are_views_are_read_as_they_are():
    src, tgt, weight, bias = random_parts(2, 3, 4, 6)
    turned = src.detach().transpose(1, 2).contiguous().transpose(1, 2)
    strided = torch.stack([weight.detach(), weight.detach()], dim=1)[:, 0]
    torch.testing.assert_close(
        emission_logits(turned, tgt, strided, bias), emission_logits(src, tgt, weight, bias), rtol=0, atol=0
    )


def test_a_second_derivative_is_refused():
    parts = random_parts(1, 2, 2, 3)
    with pytest.raises(BackendError, match="the emission grid can be differentiated once only"):
        torch.autograd.grad(emission_logits(*parts).sum(), parts, create_graph=True)
