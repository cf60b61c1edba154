"""The training of one model as a job."""

import pytest

from ssnt.config.base import _SettingsError
from ssnt.engines.base import failed
from ssnt.engines.worker import perform
from ssnt.errors import DataError, InUseError, ModelError, StorageError
from ssnt.interrupts import Stop
from ssnt.training import job
from trainings import MakeConfig


def test_a_training_reports_its_validations_and_its_scores(make_config: MakeConfig):
    config = make_config(training={"max_epochs": 3}, validation={"every": 2})
    reports: list[dict[str, object]] = []
    order = {"function": job.TRAIN, "order": {"config": config.model_dump(), "has_answers": True}}
    last = perform(order, reports.append, Stop())
    assert [(report["epoch"], report["metric"]) for report in reports] == [(2, "accuracy"), (3, "accuracy")]
    assert last["state"] == "done"
    assert last["score"] == f"dev accuracy {last['scores'][0]['value']:.4f}"
    assert [score["name"] for score in last["scores"]] == ["accuracy", "edit_distance", "perplexity"]
    assert len(last["answers"]["scores"]) == 20
    again = perform({**order, "order": {"config": config.model_dump()}}, reports.append, Stop())
    assert again == {key: value for key, value in last.items() if key != "answers"}  # it was finished already
    assert len(reports) == 2


def test_a_training_that_is_stopped_goes_on_when_it_is_begun_again(make_config: MakeConfig):
    order = {"function": job.TRAIN, "order": {"config": make_config().model_dump()}}
    stop = Stop()
    assert perform(order, lambda _: stop.request(), stop) == {"state": "stopped"}
    reports: list[dict[str, object]] = []
    assert perform(order, reports.append, Stop())["state"] == "done"
    assert [report["epoch"] for report in reports] == [2]


@pytest.mark.parametrize(
    ("error", "is_lasting", "kind"),
    [
        (DataError("x"), True, "DataError"),
        (ModelError("x"), False, "ModelError"),
        (StorageError(28, "x"), False, "StorageError"),
        (InUseError("x"), False, "InUseError"),
        (_SettingsError("x", []), False, "ConfigError"),
    ],
)
def test_a_failure_tells_its_kind_and_one_of_the_data_lasts(
    error: Exception, is_lasting: bool, kind: str, monkeypatch: pytest.MonkeyPatch, make_config: MakeConfig
):
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(job, "train_one", fail)
    order = {"function": job.TRAIN, "order": {"config": make_config().model_dump()}}
    report = perform(order, lambda _: None, Stop())
    assert report == failed("x", is_lasting=is_lasting, kind=kind)
