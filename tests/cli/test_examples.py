"""The examples in the help do what they say."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest

from commands import Run, write
from ssnt.cli.app import VERBS, examples_of
from ssnt.config import Config, SweepRunConfig
from ssnt.sweeps import SweepResult
from ssnt.sweeps.directory import SweepDirectory
from ssnt.training.run_directory import RunDirectory

LONG = {"quickstart"}
"""Those with tests of their own, which take longer."""

EXAMPLES = [
    pytest.param(example, id=example)
    for verb in VERBS
    if verb.name not in LONG
    for example in examples_of(verb.function())
]


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[Config]:
    """What training would have been asked for; that and serving are tested elsewhere."""
    asked: list[Config] = []

    def note(config: Config, **options: Any) -> None:
        asked.append(config)

    def note_sweep(config: Config, **options: Any) -> SweepResult:
        asked.append(config)
        return SweepResult(Path(str(config.out)), "perplexity", ())

    def serve(models: Any, settings: Any, *, on_start: Any, **options: Any) -> None:
        on_start(" ".join(one.name for one in models))

    monkeypatch.setattr("ssnt.serve.serve", serve)
    monkeypatch.setattr("ssnt.serve.check_address", lambda *_: None)  # other tests listen as well
    monkeypatch.setattr("ssnt.training.train", note, raising=False)
    monkeypatch.setattr("ssnt.sweeps.run_sweep", note_sweep, raising=False)
    return asked


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_example_runs(run: Run, place: Path, trained: list[Config], example: str):
    write(place / "settings.yaml", "data:", "  train: train.tsv", "  dev: dev.tsv")
    (place / "model" / "training").mkdir()
    started = Config.model_validate({"data": {"train": "train.tsv", "dev": "dev.tsv"}})
    RunDirectory(place / "model").write_record(started, {"train": "0", "dev": "0"})
    write(place / "sweep.yaml", "data:", "  train: train.tsv", "  dev: dev.tsv")
    swept = SweepRunConfig.model_validate(started.model_dump())
    SweepDirectory(place / "sweep").write_record(swept, {"train": "0", "dev": "0"})
    shutil.copytree(place / "model", place / "other")
    words = [word for word in shlex.split(example) if not word.startswith("SSNT_TOKEN=")]
    stdin, target = "", None
    if "|" in words:
        assert words[0] == "echo"
        assert words[2] == "|"
        stdin, words = f"{words[1]}\n", words[3:]
    if ">" in words:
        target, words = words[-1], words[:-2]
    assert words[0] == "ssnt"
    done = run(*words[1:], stdin=stdin)
    if words[1:3] == ["data", "check"]:
        assert done.code in (0, 1)  # what it finds in these files is not the point
        assert "no such file" not in done.out
        return
    assert done.code == 0, done.err
    if words[1] == "train" and "--print-config" not in words:
        assert len(trained) == 1
        assert trained[0].out == "model"
    elif words[1] == "sweep":
        assert [config.out for config in trained] == ["sweep"]
    elif "--out" in words:
        assert (place / words[words.index("--out") + 1]).stat().st_size
    else:
        assert done.out.strip()
    if target is not None:
        (place / target).write_text(done.out, encoding="utf-8")
        assert run("train", target, "--print-config").out == done.out


def test_there_are_examples():
    assert len(EXAMPLES) >= 25
