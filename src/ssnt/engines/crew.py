"""Workers that take one job after another, wherever they are."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from typing import Protocol

from ssnt.engines.base import MAX_DEATHS, STOPPED, Job, Report, Tell, failed
from ssnt.interrupts import Stop, StopNow

_POLL = 0.1  # seconds between looks at whether somebody wants to stop
_PATIENCE = 5.0  # seconds for threads whose workers were killed, or that still wait for a job


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

    def __init__(self, workers: Sequence[Worker], jobs: Iterator[Job | None], tell: Tell, stop: Stop) -> None:
        self._workers = workers
        self._jobs = jobs
        self._tell = tell
        self._stop = stop
        self._asking = threading.Lock()  # of jobs
        self._telling = threading.Lock()  # of tell
        self._changed = threading.Condition()  # of what is below
        self._has_jobs = True
        self._idle: set[threading.Thread] = set()  # those that want a job
        self._under_way = 0
        self._reports = 0
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
            deadline = time.monotonic() + _PATIENCE
            for thread in threads:
                thread.join(max(0.0, deadline - time.monotonic()))
            for worker in self._workers:
                worker.close()
        if self._error is not None:
            raise self._error

    @property
    def _is_ending(self) -> bool:
        return self._error is not None or self._stop.is_requested

    def _wait_for(self, threads: Sequence[threading.Thread]) -> None:
        is_told = is_killed = False
        while any(map(self._is_needed, threads)):
            for thread in threads:
                thread.join(_POLL / len(threads))
            if self._error is not None and not is_killed:
                is_killed = True
                self._kill()
            elif self._stop.is_requested and not is_told:
                is_told = True
                for worker in self._workers:
                    worker.stop()

    def _is_needed(self, thread: threading.Thread) -> bool:
        """Whether a thread has to be waited for; in the end not for one that waits for a job, maybe for ever."""
        with self._changed:
            return thread.is_alive() and not (self._is_ending and thread in self._idle)

    def _kill(self) -> None:
        for worker in self._workers:
            worker.kill()

    def _work(self, worker: Worker) -> None:
        """Has jobs done by a worker until there are none."""
        try:
            while (job := self._next_job()) is not None:
                self._pass_on(job, self._done(job, worker))
            worker.close()
        except BaseException as error:  # it is raised in the thread that waits
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        with self._changed:
            self._error = self._error or error

    def _next_job(self) -> Job | None:
        """Takes a job; None if there are no more, or none is to be begun."""
        this = threading.current_thread()
        self._idle.add(this)
        with self._asking:
            while self._has_jobs and not self._is_ending:
                before = self._reports
                try:
                    job = next(self._jobs)
                except (StopIteration, StopNow):
                    self._has_jobs = False
                    break
                if job is None:
                    self._wait_for_report(before)
                    continue
                with self._changed:
                    if self._is_ending:
                        break
                    self._idle.discard(this)
                    self._under_way += 1
                return job
        return None

    def _wait_for_report(self, before: int) -> None:
        """Waits until there are more reports than before, or no job is wanted any more."""
        with self._changed:
            while self._reports == before and not self._is_ending:
                if not self._under_way:
                    raise RuntimeError("there is no job now, and none is under way whose report could be waited for")
                self._changed.wait(_POLL)

    def _pass_on(self, job: Job, report: Report) -> bool:
        """Tells of a report; whether the job is to be stopped."""
        with self._telling:
            if self._error is not None:
                return False
            try:
                must_stop = self._tell(job, report)
            except BaseException as error:
                self._fail(error)  # before anybody else tells
                raise
        with self._changed:
            self._reports += 1
            self._under_way -= "state" in report
            self._changed.notify_all()
        return bool(must_stop)

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
            if self._is_ending:
                return {"state": STOPPED}
        return failed(f"its process {deaths[-1]}; it was begun {MAX_DEATHS} times, and never came to its end")

    def _followed(self, job: Job, worker: Worker) -> Report:
        """Passes the reports of a job on, and gives the last one."""
        is_cancelled = False
        try:
            while "state" not in (report := worker.next()):
                if self._pass_on(job, report) and not is_cancelled:
                    is_cancelled = True
                    worker.cancel()
        except WorkerDiedError:
            if is_cancelled:
                return {"state": STOPPED}
            raise
        if report["state"] == STOPPED and not is_cancelled and not self._is_ending:
            raise WorkerDiedError("was stopped by somebody else")
        return report
