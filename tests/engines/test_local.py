"""The process that does jobs, as the one sees it that gives them."""

import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from ssnt.engines import local
from ssnt.engines.base import Job, Report
from ssnt.engines.crew import CannotStartError, Crew, WorkerDiedError
from ssnt.engines.local import LocalWorker
from ssnt.interrupts import Stop

ECHO = "import sys\nfor line in sys.stdin: print('{\"epoch\": 1}', flush=True)"
"""A worker that begins with every order and never ends one, until its input ends."""

JOB = Job("a", "nothing:nothing", {})


class Quick(LocalWorker):
    """Starts a small program, and counts how often."""

    program = ECHO

    def __init__(self) -> None:
        super().__init__()
        self.starts = 0

    def _start(self) -> local.subprocess.Popen[str]:
        self.starts += 1
        pipe = local.subprocess.PIPE
        return local.subprocess.Popen([sys.executable, "-c", self.program], stdin=pipe, stdout=pipe, text=True)


@pytest.fixture
def quick() -> Iterator[Quick]:
    made = Quick()
    yield made
    made.kill()
    made.close()


def died(worker: Quick) -> None:
    worker._process.kill()
    worker._process.wait()


def test_a_process_is_started_for_the_first_job_and_kept(quick: Quick):
    assert quick.starts == 0
    for _ in range(2):
        quick.begin(JOB)
        assert quick.next() == {"epoch": 1}
    assert quick.starts == 1


def test_a_worker_that_is_stopped_takes_no_job(quick: Quick):
    quick.stop()
    with pytest.raises(WorkerDiedError, match="was told to stop"):
        quick.begin(JOB)
    assert quick.starts == 0


@pytest.mark.parametrize("how", ["stop", "kill", "close"])
def test_a_worker_that_has_died_is_not_started_again_after_it_was_stopped(quick: Quick, how: str):
    quick.begin(JOB)
    died(quick)
    getattr(quick, how)()
    with pytest.raises(WorkerDiedError):
        quick.begin(JOB)
    assert quick.starts == 1


def test_a_worker_that_has_died_between_jobs_is_replaced(quick: Quick):
    quick.begin(JOB)
    died(quick)
    quick.begin(JOB)
    assert quick.next() == {"epoch": 1}
    assert quick.starts == 2


def test_input_that_is_closed_is_no_traceback(quick: Quick):
    quick.begin(JOB)
    quick._process.stdin.close()
    with pytest.raises(WorkerDiedError, match="ended with exit code 0"):
        quick.begin(JOB)


def test_a_report_that_was_cut_off_is_the_end_of_the_worker(quick: Quick, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Quick, "program", "import sys; sys.stdin.readline(); print('{\"state\": ', end='', flush=True)")
    quick.begin(JOB)
    with pytest.raises(WorkerDiedError, match="ended with exit code 0"):
        quick.next()


def test_a_process_that_cannot_be_started_is_told(monkeypatch: pytest.MonkeyPatch):
    def refuse(*_: object, **__: object) -> None:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(local.subprocess, "Popen", refuse)
    with pytest.raises(CannotStartError, match=r"could not be started \(Resource temporarily unavailable\)"):
        LocalWorker().begin(JOB)


def test_a_directory_that_is_not_there_is_named():
    with pytest.raises(CannotStartError, match=r"No such file or directory: /not/there"):
        LocalWorker("/not/there").begin(JOB)


@pytest.mark.parametrize("given", [b'{"function": "x', b'{"function": "x:y"', b"\xff\n"])
def test_orders_that_were_cut_off_are_the_end_of_the_process(given: bytes):
    command = local.python_command("ssnt.engines.worker")
    done = subprocess.run(command, input=given, capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def reports_of(worker: LocalWorker, stop: Stop, begun: threading.Event | None = None) -> list[Report]:
    reports: list[Report] = []

    def tell(job: Job, report: Report) -> None:
        reports.append(report)
        if begun is not None:
            begun.set()

    Crew([worker], iter([JOB]), tell, stop).run()
    return reports


def test_stopping_while_a_job_is_given_ends_in_stopped():
    for _ in range(10):
        worker, stop = Quick(), Stop()
        found: list[list[Report]] = []
        thread = threading.Thread(target=lambda w=worker, s=stop, f=found: f.append(reports_of(w, s)))
        thread.start()
        stop.request()
        thread.join(30)
        assert [report.get("state") for report in found[0][-1:]] in ([], ["stopped"])


def test_a_worker_that_ends_when_it_is_stopped_has_not_failed():
    worker, stop, begun = Quick(), Stop(), threading.Event()
    found: list[list[Report]] = []
    thread = threading.Thread(target=lambda: found.append(reports_of(worker, stop, begun)))
    thread.start()
    assert begun.wait(30)
    stop.request()
    thread.join(30)
    assert found == [[{"epoch": 1}, {"state": "stopped"}]]
    assert worker.starts == 1


def test_a_job_that_cannot_be_begun_has_failed(monkeypatch: pytest.MonkeyPatch):
    def refuse(_: Quick) -> None:
        raise CannotStartError("its process could not be started (full)")

    monkeypatch.setattr(Quick, "_start", refuse)
    message = "its process could not be started (full)"
    assert reports_of(Quick(), Stop()) == [{"state": "failed", "message": message, "is_lasting": False}]
