"""What an engine is: something that does independent jobs side by side, here or on a cluster.

A job is a function by name and an order in JSON, so that it can be given to any process that has this package; it
reports in JSON. What jobs there are need not be known beforehand: an engine asks for the next one when a worker has
nothing to do, so that a search may choose it by what has been found so far, and a file of any length is read as it
is worked on.
"""

from __future__ import annotations

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
"""The states that a job ends in. A failed one has a ``message``, and ``is_lasting`` if it would fail again."""

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

    def run(self, jobs: Iterator[Job], tell: Tell, stop: Stop) -> None:
        """Does all jobs, and returns when they are done, have failed or were stopped.

        Args:
            jobs: Where they come from. The next one is taken when a worker is free for it, never earlier; it and
                ``tell`` are called by one thread at a time, whichever.
            tell: Told of every report, the last of each job too.
            stop: A request to stop: no new job is begun, those under way are asked to save and stop, and are waited
                for.

        Raises:
            Exception: What ``jobs`` or ``tell`` raise, after the workers were ended.
        """
        ...


def failed(message: str, *, is_lasting: bool = False) -> Report:
    """The last report of a job that could not be done."""
    return {"state": FAILED, "message": message, "is_lasting": is_lasting}
