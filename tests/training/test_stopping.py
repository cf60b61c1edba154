"""Trainings in processes of their own, which are stopped in every way there is."""

import os
import random
import re
import signal
import time
from pathlib import Path

import pytest
import yaml
from safetensors.torch import load_file

from ssnt.checkpoint import load_model
from ssnt.config import Config, dump_config
from ssnt.errors import ModelError
from ssnt.files import sha256_of
from ssnt.training import train
from ssnt.training.checkpoints import read_checkpoint
from ssnt.training.run_directory import RunDirectory
from trainings import MakeConfig, Nursery, progress_of, start

PATIENCE = 120  # seconds; other tests may be using the machine
SHORT = {"beam": 1, "max_length": 8}  # models that have learnt little write on and on


def steps_of(config: Config) -> int:
    """How far a training has come, as its last checkpoint says."""
    return progress_of(config).step if RunDirectory(str(config.out)).last.exists() else 0


def wait_for(config: Config, step: int) -> None:
    """Waits until a checkpoint of this step or a later one is written."""
    deadline = time.monotonic() + PATIENCE
    while steps_of(config) < step:
        assert time.monotonic() < deadline, "training does not get anywhere"
        time.sleep(0.02)


def check_all_files(config: Config) -> None:
    """Reads every file of a run, whatever moment it was killed at."""
    out = Path(str(config.out))
    for path in out.rglob("*"):
        if path.is_dir() or path.name == "lock" or any(part.endswith(".partial") for part in path.parts):
            continue
        if path.suffix == ".safetensors":
            assert load_file(path)
        elif path.suffix == ".ckpt":
            assert read_checkpoint(path)["progress"]["step"] > 0
        elif path.suffix == ".csv":
            assert path.read_text().endswith("\n")
        elif path.suffix == ".yaml":
            assert yaml.safe_load(path.read_text())["config"]
        else:
            assert path.suffix in (".json", ".md"), path
    if (out / "config.yaml").exists():
        load_model(out)


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_a_signal_saves_and_says_how_to_go_on(make_config: MakeConfig, tmp_path: Path, number: signal.Signals):
    config = make_config(training={"max_epochs": 1000, "checkpoint_minutes": 1e-6}, validation={"patience": None})
    process = start(config, tmp_path, "--display")
    wait_for(config, 3)
    process.send_signal(number)
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    last = errors.strip().splitlines()[-1]
    expected = f"step {steps_of(config)}; go on with: ssnt train --resume --out {config.out}"
    assert re.match(r"ssnt: stopped (in|after) epoch \d+, step ", last)
    assert last.endswith(expected)
    assert "Traceback" not in errors
    check_all_files(config)
    with pytest.raises(ModelError, match="holds an unfinished training"):
        load_model(str(config.out))


@pytest.mark.slow
def test_killed_ten_times_the_weights_are_the_same_and_no_file_is_damaged(make_config: MakeConfig, tmp_path: Path):
    settings = {
        "training": {"max_epochs": 40, "average": 3, "checkpoint_minutes": 0.001},
        "model": {"input_dropout": 0.3, "output_dropout": 0.2},
        "validation": {"patience": None},
        "search": SHORT,
    }
    whole, killed = make_config(**settings, out=str(tmp_path / "whole")), make_config(**settings)
    began = time.monotonic()
    train(whole, display=False)
    longest = (time.monotonic() - began) / 40  # so that ten of them and what is waited for besides are well within it
    moments = random.Random(4)
    settings_file = tmp_path / "killed.yaml"
    settings_file.write_text(dump_config(killed), encoding="utf-8")
    nurseries = [Nursery(hash_seed) for hash_seed in (1, 2)]
    try:
        for kill in range(10):
            nursery, before = nurseries[kill % 2], steps_of(killed)
            child = nursery.start(settings_file, resume=RunDirectory(str(killed.out)).has_run)
            wait_for(killed, before + 1)
            time.sleep(longest * moments.random())
            os.kill(child, signal.SIGKILL)
            assert nursery.wait() == -signal.SIGKILL, f"it had ended before kill {kill}"
            check_all_files(killed)
        nurseries[0].start(settings_file, resume=True)
        assert nurseries[0].wait() == 0
    finally:
        for nursery in nurseries:
            nursery.close()
    check_all_files(killed)
    for name in ("model.safetensors", "metrics.json", "vocab.json", "config.yaml"):
        assert sha256_of(Path(str(whole.out)) / name) == sha256_of(Path(str(killed.out)) / name), name


@pytest.mark.slow
def test_dying_at_every_change_of_a_file_does_no_harm(make_config: MakeConfig, tmp_path: Path):
    settings = {"training": {"max_epochs": 4, "average": 2, "checkpoint_minutes": 1e-3}, "search": SHORT}
    whole = make_config(**settings, out=str(tmp_path / "whole"))
    train(whole, display=False)
    nursery = Nursery(hash_seed=3)
    try:
        for when in ("before", "after"):
            dying = make_config(**settings, out=str(tmp_path / when))
            settings_file = tmp_path / "dying.yaml"
            settings_file.write_text(dump_config(dying), encoding="utf-8")
            deaths = die_at_every_change(nursery, dying, settings_file, when)
            assert deaths >= 5, when
            for name in ("model.safetensors", "metrics.json", "vocab.json", "config.yaml"):
                assert sha256_of(Path(str(whole.out)) / name) == sha256_of(Path(str(dying.out)) / name), (when, name)
    finally:
        nursery.close()


def die_at_every_change(nursery: Nursery, config: Config, settings_file: Path, when: str) -> int:
    """Trains until the first change, goes on until the second, and so on to the end; gives the number of deaths."""
    for die_at in range(1, 100):
        nursery.start(settings_file, resume=RunDirectory(str(config.out)).has_run, die_at=die_at, when=when)
        code = nursery.wait()
        check_all_files(config)
        if code == 0:
            return die_at - 1
        assert code == 9, (when, die_at)
    pytest.fail("it never gets to the end")
