"""The experiments' runner: plans to trials, trials to rows, and no row twice."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from experiments.__main__ import app
from experiments.datasets import load
from experiments.packing import pack
from experiments.plan import Trial, merged, tags_of, trials_of
from experiments.reporting.gathered import gather
from experiments.results import Results, Row
from experiments.runner import _Queue, code_version, run
from experiments.trial import _joined, model_directory, run_trial
from typer.testing import CliRunner

from experiments import runner
from ssnt.engines.base import DONE, FAILED, Job
from ssnt.errors import ConfigError, DataError
from ssnt.interrupts import Stop, StopNow, TrainingInterrupted
from ssnt.pipeline import EnsembleTransducer, Transducer


@pytest.fixture
def home(make_toy_table: Callable[..., Path]) -> Path:
    """A table with models for one tag set each, models for both, and what is made of them."""
    lemmas = ["ab", "ba", "aab", "bba", "abab", "baba", "aaa", "bbb"]
    rows = [f"{one}\t{tags}\t{one}{end}" for one in lemmas for tags, end in (("n=s", ""), ("n=p", "s"))]
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
            {"name": "all", "made_of": ["types", "one"]},
            {"name": "streamed", "made_of": "one", "stream": {"max_delay": 2}, "search": {"beam": 1}},
        ],
    }
    return make_toy_table(plan, {"train": [*rows, "cc\tn=p\t"], "dev": rows[:6], "test": rows[:6]})


@pytest.mark.parametrize(("has_bfloat16", "used"), [(True, "bfloat16"), (False, "float32")])
def test_where_a_cpu_has_no_bfloat16_a_trial_is_trained_in_float32_and_says_so(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_bfloat16: bool, used: str
) -> None:
    for place in ("experiments.trial", "ssnt.training.fit"):
        monkeypatch.setattr(f"{place}.cpu_lacks", lambda _: not has_bfloat16)
    trial = trials_of("toy")[0]
    planned = replace(trial, settings={**trial.settings, "hardware": {"precision": "bfloat16"}})
    order = {"trial": asdict(planned), "work": str(tmp_path / "work"), "is_model_only": False, "threads": 1}
    assert run_trial(order, lambda _: None, Stop())["record"]["precision"] == used
    model = model_directory(tmp_path / "work", planned.key)
    assert Transducer.from_pretrained(model).config.hardware.precision == used


def test_a_trial_has_the_threads_that_it_is_given_and_says_so(home: Path, tmp_path: Path) -> None:
    first = next(_Queue(trials_of("toy")[:1], tmp_path, "commit", None, 2).jobs())
    assert first is not None
    assert first.order["threads"] == 2
    report = run_trial({**first.order, "work": str(tmp_path / "work")}, lambda _: None, Stop())
    assert report["record"]["threads"] == [2]
    model = model_directory(tmp_path / "work", trials_of("toy")[0].key)
    assert Transducer.from_pretrained(model).config.hardware.threads == 2


def test_a_trial_that_went_on_in_other_threads_says_so(home: Path, tmp_path: Path) -> None:
    longer = {"training": {"max_epochs": 3}}
    trial = replace(trials_of("toy")[0], settings=merged(trials_of("toy")[0].settings, longer))
    order = {"trial": asdict(trial), "work": str(tmp_path), "is_model_only": False}

    def stopped(threads: int) -> None:
        stop = Stop()
        with pytest.raises(TrainingInterrupted):
            run_trial({**order, "threads": threads}, lambda _: stop.request(), stop)

    stopped(1)
    stopped(2)
    report = run_trial({**order, "threads": 1}, lambda _: None, Stop())
    assert report["record"]["threads"] == [1, 2]
    assert report["row"]["epochs"] == 3
    again = run_trial({**order, "threads": 4}, lambda _: None, Stop())  # only measured: nothing is left to train
    assert again["record"]["threads"] == [1, 2]


@pytest.mark.parametrize(
    ("options", "workers"), [([], 4), (["--threads", "2"], 2), (["--threads", "9"], 1), (["--workers", "3"], 3)]
)
def test_no_more_is_trained_at_a_time_than_there_are_cores_for(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], workers: int
) -> None:
    asked: list[int] = []

    class Idle:
        def run(self, *_: object) -> None:
            pass

    def made(_: str, workers: int) -> Idle:
        asked.append(workers)
        return Idle()

    monkeypatch.setattr(runner, "cores", lambda: 4)
    monkeypatch.setattr(runner, "make_engine", made)
    found = CliRunner().invoke(app, ["run", "toy", "--work", str(tmp_path / "work"), *options])
    assert found.exception is None
    assert asked == [workers]


@pytest.mark.parametrize("option", ["--work", "--results"])
def test_a_file_where_a_directory_should_be_is_refused_before_anything_is_trained(
    home: Path, tmp_path: Path, option: str
) -> None:
    place = tmp_path / "mistyped"
    place.write_text("mine")
    for wrong in (place, place / "new"):
        found = CliRunner().invoke(app, ["run", "toy", "--work", str(tmp_path / "work"), option, str(wrong)])
        assert isinstance(found.exception, ConfigError)
        assert f"{option}: nothing can be written to {wrong} (" in str(found.exception)
    assert place.read_text() == "mine"


@pytest.mark.parametrize("option", ["--work", "--results"])
def test_no_directory_at_all_is_not_the_one_that_one_is_in(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str
) -> None:
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.iterdir())
    found = CliRunner().invoke(app, ["run", "toy", option, ""])
    assert found.exit_code == 2
    assert "expected a directory, got nothing" in " ".join(found.output.replace("│", " ").split())
    assert sorted(tmp_path.iterdir()) == before


def test_a_system_and_a_set_that_do_not_go_together_are_refused(home: Path, tmp_path: Path) -> None:
    first, other = trials_of("toy")[0], "elsewhere"
    known = [*trials_of("toy"), replace(first, system="alone", dataset=other)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("experiments.__main__.trials_of", lambda _: known)
        found = CliRunner().invoke(app, ["run", "toy", "--system", "alone", "--dataset", first.dataset])
    assert isinstance(found.exception, ConfigError)
    assert f"it is planned on '{other}'" in str(found.exception)


def test_a_model_that_there_is_not_is_told_with_its_plan_and_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "toy").mkdir()
    plan = {"metrics": ["accuracy"], "datasets": ["inflection/de-N"], "systems": [{"name": "one", "model": "biSNT+"}]}
    (tmp_path / "toy" / "plan.yaml").write_text(json.dumps(plan))
    monkeypatch.setattr("experiments.plan.HOME", tmp_path)
    with pytest.raises(ConfigError, match=r"toy/plan.yaml: 'one': unknown model 'biSNT\+'"):
        trials_of("toy")


def test_a_plan_asks_for_every_type_seed_and_combination(home: Path) -> None:
    trials = trials_of("toy")
    assert [(one.system, one.tags, one.seed, len(one.members)) for one in trials] == [
        ("types", "n=p", 1, 0),
        ("types", "n=s", 1, 0),
        ("one", "", 1, 0),
        ("one", "", 2, 0),
        ("both", "", 1, 2),
        ("all", "", 1, 4),
        ("streamed", "", 1, 1),
        ("streamed", "", 2, 1),
    ]
    assert len({one.key for one in trials}) == len(trials)
    together = next(one for one in trials if one.system == "all")
    assert together.model_count == 3  # of the two for one type each, one answers
    assert sorted(tags_of(key, together.dataset) for key in together.members) == ["", "", "n=p", "n=s"]


def test_a_data_set_may_have_fewer_seeds(home: Path) -> None:
    path = home / "toy" / "plan.yaml"
    plan = yaml.safe_load(path.read_text(encoding="utf-8"))
    plan["systems"][1]["dataset_seeds"] = {"inflection/toy": [2]}
    path.write_text(yaml.safe_dump(plan), encoding="utf-8")
    assert [one.seed for one in trials_of("toy") if one.system == "one"] == [2]
    for wrong in ({"inflection/other": [1]}, {"inflection/toy": [7]}):
        plan["systems"][1]["dataset_seeds"] = wrong
        path.write_text(yaml.safe_dump(plan), encoding="utf-8")
        with pytest.raises(ConfigError, match="dataset_seeds of 'one'"):
            trials_of("toy")


def test_further_seeds_are_shown_with_the_first_and_have_their_settings(home: Path) -> None:
    path = home / "toy" / "plan.yaml"
    plan = yaml.safe_load(path.read_text(encoding="utf-8"))
    further = {"name": "more", "further_seeds_of": "one", "model": "uniSSNT+", "seeds": [3]}

    def written(**change: object) -> None:
        last = {**further, "name": "most", "further_seeds_of": "more", "seeds": [4]}
        plan["systems"][5:] = [{**further, **change}, last]
        path.write_text(yaml.safe_dump(plan), encoding="utf-8")

    written()
    assert {one.system: len(one.members) for one in trials_of("toy") if one.members}["both"] == 2  # as before
    shown = gather("toy", home)
    assert [group.seed for group in shown.of("one")] == [1, 2, 3, 4]
    assert [group.trials[0].system for group in shown.of("one")] == ["one", "one", "more", "most"]
    assert not {"more", "most"} & set(shown.systems)
    for change, message in (
        ({"further_seeds_of": "oen"}, "'more' has further seeds of 'oen', which is no system above it; name one that"),
        ({"further_seeds_of": "more"}, "which is no system above it"),
        ({"settings": {"batch": {"size": 3}}}, "which has other settings on inflection/toy, or none"),
        ({"per_type": True}, "which has other settings on inflection/toy n=p, or none"),
        ({"seeds": [2, 3]}, "'more' has further seeds of 'one', but 'one' has seed 2 on inflection/toy; leave one"),
        ({"seeds": [3, 4]}, "'most' has further seeds of 'more', but 'more' has seed 4 on inflection/toy; leave one"),
    ):
        written(**change)
        with pytest.raises(ConfigError, match=message):
            trials_of("toy")


def test_an_ensemble_may_be_made_of_others_on_some_data_sets(home: Path) -> None:
    nouns, verbs = "inflection/de-N", "inflection/de-V"
    path = home / "toy" / "plan.yaml"
    plan = {
        "metrics": ["accuracy"],
        "datasets": [nouns, verbs],
        "systems": [
            {"name": "everywhere", "seeds": [1, 2]},
            {"name": "nouns", "datasets": [nouns]},
            {"name": "verbs", "datasets": [verbs], "per_type": True},
            {"name": "both", "made_of": ["everywhere", "nouns"], "dataset_made_of": {verbs: ["everywhere", "verbs"]}},
            {
                "name": "apart",
                "made_of": "everywhere",
                "dataset_made_of": {nouns: ["nouns"]},
                "datasets": [verbs, nouns],
            },
        ],
    }

    def members() -> dict[tuple[str, str], list[str]]:
        path.write_text(yaml.safe_dump(plan), encoding="utf-8")
        made = [one for one in trials_of("toy") if one.members]
        return {(one.system, one.dataset): [key.split("/")[1] for key in one.members] for one in made}

    assert members() == {
        ("both", nouns): ["everywhere", "everywhere", "nouns"],
        ("both", verbs): ["everywhere", "everywhere", *["verbs"] * 27],
        ("apart", verbs): ["everywhere", "everywhere"],
        ("apart", nouns): ["nouns"],
    }
    for change, message in (
        ({"made_of": None}, "'apart': expected made_of beside dataset_made_of"),
        (
            {"dataset_made_of": {"inflection/nl-V": ["nouns"]}},
            "dataset_made_of of .apart. are to be of some of .* got inflection/nl-V",
        ),
        (
            {"dataset_made_of": {verbs: ["nouns"]}},
            r"the datasets of 'apart' are to be some of \['inflection/de-N'\], which",
        ),
        (
            {"dataset_made_of": {nouns: ["nouns", "verbs"]}},
            r"of 'apart' are to be some of \['inflection/de-V'\], which 'verbs' has, got \['inflection/de-N'\]",
        ),
        ({"dataset_made_of": {nouns: ["nouns", "nouns"]}}, "'apart': it is to be made of different systems"),
        ({"dataset_made_of": {nouns: []}}, "'apart': expected what it is made of on inflection/de-N, .* an empty list"),
    ):
        plan["systems"][-1] = {"name": "apart", "made_of": "everywhere", "datasets": [verbs, nouns], **change}
        if "made_of" in change:
            plan["systems"][-1]["dataset_made_of"] = {nouns: ["nouns"]}
        with pytest.raises(ConfigError, match=message):
            members()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"made_of": []}, "made_of: expected the systems that it is made of, got an empty list"),
        ({"made_of": ["one", "one"]}, "different systems"),
        (
            {"made_of": "one", "dataset_made_of": {"inflection/toy": ["types", "one"]}, "search": {"beam": 1}},
            "with a search of its own it is to be made of one system on all data sets",
        ),
        ({"made_of": ["types", "one"], "stream": {"max_delay": 1}}, "of one if it streams"),
        ({"made_of": ["types", "one"], "seeds": [2]}, r"the seeds of 'all' are to be some of \[1\]"),
        ({"made_of": ["types", "both"]}, "neither a system above it"),
        ({"made_of": ["types", "elsewhere"]}, "not all of which have"),
    ],
)
def test_systems_that_do_not_go_together_are_refused(home: Path, change: dict[str, object], message: str) -> None:
    path = home / "toy" / "plan.yaml"
    plan = yaml.safe_load(path.read_text(encoding="utf-8"))
    plan["datasets"].append("inflection/other")
    plan["systems"][0]["datasets"] = plan["systems"][1]["datasets"] = ["inflection/toy"]
    plan["systems"].insert(2, {"name": "elsewhere", "datasets": ["inflection/other"]})
    plan["systems"][4] = {"name": "all", **change}
    path.write_text(yaml.safe_dump(plan), encoding="utf-8")
    with pytest.raises(ConfigError, match=message):
        trials_of("toy")


def test_the_key_follows_the_settings(home: Path) -> None:
    first = trials_of("toy")[0]
    assert replace(first, settings={**first.settings, "batch": {"size": 5}}).key != first.key
    assert replace(first, has_test=False).key != first.key


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "^toy/plan.yaml: expected metrics, systems and so on, got None"),
        ("metrics: [", "^toy/plan.yaml: while parsing"),
        ("metrics: [accuracy]", "^toy/plan.yaml: setting 'systems': expected a value, got none"),
        ("{metric: [accuracy], systems: []}", "unknown setting 'metric' .* did you mean 'metrics'"),
        ("{metrics: [acuracy], systems: []}", "unknown metric 'acuracy'; did you mean 'accuracy'"),
        ("{metrics: [accuracy], has_tset: false, systems: []}", "'has_tset' .* did you mean 'has_test'"),
        ("{metrics: [accuracy], systems: [a]}", "system 1: expected name, datasets and so on, got 'a'"),
        ("{metrics: [accuracy], systems: [{model: x}]}", "^toy/plan.yaml: system 1: setting 'name': expected a value"),
        ("{metrics: [accuracy], systems: [{name: a}]}", "'a': expected datasets, there or for the whole plan"),
        (
            "{metrics: [accuracy], systems: [{name: a, datasets: b}]}",
            "system 'a': setting 'datasets': expected a valid list",
        ),
        (
            "{metrics: [accuracy], datasets: [b], systems: [{name: a, seeds: 1}]}",
            "system 'a': setting 'seeds': expected a valid list",
        ),
        (
            "{metrics: [accuracy], datasets: [b], systems: [{name: a, sead: [1]}]}",
            "system 'a': unknown setting 'sead' .* did you mean 'seeds'",
        ),
        (
            "{metrics: [accuracy], datasets: [b], systems: [{name: a, dataset_settings: {c: {}}}]}",
            "the dataset_settings of 'a' are to be of some of .*, got c",
        ),
        (
            "{metrics: [accuracy], datasets: [b], systems: [{name: one}, {name: a, made_of: oen}]}",
            "'a' is made of 'oen', .* did you mean 'one'",
        ),
        (
            "{metrics: [accuracy], datasets: [b], systems: [{name: a, seeds: [1, 1]}]}",
            r"system 'a': .*'seeds': expected each once, got \[1, 1\]",
        ),
        (
            "{metrics: [accuracy], datasets: [b], systems: [{name: a, seeds: [1, 2], dataset_seeds: {b: [2, 2]}}]}",
            r"'dataset_seeds': expected each seed once on b, got \[2, 2\]",
        ),
        ("{metrics: [accuracy], datasets: [b, b], systems: []}", r"'datasets': expected each once, got \['b', 'b'\]"),
        (
            "{metrics: [accuracy], datasets: [b], systems: [{name: a, seeds: [-2]}]}",
            "greater than or equal to 0, got -2",
        ),
        (
            "{metrics: [accuracy], datasets: [b], systems: [{name: a, made_of: one, model: rnnt, types: [x]}]}",
            "system 'a': .*what is made_of others is not trained, and cannot have model, types; leave that out",
        ),
    ],
)
def test_a_plan_that_says_what_it_may_not_is_refused(home: Path, text: str, message: str) -> None:
    (home / "toy" / "plan.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=message):
        trials_of("toy")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"settings": {"training": {"max_epoch": 1}}}, "^toy: types: unknown setting 'training.max_epoch'"),
        ({"types": ["n=p,m=q"]}, "^toy: types: inflection/toy has no tag set 'n=p,m=q'; they are written like 'n=p'"),
    ],
)
def test_wrong_settings_are_told_before_anything_is_begun(
    home: Path, tmp_path: Path, change: dict[str, object], message: str
) -> None:
    path = home / "toy" / "plan.yaml"
    plan = yaml.safe_load(path.read_text(encoding="utf-8"))
    plan["systems"] = [{**plan["systems"][0], **change}]
    path.write_text(yaml.safe_dump(plan), encoding="utf-8")
    with pytest.raises(ConfigError, match=message):
        run(trials_of("toy"), work=tmp_path / "work")
    assert not (tmp_path / "work").exists()
    with pytest.raises(ConfigError, match=message):
        CliRunner().invoke(app, ["status", "toy"], catch_exceptions=False)


def test_status_tells_the_figures_of_the_plan_and_no_others(home: Path) -> None:
    streamed = [one for one in trials_of("toy") if one.system == "both"]
    Results("toy", home).add(replace(_row(streamed[0].key, "both"), dev=0.125), RECORD)
    Results("toy", home).add(_row("older", "both"), RECORD)
    assert "1 of   1  both  accuracy dev 0.1250\n" in CliRunner().invoke(app, ["status", "toy"]).output


def test_status_of_results_that_are_nowhere_is_refused(home: Path, tmp_path: Path) -> None:
    found = CliRunner().invoke(app, ["status", "toy", "--results", str(tmp_path / "mistyped")])
    assert isinstance(found.exception, ConfigError)
    assert "mistyped is no directory" in str(found.exception)
    assert found.output == ""


def test_rows_without_a_form_are_left_out(home: Path) -> None:
    assert all(one.target for one in load("inflection/toy").train)
    assert len(load("inflection/toy").train) == 16


@pytest.mark.usefixtures("quick_processes")
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
    together = next(one for one in trials if one.system == "all")
    for_all = [one for one in trials if one.system == "one"]
    whole = [Transducer.from_pretrained(model_directory(work, one.key)) for one in for_all]
    own = {one.tags: Transducer.from_pretrained(model_directory(work, one.key)) for one in trials[:2]}
    joined = _joined(together, work)
    for example in load("inflection/toy").test:
        expected = EnsembleTransducer([*whole, own[example.tags[0]]]).score_each([example])[0]
        assert joined.score_each([example])[0].log_prob == pytest.approx(expected.log_prob, abs=1e-6)
    outcome = results.records()[trials[2].key]["outcomes"]["test"]["cells"]
    assert set(outcome) == {"1", "2"}  # the types of this set are not written down: each lemma is asked twice
    signs = "".join(outcome.values())
    assert set(signs) <= {"0", "1"}
    assert rows[trials[2].key].test == pytest.approx(signs.count("1") / len(signs))


def _add_table(home: Path, made_of: str, *, of_plan: dict[str, Any] | None = None, **of_system: Any) -> None:
    """A second table, made of models of the first."""
    (home / "other").mkdir(exist_ok=True)
    system = {"name": "again", "made_of": made_of, "search": {"beam": 1}, **of_system}
    plan = {"metrics": ["accuracy"], "systems": [system], **(of_plan or {})}
    (home / "other" / "plan.yaml").write_text(yaml.safe_dump(plan), encoding="utf-8")


@pytest.mark.usefixtures("quick_processes")
def test_a_table_may_measure_the_models_of_another(home: Path, tmp_path: Path) -> None:
    _add_table(home, "toy/one")
    trained = [one for one in trials_of("toy") if one.system == "one"]
    again = trials_of("other")
    assert [one.members for one in again] == [(one.key,) for one in trained]
    assert all("were not asked for" in one for one in run(again, work=tmp_path / "work", workers=1))
    assert run([*again[:1], *trained[:1]], work=tmp_path / "work", workers=1) == []
    assert run(again[:1], work=tmp_path / "work", workers=1) == []
    assert set(Results("other", home).rows()) == {again[0].key}


@pytest.mark.parametrize("name", ["none", "toy/none", "other/again"])
def test_a_system_made_of_what_there_is_not_is_refused(home: Path, name: str) -> None:
    _add_table(home, name)
    with pytest.raises(ConfigError, match="made of"):
        trials_of("other")


def _add_dataset(home: Path) -> None:
    path = home / "toy" / "plan.yaml"
    plan = yaml.safe_load(path.read_text(encoding="utf-8"))
    path.write_text(yaml.safe_dump({**plan, "datasets": ["inflection/toy", "inflection/more"]}), encoding="utf-8")


@pytest.mark.parametrize(
    ("of_system", "of_plan", "wanted"),
    [
        ({}, {}, ["inflection/toy", "inflection/more"]),
        ({"datasets": ["inflection/more"]}, {}, ["inflection/more"]),
        ({}, {"datasets": ["inflection/more", "g2p/other"]}, ["inflection/more"]),  # a plan's are of all its systems
        ({"datasets": ["inflection/toy"]}, {"datasets": ["inflection/more"]}, ["inflection/toy"]),
    ],
)
def test_models_of_others_are_measured_on_the_data_sets_that_are_named(
    home: Path, of_system: dict[str, Any], of_plan: dict[str, Any], wanted: list[str]
) -> None:
    _add_dataset(home)
    _add_table(home, "toy/one", of_plan=of_plan, **of_system)
    found = [(one.dataset, one.seed) for one in trials_of("other")]
    assert found == [(name, seed) for name in wanted for seed in (1, 2)]


@pytest.mark.parametrize(
    ("of_system", "of_plan", "missing"),
    [
        ({"datasets": ["inflection/toy", "g2p/other"]}, {}, "datasets of 'again' .*'toy/one' has, got .'g2p/other'"),
        ({}, {"datasets": ["g2p/other"]}, "datasets of 'again' .*'toy/one' has, got .'g2p/other'"),
        ({"seeds": [1, 3]}, {}, "seeds of 'again' are to be some of .1, 2., .* got .3"),
    ],
)
def test_data_sets_and_seeds_that_the_models_do_not_have_are_refused(
    home: Path, of_system: dict[str, Any], of_plan: dict[str, Any], missing: str
) -> None:
    _add_table(home, "toy/one", of_plan=of_plan, **of_system)
    with pytest.raises(ConfigError, match=missing):
        trials_of("other")


RECORD: dict[str, Any] = {"scores": {}, "outcomes": {}}


def _row(key: str = "k1", model: str = "m, with a comma") -> Row:
    return Row("d", "", model, 1, "accuracy", 0.5, None, 3, 1.5, "c", "h", "x", "now", key)


@pytest.mark.parametrize("cut", range(1, 41, 3))
def test_a_line_that_a_crash_has_cut_does_not_spoil_the_next(home: Path, cut: int) -> None:
    results = Results("toy", home)
    results.add(_row("k1"), {"scores": {"dev": [{"a": {}}]}, "outcomes": {}})
    rows, records = results.csv.read_bytes(), results.outcomes.read_bytes()
    results.add(_row("k2"), {"scores": {"dev": [{"a": {}}]}, "outcomes": {}})
    for path, before in ((results.csv, rows), (results.outcomes, records)):
        whole = path.read_bytes()
        assert cut <= len(whole) - len(before)
        path.write_bytes(whole[:-cut])
    assert results.rows() == {"k1": _row("k1")}
    results.add(_row("k3"), RECORD)
    assert results.rows() == {"k1": _row("k1"), "k3": _row("k3")}
    assert set(results.records()) == {"k1", "k3"}


def test_a_file_cut_in_its_first_line_begins_anew(home: Path) -> None:
    results = Results("toy", home)
    results.csv.write_text("dataset,tags,mo", encoding="utf-8")
    assert results.rows() == {}
    results.add(_row("k1"), RECORD)
    assert results.csv.read_text(encoding="utf-8").startswith("dataset,tags,model,seed")
    assert results.rows() == {"k1": _row("k1")}


def test_outcomes_are_packed_in_their_file_and_come_back(home: Path) -> None:
    outcomes = {
        "dev": {"cells": {"": "1" * 500}},
        "test": {"cells": {"case=ä": "10."}, "items": {"rouge_1": [0.1234, 1]}},
    }
    results = Results("toy", home)
    results.add(_row("k1"), {"scores": {}, "outcomes": outcomes})
    assert len(results.outcomes.read_bytes()) < 250
    assert results.records() == {"k1": {"key": "k1", "scores": {}, "outcomes": outcomes}}


@pytest.mark.parametrize(
    "outcomes",
    [{}, {"outcomes": {"dev": {}}}, *({"outcomes": one} for one in ("", "not packed", pack("[]"), pack("{x}")))],
)
def test_outcomes_of_another_form_are_refused(home: Path, outcomes: dict[str, Any]) -> None:
    results = Results("toy", home)
    results.outcomes.write_text(json.dumps({"key": "k0", "scores": {}, **outcomes}) + "\n", encoding="utf-8")
    with pytest.raises(
        DataError, match=r"outcomes\.jsonl: k0: (expected a text (that was packed|of the form)|Expecting)"
    ):
        results.records()


def test_a_record_without_outcomes_leaves_nothing_behind(home: Path) -> None:
    with pytest.raises(KeyError):
        Results("toy", home).add(_row("k1"), {"scores": {}}, {"data": "x"})
    assert not Results("toy", home).answers.exists()


def test_two_runners_that_finish_the_same_trial_leave_one_row(home: Path) -> None:
    assert Results("toy", home).add(_row("k1"), {**RECORD, "by": 1})
    assert not Results("toy", home).add(replace(_row("k1"), test=0.9), {**RECORD, "by": 2})
    results = Results("toy", home)
    assert results.rows() == {"k1": _row("k1")}
    assert results.records()["k1"]["by"] == 1
    assert len(results.csv.read_text(encoding="utf-8").splitlines()) == 2


def _queue(trials: list[Trial], work: Path) -> _Queue:
    return _Queue(trials, work, "commit", None, 1)


def _told(trial: Trial) -> dict[str, object]:
    row = {"dev": 0.5, "test": 0.5, "epochs": 1, "seconds": 1.0, "data": "x"}
    return {"state": DONE, "row": row, "record": RECORD}


def test_a_measurement_waits_for_its_models_and_is_given_up_without_them(home: Path, tmp_path: Path) -> None:
    first, second, both = [one for one in trials_of("toy") if one.system in ("one", "both")]
    queue = _queue([first, second, both], tmp_path)
    jobs = queue.jobs()
    begun = [next(jobs), next(jobs)]
    assert [job.name for job in begun if job is not None] == [first.key, second.key]
    assert next(jobs) is None
    assert begun[0] is not None
    queue.tell(begun[0], _told(first))
    assert next(jobs) is None
    assert begun[1] is not None
    queue.tell(begun[1], {"state": FAILED, "message": "it was too hard"})
    assert next(jobs, "none") == "none"
    assert "too hard" in queue.failed[0]
    assert f"1 of its 2 models are not in {tmp_path}" in queue.failed[1]
    assert second.key in queue.failed[1]


def test_a_measurement_is_not_given_up_while_its_last_model_is_written_down(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, both = [one for one in trials_of("toy") if one.system in ("one", "streamed")][::2]
    queue = _queue([first, both], tmp_path)
    jobs = queue.jobs()
    job = next(jobs)
    assert job is not None
    asked: list[Job | None] = []
    asking = threading.Thread(target=lambda: asked.append(next(jobs)))

    add = Results.add

    def slow(self: Results, row: Row, record: dict[str, object], answers: object) -> bool:
        asking.start()  # another worker asks for a job just now
        asking.join(0.2)
        return add(self, row, record)

    monkeypatch.setattr(Results, "add", slow)
    queue.tell(job, _told(first))
    asking.join()
    assert [one.name for one in asked if one is not None] == [both.key]
    assert queue.failed == []


def test_a_model_that_is_elsewhere_is_trained_again_for_a_measurement_and_keeps_its_row(
    home: Path, tmp_path: Path
) -> None:
    first, second, both = [one for one in trials_of("toy") if one.system in ("one", "both")]
    for one in (first, second):
        Results("toy", home).add(replace(_row(one.key), dev=0.25), RECORD)
    queue = _queue([first, second, both], tmp_path)
    job = next(queue.jobs())
    assert job is not None
    assert job.name == first.key
    assert job.order["is_model_only"]
    queue.tell(job, {"state": DONE})
    assert Results("toy", home).rows()[first.key].dev == 0.25
    assert next(_queue([first, second], tmp_path).jobs(), None) is None  # nothing has to be measured


def test_missing_data_is_told_before_anything_is_begun(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trials = trials_of("toy")
    monkeypatch.setenv("SSNT_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(ConfigError, match=r"nowhere.*train\.tsv.*SSNT_DATA names no folder"):
        run(trials, work=tmp_path / "work")
    (tmp_path / "nowhere/inflection/toys").mkdir(parents=True)
    with pytest.raises(ConfigError, match=r"toy/train\.tsv: there is no such file; did you mean 'toys'\?"):
        run(trials, work=tmp_path / "work")
    (tmp_path / "nowhere/inflection/toy").mkdir()
    with pytest.raises(ConfigError, match=r"no such file; put it there, or name another folder .* \$SSNT_DATA"):
        run(trials, work=tmp_path / "work")


@pytest.mark.parametrize("signals", [1, 2])
def test_whoever_stops_it_is_told_how_to_go_on(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, signals: int
) -> None:
    class Stopped:
        def run(self, jobs: object, tell: object, stop: Stop) -> None:
            stop.request()
            if signals > 1:
                raise StopNow

    monkeypatch.setattr(runner, "make_engine", lambda *_, **__: Stopped())
    with pytest.raises(TrainingInterrupted, match="8 of 8 trials are left; what was under way is saved"):
        run(trials_of("toy"), work=tmp_path / "work")
    result = CliRunner().invoke(app, ["run", "toy", "--work", str(tmp_path / "work")])
    assert result.exit_code == 130
    assert "8 of 8 trials are left" in result.output


def test_two_runners_do_not_share_a_work_directory(home: Path, tmp_path: Path) -> None:
    with runner._alone(tmp_path), pytest.raises(ConfigError, match="another runner works here"):
        run(trials_of("toy"), work=tmp_path)


def test_results_elsewhere_begin_from_scratch(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[int, Path | None]] = []
    monkeypatch.setattr(runner, "run", lambda trials, *, home, **_: seen.append((len(trials), home)) or [])
    CliRunner().invoke(app, ["run", "toy", "--results", str(tmp_path / "new"), "--work", str(tmp_path / "new")])
    assert seen == [(8, tmp_path / "new")]
    queue = _Queue(trials_of("toy")[:1], tmp_path, "commit", tmp_path / "new", 1)
    job = next(queue.jobs())
    assert job is not None
    queue.tell(job, _told(trials_of("toy")[0]))
    assert len(Results("toy", tmp_path / "new").rows()) == 1
    assert Results("toy", home).rows() == {}


def test_a_system_that_is_not_there_is_refused(home: Path) -> None:
    result = CliRunner().invoke(app, ["run", "toy", "--system", "oen"])
    assert isinstance(result.exception, ConfigError)
    assert "'oen'" in str(result.exception)


def test_a_plan_by_request_is_left_out_unless_it_is_named(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = home / "toy" / "plan.yaml"
    path.write_text(path.read_text(encoding="utf-8") + "by_request: true\n", encoding="utf-8")
    seen: list[int] = []
    monkeypatch.setattr(runner, "run", lambda trials, **_: seen.append(len(trials)) or [])
    CliRunner().invoke(app, ["run"])
    CliRunner().invoke(app, ["run", "toy"])
    assert seen == [0, 8]


def test_the_version_of_the_code_is_its_commit_and_says_if_it_was_changed(tmp_path: Path) -> None:
    assert code_version(tmp_path) == "unknown"

    def git(*words: str) -> str:
        named = ("-c", "user.name=a", "-c", "user.email=a@b")
        return subprocess.run(["git", *named, *words], cwd=tmp_path, capture_output=True, text=True, check=True).stdout

    git("init")
    for name in ("src/a.py", "experiments/b.py", "experiments/toy/plan.yaml"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("1")
    git("add", ".")
    git("commit", "-m", "all")
    commit = git("rev-parse", "--short=10", "HEAD").strip()
    assert code_version(tmp_path) == commit
    (tmp_path / "experiments/toy/plan.yaml").write_text("2")
    assert code_version(tmp_path) == commit
    (tmp_path / "experiments/b.py").write_text("2")
    assert code_version(tmp_path) == f"{commit}+"


@pytest.mark.parametrize("version", ["abc", "abc+"])
def test_rows_that_nobody_can_look_up_are_told_beforehand(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], version: str
) -> None:
    monkeypatch.setattr(runner, "code_version", lambda: version)
    run([], work=tmp_path / "work")
    assert ("rows will have abc+" in capsys.readouterr().out) == (version == "abc+")


def test_what_another_runner_has_finished_meanwhile_is_not_done_again(home: Path, tmp_path: Path) -> None:
    first, second, both = [one for one in trials_of("toy") if one.system in ("one", "both")]
    alone, measuring = _queue([first, second], tmp_path), _queue([first, second, both], tmp_path)
    Results("toy", home).add(_row(first.key), RECORD)
    jobs = [job for job in alone.jobs() if job is not None]
    assert [job.name for job in jobs] == [second.key]
    assert alone.left().startswith("stopped: 1 of 2")
    job = next(measuring.jobs())  # its model is not in this work directory, and wanted
    assert job is not None
    assert job.name == first.key


@pytest.mark.parametrize("has_row", [True, False])
def test_answers_that_another_runner_has_kept_meanwhile_are_taken(home: Path, tmp_path: Path, has_row: bool) -> None:
    path = home / "toy" / "plan.yaml"
    plan = yaml.safe_load(path.read_text(encoding="utf-8"))
    plan["base"]["search"]["beam"] = 8
    plan["systems"] = [{**plan["systems"][1], "keeps_answers": True}, {**plan["systems"][2], "of_answers": True}]
    path.write_text(yaml.safe_dump(plan), encoding="utf-8")
    first, second, both = trials_of("toy")
    results = Results("toy", home)
    if has_row:
        results.add(_row(first.key), RECORD)
    queue = _queue([first, second, both], tmp_path)
    results.add(_row(first.key), RECORD)
    without = next(_queue([first, second, both], tmp_path).jobs())  # a row alone is not what the ensemble is made of
    assert without is not None
    assert without.name == first.key
    results.add(_row(first.key), RECORD, {"accuracy": {"dev": 0.5}})
    job = next(queue.jobs())
    assert job is not None
    assert job.name == second.key
    assert first.key in queue._answers
