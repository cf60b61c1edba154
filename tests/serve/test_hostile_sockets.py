"""Hostile clients on WebSockets."""

from __future__ import annotations

import contextlib
import json
import time

import pytest

from raw_clients import (
    OPEN,
    QUICK,
    conversation,
    detail_of,
    frame,
    handshake,
    no_sockets,
    read_frame,
    received,
    status_of,
    text_frame,
)
from serving import until

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("quick service")]

TRANSDUCE = "/v1/transduce"


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"type": "close"}',
        b'{"type": ["open"]}',
        b'{"type": "open", "beam": 1e999}',
        b'{"type": "open", "beam": %s}' % (b"9" * 400),
        b'{"type": "open", "max_delay": -1}',
        b'{"type": "open", "emit_threshold": NaN}',
        b'{"type": "open", "model": "other"}',
        b'{"type": "open", "more": 1}',
        b'{"type": "push", "text": "a"}',
        b'{"type": "finish"}',
        b"[" * 10_000,
    ],
    ids=lambda sent: repr(sent[:40]),
)
def test_a_mistake_on_a_socket_leaves_it_open(quick, sent):
    assert until(lambda: no_sockets(quick))
    sock, _ = handshake(quick)
    with sock:
        sock.sendall(frame(1, sent) + OPEN + text_frame({"type": "push", "text": "ab"}))
        kind, payload = read_frame(sock)
        answer = json.loads(payload)
        assert kind == 1
        assert answer["type"] == "problem"
        assert answer["status"] in (400, 404, 422)
        assert json.loads(read_frame(sock)[1])["type"] == "opened"
        assert json.loads(read_frame(sock)[1])["type"] == "update"


def test_mistakes_within_a_stream_do_not_end_it(quick):
    assert until(lambda: no_sockets(quick))
    sock, _ = handshake(quick)
    with sock:
        bad = [
            {"type": "push"},
            {"type": "push", "text": "a" * 501},
            {"type": "push", "text": "a\n"},
            {"type": "push", "text": 1},
        ]
        good = [{"type": "push", "text": "ab"}, {"type": "push", "text": "c"}, {"type": "finish"}]
        for message in ({"type": "open"}, good[0], *bad, good[1]):
            sock.sendall(text_frame(message))
        sock.sendall(frame(2, b"binary") + text_frame(good[2]))
        found = [json.loads(read_frame(sock)[1]) for _ in range(9)]
        assert [one["type"] for one in found] == ["opened", "update", *["problem"] * 4, "update", "problem", "end"]
        assert "".join(one.get("committed", "") for one in found) == "gabc"


@pytest.mark.parametrize(
    ("sent", "codes"),
    [
        (frame(1, b"\xff\xfe"), {1007}),
        (frame(1, b"x" * 100_001), {1009}),
        (frame(1, b"x" * 60_000, fin=False) + frame(0, b"x" * 60_000), {1009}),
        (frame(0, b"x"), {1002}),
        (b"\xf1\x80\0\0\0\0", {1002}),  # reserved bits
        (b"\x81\x01x", {1002}),  # not masked
        (frame(8, b"\x03\xe8"), {1000}),
        (frame(8, b"\x00\x01"), {1002}),
    ],
    ids=["utf-8", "large", "fragments", "continuation", "bits", "mask", "close", "code"],
)
def test_frames_that_are_wrong_end_the_socket(quick, sent, codes):
    assert until(lambda: no_sockets(quick))
    sock, _ = handshake(quick)
    with sock:
        sock.sendall(sent)
        _, code = conversation(sock)
        assert code in codes
    assert quick.is_well()


def test_fragments_without_end_are_cut_off(quick):
    assert until(lambda: no_sockets(quick))
    sock, _ = handshake(quick)
    with sock:
        sock.sendall(OPEN + frame(1, b"{", fin=False))
        with contextlib.suppress(ConnectionError):
            for _ in range(50):
                sock.sendall(frame(0, b"", fin=False) * 1000)
            _, code = conversation(sock)
            assert code == 1009
    assert quick.is_well()


