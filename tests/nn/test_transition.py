import copy
import math

import pytest
import torch

from ssnt.errors import DataError, ModelError, ShapeError
from ssnt.nn import GeometricTransition, NeuralTransition

SRC, TGT = torch.randn(2, 5, 3).double(), torch.randn(2, 4, 2).double()


def estimated(src_lens=(4, 2), tgt_lens=(3, 4)) -> GeometricTransition:
    module = GeometricTransition()
    module.estimate(src_lens, tgt_lens)
    return module


@pytest.mark.parametrize("module", [estimated(), NeuralTransition(3, 2, 6).double()])
def test_log_probs_are_the_cells_of_log_grid(module):
    grid = module.log_grid(SRC, TGT)
    assert grid.log_emit.shape == grid.log_shift.shape == (2, 4, 5)
    assert grid.log_emit.dtype == grid.log_shift.dtype == torch.float64
    torch.testing.assert_close(grid.log_emit.exp() + grid.log_shift.exp(), torch.ones(2, 4, 5).double())
    for j in range(4):
        for i in range(5):
            cell = module.log_probs(SRC[:, i], TGT[:, j])
            torch.testing.assert_close(cell.log_emit, grid.log_emit[:, j, i])
            torch.testing.assert_close(cell.log_shift, grid.log_shift[:, j, i])
    column = module.log_probs(SRC, TGT[:, :1])  # (B, I, Hs) and (B, 1, Ht)
    torch.testing.assert_close(column.log_emit, grid.log_emit[:, 0])


def test_neural_is_the_papers_network():
    module = NeuralTransition(3, 2, 6).double()
    w_t = torch.cat([module.src_layer.weight, module.tgt_layer.weight], dim=1)
    hidden = torch.tanh(w_t @ torch.cat([SRC[0, 0], TGT[0, 0]]) + module.src_layer.bias)
    emit = torch.sigmoid(module.output_layer.weight[0] @ hidden + module.output_layer.bias[0])
    torch.testing.assert_close(module.log_probs(SRC[0, 0], TGT[0, 0]).log_emit.exp(), emit)


def test_neural_keeps_precision_at_both_ends():
    module = NeuralTransition(3, 2, 6).double()
    for logit in (-800.0, 800.0):
        torch.nn.init.zeros_(module.output_layer.weight)
        torch.nn.init.constant_(module.output_layer.bias, logit)
        cell = module.log_probs(SRC[0, 0], TGT[0, 0])
        assert cell.log_emit.item() == min(logit, 0.0)
        assert cell.log_shift.item() == min(-logit, 0.0)


@pytest.mark.parametrize("wrap", [list, tuple, iter, torch.tensor, lambda v: torch.tensor(v).int()])
def test_geometric_closed_form(wrap):
    module = estimated(wrap([4, 2, 9]), wrap([3, 1, 1]))
    assert module.emit_prob == 5 / 20
    grid = module.log_grid(SRC, TGT)
    assert grid.log_emit.unique().item() == pytest.approx(math.log(0.25), abs=1e-15)
    assert grid.log_shift.unique().item() == pytest.approx(math.log(0.75), abs=1e-15)


def test_geometric_is_the_maximum_of_the_likelihood():
    src_sum, tgt_sum = 15, 5  # J emissions; I shifts, the one that leaves the last position included

    def log_likelihood(e: float) -> float:
        return tgt_sum * math.log(e) + src_sum * math.log(1 - e)

    e = estimated([4, 2, 9], [3, 1, 1]).emit_prob
    assert log_likelihood(e) > max(log_likelihood(e - 0.01), log_likelihood(e + 0.01))


def test_geometric_estimates_again_from_scratch():
    module = estimated()
    module.estimate([1], [3])
    assert module.emit_prob == 0.75


def test_the_estimate_is_saved_and_survives_precision():
    module = estimated([1, 1], [1, 3])
    restored = GeometricTransition()
    restored.load_state_dict(module.state_dict())
    assert list(module.state_dict()) == ["length_sums"]
    assert restored.emit_prob == copy.deepcopy(module).emit_prob == module.half().double().emit_prob == 4 / 6
    assert not list(module.parameters())


def test_without_an_estimate_it_refuses():
    module = GeometricTransition()
    message = (
        "the geometric transition has no emission probability yet; call "
        "estimate_transition(src_lens, tgt_lens) with the lengths of all training pairs, "
        "or load a trained state dict"
    )
    for use in (
        lambda: module.log_grid(SRC, TGT),
        lambda: module.log_probs(SRC[:, 0], TGT[:, 0]),
        lambda: module.emit_prob,
    ):
        with pytest.raises(ModelError) as caught:
            use()
        assert str(caught.value) == message


def test_an_estimate_overwritten_with_nothing_gives_nan_not_a_number_from_before():
    module = estimated()
    module.log_grid(SRC, TGT)
    module.load_state_dict(GeometricTransition().state_dict())
    assert module.log_grid(SRC, TGT).log_emit.isnan().all()


@pytest.mark.parametrize(
    ("src_lens", "tgt_lens", "error", "message"),
    [
        ([4, 2], [3], ShapeError, r"tgt_lens: expected 2 lengths, as many as src_lens has, got 1"),
        ([], [], DataError, r"src_lens: expected at least one length, got none"),
        ([4, 2], [3, 0], DataError, r"tgt_lens: expected lengths of at least 1, got 0 for pair 1"),
        ([4.0], [3], ShapeError, r"src_lens: expected integers, .* got 'float' object"),
        (3, [3], ShapeError, r"src_lens: expected integers, .* got 'int' object is not iterable"),
        (torch.ones(2), [3, 3], ShapeError, r"src_lens: expected integers of shape \(N,\), got torch.float32"),
        ([3], torch.ones(1, 1).int(), ShapeError, r"tgt_lens: .*\(N,\), got torch.int32 of shape \(1, 1\)"),
    ],
)
def test_bad_lengths(src_lens, tgt_lens, error, message):
    with pytest.raises(error, match=message):
        GeometricTransition().estimate(src_lens, tgt_lens)
