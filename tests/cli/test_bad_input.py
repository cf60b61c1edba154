"""Every mistake that the issue lists, as the user meets it: one clear message, exit code 2, nothing half-written."""

from __future__ import annotations

import json
import re
import resource
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from commands import Outcome, Run, command_line, environment, write
from model_directories import begin_training

TINY = ("model.hidden_size=8", "model.embed_size=4", "hardware.accelerator=cpu", "training.max_epochs=1")


def train(run: Run, *arguments: str, train: str = "train.tsv", dev: str = "dev.tsv") -> Outcome:
    return run("train", "--train", train, "--dev", dev, "--out", "new", *TINY, *arguments)


def refused(done: Outcome, message: str) -> None:
    """One message, and nothing else."""
    assert done.code == 2
    assert done.out == ""
    told = done.err.splitlines()
    assert told[-1].startswith(f"ssnt: error: {message}"), done.err
    assert len([line for line in told if ": error: " in line]) == 1
    # a training that never began leaves at most the lock that it held
    assert {str(path) for path in Path("new").rglob("*")} <= {"new/training", "new/training/lock"}


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        (b"a\tA\nb\n", (), "bad.tsv:2: no target: expected in column 2 (data.target_column), the line has 1 column"),
        (b"a\tA\n\tB\n", (), "bad.tsv:2: the source is empty"),
        (b"a\tA\nb\t\n", (), "bad.tsv:2: the target is empty"),
        (b"a\tA\n\xe4\tB\n", (), "bad.tsv:2: not valid UTF-8: byte 0xe4 at place 1 of the line"),
        (b"a\tA\n", (), "bad.tsv:1: there is only one example"),
        (b"", (), "bad.tsv: there is no example in this file"),
        (
            b"word\tform\tword\na\tA\tb\n",
            ("--source-column", "word", "--target-column", "form"),
            "bad.tsv:1: the column name 'word' is there twice (columns 1 and 3)",
        ),
        (
            b"word\tform\na\tA\n",
            ("--source-column", "wrd", "--target-column", "form"),
            "bad.tsv:1: no column 'wrd' (data.source_column)",
        ),
        (b"a\tA\nb\tB\n", ("--format", "sigmorphon2017"), "bad.tsv:1: no tags: expected in column 3"),
        (
            b"abc\tA\nbcd\tB\n",
            ("data.max_source_length=2",),
            "bad.tsv: none of 2 pairs is left after the filters, which took 2 by data.max_source_length (2)",
        ),
    ],
    ids=[
        "missing column",
        "empty source",
        "empty target",
        "invalid UTF-8",
        "only one line",
        "no line",
        "duplicate column name",
        "unknown column name",
        "no tags",
        "empty after filters",
    ],
)
def test_a_bad_file_is_refused_by_training_and_found_by_check(
    run: Run, place: Path, content: bytes, options: tuple[str, ...], message: str
):
    (place / "bad.tsv").write_bytes(content)
    refused(train(run, *options, train="bad.tsv"), message)
    checked = run("data", "check", "bad.tsv", *options)
    assert checked.code == 1
    where, _, what = message.partition(": ")
    assert any(line.startswith(f"{where}: error: {what[:40]}") for line in checked.out.splitlines()), checked.out


def test_a_bad_dev_file_is_refused_before_anything_is_trained(run: Run, place: Path):
    write(place / "bad.tsv", "a\tA", "b")
    done = train(run, dev="bad.tsv")
    refused(done, "bad.tsv:2: no target")
    assert "epoch" not in done.err


def test_files_that_are_not_there_are_named(run: Run, place: Path):
    refused(train(run, train="none.tsv"), "none.tsv: no such file")
    refused(train(run, dev="none.tsv"), "none.tsv: no such file")
    for verb in ("evaluate", "loglik", "align", "predict"):
        refused(run(verb, "model", "none.tsv"), "none.tsv: no such file")
    refused(run("score", "outputs.txt", "none.tsv"), "none.tsv: no such file")
    refused(run("compare", "outputs.txt", "none.txt", "test.tsv"), "none.txt: no such file")
    refused(run("data", "stats", "none.tsv"), "none.tsv: no such file")
    refused(run("predict", "model", str(place)), f"{place}: this is a directory; expected a file")


