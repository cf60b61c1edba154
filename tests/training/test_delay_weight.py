"""Training against the delay: what is minimised, what is logged, what is refused."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from ssnt.checkpoint.load import model_config
from ssnt.config import Config
from ssnt.data.batching import collate
from ssnt.data.prepared import Prepared, prepare
from ssnt.errors import ConfigError, ModelError
from ssnt.nn import SSNT, build_model
from ssnt.training import train
from ssnt.training.datamodule import TrainingData
from ssnt.training.module import TrainingModule
from ssnt.training.progress import Progress
from trainings import MakeConfig


def load(config: Config) -> tuple[Prepared, SSNT]:
    prepared = prepare(str(config.data.train), config.data, None, is_training=True)
    torch.manual_seed(config.training.seed)
    return prepared, SSNT(model_config(config, prepared.vocabulary))


def test_the_delay_is_minimised_and_not_logged(make_config: MakeConfig):
    config = make_config(model={"input_dropout": 0.0}, training={"delay_weight": 0.4, "fastemit": 0.1, "end": "last"})
    prepared, model = load(config)
    model.double()
    indices = np.arange(7)
    batch = collate(prepared, indices)
    options = {"end": "last", "fastemit": 0.1}
    expected = model.loss(batch, **options, delay_weight=0.4)
    module = TrainingModule(model, config, Progress(), 1)
    got = module.training_step(TrainingData(prepared, config, Progress()).share(1, indices))
    torch.testing.assert_close(got, expected)
    for one, other in zip(*(torch.autograd.grad(x, list(model.parameters())) for x in (got, expected)), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)
    likelihood = model.loss(batch, **options, reduction="sum")
    torch.testing.assert_close(module._sum(), likelihood.detach())
    assert got.item() * 7 > likelihood.item() + 0.1


def test_training_with_it_makes_a_model_write_earlier(make_config: MakeConfig, tmp_path: Path):
    delays = []
    for weight in (0.0, 3.0):
        out = str(tmp_path / f"weight-{weight:g}")
        config = make_config(training={"delay_weight": weight, "max_epochs": 4}, out=out)
        model = train(config, display=False).model
        prepared, _ = load(config)
        with torch.no_grad():
            terms = model.loss_terms(collate(prepared, np.arange(60)))
        delays.append(terms.delay.mean().item())
    assert delays[1] < 0.8 * delays[0]


def test_what_has_no_alignment_has_no_delay(make_config: MakeConfig):
    with pytest.raises(ValueError, match=r"setting 'training\.delay_weight': expected 0 for .* 'seq2seq'"):
        make_config(model={"architecture": "seq2seq", "bidirectional": True}, training={"delay_weight": 0.1})
    with pytest.raises(ValueError, match="delay_weight"):
        make_config(training={"delay_weight": math.inf})
    config = make_config()
    prepared, _ = load(config)
    model = build_model(model_config(config, prepared.vocabulary).model_copy(update={"architecture": "seq2seq"}))
    batch = collate(prepared, np.arange(2))
    with pytest.raises(ConfigError, match=r"delay_weight: expected 0 for seq2seq, which has no alignment .* got 0\.1"):
        model.loss(batch, delay_weight=0.1)
    with pytest.raises(ModelError, match="expected a model with an alignment, got seq2seq"):
        model.loss_terms(batch)
