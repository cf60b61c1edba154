import math

import numpy as np
import pytest
import torch
from lightning.pytorch import Callback
from torch import nn

from ssnt.checkpoint.load import model_config
from ssnt.config import Config
from ssnt.data.batching import collate
from ssnt.data.prepared import Prepared, prepare
from ssnt.errors import ModelError
from ssnt.nn import SSNT
from ssnt.training.datamodule import TrainingData
from ssnt.training.fit import make_trainer
from ssnt.training.module import TrainingModule, step_seed
from ssnt.training.processes import World
from ssnt.training.progress import Progress
from ssnt.training.quiet import quiet_lightning
from ssnt.training.schedule import learning_rate
from trainings import MakeConfig


def load(config: Config) -> tuple[Prepared, SSNT]:
    prepared = prepare(str(config.data.train), config.data, None, is_training=True)
    torch.manual_seed(config.training.seed)
    return prepared, SSNT(model_config(config, prepared.vocabulary))


class Counter(Callback):
    """Counts steps, which is the least that the module needs, and notes gradients."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self.gradients: list[list[torch.Tensor]] = []

    def on_before_optimizer_step(self, trainer, pl_module, optimizer) -> None:
        self.gradients.append([one.grad.clone() for one in pl_module.model.parameters()])

    def on_train_batch_end(self, *_) -> None:
        self.progress.step += 1


def fit(config: Config) -> tuple[SSNT, Counter]:
    prepared, model = load(config)
    progress = Progress()
    data = TrainingData(prepared, config, progress)
    counter = Counter(progress)
    with quiet_lightning():
        trainer = make_trainer(config, World(), counter, config.out)
        trainer.fit(TrainingModule(model, config, progress, data.total_steps()), datamodule=data)
    return model, counter


def bare_loop(config: Config) -> tuple[SSNT, list[list[torch.Tensor]]]:
    """The same training, written down without any of the machinery."""
    prepared, model = load(config)
    data = TrainingData(prepared, config, Progress())
    optimiser = torch.optim.Adam(model.parameters(), fused=True)
    model.train()
    gradients, step = [], 0
    for epoch in range(1, config.training.max_epochs + 1):
        for indices in data.plan(epoch):
            optimiser.param_groups[0]["lr"] = learning_rate(config.optimiser, step + 1, data.total_steps())
            torch.manual_seed(step_seed(config.training.seed, step, 0))
            loss = model.loss(collate(prepared, indices), reduction="sum") * (1 / len(indices))
            optimiser.zero_grad()
            loss.backward()
            gradients.append([one.grad.clone() for one in model.parameters()])
            nn.utils.clip_grad_norm_(model.parameters(), config.optimiser.gradient_clip)
            optimiser.step()
            step += 1
    return model, gradients


def test_every_gradient_and_the_weights_are_those_of_a_bare_loop(make_config: MakeConfig):
    config = make_config(optimiser={"schedule": "linear", "warmup_steps": 3, "gradient_clip": 1.0})
    model, counter = fit(config)
    expected, gradients = bare_loop(config)
    assert len(counter.gradients) == len(gradients) == 16
    for own, bare in zip(counter.gradients, gradients, strict=True):
        assert all(torch.equal(one, other) for one, other in zip(own, bare, strict=True))
    for (name, one), other in zip(model.state_dict().items(), expected.state_dict().values(), strict=True):
        assert torch.equal(one, other), name


@pytest.mark.parametrize("count", [2, 7, 16])
def test_the_mean_of_the_processes_gradients_is_the_gradient_of_the_whole_batch(make_config: MakeConfig, count: int):
    config = make_config(model={"input_dropout": 0.0})
    prepared, model = load(config)
    model.double()
    indices = np.arange(count)
    expected = torch.autograd.grad(model.loss(collate(prepared, indices), reduction="mean"), list(model.parameters()))
    total = [torch.zeros_like(one) for one in expected]
    for rank in range(3):
        data = TrainingData(prepared, config, Progress(), rank, 3)
        module = TrainingModule(model, config, Progress(), 1, rank)
        found = torch.autograd.grad(module.training_step(data.share(1, indices)), list(model.parameters()))
        total = [so_far + one / 3 for so_far, one in zip(total, found, strict=True)]
    for one, other in zip(total, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)


def test_an_empty_share_adds_nothing_to_the_sum_of_losses(make_config: MakeConfig):
    config = make_config()
    prepared, model = load(config)
    module = TrainingModule(model, config, Progress(), 1, rank=2)
    share = TrainingData(prepared, config, Progress(), 2, 3).share(1, np.array([0, 1]))
    assert module.training_step(share).item() == 0.0
    assert module._sum().item() == 0.0


def test_seeds_differ_by_seed_step_and_process():
    seeds = [step_seed(seed, step, rank) for seed in range(5) for step in range(20) for rank in range(3)]
    assert len(set(seeds)) == len(seeds)
    assert step_seed(1, 2, 0) == step_seed(1, 2, 0)


def test_a_diverged_training_stops_before_the_weights_are_spoilt(make_config: MakeConfig):
    config = make_config(optimiser={"learning_rate": 1e38, "gradient_clip": None})
    with pytest.raises(ModelError) as caught:
        fit(config)
    text = str(caught.value)
    assert "at step " in text
    assert "(epoch 1) the loss or its gradient is infinite or not a number" in text
    assert "smaller optimiser.learning_rate (1e+38)" in text


def test_a_gradient_that_is_no_number_stops_the_training(make_config: MakeConfig, monkeypatch):
    monkeypatch.setattr(SSNT, "loss", lambda self, *_, **__: sum(one.sum() for one in self.parameters()) * 0 + math.inf)
    with pytest.raises(ModelError, match=r"at step 1 \(epoch 1\)"):
        fit(make_config())
