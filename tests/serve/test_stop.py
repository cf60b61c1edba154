"""The service stops: what it has accepted is answered first."""

from __future__ import annotations

import http.client
import json
import re
import signal
import subprocess
import threading
import time
from collections import Counter

import pytest

from commands import started
from raw_clients import conversation, handshake, head, received, status_of, text_frame
from serving import Running, running, transducers, until
from ssnt.types import Example

pytestmark = pytest.mark.slow

BODY = json.dumps({"inputs": ["abc", "fade"]}).encode()
TEXTS = ["gabc", "gfade"]


class Client(threading.Thread):
    """Asks again and again, over one connection as long as it is kept, until it is not let in any more."""

    def __init__(self, server: Running, has_stopped: threading.Event) -> None:
        super().__init__()
        self.server = server
        self.has_stopped = has_stopped
        self.seen: Counter[str] = Counter()
        self.errors: list[str] = []

    def run(self) -> None:
        while True:
            was_stopping = self.has_stopped.is_set()
            connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60)
            try:
                connection.connect()
            except OSError:
                self.seen["not let in"] += 1
                return
            try:
                if not self.ask(connection, was_stopping):
                    return
            finally:
                connection.close()

    def ask(self, connection: http.client.HTTPConnection, was_stopping: bool) -> bool:
        """Whether to connect again."""
        for number in range(1_000_000):
            try:
                connection.request("POST", "/v1/transduce", BODY, {"Content-Type": "application/json"})
                answer = connection.getresponse()
                found = json.loads(answer.read())
            except (OSError, http.client.HTTPException, ValueError) as error:
                if number == 0 and was_stopping:  # the door was closed before the server had seen this one
                    self.seen["not let in"] += 1
                else:
                    self.errors.append(f"request {number} of a connection: {error!r}")
                return False
            self.seen[str(answer.status)] += 1
            if [one["outputs"][0]["text"] for one in found.get("results", [])] != TEXTS:
                self.errors.append(f"{answer.status}: {found}")
            if answer.getheader("connection") == "close":
                return True
        return False


@pytest.mark.parametrize("numbers", [(signal.SIGTERM,), (signal.SIGTERM, signal.SIGTERM)], ids=str)
def test_everything_that_was_accepted_is_answered(served_models, numbers):
    has_stopped = threading.Event()
    with running(served_models, "copy") as server:
        clients = [Client(server, has_stopped) for _ in range(32)]
        for client in clients:
            client.start()
        assert until(lambda: sum(client.seen["200"] for client in clients) > 200, 60)
        has_stopped.set()
        for number in numbers:
            server.process.send_signal(number)
            time.sleep(0.05)
        code = server.process.wait(60)
        for client in clients:
            client.join(60)
        assert code == 0
        assert [error for client in clients for error in client.errors] == []
        assert {status for client in clients for status in client.seen} <= {"200", "not let in"}
        events = [json.loads(line) for line in server.lines()]
        answered = sum(one["event"] == "request" and one["status"] == 200 for one in events)
        assert answered == sum(client.seen["200"] for client in clients)
        assert [one["event"] for one in events if one["event"] in ("started", "stopping", "stopped")] == [
            "started",
            "stopping",
            "stopped",
        ]


def test_requests_that_are_on_their_way_are_answered(served_models):
    """One of which the head has come, one of which the body comes slowly, and one that comes just then."""
    with running(served_models, "copy") as server:
        half, slow, idle, silent = (server.connect() for _ in range(4))
        with half, slow, idle, silent:
            idle.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert idle.recv(65536).startswith(b"HTTP/1.1 200")
            half.sendall(head(len(BODY)))
            slow.sendall(head(len(BODY)) + BODY[:10])
            time.sleep(0.3)
            server.process.send_signal(signal.SIGTERM)
            assert until(lambda: any('"stopping"' in line for line in server.lines()), 20)
            idle.sendall(head(len(BODY)) + BODY)
            half.sendall(BODY)
            for place in range(10, len(BODY), 8):
                slow.sendall(BODY[place : place + 8])
                time.sleep(0.2)
            for sock in (half, slow, idle):
                raw = received(sock)
                assert status_of(raw) == 200
                assert b"connection: close" in raw
                assert json.loads(raw.partition(b"\r\n\r\n")[2])["results"][1]["outputs"][0]["text"] == "gfade"
            assert received(silent) == b""
            assert server.process.wait(30) == 0


def test_a_stream_in_the_middle_is_answered_and_closed_properly(served_models):
    text = "abcdef" * 80
    with running(served_models, "copy") as server:
        (busy, _), (idle, _) = handshake(server), handshake(server)
        with busy, idle:
            idle.sendall(text_frame({"type": "open"}))
            busy.sendall(text_frame({"type": "open"}))
            assert until(lambda: server.measure("ssnt_open_streams") == 2)
            pushes = ({"type": "push", "text": text}, {"type": "push", "text": "fa"}, {"type": "finish"})
            busy.sendall(b"".join(map(text_frame, pushes)))  # at once: what has not come when it stops is not answered
            assert until(lambda: server.measure("ssnt_stream_step_size_count") > 0)
            server.process.send_signal(signal.SIGTERM)
            messages, code = conversation(busy)
            assert code == 1012
            assert [one["type"] for one in messages] == ["opened", "update", "update", "end"]
            (expected,) = transducers()["copy"].stream_each([Example(text + "fa")])
            assert "".join(one.get("committed", "") for one in messages) == expected.text
            messages, code = conversation(idle)
            assert code == 1012
            assert [one["type"] for one in messages] == ["opened"]
        assert server.process.wait(30) == 0
        assert not [line for line in server.lines() if json.loads(line)["level"] in ("error", "warning")]


def test_clients_that_will_not_leave_are_left(served_models):
    with (
        running(served_models, "copy", drain_seconds=1.0) as server,
        server.connect() as half,
        handshake(server)[0] as socket,
    ):
        half.sendall(head(1000))  # and never the body
        socket.sendall(text_frame({"type": "open"}))
        time.sleep(0.3)
        begun = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(30) == 0
        assert time.monotonic() - begun < 20


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_command_stops_well(served_models, number):
    model = served_models / "copy"
    if not model.exists():
        transducers()["copy"].save_pretrained(model)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with started("serve", model, "--port", "0", **pipes) as job:
        line = job.stdout.readline().decode()
        found = re.search(r"http://127\.0\.0\.1:(\d+)", line)
        assert found, line
        connection = http.client.HTTPConnection("127.0.0.1", int(found[1]), timeout=60)
        connection.request("POST", "/v1/transduce", BODY, {"Content-Type": "application/json"})
        assert json.loads(connection.getresponse().read())["model"] == "copy"
        connection.close()
        job.send_signal(number)
        out, err = job.communicate(timeout=30)
        assert job.returncode == 0, err
        assert all(json.loads(line)["event"] for line in err.decode().splitlines())
        assert out == b""
