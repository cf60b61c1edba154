"""Several processes that train one model."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from ssnt.config import Config, dump_config
from ssnt.errors import ConfigError
from ssnt.training import processes, train
from ssnt.training.processes import World, is_first_process, joined_world
from ssnt.training.run_directory import RunDirectory
from trainings import MakeConfig, rows, start

PATIENCE = 180


def assert_same_training(one: Config, other: Config) -> None:
    assert len(rows(one)) == len(rows(other)) == one.training.max_epochs
    for own, expected in zip(rows(one), rows(other), strict=True):
        for name in ("train_loss", "train_perplexity", "dev_perplexity", "value"):
            assert float(own[name]) == pytest.approx(float(expected[name]), rel=1e-4), name
    found, expected_weights = (load_file(Path(str(config.out)) / "model.safetensors") for config in (one, other))
    for name, tensor in found.items():
        torch.testing.assert_close(tensor, expected_weights[name], rtol=1e-3, atol=1e-4)


def test_alone_nothing_is_asked_of_others():
    world = World()
    assert world.is_first
    assert world.first(lambda: 5) == world.in_first(lambda: 5) == 5
    assert world.gather(1.5) == [1.5]
    assert world.any(True, False) == (True, False)
    with pytest.raises(KeyError):
        world.in_first(lambda: {}["x"])


def test_several_machines_cannot_be_started_from_one(make_config: MakeConfig, monkeypatch):
    monkeypatch.delenv("RANK", raising=False)
    config = make_config(hardware={"nodes": 2, "devices": 3})
    with pytest.raises(ConfigError, match=r"run on each: torchrun --nnodes 2 --nproc-per-node 3 .* -m ssnt train"):
        train(config, display=False)


def test_as_many_processes_as_the_settings_say(make_config: MakeConfig, monkeypatch):
    for name, value in {"RANK": 0, "LOCAL_RANK": 0, "WORLD_SIZE": 4, "MASTER_PORT": 1, "MASTER_ADDR": "x"}.items():
        monkeypatch.setenv(name, str(value))
    config = make_config(hardware={"devices": 2})
    with (
        pytest.raises(ConfigError, match=r"expected 4 processes in all, as many as were started .*, got 2 x 1"),
        joined_world(config, resume=False, overwrite=False),
    ):
        pass
    assert is_first_process(config)
    monkeypatch.setenv("RANK", "1")
    assert not is_first_process(config)
    assert is_first_process(make_config())


def test_files_of_the_working_directory_are_no_code(make_config: MakeConfig, monkeypatch):
    commands: list[list[str]] = []

    class Started:
        stdin = None

        def __init__(self, command: list[str], **_: object) -> None:
            commands.append(command)

    monkeypatch.setattr(processes.subprocess, "Popen", Started)
    processes._start(make_config(), World(size=2), 1, False, False)
    assert commands == [[sys.executable, "-P", "-m", "ssnt.training.processes"]]


@pytest.mark.slow
def test_two_processes_train_like_one_with_twice_the_batch(make_config: MakeConfig, tmp_path: Path):
    # 119 pairs: the last batch has 7, of which one process gets 4 and the other 3
    settings = {"model": {"input_dropout": 0.0}, "training": {"max_epochs": 3}}
    one = make_config(**settings, batch={"size": 16}, out=str(tmp_path / "one"))
    two = make_config(**settings, batch={"size": 8}, hardware={"devices": 2}, out=str(tmp_path / "two"))
    for config in (one, two):
        lines = Path(str(config.data.train)).read_text().splitlines()[:119]
        Path(str(config.data.train)).write_text("\n".join(lines) + "\n")
    train(one, display=False)
    process = start(two, tmp_path)
    _, errors = process.communicate(timeout=PATIENCE)
    assert (process.returncode, errors) == (0, "")
    assert_same_training(two, one)


@pytest.mark.slow
def test_torchrun_starts_processes_too(make_config: MakeConfig, tmp_path: Path):
    settings = {"model": {"input_dropout": 0.0}, "training": {"max_epochs": 1}}
    one = make_config(**settings, batch={"size": 16}, out=str(tmp_path / "one"))
    two = make_config(**settings, batch={"size": 8}, hardware={"devices": 2}, out=str(tmp_path / "two"))
    train(one, display=False)
    (tmp_path / "two.yaml").write_text(dump_config(two))
    # what docs/training.md shows: torchrun is this module
    command = [sys.executable, "-m", "torch.distributed.run", "--nnodes", "1", "--nproc-per-node", "2"]
    run = subprocess.run(
        [*command, "-m", "ssnt", "train", str(tmp_path / "two.yaml")],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert run.returncode == 0, run.stderr
    assert_same_training(two, one)


@pytest.mark.slow
def test_two_processes_stop_together_and_go_on(make_config: MakeConfig, tmp_path: Path):
    settings = {"training": {"max_epochs": 4}, "batch": {"size": 4}, "hardware": {"devices": 2}}
    whole, parts = (make_config(**settings, out=str(tmp_path / name)) for name in ("whole", "parts"))
    process = start(whole, tmp_path)
    assert process.communicate(timeout=PATIENCE) == (None, "")
    process = start(parts, tmp_path, "--display")
    deadline = time.monotonic() + PATIENCE
    while not RunDirectory(str(parts.out)).last.exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert errors.strip().splitlines()[-1].endswith(f"go on with: ssnt train --resume --out {parts.out}")
    process = start(parts, tmp_path, "--resume")
    assert process.communicate(timeout=PATIENCE) == (None, "")
    for name, tensor in load_file(tmp_path / "whole" / "model.safetensors").items():
        assert torch.equal(tensor, load_file(tmp_path / "parts" / "model.safetensors")[name]), name


@pytest.mark.slow
def test_an_error_in_the_first_process_ends_the_others(make_config: MakeConfig, tmp_path: Path):
    config = make_config(optimiser={"learning_rate": 1e38, "gradient_clip": None}, hardware={"devices": 2})
    process = start(config, tmp_path)
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 2
    assert "the loss or its gradient is infinite or not a number" in errors
    assert "Traceback" not in errors
