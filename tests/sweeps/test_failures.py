"""What is not the fault of a trial costs no trial: the sweep stops, says how to go on, and goes on."""

from __future__ import annotations

import csv
import errno
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ssnt.config import Config, SweepRunConfig
from ssnt.engines.base import Job, Report, Tell, failed
from ssnt.errors import ModelError, SsntError, StorageError
from ssnt.interrupts import Stop
from ssnt.sweeps import run_sweep, study, sweep_config
from ssnt.sweeps.directory import SweepDirectory
from ssnt.training import fit
from ssnt.training.checkpoints import AtomicCheckpointIO
from sweeping import InProcess, MakeSweep, pretended

RATES = {"optimiser.learning_rate": [0.1, 0.2, 0.3]}


def falling(config: Config) -> list[float]:
    return [config.optimiser.learning_rate + 1 / epoch for epoch in (1, 2, 3)]


def states(out: str | None) -> list[str]:
    with (Path(str(out)) / "trials.csv").open(newline="") as file:
        return [row["state"] for row in csv.DictReader(file)]


def test_a_full_disk_costs_no_trial(make_sweep: MakeSweep, monkeypatch: pytest.MonkeyPatch):
    config = make_sweep(space={"optimiser.learning_rate": [0.01, 0.03]})
    expected = run_sweep(config.model_copy(update={"out": f"{config.out}-whole"}), engine=InProcess(), display=False)
    place = SweepDirectory(str(config.out)).trial(2)
    plain, saved = AtomicCheckpointIO.save_checkpoint, []

    def save(self: Any, checkpoint: Any, path: Any, *rest: Any, **more: Any) -> None:
        if str(path).startswith(str(place)):
            saved.append(path)
            if len(saved) > 1:
                raise StorageError(errno.ENOSPC, f"{path}: could not be written (No space left on device)")
        plain(self, checkpoint, path, *rest, **more)

    with monkeypatch.context() as patch:
        patch.setattr(AtomicCheckpointIO, "save_checkpoint", save)
        with pytest.raises(StorageError) as caught:
            run_sweep(config, engine=InProcess(), display=False)
    lines = str(caught.value).splitlines()
    assert lines[0].startswith(f"{config.out}: trial 0002 could not go on: {place}/training/last.ckpt: could not be")
    assert lines[1] == (
        "when this is mended, the sweep goes on: 1 of 2 trials are done; go on with: ssnt sweep --resume --out "
        f"{config.out}"
    )
    assert (place / "training" / "last.ckpt").exists()
    engine = InProcess()
    resumed = run_sweep(sweep_config(str(config.out)), resume=True, engine=engine, display=False)
    assert [job.name for job in engine.jobs] == ["trial 0002"]
    assert resumed.trials == expected.trials


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("StorageError", StorageError),
        ("InUseError", ModelError),
        ("HardwareError", ModelError),
        ("RuntimeError", ModelError),
        (None, ModelError),
    ],
)
def test_only_what_a_trial_would_fail_by_again_is_its_failure(
    make_sweep: MakeSweep, kind: str | None, error: type[SsntError]
):
    def job(order: dict[str, Any], tell: Any, stop: Stop) -> Report:
        if order["config"]["optimiser"]["learning_rate"] == 0.2:
            return failed("its process could not be started", kind=kind)
        return pretended(falling)(order, tell, stop)

    config, engine = make_sweep(space=RATES), InProcess(job)
    with pytest.raises(error, match="trial 0002 could not go on: its process could not be started\nwhen this is"):
        run_sweep(config, engine=engine, display=False)
    assert len(engine.jobs) == 2  # none is begun after it
    resumed = run_sweep(config, resume=True, engine=InProcess(pretended(falling)), display=False)
    assert [one.state for one in resumed.trials] == ["complete"] * 3
    assert states(config.out) == ["complete"] * 3


def test_a_sweep_goes_on_in_float32_where_machines_of_a_cluster_lack_bfloat16(
    make_sweep: MakeSweep, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(fit, "cpu_lacks", lambda _: True)
    config = make_sweep(space={"optimiser.learning_rate": [0.01]})

    def in_precision(name: str) -> SweepRunConfig:
        where = {"precision": name, "engine": "ray", "address": "head:6379"}
        return config.model_copy(update={"hardware": config.hardware.model_copy(update=where)})

    with pytest.raises(ModelError, match=r"trial 0001 could not go on: .* use hardware\.precision=float32, also with"):
        run_sweep(in_precision("bfloat16"), engine=InProcess(), display=False)
    resumed = run_sweep(in_precision("float32"), resume=True, engine=InProcess(), display=False)
    assert [one.state for one in resumed.trials] == ["complete"]


def test_a_study_that_cannot_be_written_is_told(make_sweep: MakeSweep, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(study, "_BUSY_SECONDS", 0.05)
    config = make_sweep(space=RATES)
    place = SweepDirectory(str(config.out)).study

    class Locking(InProcess):
        """Somebody else has the file for himself."""

        def run(self, jobs: Iterator[Job], tell: Tell, stop: Stop) -> None:
            with closing(sqlite3.connect(place)) as other:
                other.execute("begin exclusive")
                super().run(jobs, tell, stop)

    with pytest.raises(StorageError, match=r"study.db: could not be written \(database is locked\); free") as caught:
        run_sweep(config, engine=Locking(pretended(falling)), display=False)
    assert f"0 of 3 trials are done; go on with: ssnt sweep --resume --out {config.out}" in str(caught.value)
    resumed = run_sweep(config, resume=True, engine=InProcess(pretended(falling)), display=False)
    assert [one.state for one in resumed.trials] == ["complete"] * 3


class Lazy(InProcess):
    """An engine that forgets its second job."""

    def run(self, jobs: Iterator[Job], tell: Tell, stop: Stop) -> None:
        super().run(iter([next(jobs)]), tell, stop)
        next(jobs)


def test_a_sweep_that_is_not_done_says_so(make_sweep: MakeSweep):
    config = make_sweep(space=RATES)
    with pytest.raises(ModelError) as caught:
        run_sweep(config, engine=Lazy(pretended(falling)), display=False)
    assert str(caught.value) == (
        f"{config.out}: the processes of trial 0002 were stopped from outside\n1 of 3 trials are done; go on with: "
        f"ssnt sweep --resume --out {config.out}"
    )


def test_a_trial_that_is_given_up_keeps_its_files_while_its_process_saves(make_sweep: MakeSweep):
    """It has been told to stop, and has not yet done so when another trial ends."""
    config = make_sweep(space=RATES, pruner="asha")
    last = SweepDirectory(str(config.out)).trial(2) / "training" / "last.ckpt"
    found: list[bool] = []

    class Overlapping(InProcess):
        def run(self, jobs: Iterator[Job], tell: Tell, stop: Stop) -> None:
            done = {"state": "done", "scores": [{"name": "perplexity", "value": 1.0}]}
            first, second, third = next(jobs), next(jobs), next(jobs)
            tell(first, {"epoch": 1, "metric": "perplexity", "value": 1.0})
            last.parent.mkdir(parents=True)
            (last.parent / "config.yaml").write_text("format_version: 1\nssnt_version: 1\ndata_sha256: {}\n")
            last.write_text("")
            assert tell(second, {"epoch": 1, "metric": "perplexity", "value": 9.0})
            tell(first, done)
            found.append(last.exists())
            tell(second, {"state": "stopped"})
            found.append(last.exists())
            tell(third, done)

    run_sweep(config, engine=Overlapping(), display=False)
    assert found == [True, False]
    assert states(config.out) == ["complete", "pruned", "complete"]
