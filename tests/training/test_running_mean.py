"""Running means of weights."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from ssnt.errors import ModelError
from ssnt.training import train
from ssnt.training.running_mean import RunningMean
from trainings import MakeConfig


def test_the_mean_follows_its_formula():
    torch.manual_seed(1)
    model = nn.Linear(3, 2)
    mean = RunningMean(model, decay=0.4)
    expected = {name: one.detach().clone() for name, one in model.named_parameters()}
    for step in range(1, 30):
        with torch.no_grad():
            for one in model.parameters():
                one.add_(torch.randn_like(one))
        mean.update(step)
        stays = min(0.4, step / (step + 10))
        for name, one in model.named_parameters():
            expected[name] = stays * expected[name] + (1 - stays) * one.detach()
    assert mean.to_state().keys() == expected.keys()
    for name, one in mean.to_state().items():
        torch.testing.assert_close(one, expected[name])


def test_the_model_has_the_mean_only_meanwhile():
    model = nn.Linear(3, 2)
    before = model.weight.detach().clone()
    mean = RunningMean(model, decay=0.9)
    with torch.no_grad():
        model.weight.add_(1.0)
    own = model.weight.detach().clone()
    with mean.in_place():
        torch.testing.assert_close(model.weight.detach(), before)
    torch.testing.assert_close(model.weight.detach(), own, rtol=0, atol=0)


def test_the_mean_of_another_model_is_refused():
    mean = RunningMean(nn.Linear(3, 2), decay=0.9)
    with pytest.raises(ModelError, match="running mean"):
        mean.load_state(RunningMean(nn.Linear(2, 2), decay=0.9).to_state())


def test_the_model_that_is_kept_is_the_mean(make_config: MakeConfig):
    plain = make_config(training={"max_epochs": 2})
    steady = make_config(training={"max_epochs": 2, "running_mean": 0.9}, out=f"{plain.out}2")
    hardly = make_config(training={"max_epochs": 2, "running_mean": 1e-9}, out=f"{plain.out}3")
    expected, mean, same = (dict(train(one, display=False).model.named_parameters()) for one in (plain, steady, hardly))
    assert any(not torch.equal(mean[name], one) for name, one in expected.items())
    for name, one in expected.items():
        torch.testing.assert_close(same[name], one)
