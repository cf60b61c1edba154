"""Streams over WebSockets: the same as the library's, however many there are at once."""

from __future__ import annotations

import asyncio
import json
import math
import random
from typing import Any

import pytest
import torch
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from serving import PRS, PST, measure, served, settings_of, transducers, until
from ssnt.dp import AlignmentDistribution
from ssnt.errors import ModelError
from ssnt.pipeline import StreamAnswer, TextUpdate, Transducer
from ssnt.serve import make_app
from ssnt.serve.lattice import LiveLattice
from ssnt.types import EOS_ID, Batch

from conftest import require

websockets = require("websockets", "many sockets at once")

TEXTS = ["abc", "", "a", "fadecafe", "aZ\U0001f600b", "e\u0301ae\u0301", "bcde fa#c dé", "a b c"]
CLOSE = pytest.approx


def cut(text: str, generator: random.Random) -> list[str]:
    """A text in pieces, some of them empty."""
    places = sorted(generator.randint(0, len(text)) for _ in range(generator.randint(0, 5)))
    return [text[begin:end] for begin, end in zip([0, *places], [*places, len(text)], strict=True)]


def fields(update: Any) -> dict[str, Any]:
    return {
        "read": update.read,
        "committed": update.committed,
        "tentative": update.tentative,
        "symbols": list(update.symbols),
        "delays": list(update.delays),
        "written": list(update.written),
        "tentative_symbols": list(update.tentative_symbols),
    }


def expected(transducer: Transducer, pieces: list[str], tags: list[str] | None, **settings: Any) -> list[Any]:
    """What the library says to the same pieces."""
    stream = transducer.stream(tags, **settings)
    found = [{"type": "update", **fields(stream.push(piece))} for piece in pieces]
    end = {"type": "end", **fields(stream.finish())}
    if stream.log_prob is None:  # it has read nothing
        end |= {"log_prob": None, "probability": None}
    else:
        chance = math.exp(stream.log_prob)
        end |= {"log_prob": CLOSE(stream.log_prob, abs=1e-4), "probability": CLOSE(chance, abs=1e-4)}
    end |= {"is_complete": stream.is_complete, "unknown": stream.unknown}
    return [*found, end]


def converse(socket: Any, pieces: list[str], **wanted: Any) -> list[Any]:
    socket.send_json({"type": "open", **wanted})
    assert socket.receive_json()["type"] == "opened"
    found = []
    for message in [*({"type": "push", "text": piece} for piece in pieces), {"type": "finish"}]:
        socket.send_json(message)
        found.append(socket.receive_json())
    return found


def without_outputs(answers: list[Any]) -> list[Any]:
    """The answers less what the library's own stream does not tell."""
    *updates, end = answers
    outputs = end.pop("outputs")
    if outputs:
        assert outputs[0]["text"] == "".join(one["committed"] for one in answers)
        assert outputs[0]["log_prob"] == end["log_prob"]
        assert [one["log_prob"] for one in outputs] == sorted((one["log_prob"] for one in outputs), reverse=True)
    return [*updates, end]


@pytest.fixture(scope="module")
def client() -> Any:
    with TestClient(make_app(served("copy", "tagged", "whole", "per tag"), settings_of({}))) as found:
        yield found


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"beam": 1},
        {"max_delay": 0},
        {"max_delay": 2, "merge": "max"},
        {"emit_threshold": 0.5},
        {"end": "any", "beam": 8},
    ],
    ids=str,
)
def test_a_conversation_is_what_the_library_says(client, settings):
    generator = random.Random(1)
    with client.websocket_connect("/v1/stream") as socket:
        for text in TEXTS:
            pieces = cut(text, generator)
            found = without_outputs(converse(socket, pieces, model="copy", **settings))
            assert found == expected(transducers()["copy"], pieces, None, **settings)


def test_tags_and_tag_sets(client):
    with client.websocket_connect("/v1/stream") as socket:
        for tags in (["X"], [], ["X", "ODD"]):
            found = without_outputs(converse(socket, ["ab", "c"], model="tagged", tags=tags))
            assert found == expected(transducers()["tagged"], ["ab", "c"], tags)
        for tags in (PST, PRS):
            found = without_outputs(converse(socket, ["ab", "c"], model="per tag", tags=list(tags)))
            assert found == expected(transducers()["per tag"].models[tags], ["ab", "c"], None)
        socket.send_json({"type": "open", "model": "per tag", "tags": ["PL"]})
        answer = socket.receive_json()
        assert (answer["type"], answer["status"]) == ("problem", 422)
        assert "PL" in answer["detail"]


