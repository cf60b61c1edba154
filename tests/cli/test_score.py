"""``ssnt score`` and ``ssnt compare``: files of predictions against references."""

from __future__ import annotations

import json
import resource
import subprocess
from pathlib import Path

import pytest

from commands import Run, command_line, environment, write
from ssnt.cli.prediction_files import PredictionFormat, read_predictions
from ssnt.errors import DataError


def scores(run: Run, *arguments: str) -> dict[str, float]:
    done = run("score", *arguments, "--json", "--resamples", "0")
    assert done.code == 0, done.err
    return {one["name"]: one["value"] for one in json.loads(done.out)}


def test_scores_are_those_of_the_library(run: Run, place: Path):
    assert scores(run, "outputs.txt", "test.tsv") == {"accuracy": 1.0, "edit_distance": 0.0}
    found = scores(run, "baseline.txt", "test.tsv", "--metrics", "accuracy,per")
    assert found["accuracy"] == 0.2
    assert found["per"] == pytest.approx((0 + 3 + 3 + 2 + 2) / 15)


def test_a_table_has_intervals_and_signatures(run: Run, place: Path):
    header, accuracy, edits = run("score", "baseline.txt", "test.tsv").out.splitlines()
    assert header.split() == ["metric", "value", "95%", "interval", "items", "signature"]
    name, value, low, to, high, items, signature = accuracy.split()
    assert (name, value, to, items) == ("accuracy", "0.2000", "to", "5")
    assert float(low) <= 0.2 <= float(high)
    assert signature.startswith("accuracy|formula:exact/items|refs:1|unit:characters")
    assert edits.startswith("edit_distance")
    assert " - " in run("score", "baseline.txt", "test.tsv", "--resamples", "0").out