def test_sockets_that_say_nothing_or_nothing_useful_are_closed(quick):
    assert until(lambda: no_sockets(quick))
    sock, _ = handshake(quick)
    with sock:  # never opens a stream
        messages, code = conversation(sock)
        assert code == 1001
        assert (messages[0]["type"], messages[0]["status"]) == ("problem", 408)
    sock, _ = handshake(quick)
    with sock:  # nor does this one, however often it says something
        begun = time.monotonic()
        with contextlib.suppress(ConnectionError):
            while time.monotonic() < begun + 20:
                sock.sendall(text_frame({"type": "finish"}))
                time.sleep(0.2)
        assert time.monotonic() - begun < 20
    sock, _ = handshake(quick)
    with sock:
        sock.sendall(OPEN + text_frame({"type": "push", "text": "ab"}))
        messages, code = conversation(sock)
        assert code == 1001
        assert [one["type"] for one in messages] == ["opened", "update", "problem"]
    assert until(lambda: no_sockets(quick))


def test_more_sockets_than_allowed_get_503(quick):
    assert until(lambda: no_sockets(quick))
    socks = [handshake(quick)[0] for _ in range(QUICK["max_streams"])]
    sock, raw = handshake(quick)
    assert status_of(raw) == 503
    assert "max_streams" in detail_of(raw)
    assert b"retry-after: 5" in raw.lower()
    for one in socks:
        one.close()
    assert until(lambda: no_sockets(quick))
    sock, raw = handshake(quick)
    assert status_of(raw) == 101
    sock.close()


@pytest.mark.parametrize(
    "origin",
    ["https://evil.example", "null", "http://[", "http://127.0.0.1", "//127.0.0.1:{port}.evil.example", "\xff"],
)
def test_pages_of_other_sites_cannot_open_a_socket(quick, origin):
    _, raw = handshake(quick, f"Origin: {origin.format(port=quick.port)}\r\n")
    assert status_of(raw) in (403, 400), raw
    assert quick.is_well()
    assert not [line for line in quick.lines() if "Traceback" in line]


def test_a_page_whose_name_means_this_machine_cannot(quick):
    _, raw = handshake(quick, f"Origin: http://evil.example:{quick.port}\r\n", host=f"evil.example:{quick.port}")
    assert status_of(raw) == 421
    assert "--allow-host" in detail_of(raw)


def test_our_own_page_can(quick):
    assert until(lambda: no_sockets(quick))
    sock, raw = handshake(quick, f"Origin: http://127.0.0.1:{quick.port}\r\n")
    assert status_of(raw) == 101
    sock.close()
    sock, raw = handshake(quick, path="/v1/other")
    assert status_of(raw) in (403, 404)


def test_a_socket_that_never_reads_is_dropped_and_slows_nobody(quick):
    assert until(lambda: no_sockets(quick))
    before = quick.memory()
    sock, _ = handshake(quick, buffer=4096)
    with sock:
        sock.settimeout(30)
        message = {"type": "push", "text": "a"}
        sock.sendall(OPEN)
        with contextlib.suppress(ConnectionError, TimeoutError):
            for _ in range(300):
                sock.sendall(text_frame(message) + frame(9, b"x" * 125) * 2000)  # pings want answers too
        assert until(lambda: no_sockets(quick), 40)
        assert quick.is_well()
    assert quick.memory() - before < 60_000_000


def test_logs_are_json_lines_whatever_clients_send(quick):
    nasty = [
        b"GET /\x1b[31m HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /%0a%7b%22event%22:1%7d HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
        b"GET /?a=%0d%0a\xff HTTP/1.1\r\nHost: \x1b[0m\r\nConnection: close\r\n\r\n",
        b'POST /v1/transduce HTTP/1.1\r\nHost: localhost\r\nX: "\xe2\x80\xa8\xff"\r\nConnection: close\r\n\r\n',
        b'MKCOL / HTTP/1.1\r\nHost: localhost\r\nUser-Agent: {"event": 1}\r\nConnection: close\r\n\r\n',
    ]
    for sent in nasty:
        with quick.connect() as sock:
            sock.sendall(sent)
            received(sock)
    for path in ("/v1/stream?x=%0a%1b[31m", '/v1/%0aother?"}{', "/v1/stream?\u00e9"):
        sock, _ = handshake(quick, "X: \x1b[31m\r\n", path=path)
        sock.close()
    assert quick.is_well()
    lines = quick.lines()
    assert lines
    for line in lines:
        record = json.loads(line)
        assert {"time", "level", "event"} <= record.keys()
        assert line.isascii()
        assert line.isprintable()
    assert not [line for line in lines if json.loads(line)["level"] == "error"]
