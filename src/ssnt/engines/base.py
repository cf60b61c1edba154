"""What an engine is: something that does independent jobs side by side, here or on a cluster.

A job is a function by name and an order in JSON, so that it can be given to any process that has this package; it
reports in JSON. What jobs there are need not be known beforehand: an engine asks for the next one when a worker has
nothing to do, so that a search may choose it by what has been found so far, and a file of any length is read as it
is worked on.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from ssnt.interrupts import Stop

Report = dict[str, Any]
"""What a worker tells of a job, in JSON. The last one has a ``state``; see :data:`DONE`."""

Tell = Callable[["Job", Report], bool | None]
"""Is told of every report of a job; what it returns says whether the job is to be stopped (True)."""

JobFunction = Callable[[dict[str, Any], Callable[[Report], None], Stop], Report]
"""What a job names: does what the order says, tells of it, stops when asked to, and returns the last report.

A job may be begun more than once, after its worker was killed: it goes on with what it finds.
"""

DONE, STOPPED, FAILED = "done", "stopped", "failed"
"""The states that a job ends in.

A failed one has a ``message``, ``is_lasting`` if it would fail again, and, if its function has raised something, its
``kind``: the name of the error's class.
"""

MAX_DEATHS = 3
"""A job whose worker dies is begun again by another, but a job that has killed so many is a failure."""


@dataclass(frozen=True, eq=False)
class Job:
    """Something to do.

    Attributes:
        name: What the user knows it by.
        function: Its :data:`JobFunction`, as ``module:function``.
        order: What the function is to do, in JSON.
    """

    name: str
    function: str
    order: dict[str, Any]


class Engine(Protocol):
    """Does jobs side by side."""

    @property
    def workers(self) -> int:
        """How many jobs it does at a time."""
        ...

    def check(self) -> None:
        """Looks whether jobs can be done, before anything is written that would be in the way of another attempt.

        Raises:
            ConfigError: They cannot, such as because a cluster cannot be reached.
        """
        ...

    def run(self, jobs: Iterator[Job | None], tell: Tell, stop: Stop) -> None:
        """Does all jobs, and returns when they are done, have failed or were stopped.

        A job is stopped only by what ``tell`` says of it or by ``stop``. One that anybody else stops is begun again,
        like one whose worker dies.

        Args:
            jobs: Where they come from. The next one is taken when a worker is free for it, never earlier, by one thread
                at a time, whichever. None means not now: it is asked again after the next report, so that a job has to
                be under way. It may take its time, and reports are told meanwhile; see :func:`one_at_a_time`.
            tell: Told of every report, the last of each job too, by one thread at a time, whichever.
            stop: A request to stop: no new job is begun, those under way are asked to save and stop, and are waited
                for. Whoever gives jobs and sees it may raise :class:`~ssnt.interrupts.StopNow`.

        Raises:
            Exception: What ``jobs`` or ``tell`` raise, after the workers were ended.
        """
        ...


def one_at_a_time(jobs: Iterator[Job], tell: Tell) -> tuple[Iterator[Job], Tell]:
    """The same for an engine, for jobs that are chosen by what is told: the one is never called during the other."""
    guard = threading.Lock()

    def guarded_jobs() -> Iterator[Job]:
        while True:
            with guard:
                job = next(jobs, None)
            if job is None:
                return
            yield job

    def guarded_tell(job: Job, report: Report) -> bool | None:
        with guard:
            return tell(job, report)

    return guarded_jobs(), guarded_tell


def failed(message: str, *, is_lasting: bool = False, kind: str | None = None) -> Report:
    """The last report of a job that could not be done."""
    report: Report = {"state": FAILED, "message": message, "is_lasting": is_lasting}
    return report if kind is None else {**report, "kind": kind}
