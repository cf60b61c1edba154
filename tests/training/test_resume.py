"""Trainings that go on."""

from pathlib import Path
from typing import Any

import pytest

from ssnt.checkpoint import load_model
from ssnt.errors import ConfigError, DataError
from ssnt.pipeline import Transducer
from ssnt.training import fit, train
from ssnt.training.run_directory import RunDirectory
from trainings import MakeConfig, interrupt, progress_of, rows, weights, write_pairs

from conftest import require


@pytest.mark.parametrize(
    ("step", "own"),
    [
        (1, {}),
        (5, {}),
        (5, {"training": {"running_mean": 0.9}}),
        (8, {"training": {"running_mean": 0.9}}),
        (13, {}),
        (13, {"training": {"crossover": 0.5}, "data": {"lowercase": True}}),
    ],
)
def test_a_stopped_training_goes_on_to_the_same_weights(make_config: MakeConfig, step: int, own: dict[str, Any]):
    settings = {
        "training": {"max_epochs": 3, "average": 2, **own.get("training", {})},
        "model": {"input_dropout": 0.3, "output_dropout": 0.2},
        "optimiser": {"schedule": "cosine", "warmup_steps": 4},
        "data": own.get("data", {}),
    }
    whole, parts = make_config(**settings), make_config(**settings, out=str(make_config().out) + "2")
    train(whole, display=False)
    display = interrupt(parts, step=step)
    assert display.notes[-1].endswith(f"; go on with: ssnt train --resume --out {parts.out}")
    assert f"step {step};" in display.notes[-1]
    interrupt(parts, resume=True, step=4)
    train(parts, resume=True, display=False)
    assert weights(whole) == weights(parts)
    found, expected = rows(parts), rows(whole)
    for row in (*found, *expected):
        del row["seconds"], row["pairs_per_second"]
    assert found == expected


def test_a_validation_that_was_given_up_is_done_when_training_goes_on(make_config: MakeConfig):
    settings = {"training": {"max_epochs": 2, "average": 2, "running_mean": 0.8}}
    whole, parts = make_config(**settings), make_config(**settings, out=str(make_config().out) + "2")
    train(whole, display=False)
    for epoch in (1, 2):
        interrupt(parts, resume=epoch > 1, validation=epoch)
        progress = progress_of(parts)
        assert (progress.epoch, progress.epoch_step, len(progress.rows)) == (epoch, 8, epoch - 1)
    train(parts, resume=True, display=False)
    assert weights(whole) == weights(parts)


def test_a_finished_training_says_so_and_gives_its_model(make_config: MakeConfig, capsys):
    config = make_config()
    train(config, display=False)
    before = weights(config)
    transducer = train(config, resume=True)
    assert (
        "the training is finished already (training.max_epochs (2) is reached); nothing to do"
        in capsys.readouterr().err
    )
    assert isinstance(transducer, Transducer)
    assert weights(config) == before


def test_a_finished_training_can_be_made_longer(make_config: MakeConfig):
    train(make_config(), display=False)
    longer, whole = (
        make_config(training={"max_epochs": 4}),
        make_config(training={"max_epochs": 4}, out=f"{make_config().out}2"),
    )
    train(longer, resume=True, display=False)
    train(whole, display=False)
    assert weights(longer) == weights(whole)


def test_a_model_that_is_from_before_is_written_again(make_config: MakeConfig, monkeypatch):
    train(make_config(), display=False)
    longer = make_config(training={"max_epochs": 3})
    before = weights(longer)

    def fail(*_, **__) -> None:
        raise OSError("full")

    with monkeypatch.context() as patch:
        patch.setattr(fit, "save_model", fail)
        with pytest.raises(OSError, match="full"):
            train(longer, resume=True, display=False)
    assert weights(longer) == before
    train(longer, resume=True, display=False)
    assert load_model(str(longer.out)).metrics["training"]["steps"] == 24


def test_going_on_with_other_settings_or_data_is_refused(make_config: MakeConfig):
    config = make_config()
    interrupt(config, step=3)
    with pytest.raises(ConfigError, match=r"model.hidden_size \(was 16, is 24\)"):
        train(make_config(model={"hidden_size": 24}), resume=True, display=False)
    write_pairs(Path(str(config.data.dev)), 19, seed=2)
    with pytest.raises(DataError, match=r"dev.tsv: the dev data is not what the training"):
        train(config, resume=True, display=False)


def test_going_on_where_nothing_is_says_so(make_config: MakeConfig):
    with pytest.raises(ConfigError, match="there is no training to go on with; leave out --resume"):
        train(make_config(), resume=True, display=False)


def test_tensorboard_has_every_epoch_once_after_an_interruption(make_config: MakeConfig):
    require("tensorboard", "logs for it")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    config = make_config(training={"max_epochs": 3, "tensorboard": True})
    interrupt(config, step=11)
    train(config, resume=True, display=False)
    found = EventAccumulator(str(RunDirectory(str(config.out)).tensorboard)).Reload()
    assert [one.step for one in found.Scalars("dev/accuracy")] == [8, 16, 24]


def test_a_training_that_lost_patience_goes_on_with_more(make_config: MakeConfig):
    settings = {"training": {"max_epochs": 6}, "optimiser": {"learning_rate": 1e-9}}
    train(make_config(**settings, validation={"patience": 1}), display=False)
    config = make_config(**settings, validation={"patience": 3})
    assert len(rows(config)) == 2
    train(config, resume=True, display=False)
    assert len(rows(config)) == 4


def test_a_training_that_is_made_too_short_says_so(make_config: MakeConfig):
    config = make_config(training={"max_epochs": 4}, validation={"every": 4})
    interrupt(config, step=20)
    with pytest.raises(ConfigError, match=r"max_epochs \(1\) is reached, and there was no validation before that"):
        train(make_config(training={"max_epochs": 1}, validation={"every": 4}), resume=True, display=False)


@pytest.mark.parametrize(("first", "then"), [("bfloat16", "float32"), ("float32", "bfloat16")])
def test_a_training_goes_on_where_its_precision_is_lacking(make_config: MakeConfig, monkeypatch, first: str, then: str):
    monkeypatch.setattr("ssnt.training.fit.cpu_lacks", lambda _: False)
    train(make_config(training={"max_epochs": 1}, hardware={"precision": first}), display=False)
    longer = make_config(training={"max_epochs": 2}, hardware={"precision": then})
    assert train(longer, resume=True, display=False).config.hardware.precision == then
    assert [row["epoch"] for row in rows(longer)] == ["1", "2"]


def test_a_training_does_not_go_on_with_other_weights(make_config: MakeConfig):
    train(make_config(training={"max_epochs": 1}), display=False)
    with pytest.raises(ConfigError, match=r"hardware.precision \(was 'float32', is 'float64'\)"):
        train(make_config(hardware={"precision": "float64"}), resume=True, display=False)
