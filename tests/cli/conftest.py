"""A tiny trained model, made once, and a directory with it and the files that examples speak of."""

from __future__ import annotations

import random
import shutil
import sys
from pathlib import Path
from unittest.mock import patch

import pytest
import torch
from typer.testing import CliRunner

from commands import Outcome, Run, write
from ssnt.cli.app import make_app
from ssnt.config import Config, ModelConfig
from ssnt.nn import SSNT
from ssnt.pipeline import Transducer
from ssnt.types import EOS_ID, Batch
from transducers import make_transducer, make_vocabulary

LETTERS = "abcdefäz"
SMALL = {"embed_size": 4, "hidden_size": 6}
WORDS = ("abc", "fade", "bad", "zab", "äb")


@pytest.fixture(scope="session")
def run() -> Run:
    """Runs a command in this process; ``stdin`` is text or bytes. No command may end in a traceback."""
    app, runner = make_app(), CliRunner()

    def invoke(*arguments: str | Path, stdin: str | bytes = "") -> Outcome:
        words = [str(one) for one in arguments]
        with patch.object(sys, "argv", ["ssnt", *words]):
            done = runner.invoke(app, words, input=stdin, catch_exceptions=False)
        assert "Traceback" not in done.stderr, done.stderr
        return Outcome(done.exit_code, done.stdout, done.stderr)

    return invoke


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory of models, which nobody may change."""
    place = tmp_path_factory.mktemp("models")
    capitals().save_pretrained(place / "model")
    tagged = Config.model_validate({"data": {"format": "sigmorphon2017"}, "model": {**SMALL, "bidirectional": False}})
    vocabulary = make_vocabulary(LETTERS, LETTERS.upper(), ("N", "PL", "SG"))
    make_transducer(vocabulary=vocabulary, config=tagged).save_pretrained(place / "tagged")
    two_way = Config.model_validate({"model": {**SMALL, "bidirectional": True}})
    make_transducer(config=two_way).save_pretrained(place / "bidirectional")
    return place


@pytest.fixture
def place(tmp_path: Path, models: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory that commands work in."""
    for one in models.iterdir():
        shutil.copytree(one, tmp_path / one.name)
    write(tmp_path / "words.txt", *WORDS)
    write(tmp_path / "outputs.txt", *(word.upper() for word in WORDS))
    write(tmp_path / "baseline.txt", *["ABC"] * len(WORDS))
    for name in ("train.tsv", "dev.tsv", "test.tsv"):
        write(tmp_path / name, *(f"{word}\t{word.upper()}" for word in WORDS))
    write(tmp_path / "tagged.tsv", *(f"{word}\t{word.upper()}\tN;PL" for word in WORDS))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SSNT_CACHE", str(tmp_path / "cache"))
    return tmp_path


def capitals() -> Transducer:
    """An online model that puts capitals for letters, trained in a moment."""
    settings = {"embed_size": 16, "hidden_size": 32, "bidirectional": False}
    config = Config.model_validate({"model": settings, "search": {"beam": 4}})
    vocabulary = make_vocabulary(LETTERS, LETTERS.upper())
    torch.manual_seed(1)
    model = SSNT(ModelConfig(**config.model.model_dump(), **vocabulary.model_sizes()))
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
    dice = random.Random(1)
    for _ in range(400):
        length = dice.randint(1, 7)
        rows = [[dice.randrange(4, 4 + len(LETTERS)) for _ in range(length)] + [EOS_ID] for _ in range(32)]
        src, lens = torch.tensor(rows), torch.full((32,), length + 1)
        loss = model.loss(Batch(src, lens, src, lens))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return Transducer(model.eval(), vocabulary, config, {"scores": {}})