def test_tags_that_are_missing_in_prediction_are_asked_for(run: Run, place: Path):
    hint = "the model was trained with tags: give them with --tags or --tags-column"
    done = run("predict", "tagged", "words.txt")
    refused(done, "words.txt:1: no tags: expected in column 3 (data.tags_column), the line has 1 column")
    assert hint in done.err
    done = run("predict", "tagged", "words.txt", "--input-format", "g2p")
    refused(done, "words.txt: tags are needed, and the file has no column of tags")
    assert hint in done.err
    done = run("predict", "tagged", "-", stdin="abc\n")
    refused(done, "<stdin>:1: no tags")


def test_a_misspelt_setting_has_its_nearest_name(run: Run, place: Path):
    refused(
        train(run, "training.max_epoch=3"),
        "unknown setting 'training.max_epoch' (got 3): did you mean 'training.max_epochs'?",
    )
    refused(train(run, "hidden_size=3"), "unknown setting 'hidden_size' (got 3): did you mean 'model.hidden_size'?")
    write(place / "settings.yaml", "trainign:", "  seed: 1")
    done = run("train", "settings.yaml")
    refused(done, "settings.yaml: unknown setting 'trainign'")
    assert "did you mean 'training'?" in done.err
    write(place / "settings.yaml", "training:", "  seed: [1")
    refused(run("train", "settings.yaml"), "settings.yaml:3: not valid YAML")
    write(place / "settings.yaml", "training: {seed: 1}", "training: {seed: 2}")
    refused(run("train", "settings.yaml"), "settings.yaml:2: not valid YAML: setting 'training' is given twice")


def test_dev_symbols_that_training_does_not_have_are_counted(run: Run, place: Path):
    write(place / "dev.tsv", "aq\tAQ", "qb\tQB")
    done = train(run)
    assert done.code == 0, done.err
    assert re.search(r"ssnt: dev\.tsv: not in the training data.*source symbols 'q' \(2\)", done.err)
    assert re.search(r"target symbols 'Q' \(2\)", done.err)


def test_a_directory_that_exists_is_not_overwritten(run: Run, place: Path):
    before = (place / "model" / "model.safetensors").read_bytes()
    done = run("train", "--train", "train.tsv", "--dev", "dev.tsv", "--out", "model", *TINY)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("ssnt: error: model: holds a trained model already; go on with it (--resume")
    assert "--overwrite" in done.err
    assert (place / "model" / "model.safetensors").read_bytes() == before
    write(place / "other" / "thesis.txt" if (place / "other").mkdir() is None else place, "years of work")
    done = run("train", "--train", "train.tsv", "--dev", "dev.tsv", "--out", "other", *TINY, "--overwrite")
    assert done.code == 2
    assert "holds other files (thesis.txt) and no model" in done.err
    done = run("train", "--train", "train.tsv", "--dev", "dev.tsv", "--out", "words.txt", *TINY)
    assert done.err.startswith("ssnt: error: words.txt: is a file")


def limited(size: int) -> Callable[[], None]:
    """Lets a process write files of at most so many bytes, as on a disk that is nearly full."""
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


@pytest.mark.slow
@pytest.mark.parametrize("size", [10, 3000], ids=["from the beginning", "at the weights"])
def test_a_full_disk_is_told_and_loses_nothing(place: Path, size: int):
    done = subprocess.run(
        command_line("train", "--train", "train.tsv", "--dev", "dev.tsv", "--out", "new", *TINY),
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=limited(size),
        env=environment(PYTHONDONTWRITEBYTECODE="1"),
    )
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    assert re.search(r"ssnt: error: .*could not be written.*\(File too large\)", done.stderr.splitlines()[-1]), (
        done.stderr
    )
    partial = [path for path in place.rglob("*") if path.name.endswith(".partial")]
    assert partial == []


