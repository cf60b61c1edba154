"""Jobs in processes of this machine, in as many threads each as their orders say."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ssnt.engines.base import Job, Report, Tell
from ssnt.engines.crew import CannotStartError, Crew, WorkerDiedError
from ssnt.interrupts import Stop


class LocalEngine:
    """Does jobs in processes of this machine.

    Args:
        workers: How many at a time; None: one for each core.
    """

    def __init__(self, workers: int | None = None) -> None:
        self._workers = workers or cores()

    @property
    def workers(self) -> int:
        """How many jobs it does at a time."""
        return self._workers

    def check(self) -> None:
        """This machine can always be reached."""

    def run(self, jobs: Iterator[Job | None], tell: Tell, stop: Stop) -> None:
        """Does all jobs; see :meth:`ssnt.engines.base.Engine.run`."""
        Crew([LocalWorker() for _ in range(self._workers)], jobs, tell, stop).run()


class LocalWorker:
    """A process that does jobs, as the one sees it that gives them. It is started for the first job.

    Orders go to its standard input and reports come from its standard output, as lines of JSON. Once it is told to
    stop, it takes no job and no new process is started.

    Args:
        directory: Where it works; None: here.
    """

    def __init__(self, directory: str | None = None) -> None:
        self._directory = directory
        self._guard = threading.Lock()  # of what is below, and of the process's input
        self._is_stopping = False
        self._process: subprocess.Popen[str] | None = None

    def begin(self, job: Job) -> None:
        """Gives the process a job; a process that has died is replaced.

        Raises:
            WorkerDiedError: It has died just now, or was told to stop.
            CannotStartError: There are too many processes, or too little memory for one more.
        """
        with self._guard:
            if self._is_stopping:
                raise WorkerDiedError("was told to stop")
            if self._process is None or self._process.poll() is not None:
                self._release()
                self._process = self._start()
            process = self._process
            is_sent = _send(process, {"function": job.function, "order": job.order})
        if not is_sent:
            raise WorkerDiedError(_how_it_ended(process))

    def next(self) -> Report:
        """Waits for the next report of the job; the last one has a ``state``.

        Raises:
            WorkerDiedError: The process has died before.
        """
        process = self._process
        report = None if process is None else _received(process)
        if report is None:
            raise WorkerDiedError("was not started" if process is None else _how_it_ended(process))
        return report

    def cancel(self) -> None:
        """Asks the process to save and stop its job."""
        with self._guard:
            if self._process is not None:
                _send(self._process, {"cancel": True})

    def stop(self) -> None:
        """Asks the process to save and stop its job, and to end."""
        with self._guard:
            self._is_stopping = True
            if self._process is not None:
                _close_input(self._process)

    def kill(self) -> None:
        """Ends the process at once."""
        with self._guard:
            self._is_stopping = True
            if self._process is not None:
                self._process.kill()
                self._process.wait()

    def close(self) -> None:
        """Lets the process end, and waits for it."""
        self.stop()
        self._release()

    def _release(self) -> None:
        if self._process is not None:
            _close_input(self._process)
            self._process.wait()
            if self._process.stdout is not None:
                self._process.stdout.close()

    def _start(self) -> subprocess.Popen[str]:
        try:
            return subprocess.Popen(
                python_command("ssnt.engines.worker"),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                encoding="utf-8",
                env={**os.environ, "PYTHONPATH": python_path(), "OMP_NUM_THREADS": "1"},
                cwd=self._directory,
                start_new_session=True,  # Ctrl-C is for the process that gives the jobs
            )
        except OSError as error:
            where = "" if error.filename is None else f": {error.filename}"
            raise CannotStartError(f"its process could not be started ({error.strerror or error}{where})") from None


def cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def python_command(module: str) -> list[str]:
    """What runs a module in another Python process; files of the working directory are no code (``-P``)."""
    return [sys.executable, "-P", "-m", module]


def python_path() -> str:
    """Where another Python process finds this same package. An empty entry would be the working directory."""
    home = str(Path(__file__).parents[2])
    return os.pathsep.join([home, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))])


def _send(process: subprocess.Popen[str], message: dict[str, Any]) -> bool:
    """Writes to a process; whether it could be written."""
    if process.stdin is None:
        raise RuntimeError("a worker is started with pipes")
    line = json.dumps(message) + "\n"
    try:
        process.stdin.write(line)
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


def _how_it_ended(process: subprocess.Popen[str]) -> str:
    code = process.wait()
    return f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
