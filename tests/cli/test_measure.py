"""``ssnt evaluate``, ``loglik``, ``align`` and ``info``: a model and a file of pairs."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import pytest

from commands import Run, write
from ssnt.pipeline import Transducer


def test_evaluate_prints_scores_with_signatures(run: Run, place: Path):
    done = run("evaluate", "model", "test.tsv", "--json", "--resamples", "10")
    assert (done.code, done.err) == (0, "")
    found = {one["name"]: one for one in json.loads(done.out)}
    assert list(found) == ["accuracy", "edit_distance", "perplexity"]
    assert found["accuracy"]["value"] == 1.0
    assert "bootstrap:10" in found["accuracy"]["signature"]
    model = Transducer.from_pretrained("model")
    words = (place / "words.txt").read_text("utf-8").split()
    total = sum(model.score([(word, word.upper()) for word in words]))
    tokens = sum(len(word) + 1 for word in words)
    assert found["perplexity"]["value"] == pytest.approx(math.exp(-total / tokens), rel=1e-4)


def test_evaluate_prints_a_table(run: Run, place: Path):
    lines = run("evaluate", "model", "test.tsv", "--metrics", "accuracy,latency").out.splitlines()
    assert [line.split()[0] for line in lines] == ["metric", "accuracy", "ap", "al", "laal", "dal"]


def test_a_model_with_tags_has_macro_accuracy(run: Run, place: Path):
    done = run("evaluate", "tagged", "tagged.tsv", "--json")
    assert [one["name"] for one in json.loads(done.out)] == [
        "accuracy",
        "macro_accuracy",
        "edit_distance",
        "perplexity",
    ]
    done = run("evaluate", "tagged", "test.tsv")
    assert done.code == 2
    assert done.err.startswith("ssnt: error: test.tsv:1: no tags")


def test_tags_that_the_model_does_not_know_are_told(run: Run, place: Path):
    given = (place / "tagged.tsv").read_text("utf-8")
    path = write(place / "commas.tsv", *given.replace(";", ",").splitlines())
    count = len(given.splitlines())
    assert ";" in given
    message = (
        f"ssnt: warning: {count} inputs with tags that the model does not know, such as 'N,PL'; it knows 'N', 'PL', "
        "'SG', and tags are split at ';'"
    )
    assert run("evaluate", "tagged", path).err.splitlines() == [message]
    assert run("loglik", "tagged", path).err.splitlines()[1:] == [message]
    assert run("evaluate", "tagged", "tagged.tsv").err == ""


def test_there_are_no_predictions_to_write_without_a_metric_of_outputs(run: Run, place: Path):
    done = run("evaluate", "model", "test.tsv", "--metrics", "perplexity", "--predictions", "none.tsv")
    assert done.code == 2
    assert "--metrics accuracy,perplexity" in " ".join(done.err.split())
    assert not (place / "none.tsv").exists()


def test_evaluate_writes_predictions_that_can_be_scored(run: Run, place: Path):
    done = run("evaluate", "model", "test.tsv", "--metrics", "accuracy", "--predictions", "written.tsv", "--json")
    assert done.code == 0
    lines = (place / "written.tsv").read_text("utf-8").splitlines()
    assert lines[0] == "line\trank\tsource\ttags\tprediction\tlog_prob"
    assert len(lines) == 6
    scored = json.loads(run("score", "written.tsv", "test.tsv", "--metrics", "accuracy", "--json").out)
    (found,) = json.loads(done.out)
    # who scores a file cannot know how the outputs in it were found
    assert scored == [{**found, "signature": re.sub(r"search:.*?\|end:\w+\|", "", found["signature"])}]


def test_what_cannot_be_answered_counts_as_wrong_and_is_told(run: Run, place: Path):
    write(place / "long.tsv", "abc\tABC", f"{'a' * 3000}\tA")
    done = run("evaluate", "model", "long.tsv", "--metrics", "accuracy", "--json", "--predictions", "written.tsv")
    assert done.code == 0
    assert json.loads(done.out)[0]["value"] == 0.5
    assert "ssnt: warning: long.tsv:2: " in done.err
    assert "ssnt: warning: 1 of 2 inputs could not be used, and count as wrong\n" in done.err
    assert (place / "written.tsv").read_text("utf-8").splitlines()[2].endswith("\t\t\t")
    done = run("evaluate", "model", "long.tsv", "--metrics", "latency", "--json")
    assert done.code == 0
    assert "ssnt: warning: 1 of 2 inputs could not be used, and are left out\n" in done.err


def test_loglik_is_a_line_for_each_pair(run: Run, place: Path):
    done = run("loglik", "model", "test.tsv")
    assert done.code == 0
    header, *rows = [line.split("\t") for line in done.out.splitlines()]
    assert header == ["log_prob", "tokens", "source", "target"]
    assert [row[2:] for row in rows] == [[word, word.upper()] for word in ("abc", "fade", "bad", "zab", "äb")]
    expected = Transducer.from_pretrained("model").score([(row[2], row[3]) for row in rows])
    assert [float(row[0]) for row in rows] == pytest.approx(expected, abs=1e-4)
    assert [int(row[1]) for row in rows] == [4, 5, 4, 4, 3]
    total = sum(expected)
    name, value, _, tokens, _, perplexity = done.err.split()
    assert (name, tokens) == ("log_prob", "20")
    assert float(value) == pytest.approx(total, abs=1e-3)
    assert float(perplexity) == pytest.approx(math.exp(-total / 20), abs=1e-3)


def test_a_pair_that_cannot_be_used_keeps_its_line(run: Run, place: Path):
    write(place / "pairs.tsv", "abc\tABC", "fad", "bad\tBAD")
    done = run("loglik", "model", "pairs.tsv")
    assert done.code == 1
    assert [line.split("\t")[0] == "" for line in done.out.splitlines()] == [False, False, True, False]
    assert done.err.startswith("ssnt: error: pairs.tsv:2: no target")
    done = run("align", "model", "pairs.tsv")
    assert (done.code, done.out) == (1, "0-0 1-1 2-2\n\n0-0 1-1 2-2\n")
    found = [json.loads(line) for line in run("align", "model", "pairs.tsv", "--format", "jsonl").out.splitlines()]
    assert [one["line"] for one in found] == [1, 2, 3]
    assert "no target" in found[1]["error"]


@pytest.mark.parametrize(
    ("form", "first"), [("pharaoh", "0-0 1-1 2-2"), ("joint", "a}A b}B c}C")], ids=["pharaoh", "joint"]
)
def test_alignments_have_several_forms(run: Run, place: Path, form: str, first: str):
    done = run("align", "model", "test.tsv", "--format", form)
    assert done.code == 0
    assert len(done.out.splitlines()) == 5
    assert done.out.splitlines()[0] == first


def test_alignments_as_json_have_probabilities(run: Run, place: Path):
    first = json.loads(run("align", "model", "test.tsv", "--format", "jsonl").out.splitlines()[0])
    assert first["line"] == 1
    assert [link["source"] for link in first["links"]] == [0, 1, 2]
    assert all(link["confidence"] > 0.9 for link in first["links"])


def test_pairs_are_drawn_up_to_the_limit(run: Run, place: Path):
    assert run("align", "model", "test.tsv", "--plot", "pictures", "--plot-limit", "2").code == 0
    pictures = sorted((place / "pictures").iterdir())
    assert [one.name for one in pictures] == ["line-00001.png", "line-00002.png"]
    assert all(one.read_bytes().startswith(b"\x89PNG") for one in pictures)


def test_info_says_what_a_model_is(run: Run, place: Path):
    record = json.loads(run("info", "model", "--json").out)
    assert (record["kind"], record["is_online"], record["has_tags"]) == ("model", True, False)
    assert record["sizes"]["source_symbols"] == 12
    assert record["sizes"]["parameters"] > 1000
    assert set(record["files"]) == {"config.yaml", "metrics.json", "model.safetensors", "vocab.json"}
    assert record["config"]["model"]["hidden_size"] == 32
    text = run("info", "model").out
    assert "uniSSNT+" in text
    assert "yes: it can stream" in text
    assert "hidden_size: 32" in text
    assert "tags       yes" in run("info", "tagged").out
