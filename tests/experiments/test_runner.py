"""The experiments' runner: plans to trials, trials to rows, and no row twice."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from experiments.datasets import load
from experiments.plan import trials_of
from experiments.results import Results, Row
from experiments.runner import run

from experiments import datasets, results
from experiments import plan as plan_module
from ssnt.errors import ConfigError


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of plans with one small table on a small data set, in the layout of the real ones."""
    data = tmp_path / "data" / "inflection" / "toy"
    data.mkdir(parents=True)
    lemmas = ["ab", "ba", "aab", "bba", "abab", "baba", "aaa", "bbb"]
    rows = [f"{one}\t{tags}\t{one}{end}" for one in lemmas for tags, end in (("n=s", ""), ("n=p", "s"))]
    (data / "train.tsv").write_text("\n".join([*rows, "cc\tn=p\t"]) + "\n", encoding="utf-8")
    for part in ("dev", "test"):
        (data / f"{part}.tsv").write_text("\n".join(rows[:6]) + "\n", encoding="utf-8")
    home = tmp_path / "plans"
    (home / "toy").mkdir(parents=True)
    plan = {
        "metrics": ["accuracy"],
        "datasets": ["inflection/toy"],
        "base": {
            "model": {"hidden_size": 8, "embed_size": 8},
            "training": {"max_epochs": 1},
            "batch": {"size": 4},
            "search": {"beam": 2},
        },
        "systems": [
            {"name": "types", "model": "uniSSNT+", "per_type": True},
            {"name": "one", "model": "uniSSNT+", "seeds": [1, 2]},
            {"name": "both", "made_of": "one"},
            {"name": "streamed", "made_of": "one", "stream": {"max_delay": 2}, "search": {"beam": 1}},
        ],
    }
    (home / "toy" / "plan.yaml").write_text(yaml.safe_dump(plan), encoding="utf-8")
    monkeypatch.setenv("SSNT_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(plan_module, "HOME", home)
    monkeypatch.setattr(results, "HOME", home)
    datasets.load.cache_clear()
    yield home
    datasets.load.cache_clear()


def test_a_plan_asks_for_every_type_seed_and_combination(home: Path) -> None:
    trials = trials_of("toy")
    assert [(one.system, one.tags, one.seed, len(one.members)) for one in trials] == [
        ("types", "n=p", 1, 0),
        ("types", "n=s", 1, 0),
        ("one", "", 1, 0),
        ("one", "", 2, 0),
        ("both", "", 1, 2),
        ("streamed", "", 1, 1),
        ("streamed", "", 2, 1),
    ]
    assert len({one.key for one in trials}) == len(trials)


def test_the_key_follows_the_settings(home: Path) -> None:
    first = trials_of("toy")[0]
    assert replace(first, settings={**first.settings, "batch": {"size": 5}}).key != first.key
    assert replace(first, has_test=False).key != first.key


def test_an_unknown_key_of_a_system_is_refused(home: Path) -> None:
    path = home / "toy" / "plan.yaml"
    plan = yaml.safe_load(path.read_text(encoding="utf-8"))
    plan["systems"][0]["sead"] = [1]
    path.write_text(yaml.safe_dump(plan), encoding="utf-8")
    with pytest.raises(ConfigError, match="sead"):
        trials_of("toy")


def test_rows_without_a_form_are_left_out(home: Path) -> None:
    assert all(one.target for one in load("inflection/toy").train)
    assert len(load("inflection/toy").train) == 16


def test_the_runner_does_what_is_left_and_nothing_twice(home: Path, tmp_path: Path) -> None:
    trials = trials_of("toy")
    work = tmp_path / "work"
    assert run(trials[:3], work=work, workers=1) == []
    results = Results("toy", home)
    first = results.csv.read_text(encoding="utf-8")
    assert set(results.rows()) == {one.key for one in trials[:3]}
    assert run(trials, work=work, workers=1) == []
    assert results.csv.read_text(encoding="utf-8").startswith(first)
    rows = results.rows()
    assert set(rows) == {one.key for one in trials}
    assert len(results.csv.read_text(encoding="utf-8").splitlines()) == len(trials) + 1
    outcome = results.records()[trials[2].key]["outcomes"]["test"]["cells"]
    assert set(outcome) == {"n=p", "n=s"}
    signs = "".join(outcome.values())
    assert set(signs) <= {"0", "1"}
    assert rows[trials[2].key].test == pytest.approx(signs.count("1") / len(signs))


def test_a_line_that_a_crash_has_cut_does_not_spoil_the_next(home: Path) -> None:
    results = Results("toy", home)
    row = Row("d", "", "m", 1, "accuracy", 0.5, None, 3, 1.5, "c", "h", "x", "now", "k1")
    results.add(row, {"scores": {}})
    with results.csv.open("a", encoding="utf-8") as file:
        file.write("half,a,li")
    results.add(replace(row, key="k2"), {"scores": {}})
    assert results.rows() == {"k1": row, "k2": replace(row, key="k2")}
