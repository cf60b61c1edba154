"""Hostile clients at their connections: they are let go, memory is bounded, and others are served."""

from __future__ import annotations

import contextlib
import json
import resource
import socket
import struct
import time

import pytest

from raw_clients import (
    OPEN,
    QUICK,
    detail_of,
    handshake,
    head,
    received,
    status_of,
    tcp_of,
)
from serving import running, until

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("quick service")]

TRANSDUCE = "/v1/transduce"


def seconds_until_closed(sock: socket.socket) -> tuple[float, bytes]:
    begun = time.monotonic()
    raw = received(sock)
    return time.monotonic() - begun, raw


def test_a_client_that_sends_nothing_or_half_is_let_go(quick):
    cases: list[tuple[bytes, int]] = [
        (b"", 0),
        (b"P", 408),
        (b"POST /v1/transduce HTTP/1.1\r\nHost: localhost\r\n", 408),
        (head(100), 408),
        (head(100) + b'{"inputs"', 408),
        (b"POST /v1/transduce HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc", 408),
    ]
    with contextlib.ExitStack() as stack:
        socks = [stack.enter_context(quick.connect()) for _ in cases]
        for sock, (sent, _) in zip(socks, cases, strict=True):
            sock.sendall(sent)
        assert quick.is_well()
        for sock, (sent, status) in zip(socks, cases, strict=True):
            seconds, raw = seconds_until_closed(sock)
            assert seconds < 20
            assert status_of(raw) == status, (sent, raw)
            if status:
                assert "did not come within" in detail_of(raw)


def test_a_body_that_comes_a_byte_at_a_time_has_as_long_as_any(quick):
    with quick.connect() as sock:
        sock.sendall(head(1000))
        begun = time.monotonic()
        with contextlib.suppress(ConnectionError):
            while time.monotonic() < begun + 20:
                sock.sendall(b" ")
                sock.settimeout(0.2)
                with contextlib.suppress(TimeoutError):
                    if sock.recv(1, socket.MSG_PEEK):
                        break
        assert time.monotonic() - begun < 15
        sock.settimeout(30)
        assert status_of(received(sock)) == 408


def test_a_connection_without_a_next_request_is_let_go(quick):
    with quick.connect() as sock:
        sock.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert sock.recv(65536).startswith(b"HTTP/1.1 200")
        seconds, raw = seconds_until_closed(sock)
        assert seconds < 20
        assert len(raw) < 200


@pytest.mark.parametrize("length", [100_001, 10**12, 2**64 - 1])
def test_a_client_is_told_that_its_body_is_too_large_before_it_is_sent(quick, length):
    with quick.connect() as sock:
        sock.sendall(head(length))
        sock.sendall(b"x" * min(length, 3_000_000))  # as clients do that do not look
        raw = received(sock)
        assert status_of(raw) == 413
        assert "max_body_bytes" in detail_of(raw)
    assert quick.is_well()


def test_a_length_may_lie(quick):
    body = b'{"inputs": ["abc"]}'
    with quick.connect() as sock:  # it has less: the rest is missing
        sock.sendall(head(len(body) + 10) + body)
        assert status_of(received(sock)) == 408
    with quick.connect() as sock:  # it has more: that is no request
        sock.sendall(head(len(body)) + body + b"surplus\r\n\r\n")
        raw = received(sock)
        assert raw == b"" or status_of(raw) in (200, 400)
    for length in ("-1", "1e3", "0x10", "99999999999999999999999", "abc", "1, 2"):
        with quick.connect() as sock:
            sock.sendall(head(length) + body)
            raw = received(sock)
            assert status_of(raw) == 400, (length, raw)
            assert detail_of(raw)
    chunked = head(5, more="Transfer-Encoding: chunked\r\n") + b"0\r\n\r\n"
    with quick.connect() as sock:  # of which a proxy may think otherwise
        sock.sendall(chunked)
        assert status_of(received(sock)) == 400
    assert quick.is_well()


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # TLS
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"\x00\x00\x00\x00\r\n\r\n",
        b"GET / HTTP/1.1\r\nBad Header\r\n\r\n",
        b"GET / HTTP/1.1\r\nX: a\x00b\r\n\r\n",
        b"G\x1b[31mET / HTTP/1.1\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ],
)
def test_what_is_not_http_is_400(quick, sent):
    with quick.connect() as sock:
        sock.sendall(sent)
        raw = received(sock)
        assert status_of(raw) in (400, 408), raw
        assert detail_of(raw)


@pytest.mark.parametrize("start", [b"GET /", b"GET / HTTP/1.1\r\nX: ", b"GET / HTTP/1.1\r\n"])
def test_a_head_without_an_end_is_431(quick, start):
    before = quick.memory()
    with quick.connect() as sock:
        sock.sendall(start)
        with contextlib.suppress(ConnectionError):
            for number in range(1000):
                part = b"x" * 65536 if not start.endswith(b"\r\n") else b"h%d: x\r\n" % number * 4000
                sock.sendall(part)
        raw = received(sock)
        assert status_of(raw) in (431, 0)
    assert quick.memory() - before < 20_000_000
    assert quick.is_well()


def test_trailers_without_an_end_are_refused(quick):
    before = quick.memory()
    with quick.connect() as sock:
        sock.sendall(b"POST /v1/transduce HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: ")
        with contextlib.suppress(ConnectionError):
            for _ in range(1000):
                sock.sendall(b"x" * 65536)
            received(sock)
    assert quick.memory() - before < 20_000_000
    assert quick.is_well()