def test_a_model_that_reads_everything_first_is_refused(client):
    with client.websocket_connect("/v1/stream") as socket:
        socket.send_json({"type": "open", "model": "whole"})
        answer = socket.receive_json()
        assert (answer["type"], answer["status"]) == ("problem", 422)
        assert without_outputs(converse(socket, ["ab"], model="copy")) == expected(transducers()["copy"], ["ab"], None)


def test_settings_that_do_not_go_together_are_refused(client):
    with client.websocket_connect("/v1/stream") as socket:
        for wrong in ({"beam": 33}, {"emit_threshold": 1.5}, {"emit_threshold": 0.5, "beam": 4}, {"model": None}):
            socket.send_json({"type": "open", "model": "copy", **wrong})
            assert socket.receive_json()["status"] == 422
        socket.send_json({"type": "push", "text": "a"})
        assert "no open stream" in socket.receive_json()["detail"]
        socket.send_json({"type": "x" * 50_000})
        assert len(str(socket.receive_json())) < 1000


def open_streams(client: Any) -> float:
    return measure(client.get("/metrics").text, "ssnt_open_streams")


def test_streams_are_abandoned_reopened_and_let_go(client):
    assert until(lambda: open_streams(client) == 0)
    with client.websocket_connect("/v1/stream") as socket:
        socket.send_json({"type": "open", "model": "copy"})
        socket.receive_json()
        socket.send_json({"type": "push", "text": "abcdef"})
        socket.receive_json()
        assert open_streams(client) == 1
        pieces = ["fa", "de"]  # a new one knows nothing of the first
        assert without_outputs(converse(socket, pieces, model="copy")) == expected(transducers()["copy"], pieces, None)
        assert open_streams(client) == 0
        for message in ({"type": "push", "text": "a"}, {"type": "finish"}):
            socket.send_json(message)
            answer = socket.receive_json()
            assert (answer["type"], answer["status"]) == ("problem", 422)
        socket.send_json({"type": "open", "model": "copy"})
        socket.receive_json()
        socket.send_json({"type": "push", "text": "abc"})  # and leaves without waiting
    assert until(lambda: open_streams(client) == 0)
    service = client.app.state.service
    pools = service.pools._pools.values()
    assert until(lambda: all(len(pool.streams) == 0 for pool in pools))


def test_a_stream_reads_so_much_and_no_more():
    app = make_app(served("copy"), settings_of({"limits": {"max_stream_length": 5}}))
    with TestClient(app) as client, client.websocket_connect("/v1/stream") as socket:
        socket.send_json({"type": "open"})
        socket.receive_json()
        for text, kind in (("abc", "update"), ("abc", "problem"), ("de", "update"), ("f", "problem"), ("", "update")):
            socket.send_json({"type": "push", "text": text})
            assert socket.receive_json()["type"] == kind
        socket.send_json({"type": "finish"})
        assert socket.receive_json()["outputs"][0]["text"] == "gabcde"


def test_a_token_comes_with_the_first_message_or_the_head():
    with TestClient(make_app(served("copy"), settings_of({"token": "T"}))) as client:
        for first in ({"type": "open"}, {"type": "open", "token": "wrong"}):
            with client.websocket_connect("/v1/stream") as socket:
                socket.send_json(first)
                assert socket.receive_json()["status"] == 401
                with pytest.raises(WebSocketDisconnect) as closed:
                    socket.receive_json()
                assert closed.value.code == 1008
        with client.websocket_connect("/v1/stream") as socket:
            assert converse(socket, ["abc"], token="T")[-1]["type"] == "end"
            assert converse(socket, ["abc"])[-1]["type"] == "end"  # once is enough
        with client.websocket_connect("/v1/stream", headers={"authorization": "Bearer T"}) as socket:
            assert converse(socket, ["abc"])[-1]["type"] == "end"
        refused = pytest.raises(Exception)  # noqa: PT011 - of whatever class the client's is
        with refused as told, client.websocket_connect("/v1/stream", headers={"authorization": "Bearer no"}):
            pass
        assert getattr(told.value, "status_code", None) == 401


