"""Workers that take one job after another, wherever they are."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Protocol

from ssnt.engines.base import MAX_DEATHS, STOPPED, Job, Report, Tell, failed
from ssnt.interrupts import Stop

_POLL = 0.1  # seconds between looks at whether somebody wants to stop
_PATIENCE = 5.0  # seconds for a thread whose worker was killed


class WorkerDiedError(Exception):
    """A worker has ended before its job; the message says how."""


class CannotStartError(Exception):
    """There is no worker to be had; the message says why."""


class Worker(Protocol):
    """Does one job at a time. One thread gives it jobs while another may stop it."""

    def begin(self, job: Job) -> None:
        """Gives a job to a worker that has none, which comes to life for it if need be.

        Raises:
            WorkerDiedError: It has ended meanwhile.
            CannotStartError: It cannot come to life.
        """
        ...

    def next(self) -> Report:
        """Waits for the next report of the job; the last one has a ``state``.

        Raises:
            WorkerDiedError: It has ended before.
        """
        ...

    def cancel(self) -> None:
        """Asks the worker to save and stop its job."""
        ...

    def stop(self) -> None:
        """Asks the worker to save and stop its job, and to take no other."""
        ...

    def kill(self) -> None:
        """Ends the worker at once."""
        ...

    def close(self) -> None:
        """Lets a worker without a job end, and waits for it."""
        ...


class Crew:
    """Workers with their jobs.

    Each has a thread here, which takes a job, gives it to the worker and waits for its reports. A worker that finds no
    job is closed, so that what it has had is free for others.

    Args:
        workers: The workers, none of which has a job.
        jobs: Where jobs come from.
        tell: Told of every report.
        stop: A request to stop.
    """

    def __init__(self, workers: Sequence[Worker], jobs: Iterator[Job], tell: Tell, stop: Stop) -> None:
        self._workers = workers
        self._jobs = jobs
        self._tell = tell
        self._stop = stop
        self._guard = threading.Lock()  # of jobs, of tell, and of what is below
        self._has_jobs = True
        self._error: BaseException | None = None

    def run(self) -> None:
        """Does all jobs; see :meth:`ssnt.engines.base.Engine.run`."""
        threads = [threading.Thread(target=self._work, args=(one,), daemon=True) for one in self._workers]
        try:
            for thread in threads:
                thread.start()
            self._wait_for(threads)
        except BaseException:  # such as a second Ctrl-C
            self._kill()
            raise
        finally:
            for thread in threads:
                thread.join(_PATIENCE)
            for worker in self._workers:
                worker.close()
        if self._error is not None:
            raise self._error

    def _wait_for(self, threads: Sequence[threading.Thread]) -> None:
        is_told = is_killed = False
        while any(thread.is_alive() for thread in threads):
            for thread in threads:
                thread.join(_POLL / len(threads))
            if self._error is not None and not is_killed:
                is_killed = True
                self._kill()
            elif self._stop.is_requested and not is_told:
                is_told = True
                for worker in self._workers:
                    worker.stop()

    def _kill(self) -> None:
        for worker in self._workers:
            worker.kill()

    def _work(self, worker: Worker) -> None:
        """Has jobs done by a worker until there are none."""
        try:
            while (job := self._next_job()) is not None:
                report = self._done(job, worker)
                with self._guard:
                    if self._error is not None:
                        break
                    self._tell(job, report)
            worker.close()
        except BaseException as error:  # it is raised in the thread that waits
            with self._guard:
                self._error = self._error or error

    def _next_job(self) -> Job | None:
        with self._guard:
            if not self._has_jobs or self._error is not None or self._stop.is_requested:
                return None
            job = next(self._jobs, None)
            self._has_jobs = job is not None
            return job

    def _done(self, job: Job, worker: Worker) -> Report:
        """Has a job done, again if need be, and gives its last report."""
        deaths: list[str] = []
        while len(deaths) < MAX_DEATHS:
            try:
                worker.begin(job)
                return self._followed(job, worker)
            except CannotStartError as error:
                return failed(str(error))
            except WorkerDiedError as error:
                deaths.append(str(error))
            if self._stop.is_requested or self._error is not None:
                return {"state": STOPPED}
        return failed(f"its process {deaths[-1]}; it was begun {MAX_DEATHS} times, and each time its process died")

    def _followed(self, job: Job, worker: Worker) -> Report:
        """Passes the reports of a job on, and gives the last one."""
        is_cancelled = False
        while "state" not in (report := worker.next()):
            with self._guard:
                must_stop = self._error is None and self._tell(job, report)
            if must_stop and not is_cancelled:
                is_cancelled = True
                worker.cancel()
        return report
