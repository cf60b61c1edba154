"""Kept answers: small, without the data, and as good as the models' probabilities where they say so."""

from __future__ import annotations

import fcntl
import math
import random
import re
import threading
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import yaml
from experiments.answers import (
    FIRST_WRONG,
    KEPT,
    UNIT,
    Answer,
    Verdict,
    answers_of,
    named,
    packed,
    require_probabilities,
    together,
    unpacked,
)
from experiments.datasets import load
from experiments.ensembles import measured_together
from experiments.packing import pack, unpack
from experiments.plan import Trial, trials_of
from experiments.results import Results, Row
from experiments.runner import _Queue, run
from experiments.trial import model_directory, run_trial

from experiments import answers
from ssnt.config import load_config
from ssnt.engines.base import DONE, Report
from ssnt.errors import ConfigError, DataError
from ssnt.evaluation import Evaluation, evaluate_model
from ssnt.interrupts import Stop
from ssnt.metrics import Item
from ssnt.metrics.score import signature
from ssnt.pipeline import Transducer, Transduction
from ssnt.types import Alignment, Example

TYPES = {"n=s": "", "n=p": "s"}


@pytest.fixture
def home(make_toy_table: Callable[..., Path]) -> Path:
    """A table with a model for each of two tag sets, two models for both, and ensembles of their answers."""
    lemmas = ["ab", "ba", "aab", "Bba", "abab", "baba", "aaa", "bbb"]
    rows = [f"{one}\t{tags}\t{one}{end}" for one in lemmas for tags, end in TYPES.items()]
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
    # of one question of dev two answers are right
    return make_toy_table(plan, {"train": rows, "dev": [*rows, "ab\tn=p\tabx"], "test": rows[:7]})


def _change_plan(home: Path, at: int | None, **change: object) -> None:
    path = home / "toy" / "plan.yaml"
    plan = yaml.safe_load(path.read_text(encoding="utf-8"))
    (plan if at is None else plan["systems"][at]).update(change)
    path.write_text(yaml.safe_dump(plan), encoding="utf-8")


def test_what_is_packed_comes_back() -> None:
    draw = random.Random(1)
    for count in (1, 2, 50):
        answers = [
            {draw.randrange(2**24): draw.randrange(1, UNIT + 1) for _ in range(draw.randrange(KEPT))}
            for _ in range(count)
        ]
        assert unpacked(packed(answers)) == answers
        assert [list(one) for one in unpacked(packed(answers))] == [list(one) for one in answers]  # their order too


@pytest.mark.parametrize("text", ["", "no", "not base 85 \x00", pack("0:x"), pack("0:1;;0:1,")])
def test_what_was_not_packed_is_refused(text: str) -> None:
    with pytest.raises(DataError, match=r"expected a text that was packed|expected a text of the form"):
        unpacked(text)


def test_sure_answers_take_no_room() -> None:
    assert len(packed([{0: 1000}] * 10_000)) < 200


def test_right_outputs_are_named_by_their_places_and_others_by_hashes() -> None:
    assert [named(one, ("ab", "aba")) for one in ("ab", "aba")] == [0, 1]
    names = {named(f"wrong {at}", ("ab",)) for at in range(500)}
    assert len(names) == 500  # of 16 million
    assert FIRST_WRONG <= min(names) < 2**20 < max(names) < 2**24


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


@pytest.mark.parametrize(
    ("answers", "is_right", "is_certain"),
    [
        ([{0: 501, 300: 499}], True, True),
        ([{0: 500, 300: 499}], True, False),  # 499.5 and 499.5
        ([{300: 400, 301: 399}], False, True),  # which of the two it is does not matter
        ([{300: 400, 0: 399}], False, False),
        ([{0: 600}, {300: 300}], True, False),  # the first may have found 300 next best, with 400
        ([{0: 600, 301: 50}, {300: 500}], True, True),  # the first found no other above 50
        ([{0: 600, 301: 150}, {300: 500}], True, False),
        ([{0: 100, 300: 90}], True, True),  # a third is at most 90, or it would have been kept
        ([{0: 100, 300: 100}, {0: 1}], True, False),  # a third, in both, may be 100.5 and 999.5
        ([{0: 1000}, {}], True, False),  # the second may have found anything
        ([{}, {}], False, False),
    ],
)
def test_a_verdict_is_certain_if_nothing_that_was_left_out_can_turn_it(
    answers: list[Answer], is_right: bool, is_certain: bool
) -> None:
    assert together(answers) == Verdict(is_right, is_certain)