# The lattice.


def true_rows(transducer: Transducer, source: str, target: list[str], tags: list[str], end: str, **how: bool) -> Any:
    """P(a_j = i | x, y) of what has been read and written, computed at once."""
    vocabulary = transducer.vocabulary
    numbers = [*vocabulary.source.numbers(vocabulary.split_source(source))] + ([EOS_ID] if how["is_end"] else [])
    written = [*vocabulary.target.numbers(target)] + ([EOS_ID] if how["is_complete"] else [])
    features = torch.tensor([vocabulary.tag_numbers(tags)[0]]) if transducer.has_tags else None
    sizes = torch.tensor([len(numbers)]), torch.tensor([len(written)])
    batch = Batch(torch.tensor([numbers]), sizes[0], torch.tensor([written]), sizes[1], features)
    with torch.no_grad():
        grid = transducer.model.grid(batch)
        distribution = AlignmentDistribution.of(grid, end=end if how["is_complete"] else "any")
        return distribution.posteriors().emit[0].T, distribution.viterbi()[0].positions


@pytest.mark.parametrize(("name", "tags"), [("copy", []), ("tagged", ["X"])])
@pytest.mark.parametrize("settings", [{}, {"max_delay": 1}, {"emit_threshold": 0.5}, {"end": "any"}], ids=str)
def test_the_lattice_is_exact_at_every_step(client, name, tags, settings):
    transducer, generator = transducers()[name], random.Random(2)
    with client.websocket_connect("/v1/stream") as socket:
        for text in ("fadecafe", "a", "abcde fab", "bd"):
            rows: list[list[float]] = []
            answers = converse(socket, cut(text, generator), model=name, tags=tags, lattice=True, **settings)
            committed: list[str] = []
            compared = 0
            for answer in answers:
                lattice = answer["lattice"]
                committed += answer["symbols"]
                target = committed + answer["tentative_symbols"]
                rows = rows[: lattice["first"]] + lattice["rows"]
                read = lattice["source_symbols"]
                assert read == list(text[: answer["read"]])
                assert lattice["target_symbols"] == target
                is_end = answer["type"] == "end"
                assert len(rows) == len(read) + is_end
                if not read or not target:
                    assert not any(rows)
                    continue
                how = {"is_end": is_end, "is_complete": is_end and answer["is_complete"]}
                end = settings.get("end", "last")
                exact, path = true_rows(transducer, "".join(read), target, tags, end, **how)
                found = torch.tensor([row + [0.0] * (exact.shape[1] - len(row)) for row in rows])
                torch.testing.assert_close(found, exact.float(), atol=2e-5, rtol=1e-4)
                assert lattice["path"] == list(path)
                compared += 1
            assert compared >= 1


def test_a_lattice_ends_where_it_would_be_too_large():
    app = make_app(served("copy"), settings_of({"limits": {"max_lattice_cells": 20}}))
    with TestClient(app) as client, client.websocket_connect("/v1/stream") as socket:
        found = converse(socket, list("abcdefab"), lattice=True)
        sent = [one["lattice"] is not None for one in found]
        assert sent == sorted(sent, reverse=True)
        assert any(sent)
        assert not all(sent)
        assert "lattice" not in converse(socket, ["abc"])[0]
        assert converse(socket, ["a"], lattice=True)[-1]["lattice"]["rows"]  # a new stream has one again


def test_a_lattice_of_nothing_written_ends_too():
    """What is read is sent each time, which must not go on for ever."""
    lattice = LiveLattice(transducers()["copy"], (), "last", 20)
    nothing = TextUpdate("", "", (), (), (), 1)
    news = [lattice.news(StreamAnswer(1, nothing, (5,), ("a",), (), ())) for _ in range(30)]
    assert all(one is not None for one in news[:20])
    assert not any(one is not None for one in news[20:])
    assert lattice.source == []


# When something is broken.


class BrokenError(Exception):
    pass


