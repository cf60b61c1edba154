"""Connections: what the HTTP server does not limit itself, and a stop that loses nothing."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

_LINGER = 1.0
"""How long a connection without a request stays open when the service stops: one may be on its way."""


class GuardedProtocol(HttpToolsProtocol):
    """HTTP connections of which there are not too many, and which send their requests in time.

    Attributes:
        max_connections: How many there may be; further ones are closed at once.
        headers_seconds: How long the head of a request may take.
    """

    max_connections: ClassVar[int]
    headers_seconds: ClassVar[float]

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._timer: asyncio.TimerHandle | None = None
        self._is_draining = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client has connected."""
        super().connection_made(transport)
        if len(self.connections) > self.max_connections:
            transport.abort()
            return
        self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """A client has gone."""
        self._stop_waiting()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        """The first byte of a request has come."""
        self._wait_for_head()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """The head of a request has come."""
        self._stop_waiting()
        super().on_headers_complete()
        if self._is_draining and not self._is_idle():
            self.cycle.keep_alive = False

    def shutdown(self) -> None:
        """The service stops: what was asked is answered, what is on its way too; then the connection is closed."""
        if self._is_draining:
            return
        self._is_draining = True
        if self._is_idle():
            self.loop.call_later(_LINGER, self._close_if_idle)
        else:
            self.cycle.keep_alive = False

    def _is_idle(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle  # there is none before the first request
        return cycle is None or cycle.response_complete

    def _close_if_idle(self) -> None:
        if self._is_idle() and not self.transport.is_closing():
            self.transport.close()

    def _wait_for_head(self) -> None:
        self._stop_waiting()
        self._timer = self.loop.call_later(self.headers_seconds, self._give_up)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give_up(self) -> None:
        if not self.transport.is_closing():
            self.transport.close()


def limited(max_connections: int, headers_seconds: float) -> type[GuardedProtocol]:
    """The protocol with the limits of a service; the server makes one for each connection and passes none."""
    limits = {"max_connections": max_connections, "headers_seconds": headers_seconds}
    return type("LimitedProtocol", (GuardedProtocol,), limits)
