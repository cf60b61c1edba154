"""Connections: what the HTTP server does not limit itself, and a stop that loses nothing."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, ClassVar

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame

from ssnt.serve.problems import ProblemError
from ssnt.serve.settings import Limits

_LINGER = 1.0
"""How long a connection without a request stays open when the service stops: one may be on its way."""

_MOST_OVERHEAD = 64 * 1024
"""How many bytes a request may have besides its body."""

_CHUNK_OVERHEAD = 16
"""How many bytes of these are free with each part of a body."""

_MOST_PIPELINED = 64
"""How many requests a client may send before it has got an answer to the first."""

_MOST_FRAGMENTS = 4096
"""Of how many frames a message on a socket may be."""

_CLOSE_SECONDS = 3.0
"""How long a client may take to answer the end of a socket."""


class _ReadsInTime(asyncio.Protocol):
    """Aborts the connection of a client that does not read what it is sent.

    Attributes:
        limits: The limits of the service.
    """

    limits: ClassVar[Limits]
    loop: asyncio.AbstractEventLoop
    connections: set[Any]
    transport: asyncio.Transport

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._slow: asyncio.TimerHandle | None = None

    def connection_lost(self, exc: Exception | None) -> None:
        """The client has gone."""
        self._forget_slowness()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """The client reads too slowly."""
        super().pause_writing()
        self._slow = self.loop.call_later(self.limits.send_seconds, self._abort)

    def resume_writing(self) -> None:
        """The client has caught up."""
        super().resume_writing()
        self._forget_slowness()

    def _forget_slowness(self) -> None:
        if self._slow is not None:
            self._slow.cancel()
            self._slow = None

    def _abort(self) -> None:
        if self in self.connections:
            self.transport.abort()


class GuardedProtocol(_ReadsInTime, HttpToolsProtocol):
    """HTTP connections: not too many of them, and such as send their requests and read their answers in time."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._timer: asyncio.TimerHandle | None = None
        self._is_draining = False
        self._has_begun = False
        self._overhead = 0
        self._unanswered: deque[RequestResponseCycle] = deque()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client has connected."""
        super().connection_made(transport)
        if len(self.connections) > self.limits.max_connections:
            self._refuse(ProblemError(503, "there are too many connections; try again later", retry_after=5))
            return
        self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """A client has gone; the server would tell only the last of its requests, and not the one that is answered."""
        self._stop_waiting()
        for cycle in self._unanswered:
            cycle.disconnected = True
            cycle.message_event.set()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """A client has sent something; what is kept of it, besides a body, has a limit."""
        if self.transport.is_closing():  # it was refused
            return
        self._overhead += len(data)
        super().data_received(data)
        if self._overhead > _MOST_OVERHEAD and not self.transport.is_closing():
            self._refuse(ProblemError(431, f"a head has at most {_MOST_OVERHEAD} bytes"))

    def on_message_begin(self) -> None:
        """The first byte of a request has come."""
        self._has_begun = True
        self._wait_for_head()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """The head of a request has come."""
        self._stop_waiting()
        self._overhead = 0
        before = self.cycle
        super().on_headers_complete()
        if self.cycle is not before:  # it is no socket
            self._unanswered.append(self.cycle)
        if self._is_draining and not self._is_idle():
            self.cycle.keep_alive = False
        if len(self.pipeline) > _MOST_PIPELINED:
            self.transport.abort()

    def on_body(self, body: bytes) -> None:
        """A part of a body has come."""
        self._overhead -= len(body) + _CHUNK_OVERHEAD
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The end of a request has come."""
        self._has_begun = False
        self._overhead = 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """A request is answered."""
        self._unanswered.popleft()
        if self._is_idle() and self.cycle.more_body:  # what would come next is the rest of a body, at any pace
            self.transport.close()
        if self.transport.is_closing():
            self.loop.call_later(self.limits.send_seconds, self._abort)
        super().on_response_complete()

    def timeout_keep_alive_handler(self) -> None:
        """No further request has come."""
        self._close()

    def handle_websocket_upgrade(self) -> None:
        """The client wants a socket; not while it is owed an answer, which would be written into it."""
        if self._unanswered:
            self.transport.abort()
        else:
            super().handle_websocket_upgrade()

    def send_400_response(self, msg: str) -> None:
        """What has come is not HTTP."""
        if not self._is_idle():  # an answer may be half written
            self.transport.abort()
            return
        self._refuse(ProblemError(400, "this is not a request of HTTP/1.1"))

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
        if self._is_idle():
            self._close()

    def _wait_for_head(self) -> None:
        self._stop_waiting()
        self._timer = self.loop.call_later(self.limits.headers_seconds, self._give_up)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give_up(self) -> None:
        if self._has_begun and self._is_idle():
            seconds = self.limits.headers_seconds
            self._refuse(ProblemError(408, f"the head of the request did not come within {seconds:g} seconds"))
        else:
            self._close()

    def _refuse(self, problem: ProblemError) -> None:
        """Tells a problem with what is not yet a request, and closes the connection."""
        body = bytes(problem.response().body)
        headers = {"content-type": "application/problem+json", "content-length": len(body), "connection": "close"}
        lines = [f"HTTP/1.1 {problem.status} {problem.body()['title']}"]
        lines += [f"{name}: {value}" for name, value in (headers | problem.headers()).items()]
        self.transport.write("\r\n".join([*lines, "", ""]).encode("ascii") + body)
        self._close()

    def _close(self) -> None:
        """Closes the connection when what was written has been read, or soon."""
        self._stop_waiting()
        if not self.transport.is_closing():
            self.transport.close()
            self.loop.call_later(self.limits.send_seconds, self._abort)