@pytest.mark.parametrize("error", [BrokenError("x"), ModelError("x")], ids=lambda one: type(one).__name__)
@pytest.mark.parametrize("where", ["step", "feed"])
def test_a_defect_ends_the_streams_that_wait_and_leaves_the_rest(monkeypatch, where, error):
    with TestClient(make_app(served("copy"), settings_of({}))) as client:
        with client.websocket_connect("/v1/stream") as calm, client.websocket_connect("/v1/stream") as unlucky:
            for socket in (calm, unlucky):
                socket.send_json({"type": "open"})
                socket.receive_json()
            calm.send_json({"type": "push", "text": "ab"})
            first = calm.receive_json()
            (pool,) = client.app.state.service.pools._pools.values()
            with monkeypatch.context() as broken:
                broken.setattr(pool.streams, where, lambda *_: (_ for _ in ()).throw(error))
                unlucky.send_json({"type": "push", "text": "ab"})
                answer = unlucky.receive_json()
            if where == "feed" and isinstance(error, ModelError):
                assert answer["status"] == 422  # nothing was read: a mistake of this message
            else:
                assert answer["status"] == 500  # never a mistake: what was written is lost
                assert unlucky.receive()["type"] == "websocket.close"
            calm.send_json({"type": "push", "text": "c"})
            second = calm.receive_json()
            calm.send_json({"type": "finish"})
            assert "".join(one["committed"] for one in (first, second, calm.receive_json())) == "gabc"
        assert until(lambda: open_streams(client) == 0)
        assert until(lambda: len(pool.streams) == 0)


@pytest.mark.parametrize("error", [BrokenError("x"), ModelError("x")], ids=lambda one: type(one).__name__)
def test_a_lattice_that_fails_ends_its_own_stream_alone(monkeypatch, error):
    with TestClient(make_app(served("copy"), settings_of({}))) as client:
        with client.websocket_connect("/v1/stream") as calm, client.websocket_connect("/v1/stream") as unlucky:
            for socket, has_lattice in ((calm, False), (unlucky, True)):
                socket.send_json({"type": "open", "lattice": has_lattice})
                socket.receive_json()
            monkeypatch.setattr(LiveLattice, "news", lambda *_: (_ for _ in ()).throw(error))
            unlucky.send_json({"type": "push", "text": "ab"})
            assert unlucky.receive_json()["status"] == 500
            calm.send_json({"type": "push", "text": "ab"})
            assert calm.receive_json()["type"] == "update"
        assert until(lambda: open_streams(client) == 0)


# Many at once, with real sockets.


async def talk(port: int, generator: random.Random) -> None:
    """One client: some streams, compared with the library."""
    async with websockets.connect(f"ws://127.0.0.1:{port}/v1/stream") as socket:
        for _ in range(2):
            text = "".join(generator.choice("abcdefZé #") for _ in range(generator.randint(0, 9)))
            pieces = cut(text, generator)
            settings = generator.choice([{}, {"max_delay": 1}])
            messages = [{"type": "open", **settings}, *({"type": "push", "text": piece} for piece in pieces)]
            found = []
            for message in [*messages, {"type": "finish"}]:
                await socket.send(json.dumps(message))
                found.append(json.loads(await socket.recv()))
                await asyncio.sleep(generator.random() * 0.02)
            assert without_outputs(found[1:]) == expected(transducers()["copy"], pieces, None, **settings)


@pytest.mark.slow
def test_many_sockets_at_once(server):
    async def run() -> None:
        await asyncio.gather(*(talk(server.port, random.Random(number)) for number in range(40)))

    asyncio.run(run())
    assert until(lambda: server.measure("ssnt_open_streams") == 0)
    assert server.measure("ssnt_open_sockets") == 0
    steps, streams = server.measure("ssnt_stream_step_size_count"), server.measure("ssnt_stream_step_size_sum")
    assert streams > 1.5 * steps  # they are stepped together


@pytest.mark.slow
def test_sockets_that_vanish_free_their_streams(server):
    async def vanish(number: int) -> None:
        socket = await websockets.connect(f"ws://127.0.0.1:{server.port}/v1/stream")
        await socket.send(json.dumps({"type": "open", "lattice": number % 2 == 0}))
        await socket.recv()
        await socket.send(json.dumps({"type": "push", "text": "abcdef" * 50}))
        if number % 3 == 0:
            await socket.recv()
        socket.transport.abort()

    async def run() -> None:
        await asyncio.gather(*(vanish(number) for number in range(30)))

    asyncio.run(run())
    assert until(lambda: server.measure("ssnt_open_streams") == 0, 60)
    assert until(lambda: server.measure("ssnt_open_sockets") == 0)
    assert server.is_well()
    assert not [line for line in server.lines() if '"error"' in line]
