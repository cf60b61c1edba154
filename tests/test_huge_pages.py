"""Buffers in huge pages are ordinary tensors."""

import mmap

import pytest
import torch

from ssnt import huge_pages


@pytest.mark.parametrize("shape", [(3, 4), (3000, 1000)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_like_empty_like(shape, dtype):
    values = torch.zeros(*reversed(shape), dtype=dtype).T  # not contiguous
    got = huge_pages.empty_like(values)
    assert got.shape == values.shape
    assert got.dtype == dtype
    assert got.is_contiguous()
    got.fill_(2.5)
    assert torch.equal(got * 2, torch.full(shape, 5.0, dtype=dtype))
    assert torch.equal(got.clone(), got)


def test_a_kernel_that_refuses_is_no_harm(monkeypatch):
    monkeypatch.setattr(mmap, "MADV_HUGEPAGE", 9999, raising=False)  # no such advice: the system says EINVAL
    got = huge_pages.empty_like(torch.empty(3000, 1000))
    assert got.fill_(1.0).sum() == 3_000_000


def test_without_huge_pages_it_is_plain_memory(monkeypatch):
    monkeypatch.delattr(mmap, "MADV_HUGEPAGE", raising=False)
    assert huge_pages.empty_like(torch.empty(3000, 1000)).shape == (3000, 1000)
