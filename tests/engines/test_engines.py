"""What every engine does with jobs, whichever it is."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ssnt.engines import crew, make_engine
from ssnt.engines.base import MAX_DEATHS, Engine, Job, Report, failed, one_at_a_time
from ssnt.engines.local import cores
from ssnt.errors import ConfigError
from ssnt.interrupts import Stop, StopNow

from conftest import require

ON_RAY = (pytest.mark.slow, pytest.mark.xdist_group("ray"))
TESTS = str(Path(__file__).parents[1])


@pytest.fixture(params=["local", pytest.param("ray", marks=ON_RAY)])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Engine:
    if request.param == "ray":
        request.getfixturevalue("ray_cluster")
    monkeypatch.setenv("PYTHONPATH", TESTS)
    return make_engine(request.param, workers=2)


@pytest.fixture
def local(monkeypatch: pytest.MonkeyPatch) -> Engine:
    """For what is the same code in all engines."""
    monkeypatch.setenv("PYTHONPATH", TESTS)
    return make_engine("local", workers=2)


def job(name: str, function: str, **order: Any) -> Job:
    return Job(name, f"engine_jobs:{function}", order)


class Told:
    """Keeps what is told."""

    def __init__(self) -> None:
        self.reports: list[tuple[str, Report]] = []

    def __call__(self, job: Job, report: Report) -> bool | None:
        self.reports.append((job.name, report))
        return None

    def of(self, name: str) -> list[Report]:
        return [report for told, report in self.reports if told == name]

    def last(self, name: str) -> Report:
        (report,) = [one for one in self.of(name) if "state" in one]
        assert report is self.of(name)[-1]
        return report


def run(engine: Engine, *jobs: Job) -> Told:
    told = Told()
    engine.run(iter(jobs), told, Stop())
    return told


def test_jobs_are_done_with_all_their_reports_by_as_many_processes_of_one_thread(engine: Engine):
    told = run(engine, *(job(str(one), "count", to=3, value=f"ä{one}") for one in range(6)))
    for one in range(6):
        assert [report.get("number") for report in told.of(str(one))] == [0, 1, 2, None]
        assert told.last(str(one))["value"] == f"ä{one}"
    last = [told.last(str(one)) for one in range(6)]
    assert len({report["process"] for report in last}) <= engine.workers == 2
    assert {report["threads"] for report in last} == {"1"}
    assert {report["directory"] for report in last} == {os.getcwd()}


def test_nothing_to_do_is_soon_done(local: Engine):
    assert run(local).reports == []


def test_a_job_is_taken_only_when_a_worker_is_free_for_it(local: Engine):
    under_way: set[str] = set()
    most = [0]

    def jobs() -> Iterator[Job]:
        for number in range(5):
            assert len(under_way) < 2
            under_way.add(str(number))
            most[0] = max(most[0], len(under_way))
            yield job(str(number), "count")

    def tell(job: Job, report: Report) -> None:
        if "state" in report:
            under_way.remove(job.name)

    local.run(jobs(), tell, Stop())
    assert most == [2]


def test_what_is_told_of_one_job_stops_that_job_alone(engine: Engine):
    told = Told()

    def tell(job: Job, report: Report) -> bool:
        told(job, report)
        return True

    jobs = [job("a", "wait"), job("b", "be_given_up"), job("c", "count", to=1), job("d", "wait")]
    engine.run(iter(jobs), tell, Stop())
    assert told.last("a") == told.last("d") == {"state": "stopped", "has_saved": True}
    assert told.last("b") == {"state": "stopped"}
    assert told.last("c")["state"] == "done"


def test_a_request_to_stop_reaches_those_under_way_and_no_other_is_begun(engine: Engine, tmp_path: Path):
    told, stop = Told(), Stop()

    def tell(job: Job, report: Report) -> None:
        told(job, report)
        if len(told.reports) == 2:
            stop.request()

    saved = [str(tmp_path / name) for name in "ab"]
    jobs = iter([job("a", "wait", saved=saved[0]), job("b", "wait", saved=saved[1]), job("c", "count")])
    engine.run(jobs, tell, stop)
    assert [Path(path).read_text() for path in saved] == ["saved", "saved"]
    assert told.last("a")["state"] == told.last("b")["state"] == "stopped"
    assert told.of("c") == []
    assert next(jobs).name == "c"


def test_a_request_that_is_there_already_begins_nothing(local: Engine):
    stop = Stop()
    stop.request()
    jobs = iter([job("a", "count")])
    local.run(jobs, Told(), stop)
    assert next(jobs).name == "a"


def test_what_a_job_raises_is_its_report_and_hurts_no_other(engine: Engine):
    jobs = [job(how, "fail", how=how) for how in ("data", "model", "other")]
    told = run(engine, *jobs, Job("unknown", "engine_jobs:nothing", {}), job("good", "count"))
    assert told.last("data") == failed("bad data", is_lasting=True, kind="DataError")
    assert told.last("model") == failed("diverged", kind="ModelError")
    assert told.last("other") == failed("KeyError: 'x'", kind="KeyError")
    assert told.last("unknown")["message"].startswith("AttributeError: ")
    assert told.last("good")["state"] == "done"


def check_that_a_killed_job_is_begun_again(engine: Engine, file: Path, who: str) -> None:
    told = run(engine, job("a", "die", file=str(file), times=MAX_DEATHS - 1, who=who), job("b", "count"))
    begun = [report["begun"] for report in told.of("a")[:-1]]
    assert begun == sorted(begun)  # a report of a process that is killed with it may be lost
    assert begun[-1] == MAX_DEATHS
    assert told.last("a") == {"state": "done"}
    assert told.last("b")["state"] == "done"


def test_a_job_whose_process_is_killed_is_begun_again(engine: Engine, tmp_path: Path):
    check_that_a_killed_job_is_begun_again(engine, tmp_path / "a", "process")


@pytest.mark.slow
@pytest.mark.xdist_group("ray")
def test_a_job_whose_ray_worker_is_killed_is_begun_again(
    ray_cluster: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PYTHONPATH", TESTS)
    check_that_a_killed_job_is_begun_again(make_engine("ray", workers=2), tmp_path / "a", "parent")


def test_a_job_that_kills_worker_after_worker_has_failed(local: Engine, tmp_path: Path):
    told = run(local, job("a", "die", file=str(tmp_path / "a"), times=99), job("b", "count"))
    assert len((tmp_path / "a").read_text().splitlines()) == MAX_DEATHS
    message = f"its process was killed by signal 9; it was begun {MAX_DEATHS} times, and never came to its end"
    assert told.last("a") == {"state": "failed", "message": message, "is_lasting": False}
    assert told.last("b")["state"] == "done"


def is_running(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_what_tell_raises_ends_the_workers_and_is_raised(engine: Engine):
    processes: list[int] = []

    def tell(job: Job, report: Report) -> None:
        processes.append(report["process"])
        if len(processes) == 2:
            raise OSError("full")

    with pytest.raises(OSError, match="full"):
        engine.run(iter([job("a", "wait"), job("b", "wait"), job("c", "wait")]), tell, Stop())
    assert len(processes) == 2
    assert not any(map(is_running, processes))


def test_what_jobs_raise_ends_the_workers_and_is_raised(local: Engine):
    processes: list[int] = []

    def jobs() -> Iterator[Job]:
        yield job("a", "wait")
        yield job("b", "count")
        raise ZeroDivisionError

    def tell(job: Job, report: Report) -> None:
        if job.name == "a":
            processes.append(report["process"])

    with pytest.raises(ZeroDivisionError):
        local.run(jobs(), tell, Stop())
    assert not any(map(is_running, processes))


def alone(inside: threading.Lock) -> None:
    assert inside.acquire(blocking=False)
    time.sleep(0.005)
    inside.release()


@pytest.mark.parametrize("is_either", [False, True])
def test_no_two_threads_ask_or_tell_at_a_time(local: Engine, is_either: bool):
    asking = threading.Lock()
    telling = asking if is_either else threading.Lock()

    def jobs() -> Iterator[Job]:
        for number in range(4):
            alone(asking)
            yield job(str(number), "count", to=5)

    def tell(job: Job, report: Report) -> None:
        alone(telling)

    local.run(*(one_at_a_time(jobs(), tell) if is_either else (jobs(), tell)), Stop())


def test_reports_are_told_while_a_job_is_waited_for(local: Engine):
    is_done = threading.Event()

    def jobs() -> Iterator[Job]:
        yield job("a", "count")
        assert is_done.wait(60)
        yield job("b", "count")

    def tell(job: Job, report: Report) -> None:
        if "state" in report:
            is_done.set()

    local.run(jobs(), tell, Stop())


def test_whoever_waits_for_a_job_does_not_keep_a_stop_waiting(local: Engine, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(crew, "_PATIENCE", 0.5)
    never, told, stop = threading.Event(), Told(), Stop()

    def jobs() -> Iterator[Job]:
        yield job("a", "wait")
        never.wait(60)
        yield job("b", "count")

    def tell(job: Job, report: Report) -> None:
        told(job, report)
        stop.request()

    began = time.monotonic()
    try:
        local.run(jobs(), tell, stop)
        assert time.monotonic() - began < 50
        assert told.last("a") == {"state": "stopped", "has_saved": True}
    finally:
        never.set()
    assert told.of("b") == []


def test_not_now_is_asked_again_after_the_next_report(local: Engine):
    asked: list[int] = []
    told = Told()

    def jobs() -> Iterator[Job | None]:
        yield job("a", "count", to=3)
        while not any("state" in report for report in told.of("a")):
            asked.append(len(told.reports))
            yield None
        yield job("b", "count")

    local.run(jobs(), told, Stop())
    assert told.last("b")["state"] == "done"
    assert len(asked) <= 5  # not again and again without a report in between


def test_not_now_that_nothing_could_change_is_a_defect(local: Engine):
    with pytest.raises(RuntimeError, match="there is no job now, and none is under way"):
        local.run(iter([None]), Told(), Stop())


def test_whoever_gives_jobs_may_see_the_stop_first(local: Engine):
    stop = Stop()

    def jobs() -> Iterator[Job]:
        stop.request()
        raise StopNow
        yield

    local.run(jobs(), Told(), stop)


@pytest.mark.parametrize("is_killed_first", [True, False])
def test_a_signal_to_all_processes_lets_jobs_save(local: Engine, tmp_path: Path, is_killed_first: bool):
    process, stop = [0], Stop()

    def kill() -> None:
        os.kill(process[0], signal.SIGTERM)

    def tell(job: Job, report: Report) -> None:
        if "process" in report:
            process[0] = report["process"]
            kill() if is_killed_first else stop.request()
        elif "saving" in report:
            stop.request() if is_killed_first else kill()

    local.run(iter([job("a", "wait", saved=str(tmp_path / "a"), takes=0.5)]), tell, stop)
    assert (tmp_path / "a").read_text() == "saved"


def test_a_job_that_somebody_else_stops_is_begun_again(local: Engine, tmp_path: Path):
    told = run(local, job("a", "be_stopped", file=str(tmp_path / "a"), times=MAX_DEATHS - 1))
    assert told.last("a") == {"state": "done"}
    told = run(local, job("a", "be_stopped", file=str(tmp_path / "b"), times=99))
    message = f"its process was stopped by somebody else; it was begun {MAX_DEATHS} times, and never came to its end"
    assert told.last("a") == failed(message)


def test_a_job_that_is_to_stop_is_not_begun_again_after_its_worker_dies(local: Engine, tmp_path: Path):
    told = Told()

    def tell(job: Job, report: Report) -> bool:
        told(job, report)
        return True

    local.run(iter([job("a", "die", file=str(tmp_path / "a"), times=99)]), tell, Stop())
    assert told.last("a") == {"state": "stopped"}
    assert (tmp_path / "a").read_text() == "begun\n"


def test_files_of_the_working_directory_are_no_code(local: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["", TESTS, ""]))
    (tmp_path / "queue.py").write_text(f"open({str(tmp_path / 'run')!r}, 'w')\nraise SystemExit(1)\n")
    assert run(local, job("a", "count")).last("a").get("directory") == str(tmp_path)
    assert not (tmp_path / "run").exists()


def test_an_engine_has_a_worker_a_core():
    assert make_engine("local").workers == cores()
    require("ray", "the engine on Ray")
    assert make_engine("ray").workers == cores()


def test_an_address_is_for_ray():
    with pytest.raises(ConfigError, match=r"'here:1'.*'ray' only, got 'local'; give --engine ray"):
        make_engine("local", address="here:1")


def test_ray_that_is_missing_is_told(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(ConfigError, match=r"pip install 'ssnt\[ray\]'"):
        make_engine("ray")


@pytest.mark.parametrize("address", ["127.0.0.1:1", "127.0.0.1:port", "ray://127.0.0.1:1"])
def test_a_cluster_that_is_not_there_is_soon_told(address: str):
    require("ray", "the engine on Ray")
    with pytest.raises(ConfigError, match=rf"{address}' cannot be reached .*HOST:PORT"):
        make_engine("ray", address=address, workers=1).run(iter(()), Told(), Stop())
