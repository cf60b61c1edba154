"""``WS /v1/stream``: one client's conversation.

The next message is read when the last one is answered. So a client that sends more than it reads holds up nobody but
itself, and what waits for it is bounded by the buffers of its connection.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pydantic
from pydantic_core import to_json
from starlette.websockets import WebSocket, WebSocketDisconnect

from ssnt.serve.guard import bearer, host_objection, is_same_site, is_token_right
from ssnt.serve.logs import log_event
from ssnt.serve.measures import Measures
from ssnt.serve.models import Models
from ssnt.serve.problems import ProblemError, problem_of
from ssnt.serve.schemas import Finish, Message, Open, Push, parse
from ssnt.serve.settings import ServeSettings
from ssnt.serve.streams import ServedStream, StreamPools

_MESSAGE: pydantic.TypeAdapter[Open | Push | Finish] = pydantic.TypeAdapter(Message)

_CLOSE_CODES = {401: 1008, 403: 1008, 408: 1001, 413: 1009, 500: 1011, 503: 1013}
"""The WebSocket close code for a problem that ends the conversation; after any other it goes on."""


class Sockets:
    """The sockets of a service.

    Args:
        models: What can be streamed with.
        pools: Where streams are stepped.
        settings: Limits and token.
        measures: Where sockets are counted.
    """

    def __init__(self, models: Models, pools: StreamPools, settings: ServeSettings, measures: Measures) -> None:
        self.models = models
        self.pools = pools
        self.settings = settings
        self.measures = measures
        self._open = 0

    async def serve(self, socket: WebSocket) -> None:
        """Serves one client until it leaves, says nothing for too long, or does what is not allowed."""
        problem = self._objection(socket)
        if problem is not None:
            with suppress(WebSocketDisconnect, OSError):
                await socket.send_denial_response(problem.response())
            return
        self._open += 1
        self.measures.sockets.set(self._open)
        conversation = _Conversation(self, socket)
        try:
            await socket.accept()
            await conversation.run()
        except (WebSocketDisconnect, OSError):
            pass
        finally:
            conversation.close()
            self._open -= 1
            self.measures.sockets.set(self._open)
            log_event("socket closed", messages=conversation.count)

    def _objection(self, socket: WebSocket) -> ProblemError | None:
        """Why a client is not let in, if it is not."""
        if problem := host_objection(socket.headers, self.settings):
            return problem
        if not is_same_site(socket.headers, self.settings.cors_origins):
            return ProblemError(403, "pages of this origin may not use the service")
        token = bearer(socket.headers)
        if token is not None and not is_token_right(self.settings, token):
            return ProblemError(401, "this is not the service's token")
        if self._open >= self.settings.limits.max_streams:
            return ProblemError(503, f"there are max_streams ({self._open}) streams already", retry_after=5)
        return None


class _Conversation:
    def __init__(self, home: Sockets, socket: WebSocket) -> None:
        self._home = home
        self._socket = socket
        self._limits = home.settings.limits
        self._stream: ServedStream | None = None
        self._is_trusted = is_token_right(home.settings, bearer(socket.headers))
        self._begun = asyncio.get_running_loop().time()
        self._has_opened = False
        self.count = 0

    async def run(self) -> None:
        """Answers message after message."""
        while True:
            try:
                answer = await self._answer(await self._receive())
            except Exception as error:
                if isinstance(error, WebSocketDisconnect | OSError):
                    raise
                problem = problem_of(error)
                await self._send(problem.body() | {"type": "problem"})
                if problem.status in _CLOSE_CODES:
                    await self._socket.close(_CLOSE_CODES[problem.status])
                    return
                continue
            await self._send(answer)

    def close(self) -> None:
        """Forgets the stream."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    async def _receive(self) -> str:
        seconds = self._limits.idle_seconds if self._has_opened else self._limits.open_seconds
        begun = asyncio.get_running_loop().time() if self._has_opened else self._begun
        try:
            async with asyncio.timeout_at(begun + seconds):  # wait_for would make a task of every message
                message = await self._socket.receive()
        except TimeoutError:
            what = "nothing was sent" if self._has_opened else "no stream was opened"
            raise ProblemError(408, f"{what} for {seconds:g} seconds") from None
        if message["type"] == "websocket.disconnect":
            raise WebSocketDisconnect(message.get("code", 1005))
        self.count += 1
        if message.get("text") is None:
            raise ProblemError(422, "expected a text frame with a JSON object, got a binary frame")
        return str(message["text"])

    async def _send(self, answer: dict[str, Any]) -> None:
        text = to_json(answer, inf_nan_mode="null").decode()
        try:
            async with asyncio.timeout(self._limits.send_seconds):
                await self._socket.send_text(text)
        except TimeoutError:  # it does not read, so it would not read of a problem either
            log_event("socket dropped", reason="the client does not read")
            raise WebSocketDisconnect(1001) from None

    async def _answer(self, text: str) -> dict[str, Any]:
        message = parse(_MESSAGE, text, self._limits)
        if isinstance(message, Open):
            return self._opened(message)
        if self._stream is None:
            raise ProblemError(422, 'there is no open stream: begin with {"type": "open"}')
        if isinstance(message, Finish):
            stream, self._stream = self._stream, None
            try:
                return await stream.finish()
            finally:
                stream.close()
        if self._stream.length + len(message.text) > self._limits.max_stream_length:
            most = self._limits.max_stream_length
            raise ProblemError(422, f"text: the stream would be longer than max_stream_length ({most}); finish it")
        return await self._stream.push(message.text)

    def _opened(self, message: Open) -> dict[str, Any]:
        if message.token is not None:
            self._is_trusted = is_token_right(self._home.settings, message.token)
        if not self._is_trusted:
            raise ProblemError(401, "send the service's token when you open the first stream")
        self.close()
        model = self._home.models.find(message.model)
        self._stream = self._home.pools.open(model.transducer, message)
        self._has_opened = True
        return {"type": "opened", "model": model.name}
