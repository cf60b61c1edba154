"""The report as a whole, from made-up results: sections, bars, what is missing, the same bytes each time."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from experiments.__main__ import app
from experiments.plan import Trial, known_types
from experiments.report import write_report
from experiments.reporting import pictures
from experiments.reporting.estimates import Estimate
from experiments.reporting.gathered import gather
from experiments.reporting.online import Point
from experiments.reporting.published import inflection_sets, published
from experiments.results import Results, Row
from typer.testing import CliRunner

from experiments import plan
from ssnt.errors import ConfigError

SETS = [f"inflection/{name}" for name in inflection_sets()]
LEMMAS = 20
PLANS: dict[str, Any] = {
    "inflection": {
        "order": 1,
        "metrics": ["accuracy"],
        "datasets": SETS,
        "systems": [
            {"name": "biSSNT+", "per_type": True},
            {"name": "uniSSNT+", "per_type": True, "datasets": SETS[:2]},
            {"name": "seq2seq", "per_type": True, "datasets": SETS[:1]},
        ],
    },
    "beyond": {
        "order": 2,
        "metrics": ["accuracy"],
        "datasets": SETS,
        "keeps_answers": True,
        "systems": [
            {"name": "tags", "seeds": [1, 2]},
            {"name": "both | tags", "made_of": "tags"},
            {"name": "answers", "made_of": "tags", "of_answers": True, "datasets": SETS[:2]},
        ],
    },
    "summarisation": {
        "order": 3,
        "metrics": ["rouge_1", "rouge_2", "rouge_l", "perplexity"],
        "datasets": ["summarisation/google-100"],
        "base": {"preset": "summarisation"},
        "systems": [
            *({"name": name} for name in ("seq2seq", "attention", "uniSSNT", "biSSNT", "uniSSNT+", "biSSNT+")),
            {"name": "biSSNT+ H=128", "settings": {"model": {"hidden_size": 128}}},
            {"name": "seq2seq L=3", "settings": {"model": {"encoder_layers": 3}}},
        ],
    },
    "online": {
        "order": 4,
        "metrics": ["accuracy"],
        "datasets": SETS[:1],
        "systems": [{"name": "biSSNT+"}, *({"name": f"uniSSNT+, at most {n} late"} for n in (0, 2, 10))],
    },
    "g2p": {
        "order": 5,
        "metrics": ["item_error_rate", "per"],
        "datasets": ["g2p/cmudict"],
        "systems": [{"name": "one", "seeds": [1, 2]}, {"name": "two", "made_of": "one"}],
    },
    "sigmorphon2017": {
        "order": 6,
        "metrics": ["accuracy"],
        "datasets": ["sigmorphon2017/german-high", "sigmorphon2017/turkish-high", "sigmorphon2017/german-medium"],
        "systems": [{"name": "one"}],
    },
    "selection": {
        "order": 9,
        "metrics": ["accuracy", "perplexity"],
        "has_test": False,
        "systems": [{"name": "slow", "datasets": SETS[:1], "types": ["case=dative;number=plural"]}],
    },
}
GOOD = {"biSSNT+": 0.97, "uniSSNT+": 0.9, "seq2seq": 0.7, "tags": 0.98, "both | tags": 1.0}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Plans without results, on a machine without data."""
    for name, content in PLANS.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "plan.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    monkeypatch.setattr(plan, "HOME", tmp_path)
    monkeypatch.setattr("os.fsync", lambda _: None)  # hundreds of rows, none of which has to outlive the test
    monkeypatch.setenv("SSNT_DATA", str(tmp_path / "nowhere"))
    return tmp_path


def fill(home: Path, wanted: Callable[[Trial], bool] = lambda _: True) -> None:
    """Adds results for planned trials."""
    for table in plan.tables():
        results = Results(table, home)
        for number, trial in enumerate(_planned(table, home)):
            if wanted(trial):
                rng = np.random.default_rng(number)
                record = _record(trial, rng)
                test = 0.5 if trial.has_test else None
                row = Row(
                    trial.dataset, trial.tags, trial.system, trial.seed, trial.metrics[0], 0.5, test, 7, 90.0, "abc123",
                    trial.config_hash, "data", "2026-01-02 03:04", trial.key,
                )  # fmt: skip
                results.add(row, record)