def test_two_right_outputs_are_not_added_up() -> None:
    assert not together([{0: 300, 1: 300, 400: 390}]).is_right
    assert together([{0: 300, 1: 300, 400: 290}]).is_right


@pytest.fixture
def reports(home: Path, tmp_path: Path) -> dict[str, Report]:
    """What all trials report, those of ensembles made of what the others have kept."""
    found: dict[str, Report] = {}
    for trial in trials_of("toy"):
        answers = {key: found[key]["answers"] for key in trial.members}
        order = {
            "trial": asdict(trial),
            "work": str(tmp_path),
            "answers": answers,
            "is_model_only": False,
            "threads": 1,
            "retrained": 0,
        }
        found[trial.key] = run_trial(order, lambda _: None, Stop())
    return found


def test_answers_are_those_of_the_search_and_ensembles_their_means(reports: dict[str, Report], tmp_path: Path) -> None:
    trials, parts = trials_of("toy"), load("inflection/toy")
    models = {one.key: Transducer.from_pretrained(model_directory(tmp_path, one.key)) for one in trials[:-2]}
    _check_answers(models[trials[2].key], reports[trials[2].key])
    order = {"trial": asdict(trials[2]), "work": str(tmp_path), "is_model_only": True, "threads": 1}
    assert run_trial(order, lambda _: None, Stop()) == {"state": DONE}  # for its model alone
    tags = {one.key: one.tags for one in trials}
    for ensemble in trials[-2:]:
        members = [(tags[key], models[key]) for key in ensemble.members]
        row, record = (reports[ensemble.key][name] for name in ("row", "record"))
        for part in ("dev", "test"):
            assert row[part] == pytest.approx(_brute_force(members, getattr(parts, part)))
            signs = "".join(record["outcomes"][part]["cells"].values())
            assert signs.count("1") / (signs.count("0") + signs.count("1")) == pytest.approx(row[part])
        assert set(record["uncertain"]) == {"dev", "test"}
        assert 0 < row["dev"] < 1


def _check_answers(model: Transducer, report: Report) -> None:
    """That a model for all tag sets has kept what its search gives, and nothing of the data."""
    found = evaluate_model(model, load("inflection/toy").dev, ["accuracy"], nbest=KEPT)
    plain = evaluate_model(model, load("inflection/toy").dev, ["accuracy"])
    assert [one.prediction for one in found.items] == [one.prediction for one in plain.items]
    kept = report["answers"]
    assert unpack(kept["dev"], re.compile("[0-9a-f:,;]+"))
    assert unpacked(kept["dev"]) == answers_of(found)
    assert kept["accuracy"] == {part: report["row"][part] for part in ("dev", "test")}
    assert len(found.questions) == 16  # the second right form is of a question that is there
    for answer, prediction, item in zip(answers_of(found), found.predictions, found.items, strict=True):
        assert isinstance(prediction, Transduction)
        outputs = (prediction, *prediction.alternatives)
        assert len({one.text for one in outputs}) == KEPT
        counts = [round(UNIT * one.probability) for one in outputs if one.is_complete]
        assert list(answer.values()) == [count for count in counts if count]
        assert (next(iter(answer)) < FIRST_WRONG) == (item.prediction in item.references)


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


def _evaluation(outputs: list[tuple[str, float, bool]], right: str) -> Evaluation:
    """Of one question, with outputs that have a probability and are complete or not."""
    found = [
        Transduction((), math.log(value), 0.0, Alignment((), ()), (), text=text, is_complete=is_complete)
        for text, value, is_complete in outputs
    ]
    item = Item.from_text(outputs[0][0], [right], split=tuple)
    return Evaluation([], [replace(found[0], alternatives=tuple(found[1:]))], [item], [])


def test_outputs_with_one_name_are_added_up_and_incomplete_ones_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    found = _evaluation([("wrong", 0.6, True), ("ö", 0.2, True), ("too", 0.0001, True), ("ö", 0.1, True)], "ö")
    assert answers_of(found) == [{named("wrong", ()): 600, 0: 300}]
    monkeypatch.setattr(answers, "_HASHES", 1)
    assert named("wrong", ()) == named("too", ()) == FIRST_WRONG
    assert answers_of(found) == [{FIRST_WRONG: 600, 0: 300}]
    assert answers_of(_evaluation([("ab", 0.5, False), ("b", 0.25, True)], "b")) == [{0: 250}]


