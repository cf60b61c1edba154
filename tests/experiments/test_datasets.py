"""The data sets of the experiments: what is held out, how references are written; and the recipe for Gigaword."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest
from experiments.datasets import _human, load, require
from experiments.outcomes import outcome_of
from experiments.plan import merged, trials_of
from experiments.results import Results
from experiments.runner import run

from experiments import datasets
from ssnt.data.references import pool_references
from ssnt.errors import ConfigError
from ssnt.evaluation import Evaluation
from ssnt.metrics import Item, evaluate
from ssnt.types import Example

TINY = {
    "model": {"hidden_size": 8, "embed_size": 8},
    "data": {"min_count": 20},
    "training": {"max_epochs": 1},
    "batch": {"size": 64},
}


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder of data sets."""
    monkeypatch.setenv("SSNT_DATA", str(tmp_path))
    datasets.load.cache_clear()
    yield tmp_path
    datasets.load.cache_clear()


def write(path: Path, *rows: str) -> None:
    """A file of rows."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(row + "\n" for row in rows), encoding="utf-8")


def test_human_compressions_are_written_as_the_other_texts() -> None:
    assert _human("Five hurt on the A17 at 5:30 , ##") == "five hurt on the ## at ## , ##"


def test_sentences_of_dev_and_test_are_not_trained_on(data: Path) -> None:
    folder = data / "summarisation" / "google"
    write(folder / "train.tsv", "a b\ta", "c d\tc", "e f\te", "g h\tg", " ".join("x" * 51) + "\tx")
    write(folder / "valid.tsv", "c d\td")
    write(folder / "test.tsv", "e f\te")
    write(folder / "test.gold_cased.tsv", "E F\tF1")
    parts = load("summarisation/google")
    assert {one.source for one in parts.train} == {"a b", "g h"}
    assert [(one.source, one.target) for one in parts.test] == [("e f", "##")]
    assert len(load("summarisation/google-1").train) == 1
    assert load("summarisation/google-1").sha256 != parts.sha256
    with pytest.raises(ConfigError, match="number of training pairs"):
        require("summarisation/google-many")


def test_a_mistyped_name_is_told_with_the_nearest(data: Path) -> None:
    write(data / "sigmorphon2017" / "hungarian-train-high.tsv", "a\ta\tV")
    for name, nearest in (
        ("sigmorphon2017/hungarain-high", "hungarian-train-high.tsv"),
        ("summarisation/gogle", "google"),
    ):
        (data / "summarisation" / "google").mkdir(parents=True, exist_ok=True)
        with pytest.raises(ConfigError, match=f"there is no such file; did you mean '{nearest}'"):
            require(name)


def test_unknown_words_of_gigaword_are_written_in_one_way(data: Path) -> None:
    folder = data / "summarisation" / "gigaword"
    write(folder / "train.tsv", "a <unk>\ta")
    write(folder / "valid.tsv", "b <unk>\tb")
    write(folder / "test.tsv", "nec UNK c\tnec UNK")
    assert load("summarisation/gigaword").test[0] == Example("nec <unk> c", "nec UNK", (), 1)


def test_a_held_out_word_is_held_out_with_all_its_pronunciations(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets, "CMUDICT_DEV_WORDS", 3)
    write(data / "g2p" / "cmudict-train.tsv", *(f"W{n // 2}\tP{n} Q" for n in range(20)))
    write(data / "g2p" / "cmudict-test.tsv", "T\tA B\tA C")
    parts = load("g2p/cmudict")
    assert len(parts.dev) == 6
    assert {one.source for one in parts.dev}.isdisjoint(one.source for one in parts.train)
    assert [(one.source, one.target) for one in parts.test] == [("T", "A B"), ("T", "A C")]


def test_a_word_is_right_with_any_of_its_pronunciations() -> None:
    examples = [Example("T", "A B"), Example("T", "A C D"), Example("U", "E")]
    questions = pool_references(examples)
    items = [
        Item.from_text(output, one.references, split=str.split)
        for output, one in zip(["A C D", "F"], questions, strict=True)
    ]
    scores = {name: evaluate(items, name, resamples=0)[0].value for name in ("item_error_rate", "per")}
    assert scores == {"item_error_rate": 0.5, "per": 0.25}  # one edit for the phones of A C D and E
    evaluation = Evaluation([], [], items, questions)
    assert outcome_of(evaluation, ["item_error_rate", "per"], examples, by_type=False) == {"cells": {"1": "10"}}


@pytest.mark.parametrize(
    ("by_type", "cells"),
    [(True, {"N;SG": "1.0", "N;PL": "0..", "V": ".1."}), (False, {"1": "110", "2": "0.."})],
)
def test_answers_are_kept_by_lemma_and_type_or_by_lemma_alone(by_type: bool, cells: dict[str, str]) -> None:
    asked = [("a", ("SG", "N")), ("b", ("V",)), ("A", ("N", "PL")), ("c", ("N", "SG"))]
    examples = [Example(lemma, "right", tags) for lemma, tags in asked]
    questions = pool_references(examples)
    items = [
        Item.from_text(output, one.references, split=list)
        for output, one in zip(["right", "right", "wrong", "wrong"], questions, strict=True)
    ]
    evaluation = Evaluation([], [], items, questions)
    assert outcome_of(evaluation, ["accuracy"], examples, by_type=by_type) == {"cells": cells}


def test_rouge_is_kept_for_each_sentence_to_four_places() -> None:
    examples = [Example("a b c d", "a b c"), Example("e f", "e")]
    questions = pool_references(examples)
    items = [
        Item.from_text(output, one.references, split=str.split)
        for output, one in zip(["a b d", "g"], questions, strict=True)
    ]
    kept = outcome_of(Evaluation([], [], items, questions), ["rouge_1", "perplexity"], examples, by_type=False)
    assert kept == {"items": {"rouge_1": [0.6667, 0.0]}}


def test_g2p_counts_words_not_phones() -> None:
    assert trials_of("g2p")[0].metrics == ("item_error_rate", "per")


@pytest.mark.slow
def test_the_gigaword_recipe_runs_on_the_sample(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSNT_DATA")
    try:
        require("summarisation/gigaword")
    except ConfigError:
        pytest.skip("the data is not on this machine")
    sample = datasets.data_root() / "summarisation" / "gigaword"
    for part, count in (("train", 400), ("valid", 30), ("test", 30)):
        with (sample / f"{part}.tsv").open(encoding="utf-8") as lines:
            write(
                data / "summarisation" / "gigaword" / f"{part}.tsv", *(one.rstrip("\n") for one in islice(lines, count))
            )
    monkeypatch.setenv("SSNT_DATA", str(data))
    planned = [one for one in trials_of("gigaword") if one.system in ("biSSNT+", "seq2seq L=2")]
    trials = [replace(one, settings=merged(one.settings, _tiny(one.settings))) for one in planned]
    assert run(trials, work=tmp_path / "work", workers=1, home=tmp_path / "results") == []
    results = Results("gigaword", tmp_path / "results")
    assert set(results.rows()) == {one.key for one in trials}
    for record in results.records().values():
        assert 300 < record["pairs"] <= 400  # and not the million that the data set's name says
        assert [one["name"] for one in record["scores"]["dev"]] == ["rouge_1", "rouge_2", "rouge_l", "perplexity"]
        assert record["scores"]["dev"][3]["value"] > 1
        assert "items" not in record["outcomes"]["dev"]
        values = record["outcomes"]["test"]["items"]["rouge_l"]
        assert len(values) == 30
        assert sum(values) / 30 == pytest.approx(record["scores"]["test"][2]["value"], abs=1e-4)


def _tiny(settings: dict[str, dict[str, object]]) -> dict[str, object]:
    """The plan's settings with all that makes a training long taken back."""
    assert settings["search"] == {"copy_unknown": False}
    return dict(TINY)
