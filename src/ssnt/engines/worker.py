"""The process that does jobs, one after another, in one thread.

Orders come as lines of JSON on standard input: ``{"function": "module:name", "order": {...}}`` is a job, and
``{"cancel": true}`` asks for the end of the one that is under way. Reports leave as lines of JSON on standard output.
When the input ends, because the process that gives the jobs has ended, however it has ended, this one saves and stops.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from importlib import import_module
from typing import Any

from ssnt.engines.base import STOPPED, JobFunction, Report, failed
from ssnt.errors import DataError, SsntError
from ssnt.interrupts import Stop, StopNow, TrainingInterrupted


class Desk:
    """Where orders arrive, while the main thread works on one.

    Whoever asks that a job be given up is heard at once, where it can be given up: so by a signal, which the main
    thread handles. There may be others: a signal to all processes of a run comes here too, and then the input ends. No
    second one keeps a job from saving; whoever does not want to wait for that kills this process.
    """

    def __init__(self) -> None:
        self._orders: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self._guard = threading.Lock()
        self._may_interrupt = False
        self._is_over = False

    def listen(self, lines: Iterable[str]) -> None:
        """Takes orders until there are no more, which also ends what is going on."""
        try:
            for line in lines:
                message = json.loads(line)
                if "cancel" in message:
                    self._interrupt()
                else:
                    self._orders.put(message)
        except ValueError:  # whoever gives the orders was killed in the middle of a line
            pass
        finally:
            self._is_over = True
            self._orders.put(None)
            self._interrupt()

    def next(self) -> dict[str, Any] | None:
        """Waits for the next order; None if there is none, or nobody waits for it."""
        order = self._orders.get()
        return None if self._is_over else order

    def work(self, order: dict[str, Any], tell: Callable[[Report], None]) -> Report:
        """Does what an order says, and gives its last report."""
        stop = Stop(second_ends=False)
        try:
            with stop.on_signals():
                self._allow(True)
                if self._is_over:
                    return {"state": STOPPED}
                try:
                    return perform(order, tell, stop)
                finally:
                    self._allow(False)
        except StopNow:
            return {"state": STOPPED}

    def _allow(self, may_interrupt: bool) -> None:
        with self._guard:
            self._may_interrupt = may_interrupt

    def _interrupt(self) -> None:
        with self._guard:
            if self._may_interrupt:
                self._may_interrupt = False
                os.kill(os.getpid(), signal.SIGTERM)


def perform(order: dict[str, Any], tell: Callable[[Report], None], stop: Stop) -> Report:
    """Calls the function that an order names; what it raises becomes its last report."""
    try:
        return _found(order["function"])(order["order"], tell, stop)
    except (TrainingInterrupted, StopNow):
        return {"state": STOPPED}
    except SsntError as error:
        return failed(str(error), is_lasting=isinstance(error, DataError), kind=_kind(error))
    except Exception as error:  # of one job, which is no reason to give the others up
        return failed(f"{type(error).__name__}: {error}", kind=_kind(error))


def _kind(error: Exception) -> str:
    """The name of an error's class, or of that which a private one is a case of."""
    return next(one.__name__ for one in type(error).__mro__ if not one.__name__.startswith("_"))


def _found(name: str) -> JobFunction:
    module, _, function = name.partition(":")
    found: JobFunction = getattr(import_module(module), function)
    return found


def main() -> None:
    """Does what standard input says."""
    reports = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what libraries print is no report

    def tell(report: Report) -> None:
        with suppress(BrokenPipeError):  # whoever reads it has ended, and so has the input, which stops the job
            print(json.dumps(report), file=reports, flush=True)

    desk, ending = Desk(), Stop()
    lines = open(sys.stdin.fileno(), encoding="utf-8", closefd=False)  # noqa: SIM115 (the thread below never ends)
    with ending.on_signals(), suppress(StopNow):
        threading.Thread(target=desk.listen, args=(lines,), daemon=True).start()
        while True:
            with ending.giving_up_allowed():
                order = desk.next()
            if order is None:
                break
            tell(desk.work(order, tell))
    with suppress(BrokenPipeError):
        reports.close()


if __name__ == "__main__":
    main()
