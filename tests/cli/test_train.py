"""``ssnt train``: settings from everywhere, and a real training from start to end."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from commands import Run, process, started, write
from ssnt.config import Config, load_config
from ssnt.training.run_directory import RunDirectory

TINY = ("model.hidden_size=8", "model.embed_size=4", "hardware.accelerator=cpu")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Config, dict[str, Any]]]:
    """What training was asked for, in its place."""
    calls: list[tuple[Config, dict[str, Any]]] = []
    monkeypatch.setattr("ssnt.training.train", lambda config, **options: calls.append((config, options)), raising=False)
    return calls


def test_settings_come_from_preset_file_and_command_line(run: Run, place: Path, asked: list):
    write(place / "settings.yaml", "training:", "  max_epochs: 7", "  seed: 3", "out: elsewhere")
    done = run(
        *("train", "settings.yaml", "--preset", "inflection", "--train", "train.tsv", "--dev", "dev.tsv"),
        *(
            "--format",
            "g2p",
            "--tags-column",
            "3",
            "--per-tag",
            "--out",
            "new",
            "training.seed=4",
            "model.hidden_size=8",
        ),
    )
    assert done.code == 0, done.err
    ((config, options),) = asked
    assert options == {"resume": False, "overwrite": False}
    assert (config.training.max_epochs, config.training.seed) == (7, 4)
    assert config.model.hidden_size == 8
    assert config.model.input_dropout == load_config(preset="inflection").model.input_dropout == 0.5
    assert (config.data.train, config.data.dev, config.out) == ("train.tsv", "dev.tsv", "new")
    assert (config.data.format, config.data.tags_column) == ("g2p", 3)
    assert config.training.per_tag


def test_options_are_only_set_if_given(run: Run, place: Path, asked: list):
    write(place / "settings.yaml", "data: {train: a, dev: b, format: g2p}", "training: {per_tag: true}", "out: m")
    assert run("train", "settings.yaml").code == 0
    config, _ = asked[0]
    assert (config.data.train, config.data.format, config.training.per_tag, config.out) == ("a", "g2p", True, "m")


def test_print_config_prints_everything_and_reads_back(run: Run, place: Path, asked: list):
    done = run("train", "--preset", "summarisation", "--out", "m", "--print-config", "training.seed=9")
    assert done.code == 0
    assert not asked
    write(place / "printed.yaml", done.out)
    assert load_config(place / "printed.yaml").training.seed == 9
    assert set(yaml.safe_load(done.out)) == set(Config.model_fields)
    assert run("train", "printed.yaml", "--print-config").out == done.out


@pytest.mark.parametrize(
    ("option", "setting", "message"),
    [
        (("--model", "joint-network"), "model.architecture=ssnt", "'joint-network' by --model and as 'ssnt'"),
        (("--model", "uniSSNT+"), "model.bidirectional=true", "False by --model and as True"),
        (("--train", "a.tsv"), "data.train=b.tsv", "'a.tsv' by --train and as 'b.tsv'"),
        (("--tags-column", "3"), "data.tags_column=2", "3 by --tags-column and as 2"),
    ],
)
def test_what_an_option_and_a_setting_say_must_agree(run, option, setting, message):
    done = run("train", *option, setting, "--print-config")
    name = setting.partition("=")[0]
    assert done.code == 2
    assert f"setting '{name}': given twice, as {message} by {name}=; leave one out" in done.err


def test_a_section_is_not_taken_away_from_an_option(run):
    done = run("train", "--model", "uniSSNT+", "model=null", "--print-config")
    assert done.code == 2
    assert "setting 'model': expected none beside --model, which sets a part of it; leave one out" in done.err


def test_the_same_may_be_said_twice(run):
    done = run("train", "--model", "rnnt", "model.architecture=rnnt", "model.bidirectional=false", "--print-config")
    assert (done.code, yaml.safe_load(done.out)["model"]["bidirectional"]) == (0, False)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "--train and --out must be given, here or in a file of settings"),
        (["--train", "train.tsv"], "--out must be given, here or in a file of settings"),
        (["a.yaml", "b.yaml"], "expected one file of settings, got a.yaml and b.yaml; settings are KEY=VALUE"),
        (["none.yaml"], "none.yaml: there is no such file"),
        (
            ["--preset", "inflexion"],
            "unknown preset 'inflexion': did you mean 'inflection'?",
        ),
        (["--resume"], "--out must say which training is to go on"),
        (
            ["--train", "t", "--out", "m", "--engine", "ray", "--workers", "2"],
            "--engine and --workers: these are for the many models of --per-tag",
        ),
        (["--resume", "--out", "nowhere"], "nowhere: there is no training to go on with; leave out --resume"),
        (
            ["--resume", "--overwrite", "--out", "m"],
            "--resume goes on with what is there and --overwrite replaces it; give one of them",
        ),
        (["training.max_epochs=many"], "setting 'training.max_epochs': expected a valid integer, got 'many'"),
    ],
)
def test_what_cannot_be_started_is_told(run: Run, place: Path, asked: list, arguments: list[str], message: str):
    done = run("train", *arguments)
    assert (done.code, done.out, asked) == (2, "", [])
    assert done.err.startswith(f"ssnt: error: {message}")


def test_a_run_goes_on_with_another_engine(run: Run, place: Path, asked: list):
    started = Config.model_validate(
        {
            "data": {"train": "t.tsv"},
            "training": {"per_tag": True},
            "hardware": {"engine": "ray", "address": "there:1", "workers": 9},
            "out": "many",
        }
    )
    RunDirectory("many").write_record(started, {})
    assert run("train", "--resume", "--out", "many", "--workers", "3").code == 0
    assert run("train", "--resume", "--out", "many", "--engine", "local").code == 0
    first, second = (config.hardware for config, _ in asked)
    assert (first.engine, first.address, first.workers) == ("ray", "there:1", 3)
    assert (second.engine, second.address, second.workers) == ("local", None, 9)


def test_a_training_from_start_to_end(run: Run, place: Path):
    files = ("--train", "train.tsv", "--dev", "dev.tsv", "--out", "new")
    done = run("train", *files, *TINY, "training.max_epochs=1")
    assert (done.code, done.out) == (0, ""), done.err
    assert "the model is in new" in done.err
    assert len(run("predict", "new", "words.txt").out.splitlines()) == 5
    again = run("train", *files, *TINY)
    assert again.code == 2
    assert again.err.startswith("ssnt: error: new: holds a trained model already; go on with it (--resume")
    on = run("train", "--resume", "--out", "new", "training.max_epochs=2")
    assert on.code == 0, on.err
    assert "epoch 2/2" in on.err
    assert "epoch 1/2" not in on.err
    assert run("train", "--resume", "--out", "new").err.strip().endswith("nothing to do")
    changed = run("train", "--resume", "--out", "new", "model.hidden_size=4")
    assert changed.code == 2
    assert "model.hidden_size (was 8, is 4)" in changed.err
    anew = run("train", *files, *TINY, "training.max_epochs=1", "--overwrite")
    assert anew.code == 0, anew.err


@pytest.mark.slow
def test_ctrl_c_saves_and_says_how_to_go_on(place: Path):
    command = (
        *("train", "--train", "train.tsv", "--dev", "dev.tsv", "--out", "new", *TINY),
        *("training.max_epochs=1000000", "validation.patience=1000000"),
    )
    with started(*command, stderr=subprocess.PIPE) as job:
        assert job.stderr is not None
        assert job.stderr.readline().startswith(b"ssnt: train.tsv is read as tsv")
        assert job.stderr.readline().startswith(b"epoch ")
        time.sleep(0.5)
        os.kill(job.pid, signal.SIGINT)
        rest = job.communicate(timeout=60)[1].decode()
        assert job.returncode == 130
    assert "Traceback" not in rest
    last = rest.splitlines()[-1]
    assert re.match(r"ssnt: stopped (in|after) epoch \d+, step ", last)
    assert last.endswith("; go on with: ssnt train --resume --out new")
    done = process("train", "--resume", "--out", "new", "training.max_epochs=2", "validation.patience=1000000")
    assert done.code == 0, done.err
