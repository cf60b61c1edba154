"""Stopping in good order: the first Ctrl-C saves and stops, the second stops at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class TrainingInterrupted(KeyboardInterrupt):
    """Training was stopped from outside; the message says how far it came and how to go on."""


class StopNow(BaseException):
    """What is going on is given up; Lightning, which handles KeyboardInterrupt in its own way, does not know it."""


class Stop:
    """A request to stop, from a signal, another thread or another process.

    Args:
        second_ends: Whether a second signal ends what is going on at once, saved or not.

    Attributes:
        is_requested: Whether somebody wants the training to stop.
    """

    def __init__(self, *, second_ends: bool = True) -> None:
        self.is_requested = False
        self._second_ends = second_ends
        self._may_give_up = False

    def request(self) -> None:
        """Asks the training to save and stop after the step that it is in."""
        self.is_requested = True

    @contextmanager
    def giving_up_allowed(self) -> Iterator[None]:
        """In this block a signal ends what is going on at once: nothing is lost by it, as it can be done again.

        Raises:
            StopNow: There is a request already, or one arrives by a signal.
        """
        self._may_give_up = True
        try:
            if self.is_requested:
                raise StopNow
            yield
        finally:
            self._may_give_up = False

    @contextmanager
    def on_signals(self) -> Iterator[None]:
        """In this block Ctrl-C and SIGTERM are requests to stop; outside of the main thread nothing changes."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.getsignal(number) for number in _SIGNALS}
        self.listen()
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler if handler is not None else signal.SIG_DFL)

    def listen(self) -> None:
        """Takes the signals over, also from whoever has taken them over meanwhile."""
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                signal.signal(number, self._handle)

    def _handle(self, number: int, frame: FrameType | None) -> Any:
        is_last = self.is_requested and self._second_ends
        self.is_requested = True
        if is_last or self._may_give_up:
            raise StopNow
