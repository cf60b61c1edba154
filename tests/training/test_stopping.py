"""Trainings in processes of their own, which are stopped in every way there is."""

import random
import signal
import subprocess
import time
from pathlib import Path

import pytest
import yaml
from safetensors.torch import load_file
from trainings import MakeConfig, start

from ssnt.checkpoint import load_model
from ssnt.config import Config
from ssnt.errors import ModelError
from ssnt.files import sha256_of
from ssnt.training import train
from ssnt.training.checkpoints import read_checkpoint
from ssnt.training.progress import Progress
from ssnt.training.run_directory import RunDirectory

PATIENCE = 120  # seconds; other tests may be using the machine


def progress_of(config: Config) -> Progress | None:
    last = RunDirectory(str(config.out)).last
    return Progress.from_state(read_checkpoint(last)["progress"]) if last.exists() else None


def wait_for(config: Config, process: subprocess.Popen[str], step: int) -> None:
    """Waits until a checkpoint of this step or a later one is written."""
    deadline = time.monotonic() + PATIENCE
    while (found := progress_of(config)) is None or found.step < step:
        assert process.poll() is None, process.communicate()[1]
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


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_and_says_how_to_go_on(make_config: MakeConfig, tmp_path: Path, number: signal.Signals):
    config = make_config(training={"max_epochs": 1000, "checkpoint_minutes": 1e-6}, validation={"patience": None})
    process = start(config, tmp_path, "--display")
    wait_for(config, process, 3)
    process.send_signal(number)
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    progress = progress_of(config)
    assert progress is not None
    last = errors.strip().splitlines()[-1]
    expected = f"step {progress.step}; go on with: ssnt train --resume --out {config.out}"
    assert last.startswith("ssnt: stopped after epoch ")
    assert last.endswith(expected)
    assert "Traceback" not in errors
    check_all_files(config)
    with pytest.raises(ModelError, match="holds an unfinished training"):
        load_model(str(config.out))


@pytest.mark.slow
def test_killed_ten_times_the_weights_are_the_same_and_no_file_is_damaged(make_config: MakeConfig, tmp_path: Path):
    settings = {
        "training": {"max_epochs": 10, "average": 3, "checkpoint_minutes": 0.002},
        "model": {"input_dropout": 0.3, "output_dropout": 0.2},
        "validation": {"patience": None},
    }
    whole, killed = make_config(**settings, out=str(tmp_path / "whole")), make_config(**settings)
    train(whole, display=False)
    moments = random.Random(4)
    for kill in range(10):
        before = progress_of(killed)
        process = start(killed, tmp_path, *(["--resume"] if RunDirectory(str(killed.out)).has_run else []))
        wait_for(killed, process, 1 if before is None else before.step + 1)
        time.sleep(0.3 * moments.random())
        process.kill()
        process.communicate()
        assert process.returncode == -signal.SIGKILL, f"it had ended before kill {kill}"
        check_all_files(killed)
    process = start(killed, tmp_path, "--resume")
    assert process.communicate(timeout=PATIENCE)[1] == ""
    assert process.returncode == 0
    check_all_files(killed)
    for name in ("model.safetensors", "metrics.json", "vocab.json", "config.yaml"):
        assert sha256_of(Path(str(whole.out)) / name) == sha256_of(Path(str(killed.out)) / name), name