def test_tiny_chunks_are_only_slow(quick):
    text = b'{"inputs": ["abc"]}'.ljust(30_000)
    with quick.connect() as sock:
        sock.sendall(
            b"POST /v1/transduce HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n" + b"".join(b"1\r\n%c\r\n" % byte for byte in text) + b"0\r\n\r\n"
        )
        raw = received(sock)
        assert status_of(raw) in (200, 408)
        assert status_of(raw) == 200 or "within" in detail_of(raw)


def test_requests_without_number_and_no_reading_are_cut_off(quick):
    before = quick.memory()
    with quick.connect() as sock:
        sock.settimeout(30)
        with contextlib.suppress(ConnectionError):
            for _ in range(400):
                sock.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n" * 1000)
            pytest.fail("it took 400,000 requests")
    assert quick.memory() - before < 150_000_000
    assert quick.is_well()


def test_a_few_requests_at_once_are_answered_in_order(quick):
    with quick.connect() as sock:
        sock.sendall(
            b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\nGET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n" * 10
        )
        raw = b""
        while raw.count(b"HTTP/1.1 ") < 20:
            raw += sock.recv(65536)
        assert [int(part[:3]) for part in raw.split(b"HTTP/1.1 ")[1:]] == [200, 404] * 10


def test_a_client_that_leaves_before_the_first_of_its_requests_is_answered_is_no_defect(quick):
    body = json.dumps({"inputs": ["abcdef" * 10] * 100}).encode()
    for _ in range(3):
        with quick.connect() as sock:
            sock.sendall(head(len(body)) + body + head(len(body)) + body)
            assert until(quick.is_well)  # by then the first is being answered
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    time.sleep(2)
    assert quick.is_well()
    assert not [line for line in quick.lines() if json.loads(line)["level"] == "error"]


def test_a_socket_is_not_opened_while_an_answer_is_owed(quick):
    """It would be written into the socket."""
    body = json.dumps({"inputs": ["abcdef" * 10] * 100}).encode()
    upgrade = (
        b"GET /v1/stream HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
    )
    with quick.connect() as sock:
        sock.sendall(head(len(body)) + body + upgrade)
        assert received(sock) == b""
    assert quick.is_well()
    assert not [line for line in quick.lines() if json.loads(line)["level"] == "error"]


def test_clients_that_leave_in_the_middle_leave_nothing_behind(quick):
    body = json.dumps({"inputs": ["abcdef" * 10] * 20}).encode()
    for sent in (head(len(body)), head(len(body)) + body[:50], head(len(body)) + body):
        for _ in range(5):
            with quick.connect() as sock:
                sock.sendall(sent)
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset
    assert until(lambda: quick.measure("ssnt_queue_length") == 0)
    assert quick.is_well()
    assert not [line for line in quick.lines() if "defect" in line or "Traceback" in line]


def test_a_client_that_does_not_read_its_answer_is_dropped(quick):
    body = json.dumps({"pairs": [{"input": "ab" * 90, "output": "ab" * 90}] * 30}).encode()
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.settimeout(60)
        sock.connect(("127.0.0.1", quick.port))
        for _ in range(8):  # one after the other, all at once
            sock.sendall(head(len(body), "/v1/align") + body)
        time.sleep(0.5)
        for _ in range(5):
            assert quick.is_well()
            time.sleep(0.1)

        def is_gone() -> bool:
            return not any(f":{sock.getsockname()[1]:04X} " in line for line in tcp_of(quick))

        assert until(is_gone, 40)


def test_more_connections_than_allowed_are_refused(quick):
    assert until(lambda: len(tcp_of(quick)) < 5)
    with contextlib.ExitStack() as stack:
        socks = [stack.enter_context(quick.connect()) for _ in range(QUICK["max_connections"] + 10)]
        for sock in socks[-10:]:
            raw = received(sock)
            assert status_of(raw) == 503
            assert b"retry-after: 5" in raw
        socks[0].sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert status_of(received(socks[0])) in (200, 408)
    assert until(lambda: quick.get("/healthz").status_code == 200)


def test_ten_thousand_idle_clients_are_nobodys_burden(served_models):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    many = 10_000 if hard == resource.RLIM_INFINITY or hard >= 10_500 else hard - 500
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(many + 400, hard) if hard > 0 else many + 400), hard))
    limits = {"max_connections": many + 100, "max_streams": many, "headers_seconds": 600.0, "open_seconds": 600.0}
    begun = time.monotonic()
    try:
        with running(served_models, "copy", limits=limits) as server, contextlib.ExitStack() as stack:
            assert server.is_well()
            before = server.memory()
            half = many // 2
            for _ in range(half):
                stack.enter_context(server.connect())
            for number in range(many - half):
                sock, raw = handshake(server)
                stack.enter_context(sock)
                assert raw.startswith(b"HTTP/1.1 101")
                if number % 4 == 0:
                    sock.sendall(OPEN)
                if time.monotonic() > begun + 240:
                    break
            times = []
            for _ in range(50):
                asked = time.monotonic()
                assert server.is_well()
                times.append(time.monotonic() - asked)
            assert sorted(times)[25] < 1.0
            per_client = (server.memory() - before) / many
            print(f"{many} idle clients: {per_client:.0f} bytes each, median answer {sorted(times)[25] * 1000:.0f} ms")
            assert per_client < 60_000
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
