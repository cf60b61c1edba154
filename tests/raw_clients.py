"""Clients of the service that send whatever they like: HTTP and WebSocket by hand."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import socket
from typing import Any

from serving import PROBLEM, Running

QUICK: dict[str, Any] = {
    "headers_seconds": 1.0,
    "body_seconds": 1.5,
    "open_seconds": 1.0,
    "idle_seconds": 2.0,
    "send_seconds": 1.5,
    "keep_alive_seconds": 2.0,
    "max_streams": 4,
    "max_connections": 60,
    "max_body_bytes": 100_000,
}
"""Limits of a service that is soon out of patience."""


def received(sock: socket.socket) -> bytes:
    """All that comes until the other side closes."""
    parts = []
    with contextlib.suppress(ConnectionError):
        while part := sock.recv(65536):
            parts.append(part)
    return b"".join(parts)


def status_of(raw: bytes) -> int:
    return int(raw.split(b" ", 2)[1]) if raw else 0


def detail_of(raw: bytes) -> str:
    head, _, body = raw.partition(b"\r\n\r\n")
    assert PROBLEM.encode() in head
    return str(json.loads(body)["detail"])


def head(length: int | str, path: str = "/v1/transduce", more: str = "") -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: localhost", "Content-Type: application/json", f"Content-Length: {length}"]
    return ("\r\n".join(lines) + f"\r\n{more}\r\n").encode()


def tcp_of(server: Running) -> list[str]:
    """The established connections of the server's side."""
    with open("/proc/net/tcp", encoding="ascii") as lines:
        return [
            line for line in lines if f"0100007F:{server.port:04X} " in line.split("rem")[0][:25] and " 01 " in line
        ]


def handshake(
    server: Running, more: str = "", path: str = "/v1/stream", buffer: int = 0, host: str | None = None
) -> tuple[socket.socket, bytes]:
    sock = socket.socket()
    if buffer:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    sock.settimeout(60)
    sock.connect(("127.0.0.1", server.port))
    key = base64.b64encode(os.urandom(16)).decode()
    host = host or f"127.0.0.1:{server.port}"
    sock.sendall(
        f"GET {path} HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n{more}\r\n".encode()
    )
    raw = b""
    while b"\r\n\r\n" not in raw:
        part = sock.recv(1)
        if not part:
            break
        raw += part
    if not raw.startswith(b"HTTP/1.1 101"):
        raw += received(sock)
        sock.close()
    return sock, raw


def frame(opcode: int, payload: bytes, fin: bool = True) -> bytes:
    size = len(payload)
    if size < 126:
        length = bytes([0x80 | size])
    else:
        length = bytes([0xFE]) + size.to_bytes(2, "big") if size < 65536 else bytes([0xFF]) + size.to_bytes(8, "big")
    return bytes([(0x80 if fin else 0) | opcode]) + length + b"\0\0\0\0" + payload


def text_frame(message: Any) -> bytes:
    return frame(1, json.dumps(message).encode())


def read_frame(sock: socket.socket) -> tuple[int, bytes]:
    def exactly(count: int) -> bytes:
        raw = b""
        while len(raw) < count:
            part = sock.recv(count - len(raw))
            if not part:
                raise ConnectionError("closed")
            raw += part
        return raw

    first, size = exactly(2)
    if size == 126:
        size = int.from_bytes(exactly(2), "big")
    elif size == 127:
        size = int.from_bytes(exactly(8), "big")
    return first & 15, exactly(size)


def conversation(sock: socket.socket) -> tuple[list[Any], int]:
    """All messages until the close frame, and its code."""
    messages: list[Any] = []
    while True:
        opcode, payload = read_frame(sock)
        if opcode == 8:
            return messages, int.from_bytes(payload[:2], "big")
        if opcode == 1:
            messages.append(json.loads(payload))


OPEN = text_frame({"type": "open"})


def no_sockets(server: Running) -> bool:
    text = server.get("/metrics").text
    return "ssnt_open_sockets 0.0" in text and "ssnt_open_streams 0.0" in text
