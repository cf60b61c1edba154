"""Cheap clients of ``ssnt serve``: they share the machine with the server, so what they take it lacks.

HTTP and WebSocket by hand, on bare asyncio protocols: one question at a time on each connection, no question before the
last answer. Answers are kept as bytes, to be read when the clock is stopped.
"""

from __future__ import annotations

import asyncio
import base64
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Coroutine, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

T = TypeVar("T")

_PING, _PONG, _TEXT, _CLOSE = 9, 10, 1, 8
_PATIENCE = 120.0
"""After so many seconds without an answer it counts as lost."""


def run(work: Coroutine[Any, Any, T]) -> T:
    """Runs clients on the fastest event loop there is."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run(work)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)


# ----------------------------------------------------------------------------------------------------------- server


@dataclass(frozen=True)
class Server:
    """A server that runs.

    Attributes:
        address: Where.
        process: Its process.
    """

    address: str
    process: subprocess.Popen[str]

    @property
    def resident(self) -> int:
        """Its resident memory in bytes (Linux)."""
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmRSS:"))

    @property
    def cpu_seconds(self) -> float:
        """How long it has kept a core busy (Linux)."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def served(model: Path, log: Path, *options: str) -> Iterator[Server]:
    """``ssnt serve`` in a process of its own, on a free port, with its log in a file; it must end well."""
    command = [sys.executable, "-m", "ssnt", "serve", str(model), "--port", "0", *options]
    with log.open("w", encoding="utf-8") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
    try:
        said = process.stdout.readline() if process.stdout else ""
        if "http://" not in said:
            raise SystemExit(f"{' '.join(command)} has not started:\n{said}{log.read_text(encoding='utf-8')}")
        yield Server(said[said.index("http://") :].split()[0], process)
    finally:
        process.terminate()
        try:
            code = process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
    if code not in (0, -signal.SIGTERM):
        raise SystemExit(f"{' '.join(command)} ended with code {code}:\n{log.read_text(encoding='utf-8')[-2000:]}")


# ------------------------------------------------------------------------------------------------------------- HTTP


@dataclass(frozen=True)
class Answer:
    """An answer.

    Attributes:
        status: Its HTTP status.
        body: What it says.
        seconds: How long it took, from the question to its last byte.
    """

    status: int
    body: bytes
    seconds: float


