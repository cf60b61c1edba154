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
    for wrong, meant in (("bissnt", "biSSNT"), ("UNISSNT+", "uniSSNT+"), ("atention", "attention")):
        done = run(verb, "--print-config", "--model", wrong)
        assert done.code == 2
        assert done.err.startswith(f"ssnt: error: Invalid value for '--model': '{wrong}' is not one of 'uniSSNT', ")
        assert done.err.splitlines()[0].endswith(f"; did you mean '{meant}'?")


def test_the_paper_s_names_are_no_architectures(run: Run):
    done = run("train", "--print-config", "model.architecture=biSSNT")
    assert done.code == 2
    assert done.err == (
        "ssnt: error: setting 'model.architecture': expected 'ssnt', of which biSSNT is the kind with "
        "bidirectional=true and transition=geometric (--model biSSNT sets all three), got 'biSSNT'\n"
    )


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
    uni, bi = ("(ssnt train --model uniSSNT+)\n", "(ssnt train --model biSSNT+)\n")
    assert done.err.startswith(f"ssnt: error: align: '{name}")
    assert done.err.endswith(bi)
    for arguments, what, remedy in (
        (("stream", model), "stream", uni),
        (("evaluate", model, dev, "--metrics", "latency"), "latency", uni),
        (("predict", model, words, "--search", "online"), "search 'online'", uni),
        (("predict", model, words, "--search", "path"), "search 'path'", bi),
        (("predict", model, words, "--format", "tsv", "--align"), "alignments", bi),
    ):
        done = run(*arguments, stdin="ab\n")
        assert done.code == 2
        assert done.err.startswith(f"ssnt: error: {what}: '{name}")
        assert done.err.endswith(remedy)
        assert "search=" not in done.err  # which is Python
        assert ("search 'marginal'" in done.err) == what.startswith("search")
        assert done.out == ""


def test_settings_without_meaning_are_refused(run: Run, tmp_path: Path):
    train = write(tmp_path / "train.tsv", "a\tb")
    done = run("train", "--model", "seq2seq", "--train", train, "--out", tmp_path / "m", "training.fastemit=0.5")
    assert done.code == 2
    assert "setting 'training.fastemit': expected 0 for model.architecture 'seq2seq'" in done.err
    done = run("train", "--print-config", "--model", "seq2seq", "model.source_skip=true")
    assert done.code == 2
    assert done.err == (
        "ssnt: error: setting 'model.source_skip': expected false for 'seq2seq', which has no alignment, got true; "
        "leave it out, or choose a model with an alignment, such as biSSNT+ (--model biSSNT+)\n"
    )
    for search, other in (("online", "uniSSNT+"), ("path", "biSSNT+")):
        done = run("train", "--print-config", "--model", "seq2seq", f"search.search={search}")
        assert done.code == 2
        assert done.err.endswith(f"leave it out, or choose another model (--model {other})\n")
    done = run("train", "--print-config", "--model", "rnnt", "search.search=online")
    assert done.err.endswith("got 'online'; set model.bidirectional to false\n")
