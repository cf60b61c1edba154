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
from ssnt.errors import SsntError
from ssnt.training.display import Display
from ssnt.training.interrupts import Stop, StopNow, TrainingInterrupted
from ssnt.training.processes import python_path
from ssnt.training.progress import Row

Report = dict[str, Any]

WAIT = 120.0
"""Seconds to wait for a process of a training before, whose owner was killed and which is still saving."""


class Worker:
    """A worker as the process sees it that gives the orders."""

    def __init__(self) -> None:
        self._process = self._start()

    def run(self, config: Config, tell: Callable[[Report], None]) -> Report:
        """Has a model trained.

        Args:
            config: Its settings; whether there is something to go on with, the worker sees for itself.
            tell: Called with every report before the last.

        Returns:
            The last report: ``state`` is ``done``, ``stopped`` or ``failed``, and then ``message`` says why.
        """
        if self._process.poll() is not None:
            self.close()
            self._process = self._start()
        process = self._process
        if process.stdin is None or process.stdout is None:
            raise RuntimeError("a worker is started with pipes")
        try:
            process.stdin.write(json.dumps({"config": config.model_dump()}) + "\n")
            process.stdin.flush()
        except OSError:
            return self._ended()
        for line in process.stdout:
            report: Report = json.loads(line)
            if "state" in report:
                return report
            tell(report)
        return self._ended()

    def stop(self) -> None:
        """Asks the worker to save and stop."""
        try:
            if self._process.stdin is not None:
                self._process.stdin.close()
        except OSError:
            pass

    def kill(self) -> None:
        """Ends the worker at once."""
        self._process.kill()

    def close(self) -> None:
        """Lets the worker end, and waits for it."""
        self.stop()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def _ended(self) -> Report:
        code = self._process.wait()
        how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        return {"state": "failed", "message": f"its process {how}"}

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
        return {"state": "stopped"}
    except SsntError as error:
        return {"state": "failed", "message": str(error)}
    except Exception as error:  # of one model, which is no reason to give the others up
        return {"state": "failed", "message": f"{type(error).__name__}: {error}"}
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
