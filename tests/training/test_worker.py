"""The process that trains models one after another, as the one sees it that gives the orders."""

import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ssnt.config import Config
from ssnt.errors import DataError, ModelError
from ssnt.interrupts import Stop
from ssnt.training import fit, worker
from ssnt.training.worker import Worker

ECHO = "import sys\nfor line in sys.stdin: print('{\"epoch\": 1}', flush=True)"
"""A worker that begins with every order and never ends one, until its input ends."""


class Quick(Worker):
    """Starts a small program, and counts how often."""

    program = ECHO

    def __init__(self) -> None:
        self.starts = 0
        super().__init__()

    def _start(self) -> worker.subprocess.Popen[str]:
        self.starts += 1
        pipe = worker.subprocess.PIPE
        return worker.subprocess.Popen([sys.executable, "-c", self.program], stdin=pipe, stdout=pipe, text=True)


@pytest.fixture
def quick() -> Iterator[Quick]:
    made = Quick()
    yield made
    made.kill()
    made.close()


def silent(_: object) -> None:
    pass


def test_a_worker_that_is_stopped_takes_no_order(quick: Quick):
    quick.stop()
    assert quick.run(Config(), silent) == {"state": "stopped"}


@pytest.mark.parametrize("how", ["stop", "kill", "close"])
def test_a_worker_that_has_died_is_not_started_again_after_it_was_stopped(quick: Quick, how: str):
    quick._process.kill()
    quick._process.wait()
    getattr(quick, how)()
    assert quick.run(Config(), silent) == {"state": "stopped"}
    assert quick.starts == 1


def test_a_worker_that_is_stopped_while_it_trains_has_not_failed(quick: Quick):
    begun, reports = threading.Event(), []
    thread = threading.Thread(target=lambda: reports.append(quick.run(Config(), lambda _: begun.set())))
    thread.start()
    assert begun.wait(30)
    quick.stop()
    thread.join(30)
    assert reports == [{"state": "stopped"}]


def test_input_that_is_closed_is_no_traceback(quick: Quick):
    quick._process.stdin.close()
    report = quick.run(Config(), silent)
    assert report == {"state": "failed", "message": "its process ended with exit code 0", "is_lasting": False}


def test_stopping_and_giving_orders_at_the_same_time_ends_in_stopped():
    for _ in range(10):
        one, reports = Quick(), []

        def work(one: Quick = one, reports: list[worker.Report] = reports) -> None:
            reports.append(one.run(Config(), silent))

        thread = threading.Thread(target=work)
        thread.start()
        one.stop()
        thread.join(30)
        one.close()
        assert reports == [{"state": "stopped"}]


def test_a_report_that_was_cut_off_is_the_end_of_the_worker(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Quick, "program", "import sys; sys.stdin.readline(); print('{\"state\": ', end='', flush=True)")
    one = Quick()
    assert one.run(Config(), silent)["message"] == "its process ended with exit code 0"
    one.close()


def test_a_process_that_cannot_be_started_is_a_failure(quick: Quick, monkeypatch: pytest.MonkeyPatch):
    def refuse(_: Quick) -> None:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    quick._process.kill()
    quick._process.wait()
    monkeypatch.setattr(Quick, "_start", refuse)
    message = "its process could not be started (Resource temporarily unavailable)"
    assert quick.run(Config(), silent) == {"state": "failed", "message": message, "is_lasting": False}


@pytest.mark.parametrize(("error", "is_lasting"), [(DataError("x"), True), (ModelError("x"), False)])
def test_what_is_wrong_with_the_data_lasts(
    error: Exception, is_lasting: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(fit, "train_one", fail)
    report = worker._train(Config(out=str(tmp_path)), Stop(), silent)
    assert report == {"state": "failed", "message": "x", "is_lasting": is_lasting}