class _Asking(asyncio.Protocol):
    """A connection on which somebody waits for what comes next."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport
        self._got = bytearray()
        self._next: asyncio.Future[tuple[int, bytes]] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport) or hasattr(transport, "write")
        self.transport = transport  # type: ignore[assignment]

    def connection_lost(self, error: Exception | None) -> None:
        if self._next is not None and not self._next.done():
            self._next.set_exception(ConnectionError(f"the server hung up: {error}"))

    async def _ask(self, data: bytes) -> tuple[int, bytes]:
        self._next = asyncio.get_running_loop().create_future()
        self.transport.write(data)
        async with asyncio.timeout(_PATIENCE):
            return await self._next

    def _settle(self, status: int, body: bytes) -> None:
        if self._next is not None and not self._next.done():
            self._next.set_result((status, body))


class HttpClient(_Asking):
    """A connection that is kept alive."""

    def data_received(self, data: bytes) -> None:
        self._got += data
        end = self._got.find(b"\r\n\r\n")
        if end < 0:
            return
        head = bytes(self._got[:end]).lower()
        _, _, rest = head.partition(b"content-length:")
        size = int(rest.split(b"\r\n", 1)[0])
        if len(self._got) >= end + 4 + size:
            body = bytes(self._got[end + 4 : end + 4 + size])
            del self._got[: end + 4 + size]
            self._settle(int(head[9:12]), body)

    async def ask(self, request: bytes) -> Answer:
        """Sends a request, and waits for its answer."""
        start = time.perf_counter()
        status, body = await self._ask(request)
        return Answer(status, body, time.perf_counter() - start)


def post(path: str, body: bytes) -> bytes:
    """A request with a JSON body."""
    head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {len(body)}"
    return head.encode() + b"\r\n\r\n" + body


async def open_connection(address: str) -> HttpClient:
    """Connects."""
    place = urlsplit(address)
    _, client = await asyncio.get_running_loop().create_connection(HttpClient, place.hostname, place.port)
    return client


async def ask_all(address: str, requests: Iterable[bytes], clients: int) -> list[Answer]:
    """Asks everything with so many clients at a time, of whom each takes the next question after an answer.

    Returns:
        An answer for each request, in their order; status 0 if it was lost.
    """
    waiting = enumerate(requests)
    answers: dict[int, Answer] = {}

    async def work() -> None:
        client = await open_connection(address)
        for number, request in waiting:
            start = time.perf_counter()
            try:
                answers[number] = await client.ask(request)
            except (ConnectionError, TimeoutError) as error:
                answers[number] = Answer(0, repr(error).encode(), time.perf_counter() - start)
                client.transport.close()
                client = await open_connection(address)
        client.transport.close()

    async with asyncio.TaskGroup() as group:
        for _ in range(clients):
            group.create_task(work())
    return [answers[number] for number in range(len(answers))]


# -------------------------------------------------------------------------------------------------------- WebSocket


def frame(payload: bytes, opcode: int = _TEXT) -> bytes:
    """A frame of a client; its mask is of zeros, which changes nothing and costs nothing."""
    size = len(payload)
    if size < 126:
        head = bytes([0x80 | opcode, 0x80 | size])
    elif size < 1 << 16:
        head = bytes([0x80 | opcode, 0x80 | 126]) + size.to_bytes(2, "big")
    else:
        head = bytes([0x80 | opcode, 0x80 | 127]) + size.to_bytes(8, "big")
    return head + bytes(4) + payload


@dataclass(frozen=True)
class Frame:
    """A frame of a server: what it is, what it says, and how many bytes it is long."""

    opcode: int
    payload: bytes
    size: int


def first_frame(got: bytearray) -> Frame | None:
    """The first frame of what a server has sent, if all of it is there; servers do not mask."""
    if len(got) < 2:
        return None
    size, start = got[1] & 0x7F, 2
    if size >= 126:
        start = 4 if size == 126 else 10
        if len(got) < start:
            return None
        size = int.from_bytes(got[2:start], "big")
    if len(got) < start + size:
        return None
    return Frame(got[0] & 0x0F, bytes(got[start : start + size]), start + size)


class SocketClient(_Asking):
    """A WebSocket on which each message is answered by one."""

    def __init__(self) -> None:
        super().__init__()
        self._is_open = False

    def data_received(self, data: bytes) -> None:
        self._got += data
        if not self._is_open:
            end = self._got.find(b"\r\n\r\n")
            if end < 0:
                return
            status = int(self._got[9:12])
            del self._got[: end + 4]
            self._is_open = status == 101
            self._settle(status, b"")
        while (one := first_frame(self._got)) is not None:
            del self._got[: one.size]
            if one.opcode == _PING:
                self.transport.write(frame(one.payload, _PONG))
            elif one.opcode == _CLOSE:
                self.transport.close()
            elif one.opcode == _TEXT:
                self._settle(200, one.payload)

    async def shake_hands(self) -> int:
        """Asks for a WebSocket; the status of the answer."""
        key = base64.b64encode(os.urandom(16)).decode()
        head = "GET /v1/stream HTTP/1.1\r\nhost: localhost\r\nupgrade: websocket\r\nconnection: Upgrade\r\n"
        status, _ = await self._ask(f"{head}sec-websocket-key: {key}\r\nsec-websocket-version: 13\r\n\r\n".encode())
        return status

    async def ask(self, message: bytes) -> bytes:
        """Sends a message, and waits for its answer."""
        _, answer = await self._ask(frame(message))
        return answer

    async def stop_reading(self, message: bytes) -> None:
        """Sends a message again and again and reads no answer, until the server reads no further one.

        Raises:
            TimeoutError: It goes on reading.
        """
        self.transport.pause_reading()
        async with asyncio.timeout(_PATIENCE):
            stuck = 0
            while stuck < 10:  # so many times a twentieth of a second what was sent has gone nowhere
                before = self.transport.get_write_buffer_size()
                if not before:
                    self.transport.write(frame(message) * 500)
                await asyncio.sleep(0.05)
                stuck = stuck + 1 if before and self.transport.get_write_buffer_size() == before else 0


async def open_socket(address: str, *, buffer: int | None = None) -> SocketClient:
    """Connects.

    Args:
        address: Where.
        buffer: How many bytes of answers the system may keep for this client; its choice if None.
    """
    place = urlsplit(address)
    made = socket.socket()
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if buffer is not None:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    made.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(made, (place.hostname, place.port))
    _, client = await loop.create_connection(SocketClient, sock=made)
    status = await client.shake_hands()
    if status != 101:
        raise ConnectionError(f"expected a WebSocket, got status {status}")
    return client
