"""Dropout: the mean is exact, elements are independent, and the seed decides."""

import pytest
import torch

from ssnt.errors import ConfigError
from ssnt.nn.dropout import Dropout


@pytest.mark.parametrize("p", [0.1, 0.2, 0.5, 0.9, 0.99999])
def test_elements_are_dropped_as_often_as_they_should_be_and_the_mean_stays(p: float):
    torch.manual_seed(0)
    values = torch.ones(1000, 999, dtype=torch.float64)
    dropped = Dropout(p)(values)
    kept = (dropped != 0).double().mean().item()
    deviation = (p * (1 - p) / values.numel()) ** 0.5
    assert abs(kept - (1 - p)) < 5 * deviation + 2**-17
    levels = dropped.unique().tolist()
    assert len(levels) == 2
    assert levels[0] == 0.0
    assert levels[1] * round((1 - p) * 2**16) / 2**16 == pytest.approx(1.0, abs=1e-12)


def test_neighbours_are_independent():
    torch.manual_seed(0)
    kept = (Dropout(0.5)(torch.ones(1 << 20)) != 0).double()
    for shift in (1, 2, 3, 4, 5, 8, 64):
        together = (kept[:-shift] * kept[shift:]).mean().item()
        assert abs(together - 0.25) < 0.003, shift


def test_a_seed_decides_and_the_next_draw_is_another():
    values, dropout = torch.randn(3, 5, 7), Dropout(0.3)
    torch.manual_seed(7)
    first, second = dropout(values), dropout(values)
    torch.manual_seed(7)
    assert torch.equal(dropout(values), first)
    assert not torch.equal(first, second)


def test_the_gradient_goes_where_the_value_went():
    torch.manual_seed(0)
    values = torch.randn(6, 11, dtype=torch.float64, requires_grad=True)
    dropped = Dropout(0.5)(values)
    dropped.sum().backward()
    torch.testing.assert_close(values.grad * values.detach(), dropped.detach())


@pytest.mark.parametrize("p", [-0.1, 1.5, float("nan")])
def test_what_is_no_probability_is_refused(p: float):
    with pytest.raises(ConfigError, match="dropout: expected a probability between 0 and 1"):
        Dropout(p)


def test_certain_is_certain():
    assert not Dropout(1.0)(torch.ones(1 << 18)).any()


@pytest.mark.parametrize(("p", "training"), [(0.0, True), (0.5, False), (1e-6, True)])
def test_nothing_is_done_without_need(p: float, training: bool):
    values = torch.randn(4)
    assert Dropout(p).train(training)(values) is values