def _planned(table: str, home: Path) -> list[Trial]:
    found = gather(table, home)
    return [trial for group in found.groups for trial in group.trials]


def _record(trial: Trial, rng: np.random.Generator) -> dict[str, Any]:
    """Made-up scores and outcomes of the form that trials have."""
    parts = ["dev", "test"] if trial.has_test else ["dev"]
    scores, outcome = [], {}
    if trial.table == "summarisation":
        level = {"seq2seq": 0.2, "attention": 0.25, "uniSSNT": 0.22, "biSSNT": 0.23}.get(trial.system, 0.3)
        outcome["items"] = {
            name: np.clip(rng.normal(level, 0.05, 200), 0, 1).round(4).tolist() for name in trial.metrics[:3]
        }
        scores.append(_score("perplexity", 20.0 if trial.system.startswith("biSSNT+") else 30.0, "|unk:12/3400|x"))
    else:
        types = [""] if trial.tags or trial.table == "g2p" else list(known_types().get(trial.dataset, ["x", "y"]))
        share = GOOD.get(trial.system, 0.8)
        outcome["cells"] = {one: "".join("01"[rng.random() < share] for _ in range(LEMMAS)) for one in types}
    if late := re.search(r"at most (\d+)", trial.system):
        scores += [_score(name, 1.5 + int(late[1]), "") for name in ("ap", "al", "laal", "dal")]
    if trial.table == "g2p":
        scores.append(_score("per", 0.055, ""))
    found = {"scores": dict.fromkeys(parts, scores), "outcomes": dict.fromkeys(parts, outcome)}
    if trial.of_answers:
        found["scores"] = {part: [_score("accuracy", 0.8, "")] for part in parts}
        found |= {"uncertain": {"dev": 5, "test": 2}, "retrained": 1}
    return found


def _score(name: str, value: float, signature: str) -> dict[str, Any]:
    return {"name": name, "value": value, "low": None, "high": None, "count": 9, "signature": signature}


def bar(text: str, start: str) -> list[str]:
    """The cells of a bar's row."""
    line = next(one for one in text.splitlines() if one.startswith(f"| {start}"))
    return [cell.strip() for cell in line.strip("|").split(" | ")]


def test_without_results_nothing_is_claimed(home: Path) -> None:
    text = write_report(home).read_text(encoding="utf-8")
    bars = text.partition("## What was asked for")[2].partition("## 1.")[0]
    rows = [line for line in bars.splitlines() if line.startswith("| ") and line[2].isdigit()]
    assert len(rows) == 20
    assert all(row.endswith("| — |") for row in rows)
    assert "230 planned trials" not in text  # those of the other systems are missing too
    assert (
        "- Missing: 273 planned trials, by the names for `--system`: biSSNT+ (8 on de-N, 27 on de-V, 57 on es-V" in text
    )
    assert not list((home / "plots").glob("*"))