def test_on_a_terminal_signatures_have_lines_of_their_own(run: Run, place: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("ssnt.cli.output.is_terminal", lambda: True)
    monkeypatch.setattr("ssnt.cli.scoring.is_terminal", lambda: True)
    out = run("score", "baseline.txt", "test.tsv").out
    assert "───" in out
    assert "signature" not in out
    assert [line.partition("|")[0] for line in out.splitlines()[-2:]] == ["accuracy", "edit_distance"]


def test_tags_make_groups(run: Run, place: Path):
    found = scores(run, "outputs.txt", "tagged.tsv", "--format", "sigmorphon2017")
    assert found == {"accuracy": 1.0, "macro_accuracy": 1.0, "edit_distance": 0.0}
    assert "macro_accuracy" in scores(run, "outputs.txt", "tagged.tsv", "--tags-column", "3")


def test_the_best_of_several_answers_counts(run: Run, place: Path):
    write(place / "several.tsv", "a\tA", "a\tB", "b\tB")
    write(place / "each.txt", "B", "B")
    write(place / "all.txt", "B", "B", "B")
    assert scores(run, "each.txt", "several.tsv")["accuracy"] == 1.0
    assert scores(run, "all.txt", "several.tsv")["accuracy"] == 1.0
    write(place / "differing.txt", "B", "C", "B")
    done = run("score", "differing.txt", "several.tsv", "--resamples", "0")
    assert done.err == (
        "ssnt: warning: differing.txt: 1 input with several different predictions; the first of each counts\n"
    )
    assert " 1.0000 " in done.out


def test_settings_of_the_data_count(run: Run, place: Path):
    write(place / "low.txt", *(line.lower() for line in (place / "outputs.txt").read_text("utf-8").splitlines()))
    assert scores(run, "low.txt", "test.tsv")["accuracy"] == 0.0
    assert scores(run, "low.txt", "test.tsv", "data.lowercase=true")["accuracy"] == 1.0
    assert scores(run, "low.txt", "test.tsv", "lowercase=true")["accuracy"] == 1.0
    done = run("score", "low.txt", "test.tsv", "data.lowrcase=true")
    assert done.code == 2
    assert done.err == "ssnt: error: unknown setting 'data.lowrcase' (got True): did you mean 'data.lowercase'?\n"
    done = run("score", "low.txt", "test.tsv", "training.seed=2")
    assert done.err == "ssnt: error: training: only settings of the data count here, such as data.lowercase=true\n"


def test_phones_are_tokens(run: Run, place: Path):
    write(place / "phones.tsv", "ab\tAH B", "c\tK")
    write(place / "phones.txt", "AH B", "S")
    assert scores(run, "phones.txt", "phones.tsv", "--format", "g2p", "--metrics", "per")["per"] == pytest.approx(1 / 3)


@pytest.mark.parametrize("form", ["text", "tsv", "jsonl"])
def test_what_predict_writes_can_be_scored(run: Run, place: Path, form: str):
    assert run("predict", "model", "words.txt", "--format", form, "--out", "written").code == 0
    assert scores(run, "written", "test.tsv")["accuracy"] == 1.0
    assert scores(run, "written", "test.tsv", "--predictions-format", form)["accuracy"] == 1.0


def test_of_several_outputs_the_first_is_scored(run: Run, place: Path):
    for form in ("tsv", "jsonl"):
        assert run("predict", "model", "words.txt", "--nbest", "3", "--format", form, "--out", "written").code == 0
        assert scores(run, "written", "test.tsv")["accuracy"] == 1.0


@pytest.mark.parametrize(
    ("lines", "form", "message"),
    [
        (["a\tb"], PredictionFormat.TSV, "x:1: expected a first line that names the columns, among them 'prediction'"),
        (["rank\tprediction", "1"], None, "x:2: expected 2 columns, as line 1 has, got 1"),
        (['{"prediction": "a"}', '{"predicted": "a"}'], None, "x:2: expected a JSON object with a string 'prediction'"),
        (['{"prediction": 3}'], None, "x:1: expected a JSON object with a string 'prediction'"),
    ],
)
def test_a_damaged_file_of_predictions_is_told_with_its_line(
    tmp_path: Path, lines: list[str], form: PredictionFormat | None, message: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "x", *lines)
    with pytest.raises(DataError) as raised:
        read_predictions("x", form)
    assert str(raised.value).startswith(message)


def test_text_that_looks_like_something_else_is_text(tmp_path: Path):
    path = write(tmp_path / "x", "{", "a", "")
    assert read_predictions(str(path)) == ["{", "a", ""]
    assert read_predictions(str(write(tmp_path / "y"))) == []


def test_numbers_that_do_not_fit_are_told(run: Run, place: Path):
    write(place / "few.txt", "A", "B")
    done = run("score", "few.txt", "test.tsv")
    assert (done.code, done.out) == (2, "")
    assert done.err == "ssnt: error: few.txt: expected a prediction for each of the 5 lines of test.tsv, got 2\n"


def test_metrics_that_cannot_be_told_are_refused(run: Run, place: Path):
    done = run("score", "outputs.txt", "test.tsv", "--metrics", "perplexity")
    assert done.code == 2
    assert done.err == (
        "ssnt: error: perplexity cannot be told from predictions: it needs the model; use ssnt evaluate\n"
    )
    done = run("score", "outputs.txt", "test.tsv", "--metrics", "acuracy")
    assert done.err == "ssnt: error: unknown metric 'acuracy'; did you mean 'accuracy'?\n"
    assert run("compare", "none", "none", "none", "--metric", "acuracy").err == done.err


def test_compare_says_who_is_better(run: Run, place: Path):
    done = run("compare", "outputs.txt", "baseline.txt", "test.tsv")
    assert done.code == 0
    lines = done.out.splitlines()
    assert lines[0].split() == ["predictions", "accuracy", "better", "on"]
    assert lines[1].split() == ["A", "outputs.txt", "1.0000", "4"]
    assert lines[2].split() == ["B", "baseline.txt", "0.2000", "0"]
    assert lines[3].startswith("difference A - B  +0.8000  (95% interval ")
    assert lines[4].startswith("p-value ")
    assert "test:paired-bootstrap" in lines[5]
    record = json.loads(run("compare", "outputs.txt", "baseline.txt", "test.tsv", "--json").out)
    assert (record["wins_a"], record["ties"], record["difference"]) == (4, 1, pytest.approx(0.8))


def test_ten_thousand_lines_take_no_longer_than_starting_does(place: Path):
    """By CPU time, as a ratio, both taken alternately: how long either takes is the machine's matter."""
    for name, count in (("one", 1), ("many", 10_000)):
        write(place / f"{name}.tsv", *(f"word{k}\tform{k}" for k in range(count)))
        write(place / f"{name}.txt", *(f"form{k}" for k in range(count)))
    seconds: dict[str, list[float]] = {"one": [], "many": []}
    for name in ("one", "many") * 3:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(
            command_line("score", f"{name}.txt", f"{name}.tsv", "--metrics", "accuracy"),
            capture_output=True,
            text=True,
            env=environment(),
            check=True,
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds[name].append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        assert " 1.0000 " in done.stdout
    assert min(seconds["many"]) < 2 * min(seconds["one"])
