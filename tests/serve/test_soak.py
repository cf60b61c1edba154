"""A service that works for ten minutes needs no more memory at the end than after the first one.

``make soak`` runs it: it takes longer than all other tests together, so nothing else does.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from benchmarks.load import HttpClient, Server, SocketClient, open_connection, open_socket, post, run, served

from transducers import LETTERS, copying_transducer

from conftest import require

require("fastapi", "the service")

MINUTES = float(os.environ.get("SSNT_SOAK") or 0)
ALLOWED = 20e6
CLIENTS = 24
STREAMS = 100

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not MINUTES, reason="takes ten minutes: make soak, or SSNT_SOAK=10 for so many minutes"),
]


@dataclass
class Soak:
    """What has been done until now.

    Attributes:
        address: Where the service is.
        until: When to stop.
        counts: How often what was done.
    """

    address: str
    until: float
    counts: dict[str, int] = field(default_factory=dict)

    @property
    def goes_on(self) -> bool:
        return time.monotonic() < self.until

    def count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1


def _word(chance: random.Random, longest: int = 8) -> str:
    """Letters of which no two neighbours are the same: the model has learnt to copy such words."""
    word = ""
    for _ in range(chance.randint(1, longest)):
        word += chance.choice([letter for letter in LETTERS if letter not in word[-1:]])
    return word


# ---- requests


async def _ask(client: HttpClient, path: str, **body: Any) -> dict[str, Any]:
    answer = await client.ask(post(path, json.dumps(body).encode()))
    assert answer.status == 200, answer
    found: dict[str, Any] = json.loads(answer.body)
    return found


async def _transduce(client: HttpClient, chance: random.Random) -> None:
    words = [_word(chance) for _ in range(chance.choice([1, 1, 1, 2, 8]))]
    found = await _ask(client, "/v1/transduce", inputs=words)
    assert [one["outputs"][0]["text"] for one in found["results"]] == ["g" + word for word in words]


async def _search(client: HttpClient, chance: random.Random) -> None:
    """With settings of which there are many, each a queue of its own."""
    settings = {"beam": chance.randint(4, 16), "nbest": chance.randint(1, 4), "max_length": chance.randint(10, 60)}
    search = chance.choice(["marginal", "path", "online"])
    asked = settings | {"search": search, "posteriors": chance.random() < 0.3}
    await _ask(client, "/v1/transduce", inputs=[_word(chance, chance.choice([8, 60]))], **asked)


async def _align(client: HttpClient, chance: random.Random) -> None:
    word = _word(chance)
    found = await _ask(client, "/v1/align", pairs=[{"input": word, "output": "g" + word}])
    assert len(found["results"][0]["alignment"]) == len(word) + 2


async def _score(client: HttpClient, chance: random.Random) -> None:
    word = _word(chance)
    found = await _ask(client, "/v1/score", pairs=[{"input": word, "output": "g" + word}])
    assert found["results"][0]["probability"] > 0


async def _mistake(client: HttpClient, chance: random.Random) -> None:
    kinds = {b"{": 400, b'{"inputs": []}': 422, b'{"inputs": ["a"], "model": "%d"}' % chance.randint(0, 10**9): 404}
    body = chance.choice(list(kinds))
    answer = await client.ask(post("/v1/transduce", body))
    assert answer.status == kinds[body], answer


async def _look(client: HttpClient, chance: random.Random) -> None:
    path = chance.choice(["/v1/models", "/metrics", "/", "/openapi.json", "/healthz"])
    answer = await client.ask(f"GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
    assert answer.status == 200, answer


async def _requests(soak: Soak, seed: int) -> None:
    """A client that asks whatever comes to its mind, and connects anew now and then."""
    chance = random.Random(seed)
    kinds = [_transduce] * 12 + [_search, _align, _score] * 2 + [_mistake, _look]
    while soak.goes_on:
        client = await open_connection(soak.address)
        for _ in range(chance.randint(1, 200)):
            if soak.goes_on:
                kind = chance.choice(kinds)
                await kind(client, chance)
                soak.count(kind.__name__)
        client.transport.close()


# ---- streams


async def _say(client: SocketClient, **message: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(await client.ask(json.dumps(message).encode()))
    return found


async def _stream(soak: Soak, client: SocketClient, chance: random.Random) -> None:
    """One stream: read to its end, or left in the middle."""
    settings: dict[str, Any] = {"lattice": True} if chance.random() < 0.1 else {}
    if chance.random() < 0.2:
        settings |= {"beam": chance.randint(1, 12), "max_delay": chance.randint(0, 8)}
    assert (await _say(client, type="open", **settings))["type"] == "opened"
    word, written = _word(chance), ""
    for letter in word:
        update = await _say(client, type="push", text=letter)
        assert update["type"] == "update", update
        written += update["committed"]
        await asyncio.sleep(chance.random() * 0.2)
        if chance.random() < 0.02 or not soak.goes_on:
            soak.count("_stream abandoned")
            return
    end = await _say(client, type="finish")
    assert end["type"] == "end", end
    if not settings:
        assert written + end["committed"] == "g" + word
    soak.count("_stream")


async def _streams(soak: Soak, seed: int) -> None:
    """A client that reads stream after stream, and goes without a word now and then."""
    chance = random.Random(seed)
    while soak.goes_on:
        client = await open_socket(soak.address)
        for _ in range(chance.randint(1, 30)):
            if soak.goes_on:
                await _stream(soak, client, chance)
        client.transport.abort()
        soak.count("socket")


# ---- memory


@asynccontextmanager
async def _watched(server: Server, every: float) -> AsyncIterator[list[tuple[float, int]]]:
    """Looks at a server's memory: seconds since the begin, and bytes."""
    begin, found = time.monotonic(), [(0.0, server.resident)]

    async def watch() -> None:
        while True:
            await asyncio.sleep(every)
            found.append((time.monotonic() - begin, server.resident))

    task = asyncio.get_running_loop().create_task(watch())
    try:
        yield found
    finally:
        task.cancel()


async def _soak(server: Server, minutes: float, say: Callable[[str], None]) -> list[tuple[float, int]]:
    soak = Soak(server.address, time.monotonic() + 60 * minutes)
    async with _watched(server, every=1.0) as found, asyncio.TaskGroup() as group:
        for number in range(CLIENTS):
            group.create_task(_requests(soak, number))
        for number in range(STREAMS):
            group.create_task(_streams(soak, 1000 + number))
    say(", ".join(f"{name.lstrip('_')} {count:,d}" for name, count in sorted(soak.counts.items())))
    assert min(soak.counts.get(name, 0) for name in ("_transduce", "_search", "_align", "_score", "_stream")) > 0
    return found


def test_memory_is_flat_after_the_first_minute(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copying_transducer().save_pretrained(tmp_path / "copy")

    def say(text: str) -> None:
        with capsys.disabled():
            print(f"\n{text}", end="", flush=True)

    with served(tmp_path / "copy", tmp_path / "log") as server:
        found = run(_soak(server, MINUTES, say))
    first = min(60.0, MINUTES * 30)
    after = [size for seconds, size in found if seconds >= first]
    parts = [after[k * len(after) // 10] / 1e6 for k in range(10)]
    say(f"start {found[0][1] / 1e6:.0f} MB, from {first:.0f} s: {', '.join(f'{one:.0f}' for one in parts)}")
    say(f"least {min(after) / 1e6:.1f} MB, most {max(after) / 1e6:.1f} MB\n")
    assert max(after) - min(after) <= ALLOWED
