"""``ssnt sweep``: settings from everywhere, real sweeps, and how they are stopped."""

from __future__ import annotations

import csv
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from commands import Run, started, write
from ssnt.config import SweepRunConfig, dump_config, load_sweep_config
from ssnt.errors import ConfigError
from ssnt.sweeps import SweepResult, Trial, run_sweep, sweep_config
from ssnt.sweeps.directory import SweepDirectory
from sweeping import InProcess, sweep_settings

from conftest import require

require("optuna", "sweeps")

Asked = list[tuple[SweepRunConfig, dict[str, Any]]]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    """What sweeping was asked for, in its place."""
    calls: Asked = []

    def note(config: SweepRunConfig, **options: Any) -> SweepResult:
        calls.append((config, options))
        params = {"model.hidden_size": 8, "optimiser.learning_rate": 0.0123456789}
        trials = (Trial(2, "complete", params, 1.5, 3), Trial(1, "pruned", {**params, "model.hidden_size": 4}, None, 1))
        return SweepResult(Path(str(config.out)), "perplexity", trials)

    monkeypatch.setattr("ssnt.sweeps.run_sweep", note, raising=False)
    return calls


def test_settings_come_from_preset_file_and_command_line(run: Run, place: Path, asked: Asked):
    write(place / "s.yaml", "sweep: {space: {model.hidden_size: [4, 8]}, sampler: random}", "training: {seed: 3}")
    files = ("--train", "train.tsv", "--dev", "dev.tsv", "--out", "new", "--format", "g2p", "--tags-column", "3")
    engine = ("--engine", "ray", "--address", "here:1", "--workers", "3")
    done = run("sweep", "s.yaml", "--preset", "inflection", *files, *engine, "sweep.trials=5", "model.embed_size=2")
    assert done.code == 0, done.err
    ((config, options),) = asked
    assert options == {"resume": False, "overwrite": False}
    assert (config.sweep.space, config.sweep.trials) == ({"model.hidden_size": [4, 8]}, 5)
    assert (config.search.beam, config.training.seed, config.model.embed_size) == (30, 3, 2)
    assert (config.data.train, config.data.dev, config.out) == ("train.tsv", "dev.tsv", "new")
    assert (config.data.format, config.data.tags_column) == ("g2p", 3)
    assert (config.hardware.engine, config.hardware.address, config.hardware.workers) == ("ray", "here:1", 3)
    assert done.out.splitlines() == [
        "trial  state     perplexity  epochs  model.hidden_size  optimiser.learning_rate",
        " 0002  complete      1.5000       3                  8                0.0123457",
        " 0001  pruned                     1                  4                0.0123457",
    ]


def test_print_config_prints_everything_and_reads_back(run: Run, place: Path, asked: Asked):
    done = run("sweep", "--preset", "summarisation", "--print-config", "sweep.seed=9")
    assert (done.code, asked) == (0, [])
    write(place / "printed.yaml", done.out)
    assert load_sweep_config(place / "printed.yaml").sweep.seed == 9
    assert set(yaml.safe_load(done.out)) == set(SweepRunConfig.model_fields)
    assert run("sweep", "printed.yaml", "--print-config").out == done.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "--train and --dev and --out must be given, here or in a file of settings"),
        (["none.yaml"], "none.yaml: there is no such file"),
        (["--resume"], "--out must say which sweep is to go on"),
        (["--resume", "--out", "nowhere"], "nowhere: there is no sweep to go on with; leave out --resume"),
        (["--resume", "--overwrite", "--out", "m"], "--resume goes on with what is there and --overwrite replaces it"),
        (
            ["sweep.sampler=gird"],
            "setting 'sweep.sampler': expected 'grid', 'random' or 'tpe', got 'gird'; did you mean 'grid'?",
        ),
        (
            ["sweep.space={model.hiden_size: [1]}"],
            "setting 'sweep.space': unknown setting 'model.hiden_size' (got [1])",
        ),
        (["--per-tag"], "No such option: --per-tag"),
    ],
)
def test_what_cannot_be_started_is_told(run: Run, place: Path, asked: Asked, arguments: list[str], message: str):
    done = run("sweep", *arguments)
    assert (done.code, done.out, asked) == (2, "", [])
    assert done.err.startswith(f"ssnt: error: {message}")


def scores(out: Path) -> list[dict[str, str]]:
    with (out / "trials.csv").open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[dict[str, str]]]:
    """A file with the settings of a sweep of four tiny models, and what they find in this process."""
    place = tmp_path_factory.mktemp("expected")
    config = sweep_settings(place)
    (place / "settings.yaml").write_text(dump_config(config.model_copy(update={"out": None})))
    run_sweep(config, engine=InProcess(), display=False)
    return place, scores(Path(str(config.out)))


def wait_for_the_end(out: Path) -> None:
    """Waits until no process writes there: one from the fork server lives a moment longer than its client."""
    deadline = time.monotonic() + 60
    while True:
        try:
            with SweepDirectory(out).locked():
                return
        except ConfigError:
            assert time.monotonic() < deadline
            time.sleep(0.05)


@pytest.mark.slow
def test_a_sweep_that_was_stopped_and_one_that_was_killed_go_on(
    expected: tuple[Path, list[dict[str, str]]], tmp_path: Path
):
    place, wanted = expected
    out = tmp_path / "new"
    command = ("sweep", place / "settings.yaml", "--out", out, "--workers", "1")
    with started(*command, stderr=subprocess.PIPE) as job:
        assert job.stderr is not None
        assert job.stderr.readline().startswith(b"1/4 trials  trial 0001 dev perplexity ")
        os.kill(job.pid, signal.SIGINT)
        last = job.communicate(timeout=60)[1].decode().splitlines()[-1]
        assert job.returncode == 130
    assert last.endswith(f" of 4 trials are done; go on with: ssnt sweep --resume --out {out}")
    with started("sweep", "--resume", "--out", out, stderr=subprocess.PIPE) as job:
        assert job.stderr is not None
        assert job.stderr.readline().startswith(b"2/4 trials  trial 0002 dev perplexity ")
        os.kill(job.pid, signal.SIGKILL)
        job.wait()
    wait_for_the_end(out)
    states = [row["state"] for row in scores(out)]
    assert states[:2] == ["complete", "complete"]
    assert states.count("complete") < 4  # it was killed before its end
    run_sweep(sweep_config(out), resume=True, engine=InProcess(), display=False)
    assert scores(out) == wanted