def test_all_sections_with_all_results(home: Path) -> None:
    fill(home)
    (home / "inflection" / "notes.md").write_text("Written *by hand*: 1 < 2.\n", encoding="utf-8")
    (home / "figures").mkdir()
    (home / "figures" / "zocken.png").write_bytes(b"picture")
    text = write_report(home).read_text(encoding="utf-8")
    assert "### Discussion\n\nWritten *by hand*: 1 < 2.\n" in text
    assert "Input: zocken. " in text
    assert text.index("**zocken**, by biSSNT+ of") < text.index("![zocken](figures/zocken.png)")
    assert "| 88.31 | 88.60 | 88.12 | 87.50 |" in text
    assert f"| slow | one a type | {SETS[0]}, case=dative;number=plural |" in text  # of one type, not of the set
    assert {path.name for path in (home / "plots").glob("*")} == {
        "inflection.png", "beyond.png", "summarisation.png", "online-inflection-de-N.png",
    }  # fmt: skip
    assert bar(text, "1. biSSNT+ above uniSSNT+")[-1] == "yes"
    assert bar(text, "1. uniSSNT+ above seq2seq")[-1] == "yes"
    assert bar(text, "2. The best system, chosen by its average on dev: average")[2:] == [
        "both \\| tags (of 3 systems with all sets): 100.00 [100.0, 100.0]", "yes",
    ]  # fmt: skip
    assert bar(text, "2. The best system, chosen by its average on dev: sets")[2:] == [
        "both \\| tags (of 3 systems with all sets): 7", "yes",
    ]  # fmt: skip
    assert bar(text, "5. One inflection type")[2:] == ["—", "—"]  # no results of that
    assert bar(text, "3. biSSNT+ above seq2seq")[-1] == "yes"
    assert bar(text, "3. Dev perplexity")[2:] == ["20.00 against 30.00", "yes"]
    assert "| seq2seq, H=256, L=3 | 31.0 | 30.00 | 1: 30.00 | 12/3400 | summarisation/google-100 |" in text
    assert text.count("- Missing: nothing of the plan.") == len(PLANS)
    assert "| answers | one model, ensembles of the answers of 2 |" in text
    assert "| both \\| tags | one model, ensembles of 2 |" in text
    assert text.count("rounded or not kept could decide otherwise for 4 of 18 test questions") == 1  # two sets of nine
    assert " In 2 of the 2 ensembles there are members that were trained again for their answers" in text
    assert '`{"models": 2, "of_answers": true}`' in text
    assert "commit" in text.lower()
    assert "`abc123` (273)" in text
    assert "5.50" in bar(text, "one | one model")[-1]


def test_an_incomplete_set_is_told_as_such(home: Path) -> None:
    fill(home, lambda one: one.table == "inflection" and one.dataset == SETS[0] and "singular" in one.tags)
    text = write_report(home).read_text(encoding="utf-8")
    row = bar(text, "1. biSSNT+, de-N")
    assert re.fullmatch(r"\*partial: 4 of 8 types, \d+\.\d\d\*", row[2])
    assert row[-1] == "—"
    assert bar(text, "1. biSSNT+, a model for each type, average")[2:] == ["—", "—"]
    assert "1. biSSNT+ above uniSSNT+ | above, as in Table 3 | — | — |" in text


def test_a_row_of_other_settings_is_counted_but_not_shown(home: Path) -> None:
    fill(home, lambda one: one.table == "g2p")
    changed = {**PLANS["g2p"], "base": {"model": {"hidden_size": 99}}}
    (home / "g2p" / "plan.yaml").write_text(yaml.safe_dump(changed), encoding="utf-8")
    text = write_report(home).read_text(encoding="utf-8")
    assert "3 further rows are of settings that are no longer in the plan" in text
    assert bar(text, "4. CMUdict")[2:] == ["—", "—"]


def test_the_same_results_give_the_same_bytes(home: Path) -> None:
    fill(home, lambda one: one.table in ("online", "g2p") or (one.table == "beyond" and one.dataset == SETS[0]))
    path = write_report(home)
    before = {one: one.read_bytes() for one in [path, *(home / "plots").glob("*")]}
    (home / "plots" / "stale.png").write_bytes(b"of a section that is gone")
    path.write_text(path.read_text(encoding="utf-8") + "\n![it](plots/stale.png)\n", encoding="utf-8")
    write_report(home)
    assert {one: one.read_bytes() for one in [path, *(home / "plots").glob("*")]} == before