class GuardedSocket(_ReadsInTime, WebSocketsSansIOProtocol):
    """WebSockets that read in time, and that answer what they were sent before the service stops."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.close_timeout = _CLOSE_SECONDS
        self._is_stopping = False

    def handle_ping(self) -> None:
        """Answers a ping, unless the client does not read the answers."""
        if self.writable.is_set():
            super().handle_ping()
        else:
            self.conn.data_to_send()

    def handle_cont(self, event: Frame) -> None:
        """Takes a further part of a message; empty ones have no size, but are kept too."""
        if len(self.frames) < _MOST_FRAGMENTS:
            super().handle_cont(event)
        elif not self.close_sent:
            self.conn.fail(1009, "too many fragments")
            self.handle_parser_exception()

    def send_receive_event_to_app(self) -> None:
        """Passes a message on; the server would log a traceback for a text that is none."""
        try:
            b"".join(self.frames).decode("utf-8" if self.curr_msg_data_type == "text" else "latin-1")
        except UnicodeDecodeError:
            self.frames = []
            self.conn.fail(1007, "a text is UTF-8")
            self.handle_parser_exception()
        else:
            super().send_receive_event_to_app()

    def shutdown(self) -> None:
        """The service stops: what the client has sent is answered, then the socket is closed."""
        if self.close_sent:
            super().shutdown()
        elif not self._is_stopping:
            self._is_stopping = True
            self.queue.put_nowait({"type": "websocket.disconnect", "code": 1012})

    async def receive(self) -> Any:
        """The next event for the app; the first that ends the conversation, if it is ours, ends the socket too."""
        event = await super().receive()
        is_open = not (self.close_sent or self.disconnected or self.transport.is_closing())
        if event["type"] == "websocket.disconnect" and self._is_stopping and is_open:
            await self.send({"type": "websocket.close", "code": 1012, "reason": "the service stops"})
        return event

    async def send(self, message: Any) -> None:
        """Sends something for the app; a socket that was closed meanwhile is nothing that the app could have known."""
        if self.close_sent or self.disconnected or self.transport.is_closing():
            raise ClientDisconnected
        try:
            await super().send(message)
        except RuntimeError:  # the client went away while this was being written
            if not self.transport.is_closing():
                raise
            raise ClientDisconnected from None
        if message["type"] == "websocket.http.response.body" and self.close_sent:
            self.handshake_complete = True  # refused, in good order

    async def run_asgi(self) -> None:
        """Serves the client, and lets go of it afterwards, whether it reads or not."""
        try:
            await super().run_asgi()
        finally:
            self.loop.call_later(2 * _CLOSE_SECONDS, self._abort)


def limited_protocol(limits: Limits) -> type[GuardedProtocol]:
    """The protocol with the limits of a service; the server makes one for each connection and passes none."""
    return type("LimitedProtocol", (GuardedProtocol,), {"limits": limits})


def limited_socket(limits: Limits) -> type[GuardedSocket]:
    """The same for sockets."""
    return type("LimitedSocket", (GuardedSocket,), {"limits": limits})