def test_a_full_disk_keeps_the_old_outputs(place: Path):
    before = (place / "outputs.txt").read_bytes()
    done = subprocess.run(
        command_line("predict", "model", "words.txt", "--out", "outputs.txt"),
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=limited(4),
        env=environment(PYTHONDONTWRITEBYTECODE="1"),
    )
    assert done.returncode == 2
    assert done.stderr == (
        "ssnt: error: outputs.txt: could not be written (File too large); what was there before is unchanged; "
        "choose another place\n"
    )
    assert (place / "outputs.txt").read_bytes() == before


def change_weights(model: Path) -> None:
    path = model / "model.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(bytes(content))


def change_vocabulary(model: Path) -> None:
    path = model / "vocab.json"
    path.write_text(path.read_text("utf-8").replace('"a"', '"x"', 1), encoding="utf-8")


def make_newer(model: Path) -> None:
    path = model / "config.yaml"
    content = yaml.safe_load(path.read_text("utf-8"))
    path.write_text(yaml.safe_dump(content | {"format_version": 99, "ssnt_version": "9.0"}), encoding="utf-8")


def leave_training_only(model: Path) -> None:
    for path in model.iterdir():
        path.unlink()
    begin_training(model)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda model: (model / "model.safetensors").write_bytes(b"abc"), "model/model.safetensors: "),
        (change_weights, "model/model.safetensors: was cut short or changed"),
        (change_vocabulary, "model/vocab.json: was cut short or changed"),
        (lambda model: (model / "model.safetensors").unlink(), "model/model.safetensors: is missing"),
        (lambda model: (model / "config.yaml").unlink(), "model/config.yaml: is missing"),
        (lambda model: (model / "config.yaml").write_text("kind: x\n"), "model/config.yaml: "),
        (make_newer, "model/config.yaml: was written by a newer ssnt (9.0, format_version 99"),
        (leave_training_only, "model: holds an unfinished training (training/) but no model yet"),
    ],
    ids=[
        "truncated",
        "changed weights",
        "changed symbols",
        "no weights",
        "no config",
        "no version",
        "newer",
        "unfinished",
    ],
)
@pytest.mark.parametrize("verb", ["predict", "info"])
def test_a_damaged_model_is_refused(run: Run, place: Path, verb: str, damage: Callable[[Path], None], message: str):
    damage(place / "model")
    refused(run(verb, "model", *(["words.txt"] if verb == "predict" else [])), message)


@pytest.mark.parametrize("verb", ["predict", "stream", "evaluate", "align", "loglik", "info"])
def test_a_model_that_is_not_there_is_named(run: Run, place: Path, verb: str):
    more = [] if verb in ("info", "stream") else ["test.tsv"]
    refused(run(verb, "no/such/model", *more), "no/such/model: there is no such directory")
    refused(run(verb, "words.txt", *more), "words.txt: is a file; expected a model directory")


def test_a_device_that_is_not_there_is_named(run: Run, place: Path):
    refused(run("predict", "model", "words.txt", "--device", "cuda:77"), "device 'cuda:77' cannot be used here")
    refused(run("predict", "model", "words.txt", "--device", "abacus"), "device 'abacus' cannot be used here")


def test_json_stays_json_when_lines_fail(run: Run, place: Path):
    write(place / "lines.jsonl", '{"source": "abc"}', '{"source": 3}', "[", '{"source": "b\\ud800c"}')
    done = run("predict", "model", "lines.jsonl", "--input-format", "jsonl", "--format", "jsonl")
    found = [json.loads(line) for line in done.out.splitlines()]
    assert done.code == 1
    assert [one["line"] for one in found] == [1, 2, 3, 4]
    assert ["error" in one for one in found[:3]] == [False, True, True]