def test_results_anywhere_have_their_report_beside_them_and_other_pictures_there_stay(
    home: Path, tmp_path: Path
) -> None:
    new = tmp_path / "new"
    (new / "plots").mkdir(parents=True)
    (new / "plots" / "mine.png").write_bytes(b"not ours")
    trial = next(one for one in _planned("g2p", home) if not one.members)
    key, cells = trial.key, {"scores": {}, "outcomes": {"dev": {"cells": {"": "11"}}, "test": {"cells": {"": "10"}}}}
    row = Row(trial.dataset, "", "one", 1, "item_error_rate", 0.0, 0.5, 7, 9.0, "c", trial.config_hash, "d", "x", key)
    Results("g2p", new).add(row, cells)
    found = CliRunner().invoke(app, ["report", "--results", str(new)])
    assert found.output == f"written: {new / 'REPORT.md'}\n"
    assert "50.00" in bar((new / "REPORT.md").read_text(encoding="utf-8"), "one | one model")[3]
    assert (new / "plots" / "mine.png").exists()
    assert not (home / "REPORT.md").exists()
    wrong = CliRunner().invoke(app, ["report", "--results", str(tmp_path / "nowhere")])
    assert "nowhere is no directory" in str(wrong.exception)


def test_published_numbers_agree_with_themselves() -> None:
    theirs = published()["inflection"]
    means = {name: sum(row[name] for row in theirs["table4"].values()) / 7 for name in theirs["table4_average"]}
    off = {name: round(mean, 2) for name, mean in means.items() if abs(mean - theirs["table4_average"][name]) > 0.011}
    assert off == {"FTND16": 96.35}  # as printed in the paper; the report's notes say so
    assert "FTND16" in " ".join(theirs["notes"])
    assert theirs["best"] == {name: max(row.values()) for name, row in theirs["table4"].items()}
    assert theirs["table3"]["biSSNT+"] == theirs["table4_average"]["biSSNT+"]


def test_rows_of_other_data_are_told(home: Path) -> None:
    fill(home, lambda one: one.table == "g2p")
    path = home / "g2p" / "results.csv"
    text = path.read_text(encoding="utf-8")
    assert "not the same for all rows" not in write_report(home).read_text(encoding="utf-8")
    path.write_text(text.replace(",data,2026", ",other,2026", 1), encoding="utf-8")
    assert "**g2p/cmudict was not the same for all rows**: `other` (1), `data` (2)" in write_report(home).read_text(
        encoding="utf-8"
    )


def test_other_numbers_of_threads_than_one_are_told(home: Path) -> None:
    (home / "subset").mkdir()
    (home / "subset" / "plan.yaml").write_text(yaml.safe_dump({**PLANS["online"], "order": 8}), encoding="utf-8")
    fill(home, lambda one: one.table in ("g2p", "subset"))

    def said() -> list[str]:
        text = write_report(home).read_text(encoding="utf-8")
        return re.findall(r"of training, (each in one thread.*?), written down", text)

    assert set(said()) == {"each in one thread"}
    for table, threads in (("g2p", [1, 2]), ("subset", [2])):
        path = home / table / "outcomes.jsonl"
        first, *others = path.read_text(encoding="utf-8").splitlines()
        lines = [json.dumps({**json.loads(first), "threads": threads}), *others]
        path.write_text("".join(f"{one}\n" for one in lines), encoding="utf-8")
    assert "each in one thread" not in said()
    assert set(said()) == {
        "each in one thread but for 1 that had 2",
        "each in one thread but for 1 that had 1 and then 2",
    }


def test_a_sample_of_a_data_set_is_told_as_such(home: Path) -> None:
    fill(home, lambda one: one.table == "summarisation")
    path = home / "summarisation" / "outcomes.jsonl"
    records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert "a sample of" not in write_report(home).read_text(encoding="utf-8")
    path.write_text("".join(json.dumps({**one, "pairs": 70}) + "\n" for one in records), encoding="utf-8")
    text = write_report(home).read_text(encoding="utf-8")
    assert "| summarisation/google-100, a sample of 70 pairs |" in text
    assert bar(text, "3. Dev perplexity")[2:] == ["20.00 against 30.00", "yes"]


