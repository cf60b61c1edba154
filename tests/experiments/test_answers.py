"""Kept answers: small, without the data, and as good as the models' probabilities where they say so."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from experiments.answers import FIRST_WRONG, KEPT, UNIT, Answer, answers_of, named, packed, together, unpacked
from experiments.datasets import load
from experiments.packing import pack
from experiments.plan import Trial, trials_of
from experiments.pooled import pooled
from experiments.results import Results
from experiments.runner import _Queue, run
from experiments.trial import model_directory

from experiments import datasets, results
from experiments import plan as plan_module
from ssnt.engines.base import DONE
from ssnt.errors import ConfigError, DataError
from ssnt.evaluation import evaluate_model
from ssnt.pipeline import Transducer, Transduction
from ssnt.types import Example

TYPES = {"n=s": "", "n=p": "s"}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A table with a model for each of two tag sets, two models for both, and ensembles of their answers."""
    data = tmp_path / "data" / "inflection" / "toy"
    data.mkdir(parents=True)
    lemmas = ["ab", "ba", "aab", "Bba", "abab", "baba", "aaa", "bbb"]
    rows = [f"{one}\t{tags}\t{one}{end}" for one in lemmas for tags, end in TYPES.items()]
    (data / "train.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    (data / "dev.tsv").write_text("\n".join([*rows, "ab\tn=p\tabx"]) + "\n", encoding="utf-8")  # two are right
    (data / "test.tsv").write_text("\n".join(rows[:7]) + "\n", encoding="utf-8")
    home = tmp_path / "plans"
    (home / "toy").mkdir(parents=True)
    plan = {
        "metrics": ["accuracy"],
        "keeps_answers": True,
        "datasets": ["inflection/toy"],
        "base": {
            "data": {"lowercase": True},
            "model": {"hidden_size": 16, "embed_size": 8},
            "optimiser": {"learning_rate": 0.02},
            "training": {"max_epochs": 20},  # neither all wrong nor all right
            "batch": {"size": 4},
            "search": {"beam": KEPT},
        },
        "systems": [
            {"name": "types", "model": "biSSNT+", "per_type": True},
            {"name": "one", "model": "biSSNT+", "seeds": [1, 2]},
            {"name": "both", "made_of": "one", "of_answers": True},
            {"name": "all", "made_of": ["types", "one"], "of_answers": True},
        ],
    }
    (home / "toy" / "plan.yaml").write_text(yaml.safe_dump(plan), encoding="utf-8")
    monkeypatch.setenv("SSNT_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(plan_module, "HOME", home)
    monkeypatch.setattr(results, "HOME", home)
    datasets.load.cache_clear()
    yield home
    datasets.load.cache_clear()


def _change_plan(home: Path, at: int | None, **change: object) -> None:
    path = home / "toy" / "plan.yaml"
    plan = yaml.safe_load(path.read_text(encoding="utf-8"))
    (plan if at is None else plan["systems"][at]).update(change)
    path.write_text(yaml.safe_dump(plan), encoding="utf-8")


def test_what_is_packed_comes_back() -> None:
    draw = random.Random(1)
    for count in (1, 2, 50):
        answers = [
            {draw.randrange(2**16): draw.randrange(1, UNIT + 1) for _ in range(draw.randrange(KEPT))}
            for _ in range(count)
        ]
        assert unpacked(packed(answers)) == answers
        assert [list(one) for one in unpacked(packed(answers))] == [list(one) for one in answers]  # their order too


@pytest.mark.parametrize("text", ["", "no", "not base 85 \x00", pack("0:x"), pack("0:1;;0:1,")])
def test_what_was_not_packed_is_refused(text: str) -> None:
    with pytest.raises(DataError, match=r"expected a text that was packed|expected NAME:COUNT"):
        unpacked(text)


def test_sure_answers_take_no_room() -> None:
    assert len(packed([{0: 1000}] * 10_000)) < 200


def test_right_outputs_are_named_by_their_places_and_others_by_hashes() -> None:
    assert [named(one, ("ab", "aba")) for one in ("ab", "aba")] == [0, 1]
    names = {named(f"wrong {at}", ("ab",)) for at in range(500)}
    assert min(names) >= FIRST_WRONG
    assert len(names) > 490


Distribution = dict[int, float]


def _drawn(draw: random.Random) -> Distribution:
    """Probabilities of a few outputs, right and wrong, sharp or flat."""
    names = [*range(2), *range(FIRST_WRONG, FIRST_WRONG + draw.choice([1, 3, 12, 40]))]
    weights = [draw.random() ** draw.choice([1, 4, 20]) + 1e-9 for _ in names]
    share = draw.choice([1.0, 0.9])  # the rest is of outputs that no search has found
    return {name: share * weight / sum(weights) for name, weight in zip(names, weights, strict=True)}


def _kept(one: Distribution) -> Answer:
    best = sorted(one, key=one.__getitem__, reverse=True)[:KEPT]
    return {name: round(UNIT * one[name]) for name in best if round(UNIT * one[name])}


def test_a_certain_verdict_is_that_of_the_whole_distributions() -> None:
    draw = random.Random(2)
    certain = right = 0
    for _ in range(4000):
        models = [_drawn(draw) for _ in range(draw.choice([1, 2, 5]))]
        names = {name for one in models for name in one}
        best = max(names, key=lambda name: sum(one.get(name, 0.0) for one in models))
        verdict = together([_kept(one) for one in models])
        if verdict.is_certain:
            certain += 1
            right += verdict.is_right
            assert verdict.is_right == (best < FIRST_WRONG)
    assert certain > 2000
    assert 500 < right < certain - 500


def test_a_narrow_verdict_is_not_certain() -> None:
    assert together([{0: 500, 300: 499}]) == together([{0: 500}, {300: 499}])
    assert not together([{0: 500, 300: 499}]).is_certain
    assert together([{0: 502, 300: 400}]).is_certain
    full = dict.fromkeys(range(300, 300 + KEPT), 100)
    assert not together([full]).is_certain  # a ninth may be as probable
    assert not together([{}, {}]).is_right
    assert not together([{}]).is_certain


def test_two_right_outputs_are_not_added_up() -> None:
    assert not together([{0: 300, 1: 300, 400: 390}]).is_right
    assert together([{0: 300, 1: 300, 400: 290}]).is_right


@pytest.mark.usefixtures("quick_processes")
def test_ensembles_of_answers_are_those_of_the_models(home: Path, tmp_path: Path) -> None:
    trials, work = trials_of("toy"), tmp_path / "work"
    assert run(trials, work=work, workers=1) == []
    kept = Results("toy", home)
    assert set(kept.kept_answers()) == {one.key for one in trials if not one.members}
    assert "aab" not in kept.answers.read_text(encoding="utf-8")
    trained = [one for one in trials if not one.members]
    rows, records = kept.rows(), kept.records()
    for ensemble in trials[-2:]:
        models = [
            (one.tags, Transducer.from_pretrained(model_directory(work, one.key)))
            for one in trained
            if one.key in ensemble.members
        ]
        for part, seen in (("dev", rows[ensemble.key].dev), ("test", rows[ensemble.key].test)):
            assert seen == pytest.approx(_brute_force(models, getattr(load("inflection/toy"), part)))
            signs = "".join(records[ensemble.key]["outcomes"][part]["cells"].values())
            assert signs.count("1") / (signs.count("0") + signs.count("1")) == pytest.approx(seen)
        assert set(records[ensemble.key]["uncertain"]) == {"dev", "test"}
    assert 0 < rows[trials[-1].key].dev < 1


def _brute_force(models: list[tuple[str, Transducer]], examples: tuple[Example, ...]) -> float:
    """The accuracy of the mean of the models' probabilities, over all outputs that any of them finds."""
    right: dict[tuple[str, tuple[str, ...]], set[str]] = {}
    for one in examples:
        right.setdefault((one.source.lower(), one.tags), set()).add(one.target.lower())
    hits = 0
    for (source, tags), forms in right.items():
        sums: dict[str, float] = {}
        for own, model in models:
            if own not in ("", ";".join(tags)):
                continue
            found = model.transduce_each([Example(source, None, () if own else tags)], nbest=KEPT)[0]
            assert isinstance(found, Transduction)
            for output in (found, *found.alternatives):
                sums[output.text] = sums.get(output.text, 0.0) + output.probability
        hits += max(sums, key=sums.__getitem__) in forms
    return hits / len(right)


@pytest.mark.usefixtures("quick_processes")
def test_answers_are_what_the_search_gives(home: Path, tmp_path: Path) -> None:
    trial = next(one for one in trials_of("toy") if one.system == "one")
    assert run([trial], work=tmp_path, workers=1) == []
    model = Transducer.from_pretrained(model_directory(tmp_path, trial.key))
    found = evaluate_model(model, load("inflection/toy").dev, ["accuracy"], nbest=KEPT)
    plain = evaluate_model(model, load("inflection/toy").dev, ["accuracy"])
    assert [one.prediction for one in found.items] == [one.prediction for one in plain.items]
    answers = answers_of(found)
    assert unpacked(Results("toy", home).kept_answers()[trial.key]["dev"]) == answers
    assert len(answers) == len(found.questions) == 16  # the second right form is of a question that is there
    for answer, prediction, item in zip(answers, found.predictions, found.items, strict=True):
        outputs = (prediction, *prediction.alternatives)
        expected = {named(one.text, item.reference_texts): round(UNIT * one.probability) for one in outputs}
        assert answer == {name: count for name, count in expected.items() if count}


def test_answers_need_no_models_and_models_no_answers(home: Path, tmp_path: Path) -> None:
    trials = [one for one in trials_of("toy") if one.system in ("one", "both")]
    for one in trials[:2]:
        _add_row(home, one)
    job = next(_Queue(trials, tmp_path, "commit", None).jobs())
    assert job is not None
    assert job.name == trials[0].key  # it has its row, but its answers are nowhere
    for one in trials[:2]:
        Results("toy", home).add_answers(one.key, {"data": one.key})
    job = next(_Queue(trials, tmp_path, "commit", None).jobs())
    assert job is not None
    assert job.name == trials[2].key
    assert job.order["answers"] == {one.key: {"key": one.key, "data": one.key} for one in trials[:2]}


def test_answers_are_added_to_a_trial_that_has_its_row(home: Path, tmp_path: Path) -> None:
    trials = [one for one in trials_of("toy") if one.system in ("one", "both")]
    for one in trials[:2]:
        _add_row(home, one)
    queue = _Queue(trials, tmp_path, "commit", None)
    jobs = queue.jobs()
    for at in range(2):
        job = next(jobs)
        assert job is not None
        row = {"dev": 0.5, "test": 0.5, "epochs": 1, "seconds": 1.0, "data": "x"}
        queue.tell(job, {"state": DONE, "row": row, "record": {}, "answers": {"data": f"x{at}"}})
    assert [one["data"] for one in Results("toy", home).kept_answers().values()] == ["x0", "x1"]
    assert Results("toy", home).rows()[trials[0].key].dev == 0.25
    Results("toy", home).add_answers(trials[0].key, {"data": "other"})
    assert Results("toy", home).kept_answers()[trials[0].key]["data"] == "x0"
    job = next(jobs)
    assert job is not None
    assert job.name == trials[2].key


def _add_row(home: Path, trial: Trial) -> None:
    row = results.Row("d", "", trial.system, 1, "accuracy", 0.25, 0.25, 3, 1.5, "c", "h", "x", "now", trial.key)
    Results("toy", home).add(row, {"scores": {}, "outcomes": {}})


def test_keeping_answers_does_not_change_a_key_and_using_them_does(home: Path) -> None:
    keeping = trials_of("toy")
    assert replace(keeping[0], keeps_answers=False).key == keeping[0].key
    assert replace(keeping[-1], of_answers=False).key != keeping[-1].key


def _answers(trials: list[Trial], **change: object) -> dict[str, dict[str, object]]:
    parts = load("inflection/toy")
    usual = {"data": parts.sha256, "pooling": {"lowercase": True, "digits_to_hash": False}}
    dev, test = packed([{0: 900}] * 16), packed([{300: 900}] * 7)
    return {one.key: {**usual, "dev": dev, "test": test, **change} for one in trials}


def test_answers_of_other_data_or_other_questions_are_refused(home: Path) -> None:
    *members, both = [one for one in trials_of("toy") if one.system in ("one", "both")]
    parts = load("inflection/toy")
    report = pooled(both, _answers(members), parts)
    assert (report["row"]["dev"], report["row"]["test"]) == (1.0, 0.0)
    assert report["record"]["uncertain"] == {"dev": 0, "test": 0}
    with pytest.raises(DataError, match="answers are of other data than inflection/toy"):
        pooled(both, _answers(members, data="x"), parts)
    with pytest.raises(DataError, match="expected an answer to each of 16 questions of dev, got 15"):
        pooled(both, _answers(members, dev=packed([{0: 900}] * 15)), parts)
    every = trials_of("toy")[-1]
    lacking = replace(every, members=tuple(key for key in every.members if "n=s" not in key))
    types = [one for one in trials_of("toy") if one.tags == "n=p"]
    own = _answers(types, dev=packed([{0: 900}] * 8), test=packed([{0: 900}] * 3))
    with pytest.raises(DataError, match="expected 3 answers to each question, not to 'ab'"):
        pooled(lacking, {**_answers(members), **own}, parts)


@pytest.mark.parametrize(
    ("at", "change", "message"),
    [
        (None, {"metrics": ["accuracy", "perplexity"]}, "expected the metric accuracy"),
        (1, {"search": {"beam": 2}}, "no search"),
        (2, {"stream": {"max_delay": 1}}, "no stream"),
        (1, {"of_answers": True}, "also made_of"),
        (1, {"keeps_answers": False}, "'both' is of the answers of toy/one/.* which are not kept"),
    ],
)
def test_answers_of_what_has_none_are_refused(
    home: Path, at: int | None, change: dict[str, object], message: str
) -> None:
    _change_plan(home, at, **change)
    with pytest.raises(ConfigError, match=message):
        trials_of("toy")
