"""Chunks of a long file: the same outputs here and in a worker."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from ssnt.data.lines import Problem
from ssnt.engines.base import DONE, FAILED, STOPPED
from ssnt.interrupts import Stop
from ssnt.pipeline import Transducer, bulk
from ssnt.pipeline.bulk import Answer, BulkSettings, answer_chunk, make_job, model_sha256, predict_job, read_answer
from ssnt.types import Example
from transducers import make_transducer

CHUNK: list[Example | Problem] = [
    Example("ab", line=1),
    Problem("words.txt", 2, "the line is empty"),
    Example("a" * 2001, line=3),
    Example("qab", line=4),
]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    bulk._loaded.cache_clear()
    make_transducer().save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def settings_for(directory: Path, **more: Any) -> BulkSettings:
    return BulkSettings((str(directory),), (model_sha256(directory),), "cpu", "words.txt", **more)


def done(settings: BulkSettings, stop: Stop | None = None) -> dict[str, Any]:
    """The report of a job that has gone to a worker and back as JSON."""
    order = json.loads(json.dumps(make_job("lines", CHUNK, settings).order))
    report: dict[str, Any] = json.loads(json.dumps(predict_job(order, lambda _: None, stop or Stop())))
    return report


@pytest.mark.parametrize("more", [{}, {"form": "tsv", "nbest": 2}, {"form": "jsonl", "nbest": 2, "align": True}])
def test_a_job_gives_what_the_process_itself_gives(directory: Path, more: dict[str, Any]):
    settings = settings_for(directory, **more)
    here = answer_chunk(Transducer.from_pretrained(directory), CHUNK, settings)
    report = done(settings)
    assert report["state"] == DONE
    assert read_answer(report) == here
    assert here.text.count("\n") == (6 if more.get("form") == "tsv" else 4)


def test_what_is_wrong_with_lines_is_told_in_their_order(directory: Path):
    answer = answer_chunk(Transducer.from_pretrained(directory), CHUNK, settings_for(directory))
    assert [(one.path, one.line) for one in answer.problems] == [("words.txt", 2), ("words.txt", 3)]
    assert "2001 symbols" in answer.problems[1].message
    assert (answer.lines, answer.unknown, answer.unknown_tags) == (4, 1, 0)
    assert answer.text.split("\n")[1:3] == ["", ""]


def test_no_lines_have_no_answer(directory: Path):
    assert answer_chunk(Transducer.from_pretrained(directory), [], settings_for(directory)) == Answer("", 0)


def test_a_worker_loads_its_model_once(directory: Path, monkeypatch: pytest.MonkeyPatch):
    first = done(settings_for(directory))
    monkeypatch.setattr(Transducer, "from_pretrained", None)
    assert done(settings_for(directory)) == first


def test_a_worker_that_is_asked_to_stop_gives_its_chunk_up(directory: Path):
    stop = Stop()
    stop.request()
    assert done(settings_for(directory), stop) == {"state": STOPPED}


def test_a_worker_without_the_model_says_so(directory: Path):
    settings = settings_for(directory)
    shutil.rmtree(directory)
    report = done(settings)
    assert (report["state"], report["is_lasting"]) == (FAILED, True)
    assert report["message"] == (
        f"{directory}: there is no such model directory where the worker is; put it into a place that all machines see "
        "under the same path"
    )


def test_a_worker_refuses_another_model(directory: Path):
    settings = settings_for(directory)
    make_transducer(seed=7).save_pretrained(directory, overwrite=True)
    assert done(settings)["message"] == (
        f"{directory}: is not the model that the run was started with; was it replaced meanwhile?"
    )


def test_a_worker_of_another_version_refuses(directory: Path, monkeypatch: pytest.MonkeyPatch):
    order = make_job("lines", CHUNK, settings_for(directory)).order
    order["versions"] = {"ssnt": "0.0.1", "torch": "1.0"}
    monkeypatch.setattr(bulk, "versions", lambda: {"ssnt": "0.0.2", "torch": "1.0"})
    assert predict_job(order, lambda _: None, Stop()) == {
        "state": FAILED,
        "message": "the worker has ssnt 0.0.2 and torch 1.0, and the run was started with ssnt 0.0.1 and torch 1.0; "
        "install the same on all machines",
        "is_lasting": True,
    }