def test_a_table_whose_data_is_not_there_does_not_keep_the_others_from_being_told(home: Path) -> None:
    fill(home, lambda one: one.table == "g2p")
    (home / "mine").mkdir()
    systems = [{"name": "types", "per_type": True}, {"name": "all"}]
    mine = {"metrics": ["accuracy"], "datasets": ["inflection/mine"], "systems": systems}
    (home / "mine" / "plan.yaml").write_text(yaml.safe_dump(mine), encoding="utf-8")
    text = write_report(home).read_text(encoding="utf-8")
    assert "## mine\n\nLeft out: which types it has its data says, and that is not in" in text
    (home / "mine" / "plan.yaml").write_text("metrics: [acuracy]\nsystems: []\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="unknown metric 'acuracy'"):
        write_report(home)
    assert "5.50" in bar(text, "one | one model")[-1]


def test_a_table_of_ones_own_has_dev_and_test_and_what_its_figures_come_from(home: Path) -> None:
    (home / "mine").mkdir()
    (home / "mine" / "plan.yaml").write_text(yaml.safe_dump({**PLANS["beyond"], "order": 99}), encoding="utf-8")
    fill(home, lambda one: one.table == "mine")
    text = write_report(home).read_text(encoding="utf-8").partition("## mine")[2]
    for part in ("dev", "test"):
        section = text.partition(f"### On {part}\n")[2].partition("###")[0]
        assert f"| {part} accuracy |" in section
        assert "| both \\| tags | one model, ensembles of 2 | inflection/de-N |" in section


def test_a_curve_is_named_with_what_its_points_share_and_they_by_what_they_do_not() -> None:
    def points(*names: str) -> list[Point]:
        quality = Estimate(1.0, np.ones(3), (), {})
        numbers = [tuple(re.findall(r"[0-9.]+", name)) for name in names]
        curve = re.sub(r"[0-9.]+", "…", names[0])
        return [Point(name, curve, own, "d", "accuracy", quality, {}) for name, own in zip(names, numbers, strict=True)]

    assert pictures._told_apart(points("w 0.3, at 0", "w 0.3, at 12")) == ("w 0.3, at …", ["0", "12"])
    assert pictures._told_apart(points("w 0.3, at 0")) == ("w 0.3, at 0", [""])
    assert pictures._told_apart(points("w 0.3, at 0", "w 1, at 12")) == ("w …, at …", ["0.3, 0", "1, 12"])
    assert pictures._told_apart(points("any", "any")) == ("any", ["", ""])


def test_trainings_that_did_not_end_by_themselves_are_told(home: Path) -> None:
    path = home / "g2p" / "plan.yaml"
    content = dict(PLANS["g2p"])
    for epochs, schedule, said in (
        (8, "plateau", ""),
        (
            7,
            "plateau",
            "- These had all the epochs that they were allowed, and might have improved with more: one (2 of 2).",
        ),
        (7, "cosine", "step size falls to zero, so that dev chose among them alone: one (2 of 2)."),
        (7, "linear", "step size falls to zero, so that dev chose among them alone: one (2 of 2)."),
    ):
        content["base"] = {"training": {"max_epochs": epochs}, "optimiser": {"schedule": schedule}}
        path.write_text(yaml.safe_dump(content), encoding="utf-8")
        fill(home, lambda one: one.table == "g2p")
        text = write_report(home).read_text(encoding="utf-8")
        assert said in text
        assert ("- These had" in text) == bool(said)


def test_another_precision_than_the_planned_is_told(home: Path) -> None:
    fill(home, lambda one: one.table == "g2p")
    path = home / "g2p" / "outcomes.jsonl"
    first, *others = (json.loads(line) for line in path.read_text(encoding="utf-8").splitlines())
    as_planned = {**others[0], "precision": "float32"}
    lines = [{**first, "precision": "bfloat16"}, as_planned, *others[1:]]
    path.write_text("".join(json.dumps(one) + "\n" for one in lines), encoding="utf-8")
    text = write_report(home).read_text(encoding="utf-8")
    assert text.count("1 of them was trained in bfloat16, and not in float32 as planned") == 1
    assert "trained in float32" not in text