def test_right_is_what_accuracy_finds_right() -> None:
    found = _evaluation([("a\u0308", 0.6, True)], "\u00e4")
    assert found.items[0].prediction in found.items[0].references
    assert answers_of(found) == [{0: 600}]


@pytest.mark.parametrize("search", [{"search": "path"}, {"length_normalisation": 0.5}, {"beam": KEPT - 1}])
def test_a_search_without_probabilities_of_whole_outputs_is_refused(search: dict[str, object]) -> None:
    require_probabilities(load_config(overrides={"search": {"beam": KEPT}}), "here")
    with pytest.raises(ConfigError, match="here: answers are kept of a marginal search"):
        require_probabilities(load_config(overrides={"search": {"beam": KEPT, **search}}), "here")


def test_a_trial_whose_search_does_not_fit_is_not_trained(home: Path, tmp_path: Path) -> None:
    _change_plan(home, 1, settings={"search": {"beam": 2}})
    with pytest.raises(ConfigError, match=r"^toy: one: answers are kept of .* beam=2"):
        run(trials_of("toy"), work=tmp_path / "work")
    assert not (tmp_path / "work").exists()


def test_answers_need_no_models_and_rows_without_them_are_trained_again(home: Path, tmp_path: Path) -> None:
    trials = [one for one in trials_of("toy") if one.system in ("one", "both")]
    for one in trials[:2]:
        _add(home, one)
    job = next(_Queue(trials, tmp_path, "commit", None, 1).jobs())
    assert job is not None
    assert job.name == trials[0].key
    assert not job.order["is_model_only"]
    _add(home, trials[0], {"data": trials[0].key, "accuracy": {"dev": 0.25, "test": 0.25}})
    _add(home, trials[1], {"data": trials[1].key, "accuracy": {"dev": 0.25, "test": 0.5}})  # of another training
    for asked in (trials, [*trials[2:], _streamed(trials[0]), *trials[:2]]):  # what needs models does not matter
        job = next(_Queue(asked, tmp_path, "commit", None, 1).jobs())
        assert job is not None
        assert job.name == trials[2].key
        kept = job.order["answers"]
        assert {key: one["data"] for key, one in kept.items()} == {one.key: one.key for one in trials[:2]}
        assert job.order["retrained"] == 1


def _streamed(member: Trial) -> Trial:
    return replace(member, system="streamed", members=(member.key,), stream={}, settings={}, keeps_answers=False)


