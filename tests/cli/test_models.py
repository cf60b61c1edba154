"""``--model NAME``: every kind of model from training to outputs, and what those without an alignment cannot do."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from commands import Run, write
from ssnt.cli.options import ModelName
from ssnt.config import MODEL_NAMES

TINY = (
    "model.hidden_size=6",
    "model.embed_size=4",
    "training.max_epochs=1",
    "validation.beam=1",
    "hardware.threads=1",
)
WITHOUT = ("seq2seq", "attention", "adapted-seq2seq")


def test_the_names_are_those_of_the_settings():
    assert tuple(ModelName) == MODEL_NAMES


@pytest.mark.parametrize("verb", ["train", "sweep"])
def test_a_name_sets_the_architecture(run: Run, verb: str):
    def model(*arguments: str) -> dict:
        done = run(verb, "--print-config", *arguments)
        assert done.code == 0, done.err
        return yaml.safe_load(done.out)["model"]

    for name in MODEL_NAMES:
        found = model("--model", name, "model.hidden_size=7")
        assert found["hidden_size"] == 7
        assert found["architecture"] == ("ssnt" if "SSNT" in name else name)
        if "SSNT" in name:
            assert found["bidirectional"] == name.startswith("bi")
            assert found["transition"] == ("neural" if name.endswith("+") else "geometric")
    assert model("--model", "attention", "model.attention=luong")["attention"] == "luong"
    assert model()["architecture"] == "ssnt"
    done = run(verb, "--print-config", "--model", "ssmt")
    assert done.code == 2
    assert "seq2seq" in done.err


@pytest.mark.parametrize("name", MODEL_NAMES)
def test_every_kind_of_model_from_training_to_outputs(run: Run, tmp_path: Path, name: str):
    pairs = [f"{word}\t{word.upper()}" for word in ("ab", "ba", "aab", "b", "bab")]
    train, dev, words = (
        write(tmp_path / "train.tsv", *pairs),
        write(tmp_path / "dev.tsv", *pairs[:2]),
        write(tmp_path / "words.txt", "ab", "bb"),
    )
    model = tmp_path / "model"
    done = run("train", "--model", name, "--train", train, "--dev", dev, "--out", model, *TINY)
    assert done.code == 0, done.err
    done = run("predict", model, words, "--nbest", "2")
    assert done.code == 0, done.err
    assert len(done.out.splitlines()) == 5
    for verb in ("evaluate", "loglik", "info"):
        done = run(verb, model, *([] if verb == "info" else [dev]))
        assert done.code == 0, done.err
    assert name.split("SSNT", maxsplit=1)[0] in done.out
    done = run("align", model, dev)
    if name not in WITHOUT:
        assert done.code == 0, done.err
        return
    assert done.code == 2
    assert "align: expected a model with an alignment" in done.err
    for arguments, message in (
        (("stream", model), "stream: expected a model with an alignment"),
        (("predict", model, words, "--search", "path"), "search='path': expected a model with an alignment"),
        (("predict", model, words, "--format", "tsv", "--align"), "alignments: expected a model that has them"),
    ):
        done = run(*arguments, stdin="ab\n")
        assert done.code == 2
        assert message in done.err
        assert done.out == ""


def test_settings_without_meaning_are_refused(run: Run, tmp_path: Path):
    train = write(tmp_path / "train.tsv", "a\tb")
    done = run("train", "--model", "seq2seq", "--train", train, "--out", tmp_path / "m", "training.fastemit=0.5")
    assert done.code == 2
    assert "setting 'training.fastemit': expected 0 for model.architecture 'seq2seq'" in done.err
