"""The word grid of small vocabularies; what it computes is held by test_word_grid.py, here is when and how."""

import pytest
import torch

from ssnt import linear_word_grid, small_softmax, word_grid


def problem(vocab: int, scale: float = 1.0, dtype: torch.dtype = torch.float64) -> tuple[list[torch.Tensor], ...]:
    torch.manual_seed(vocab)
    shapes = (3, 5, 4), (3, 4, 6), (vocab, 4), (vocab, 6), (vocab,)
    inputs = [(torch.randn(*shape) * scale).to(dtype).requires_grad_() for shape in shapes]
    lens = [torch.tensor([5, 1, 3]), torch.tensor([2, 4, 1])]
    return inputs, [torch.randint(vocab, (3, 4))], lens


def solved(vocab: int, chunk_size: int | None, **settings) -> list[torch.Tensor]:
    inputs, (targets,), (src_lens, tgt_lens) = problem(vocab, **settings)
    grid = linear_word_grid(*inputs, targets, src_lens=src_lens, tgt_lens=tgt_lens, chunk_size=chunk_size)
    upstream = torch.linspace(-1.0, 1.0, grid.numel(), dtype=grid.dtype).view_as(grid)
    return [grid, *torch.autograd.grad(grid, inputs, upstream)]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each call of the small softmax gave a grid."""
    seen: list[bool] = []

    def spy(*arguments: object) -> torch.Tensor | None:
        grid = small_softmax.small_log_softmax(*arguments)
        seen.append(grid is not None)
        return grid

    monkeypatch.setattr(word_grid, "small_log_softmax", spy)
    return seen


@pytest.mark.usefixtures("denormals")
@pytest.mark.parametrize("vocab", [1, 2, 35, small_softmax.SMALL, small_softmax.SMALL + 1])
def test_it_agrees_with_the_chunks(vocab: int, calls: list[bool]):
    for ours, theirs in zip(solved(vocab, None), solved(vocab, 7), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-11, atol=1e-12)
    assert calls == [vocab <= small_softmax.SMALL]  # and with a chunk size it is not asked


def test_float32_is_as_precise_as_it_can_be(calls: list[bool]):
    exact = solved(35, 7, scale=1.5)
    for ours, theirs in zip(solved(35, None, scale=1.5, dtype=torch.float32), exact, strict=True):
        assert (ours.double() - theirs).abs().max() < 2e-5 * (1 + theirs.abs().max())
    assert calls == [True]


@pytest.mark.usefixtures("denormals")
def test_what_underflows_is_left_to_the_chunks(calls: list[bool]):
    for ours, theirs in zip(solved(35, None, scale=100.0), solved(35, 7, scale=100.0), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)
    assert calls == [False]


def test_threads_change_nothing(monkeypatch: pytest.MonkeyPatch):
    expected = solved(35, None)
    monkeypatch.setattr(small_softmax, "_PRODUCTS_WORTH_A_THREAD", 1)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        got = solved(35, None)
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(one, other) for one, other in zip(got, expected, strict=True))


def test_the_grid_can_be_changed_in_place():
    inputs, (targets,), _ = problem(35)
    grid = linear_word_grid(*inputs, targets)
    grid.masked_fill_(torch.ones_like(grid, dtype=torch.bool), 0.0).sum().backward()
    assert not any(one.grad.any() for one in inputs)


def test_banned_symbols_padding_and_int32_targets(calls: list[bool]):
    inputs, (targets,), (src_lens, tgt_lens) = problem(35)
    with torch.no_grad():
        inputs[4][7] = -torch.inf
        targets[targets == 7] = 8
        inputs[0][1, 1:], inputs[1][2, 1:] = torch.nan, torch.inf
    results = []
    for chunk_size, symbols in ((None, targets.int()), (5, targets)):
        grid = linear_word_grid(*inputs, symbols, src_lens=src_lens, tgt_lens=tgt_lens, chunk_size=chunk_size)
        results.append([grid, *torch.autograd.grad(grid.sum(), inputs, retain_graph=True)])
        again = torch.autograd.grad(grid.sum(), inputs)
        assert all(torch.equal(one, other) for one, other in zip(again, results[-1][1:], strict=True))
    assert calls == [True]
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("needed", [(0,), (1, 4), (2, 3), (0, 1, 2)])
def test_gradients_for_some_inputs_only(needed: tuple[int, ...], calls: list[bool]):
    expected = solved(35, None)
    inputs, (targets,), (src_lens, tgt_lens) = problem(35)
    given = [one if n in needed else one.detach() for n, one in enumerate(inputs)]
    grid = linear_word_grid(*given, targets, src_lens=src_lens, tgt_lens=tgt_lens)
    upstream = torch.linspace(-1.0, 1.0, grid.numel(), dtype=grid.dtype).view_as(grid)
    for n, got in zip(needed, torch.autograd.grad(grid, [inputs[n] for n in needed], upstream), strict=True):
        assert torch.equal(got, expected[1 + n])