def test_a_trial_that_could_not_be_written_down_is_not_done(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, both = [one for one in trials_of("toy") if one.system in ("one", "both")]
    _add(home, second, {"data": "x", "accuracy": {"dev": 0.25}})
    queue = _Queue([first, both], tmp_path, "commit", None, 1)
    jobs = queue.jobs()
    job = next(jobs)
    assert job is not None
    monkeypatch.setattr(Results, "add", _full_disk)
    row = {"dev": 0.5, "test": 0.5, "epochs": 1, "seconds": 1.0, "data": "x"}
    with pytest.raises(OSError, match="no space"):
        queue.tell(job, {"state": DONE, "row": row, "record": {}, "answers": {"data": "own"}})
    assert next(jobs, None) is None
    assert "1 of its 2 answers are not kept yet" in queue.failed[-1]


def _full_disk(*_: object) -> bool:
    raise OSError("no space")


def test_row_and_answers_are_added_under_one_lock(home: Path) -> None:
    first = next(one for one in trials_of("toy") if one.system == "one")
    kept = Results("toy", home)
    with kept.outcomes.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        adding = threading.Thread(target=_add, args=(home, first, {"data": "x"}))
        adding.start()
        adding.join(0.2)
        assert adding.is_alive()
        assert kept.kept_answers() == kept.rows() == {}
    adding.join()
    assert set(kept.kept_answers()) == set(kept.rows()) == {first.key}


def test_answers_are_added_to_a_trial_that_has_its_row(home: Path, tmp_path: Path) -> None:
    trials = [one for one in trials_of("toy") if one.system in ("one", "both")]
    for one in trials[:2]:
        _add(home, one)
    queue = _Queue(trials, tmp_path, "commit", None, 1)
    jobs = queue.jobs()
    begun = [next(jobs), next(jobs)]
    _add(home, trials[1], {"data": "of another runner", "accuracy": {"dev": 0.25}})
    for job in begun:
        assert job is not None
        row = {"dev": 0.5, "test": 0.5, "epochs": 1, "seconds": 1.0, "data": "x"}
        seen = {"dev": 0.5, "test": 0.5}
        record: dict[str, object] = {"outcomes": {}}
        queue.tell(job, {"state": DONE, "row": row, "record": record, "answers": {"data": "own", "accuracy": seen}})
    kept = Results("toy", home).kept_answers()
    assert {key: (one["data"], one["commit"]) for key, one in kept.items()} == {
        trials[0].key: ("own", "commit"),
        trials[1].key: ("of another runner", "c"),
    }
    assert Results("toy", home).rows()[trials[0].key].dev == 0.25
    job = next(jobs)
    assert job is not None
    assert job.name == trials[2].key
    assert job.order["answers"] == kept  # what is in the file
    assert job.order["retrained"] == 1  # the first has other values than its row


@pytest.mark.parametrize("cut", [1, 5, 30])
def test_answers_that_a_crash_has_cut_are_none(home: Path, cut: int) -> None:
    first, second = [one for one in trials_of("toy") if one.system == "one"]
    _add(home, first, {"data": "x"})
    before = Results("toy", home).answers.read_bytes()
    _add(home, second, {"data": "y"})
    Results("toy", home).answers.write_bytes(Results("toy", home).answers.read_bytes()[:-cut])
    assert set(Results("toy", home).kept_answers()) == {first.key}
    _add(home, second, {"data": "z"})
    assert Results("toy", home).answers.read_bytes().startswith(before)
    assert [one["data"] for one in Results("toy", home).kept_answers().values()] == ["x", "z"]


def test_without_their_answers_ensembles_are_given_up(home: Path, tmp_path: Path) -> None:
    both = next(one for one in trials_of("toy") if one.system == "both")
    queue = _Queue([both], tmp_path, "commit", None, 1)
    assert next(queue.jobs(), None) is None
    assert "2 of its 2 answers are not kept yet" in queue.failed[0]


def _add(home: Path, trial: Trial, answers: dict[str, object] | None = None) -> None:
    row = Row("d", "", trial.system, 1, "accuracy", 0.25, 0.25, 3, 1.5, "c", "h", "x", "now", trial.key)
    Results("toy", home).add(row, {"scores": {}, "outcomes": {}}, answers)


def test_keeping_answers_does_not_change_a_key_and_using_them_does(home: Path) -> None:
    keeping = trials_of("toy")
    assert replace(keeping[0], keeps_answers=False).key == keeping[0].key
    assert replace(keeping[-1], of_answers=False).key != keeping[-1].key


def _answers(trials: list[Trial], **change: object) -> dict[str, dict[str, object]]:
    parts = load("inflection/toy")
    normalisation = {"lowercase": True, "digits_to_hash": False}
    usual = {"data": parts.sha256, "normalisation": normalisation, "unit": "characters+lowercase"}
    dev, test = packed([{0: 900}] * 16), packed([{300: 900}] * 7)
    return {one.key: {**usual, "dev": dev, "test": test, **change} for one in trials}


def test_answers_of_other_data_or_other_questions_are_refused(home: Path) -> None:
    *members, both = [one for one in trials_of("toy") if one.system in ("one", "both")]
    parts = load("inflection/toy")
    report = measured_together(both, _answers(members), parts, retrained=1)
    assert (report["row"]["dev"], report["row"]["test"]) == (1.0, 0.0)
    assert report["record"]["uncertain"] == {"dev": 0, "test": 0}
    assert report["record"]["retrained"] == 1
    assert report["record"]["scores"]["test"][0]["signature"] == signature(
        "accuracy", "search:kept-answers", "mean:outputs", "models:2", "formula:exact/items",
        "unit:characters+lowercase", "norm:NFC", "bootstrap:none",
    )  # fmt: skip
    with pytest.raises(DataError, match="answers are of other data than inflection/toy"):
        measured_together(both, _answers(members, data="x"), parts)
    with pytest.raises(DataError, match="expected an answer to each of 16 questions of dev, got 15"):
        measured_together(both, _answers(members, dev=packed([{0: 900}] * 15)), parts)
    mixed = _answers(members[:1]) | _answers(members[1:], normalisation={"lowercase": False, "digits_to_hash": False})
    with pytest.raises(DataError, match=r"expected the normalisation .*'lowercase': True.* got .*'lowercase': False"):
        measured_together(both, mixed, parts)
    with pytest.raises(DataError, match=r"expected the unit characters.lowercase of .*, got tokens"):
        measured_together(both, _answers(members[:1]) | _answers(members[1:], unit="tokens"), parts)
    every = trials_of("toy")[-1]
    lacking = replace(every, members=tuple(key for key in every.members if "n=s" not in key))
    types = [one for one in trials_of("toy") if one.tags == "n=p"]
    own = _answers(types, dev=packed([{0: 900}] * 8), test=packed([{0: 900}] * 3))
    with pytest.raises(DataError, match="expected 3 answers to each question, not to 'ab'"):
        measured_together(lacking, {**_answers(members), **own}, parts)


@pytest.mark.parametrize(
    ("at", "change", "message"),
    [
        (
            None,
            {"metrics": ["accuracy", "perplexity"]},
            "'types' keeps its answers: expected .* alone, got accuracy, p",
        ),
        (1, {"search": {"beam": 2}}, "'one' keeps its answers: expected neither a search nor a stream"),
        (2, {"stream": {"max_delay": 1}}, "'both' is of answers: expected neither a search nor a stream"),
        (1, {"of_answers": True, "keeps_answers": False}, "'one' is of answers: expected made_of"),
        (2, {"keeps_answers": True, "of_answers": False}, "'both' keeps its answers: .* not made_of others"),
        (1, {"has_test": False}, "'both' is of the answers of toy/one/.* whose has_test is False, and its own True"),
        (0, {"per_type": False, "types": ["n=s"]}, "'all' .* has models for some tag sets .* none for n=p"),
        (1, {"keeps_answers": False}, "'both' is of the answers of toy/one/.* which are not kept"),
    ],
)
def test_answers_of_what_has_none_are_refused(
    home: Path, at: int | None, change: dict[str, object], message: str
) -> None:
    _change_plan(home, at, **change)
    with pytest.raises(ConfigError, match=message):
        trials_of("toy")


@pytest.mark.parametrize(
    ("name", "line", "text", "message"),
    [
        ("results.csv", 1, "datasets,tags", r"expected dataset,tags,"),
        ("results.csv", 2, "inflection/toy", r"expected 14 values, got 1 in 'inflection/toy'"),
        ("results.csv", 2, "", r"expected 14 values, got 0"),
        ("results.csv", 2, "a,,b,one,accuracy,0.5,0.5,1,1,c,d,e,f,key", r"expected numbers for seed"),
        ("results.csv", 3, "a,,b,1,accuracy,half,,1,1,c,d,e,f,key", r"expected numbers for seed, dev"),
        ("results.csv", 2, "a\rb", r"expected values with commas, got 'a\\rb'"),
        ("results.csv", 1, "\xe4", r"expected UTF-8, got b'\\xe4'"),
        ("outcomes.jsonl", 2, "\xe4", r"expected UTF-8, got b'\\xe4'"),
        ("outcomes.jsonl", 2, "{}", r"expected a JSON object with a key, got '\{\}'"),
        ("outcomes.jsonl", 1, '{"key":"x', r"expected a JSON object with a key"),
        ("outcomes.jsonl", 1, "[1]", r"expected a JSON object with a key"),
        ("answers.jsonl", 1, "x" * 100, r"expected a JSON object with a key, got 'x{80}…'"),
    ],
)
def test_a_damaged_line_is_named_and_nothing_is_added(
    home: Path, name: str, line: int, text: str, message: str
) -> None:
    kept = Results("toy", home)
    trials = [one for one in trials_of("toy") if one.system in ("one", "both")]
    for one in trials[:2]:
        _add(home, one, {"data": "x"})
    path = kept.csv.with_name(name)
    lines = path.read_bytes().split(b"\n")
    lines[line - 1] = text.encode("latin-1", "backslashreplace")
    path.write_bytes(b"\n".join(lines))
    with pytest.raises(DataError, match=rf"{name}:{line}: {message}"):
        kept.check()
    before = [one.read_bytes() for one in (kept.csv, kept.outcomes, kept.answers)]
    if name != "outcomes.jsonl":  # which adding does not read
        with pytest.raises(DataError, match=rf"{name}:{line}: {message}"):
            _add(home, trials[2], {"data": "z"})
        assert before == [one.read_bytes() for one in (kept.csv, kept.outcomes, kept.answers)]
