"""Going on with a training in circumstances that are rare and not the user's fault."""

from __future__ import annotations

from pathlib import Path

import pytest

from ssnt.errors import ConfigError
from ssnt.training import run_config, train
from trainings import MakeConfig, interrupt, progress_of, weights


def test_a_finished_model_whose_checkpoint_is_gone_is_left_alone(make_config: MakeConfig):
    config = make_config(training={"max_epochs": 1})
    train(config, display=False)
    before = weights(config)
    (Path(str(config.out)) / "training" / "last.ckpt").unlink()
    with pytest.raises(ConfigError, match=r"the model is finished, and the checkpoint .* is gone; leave it as it is"):
        train(config, resume=True, display=False)
    assert weights(config) == before


def test_a_run_is_found_from_another_directory(make_config: MakeConfig, tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = make_config(training={"max_epochs": 1})
    inside = {name: str(Path(getattr(config.data, name)).relative_to(tmp_path)) for name in ("train", "dev")}
    config = config.model_copy(update={"data": config.data.model_copy(update=inside)})
    train(config, display=False)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    again = run_config(str(config.out))
    assert Path(str(again.data.train)) == tmp_path / inside["train"]
    train(again.model_copy(update={"out": config.out}), resume=True, display=False)


def test_a_run_that_is_out_of_steps_between_two_epochs_takes_one_more_and_ends(make_config: MakeConfig):
    settings = {"max_epochs": 5}
    interrupt(make_config(training=settings, validation={"every": 3}), step=8)  # the last of the first epoch
    config = make_config(training={**settings, "max_steps": 8}, validation={"every": 3})
    assert (progress_of(config).step, progress_of(config).epoch_step) == (8, 0)
    # there is nothing to validate yet, and a model has to be chosen by a validation
    training = train(config, resume=True, display=False).metrics["training"]
    assert training["steps"] == 9
    assert training["ended_because"] == "training.max_steps (8) is reached"
