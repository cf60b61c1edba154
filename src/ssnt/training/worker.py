"""A process that trains one model after another, each in one thread; and the side of it that gives the orders.

Orders come as lines of JSON on standard input, and reports leave as lines of JSON on standard output. When the input
ends, because the process that gives the orders has ended, however it has ended, the worker saves and stops.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any, TextIO

from ssnt.config import Config
from ssnt.errors import DataError, SsntError
from ssnt.interrupts import Stop, StopNow, TrainingInterrupted
from ssnt.training.display import Display
from ssnt.training.processes import python_path
from ssnt.training.progress import Row

Report = dict[str, Any]

WAIT = 120.0
"""Seconds to wait for a process of a training before, whose owner was killed and which is still saving."""

_STOPPED: Report = {"state": "stopped"}


class Worker:
    """A worker as the process sees it that gives the orders.

    One thread may have models trained while another stops the worker: once it is told to stop, it takes no order and no
    new process is started.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()  # of what is below, and of the worker's input
        self._is_stopping = False
        self._process = self._start()

    def run(self, config: Config, tell: Callable[[Report], None]) -> Report:
        """Has a model trained.

        Args:
            config: Its settings; whether there is something to go on with, the worker sees for itself.
            tell: Called with every report before the last.

        Returns:
            The last report: ``state`` is ``done``, ``stopped`` or ``failed``; then ``message`` says why, and
            ``is_lasting`` whether it fails again however often it is tried.
        """
        with self._guard:
            if self._is_stopping:
                return _STOPPED
            if self._process.poll() is not None:
                self._release()
                try:
                    self._process = self._start()
                except OSError as error:  # too many processes, or too little memory for one more
                    return _failed(f"its process could not be started ({error.strerror or error})")
            process = self._process
            is_sent = _send(process, config)
        while is_sent and (report := _received(process)) is not None:
            if "state" in report:
                return report
            tell(report)
        code = process.wait()
        if self._is_stopping:
            return _STOPPED
        return _failed(f"its process {f'was killed by signal {-code}' if code < 0 else f'ended with exit code {code}'}")

    def stop(self) -> None:
        """Asks the worker to save and stop."""
        with self._guard:
            self._is_stopping = True
            _close_input(self._process)

    def kill(self) -> None:
        """Ends the worker at once."""
        with self._guard:
            self._is_stopping = True
            self._process.kill()

    def close(self) -> None:
        """Lets the worker end, and waits for it."""
        self.stop()
        self._release()

    def _release(self) -> None:
        _close_input(self._process)
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def _start(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "ssnt.training.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            env={**os.environ, "PYTHONPATH": python_path(), "OMP_NUM_THREADS": "1"},
            start_new_session=True,  # Ctrl-C is for the process that gives the orders
        )


def _failed(message: str, *, is_lasting: bool = False) -> Report:
    return {"state": "failed", "message": message, "is_lasting": is_lasting}


def _send(process: subprocess.Popen[str], config: Config) -> bool:
    """Gives an order; whether it could be given."""
    if process.stdin is None:
        raise RuntimeError("a worker is started with pipes")
    try:
        process.stdin.write(json.dumps({"config": config.model_dump()}) + "\n")
        process.stdin.flush()
    except (OSError, ValueError):  # the process has ended, or its input is closed
        return False
    return True


def _received(process: subprocess.Popen[str]) -> Report | None:
    """Waits for a report; None if there will be none."""
    if process.stdout is None:
        raise RuntimeError("a worker is started with pipes")
    try:
        line = process.stdout.readline()
        report: Report | None = json.loads(line) if line else None
    except (OSError, ValueError):  # it was closed, or the process was killed in the middle of a line
        return None
    return report


def _close_input(process: subprocess.Popen[str]) -> None:
    try:
        if process.stdin is not None:
            process.stdin.close()
    except (OSError, ValueError):  # there is nobody to read what was not yet sent
        pass


class _ReportingDisplay(Display):
    """Reports every epoch to the process that gives the orders."""

    def __init__(self, tell: Callable[[Report], None]) -> None:
        self._tell = tell

    def add(self, row: Row, max_epochs: int) -> None:
        """Reports an epoch."""
        self._tell({"epoch": row.epoch, "metric": row.metric, "value": row.value})


def _listen(orders: queue.SimpleQueue[Config | None], source: TextIO) -> None:
    """Takes orders until there are no more, which also ends what is going on."""
    for line in source:
        orders.put(Config.model_validate(json.loads(line)["config"]))
    orders.put(None)
    os.kill(os.getpid(), signal.SIGTERM)  # the main thread, which is training, handles it


def _train(config: Config, stop: Stop, tell: Callable[[Report], None]) -> Report:
    from ssnt.training.fit import train_one
    from ssnt.training.run_directory import RunDirectory

    try:
        resume = RunDirectory(str(config.out)).has_run
        made = train_one(config, resume=resume, overwrite=False, display=_ReportingDisplay(tell), stop=stop, wait=WAIT)
    except (TrainingInterrupted, StopNow):
        return _STOPPED
    except SsntError as error:
        return _failed(str(error), is_lasting=isinstance(error, DataError))
    except Exception as error:  # of one model, which is no reason to give the others up
        return _failed(f"{type(error).__name__}: {error}")
    scores = made.metrics["scores"].get("dev", [])
    if not scores or scores[0]["value"] is None:
        return {"state": "done", "score": "done"}
    return {"state": "done", "score": f"dev {scores[0]['name']} {scores[0]['value']:.4f}"}


def main() -> None:
    """Trains what standard input says."""
    reports = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what libraries print is no report

    def tell(report: Report) -> None:
        print(json.dumps(report), file=reports, flush=True)

    orders: queue.SimpleQueue[Config | None] = queue.SimpleQueue()
    stop = Stop()
    with stop.on_signals():
        threading.Thread(target=_listen, args=(orders, sys.stdin), daemon=True).start()
        while (config := orders.get()) is not None and not stop.is_requested:
            try:
                tell(_train(config, stop, tell))
            except BrokenPipeError:  # there is nobody any more to tell
                return


if __name__ == "__main__":
    main()
