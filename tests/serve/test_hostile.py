"""Bad input and hostile clients: a proper answer, bounded memory, and others are served."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from serving import PROBLEM, client_of, served, service, settings_of
from ssnt.serve import make_app

TRANSDUCE = "/v1/transduce"
DEEP = 100_000


def post_raw(bodies: list[bytes], path: str = TRANSDUCE, **settings: Any) -> list[Any]:
    """Bodies as they are, to a service in this process."""

    async def run() -> list[Any]:
        async with service("copy", **settings) as client:
            headers = {"content-type": "application/json"}
            return [await client.post(path, content=body, headers=headers) for body in bodies]

    return asyncio.run(run())


def is_problem(answer: Any, *statuses: int) -> bool:
    """Whether an answer describes a problem, as RFC 9457 says."""
    body = answer.json()
    return (
        answer.status_code in statuses
        and answer.headers["content-type"] == PROBLEM
        and body["status"] == answer.status_code
        and {"type", "title", "detail"} <= body.keys()
    )


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"nonsense",
        b"\x00",
        b"\xff\xfe{}",
        b'{"inputs": ["\xff"]}',
        b'{"inputs": ["a"]} {"inputs": ["a"]}',
        b'{"inputs": ["a"],}',
        b"{'inputs': ['a']}",
        b'{"inputs": ["\\ud800"]}',
        b'{"inputs": ["\\udc00\\ud800"]}',
        b'{"inputs": ["\\ud83dx"]}',
        b"[" * DEEP,
        b"[" * DEEP + b"]" * DEEP,
        b'{"inputs":' * DEEP,
        b'{"inputs": ["a"], "beam": ' + b"9" * 5000 + b"}",
        b'{"inputs": ["a"], "beam": 1e}',
        b'{"inputs": ["a"], "length_normalisation": -}',
    ],
    ids=lambda body: repr(body[:30]),
)
def test_what_is_not_json_is_400(body):
    (answer,) = post_raw([body])
    assert is_problem(answer, 400, 422), answer.text
    assert len(answer.content) < 2000


@pytest.mark.parametrize(
    "change",
    [
        {"beam": 10**400},
        {"beam": -(10**400)},
        {"nbest": 2**63},
        {"max_length": 2**64},
        {"beam": 1.5},
        {"beam": "4"},
        {"beam": True},
        {"beam": None, "nbest": None},
        {"beam": [4]},
        {"length_normalisation": "1"},
        {"length_normalisation": -0.1},
        {"length_normalisation": 10.1},
        {"search": "greedy"},
        {"search": 1},
        {"end": "first"},
        {"copy_unknown": 1},
        {"alignments": "yes"},
        {"posteriors": None},
        {"model": 1},
        {"model": ["copy"]},
        {"model": "x" * 201},
        {"inputs": "abc"},
        {"inputs": None},
        {"inputs": {"text": "abc"}},
        {"inputs": [1]},
        {"inputs": [None]},
        {"inputs": [["abc"]]},
        {"inputs": [{}]},
        {"inputs": [{"text": 1}]},
        {"inputs": [{"text": "abc", "tags": "X"}]},
        {"inputs": [{"text": "abc", "tags": [1]}]},
        {"inputs": [{"text": "abc", "tags": [""]}]},
        {"inputs": [{"text": "abc", "tags": ["a\nb"]}]},
        {"inputs": [{"text": "abc", "more": 1}]},
        {"inputs": ["a\x00b"]},
        {"inputs": ["a\nb"]},
        {"inputs": ["a\x1b[31mb"]},
        {"inputs": ["a\x7fb"]},
        {"inputs": ["a\x85b"]},
        {"inputs": ["a\u2028b"]},
        {"unknown": 1},
        {"x" * 10_000: 1},
        {"\x1b[31m\n": 1},
        {"__proto__": 1},
    ],
    ids=lambda change: repr(change)[:40],
)
def test_wrong_types_and_values_are_422(change):
    (answer,) = post_raw([json.dumps({"inputs": ["abc"]} | change).encode()])
    assert is_problem(answer, 422), answer.text
    assert answer.json()["errors"]
    assert len(answer.content) < 5000
    assert "\x1b" not in answer.text


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999"])
def test_numbers_that_are_none_are_refused(number):
    bodies = [b'{"inputs": ["a"], "length_normalisation": %s}', b'{"inputs": ["a"], "beam": %s}']
    for answer in post_raw([body % number.encode() for body in bodies]):
        assert is_problem(answer, 400, 422)
    pair = b'{"pairs": [{"input": "a", "output": "b"}], "link_threshold": %s}' % number.encode()
    for answer in post_raw([pair], "/v1/align"):
        assert is_problem(answer, 400, 422)


@pytest.mark.parametrize("body", [b"null", b"[]", b'"a"', b"1", b"true", b"{}"])
@pytest.mark.parametrize("path", ["/v1/transduce", "/v1/align", "/v1/score"])
def test_other_json_is_422(path, body):
    (answer,) = post_raw([body], path)
    assert is_problem(answer, 422)


def test_only_so_many_mistakes_are_told():
    (answer,) = post_raw([json.dumps({"inputs": [1] * 200}).encode()])
    assert is_problem(answer, 422)
    assert len(answer.json()["errors"]) == 20


@pytest.mark.parametrize(
    "kind", [None, "text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "application/jsonx", ""]
)
def test_a_wrong_content_type_is_415(kind):
    async def run() -> Any:
        async with service("copy") as client:
            headers = {} if kind is None else {"content-type": kind}
            return await client.post(TRANSDUCE, content=b'{"inputs": ["a"]}', headers=headers)

    assert is_problem(asyncio.run(run()), 415)


def test_a_content_type_may_have_parameters():
    async def run() -> Any:
        async with service("copy") as client:
            headers = {"content-type": "Application/JSON; charset=utf-8"}
            return await client.post(TRANSDUCE, content=b'{"inputs": ["a"]}', headers=headers)

    assert asyncio.run(run()).status_code == 200


def test_wrong_methods_and_paths():
    async def run() -> None:
        async with service("copy") as client:
            for method in ("GET", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"):
                answer = await client.request(method, TRANSDUCE)
                assert is_problem(answer, 405)
                assert answer.headers["allow"] == "POST"
            for path in (
                "/page/..%2fapp.py",
                "/page/../app.py",
                "/page/%2e%2e/app.py",
                "/page/....//app.py",
                "/page//etc/passwd",
                "/page/%2fetc%2fpasswd",
                "/page/index.html%00.js",
                "/page/__init__.py",
                "/page/",
                "/page/.",
                "/page/index.html/../../run.py",
                "/v1/",
                "/v2/transduce",
                "/%f0%9f%98%80",
                "/%ff",
                "/" + "a" * 10_000,
            ):
                assert is_problem(await client.get(path), 404), path
            assert (await client.get("/page/index.html")).status_code == 200

    asyncio.run(run())


def test_bodies_beyond_the_limit_are_413():
    limits = {"max_body_bytes": 1000}

    async def chunks() -> Any:
        for _ in range(100):
            yield b" " * 100

    async def run() -> None:
        async with service("copy", limits=limits) as client:
            headers = {"content-type": "application/json"}
            text = json.dumps({"inputs": ["a"]}).encode()
            edge = text + b" " * (1000 - len(text))
            assert (await client.post(TRANSDUCE, content=edge, headers=headers)).status_code == 200
            assert is_problem(await client.post(TRANSDUCE, content=edge + b" ", headers=headers), 413)
            assert is_problem(await client.post(TRANSDUCE, content=chunks(), headers=headers), 413)
            for path in ("/v1/models", "/nothing", "/healthz"):  # wherever it goes
                assert is_problem(await client.request("GET", path, content=b" " * 1001), 413)

    asyncio.run(run())


def test_posteriors_of_more_than_a_limit_are_refused():
    async def run() -> None:
        async with service("copy", limits={"max_posterior_cells": 100}) as client:
            pair = {"input": "a" * 9, "output": "b" * 9}
            for path, good, bad in (
                (TRANSDUCE, {"inputs": ["a" * 9]}, {"inputs": ["a" * 9], "nbest": 2}),
                (TRANSDUCE, {"inputs": ["aaaa"] * 4}, {"inputs": ["aaaa"] * 5}),
                (TRANSDUCE, {"inputs": ["a"], "max_length": 49}, {"inputs": ["a"], "max_length": 50}),
                ("/v1/align", {"pairs": [pair]}, {"pairs": [pair, {"input": "a", "output": ""}]}),
            ):
                more = {"posteriors": True}
                assert (await client.post(path, json=good | more)).status_code == 200
                answer = await client.post(path, json=bad | more)
                assert is_problem(answer, 422)
                assert "max_posterior_cells" in answer.json()["detail"]
                assert (await client.post(path, json=bad | {"posteriors": False})).status_code == 200

    asyncio.run(run())


def test_a_defect_is_told_without_its_details(monkeypatch):
    app = make_app(served("copy"), settings_of({}))

    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("the secret of /etc/passwd")

    monkeypatch.setattr(type(served("copy")[0].transducer), "score_each", fail)

    async def run() -> None:
        async with client_of(app) as client:
            answer = await client.post("/v1/score", json={"pairs": [{"input": "a", "output": "b"}]})
            assert is_problem(answer, 500)
            assert "secret" not in answer.text
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert (await client.post(TRANSDUCE, json={"inputs": ["abc"]})).status_code == 200

    asyncio.run(run())


def test_metrics_do_not_grow_with_what_clients_send():
    async def run() -> None:
        async with service("copy") as client:

            async def ask(number: int) -> None:
                for path in (f"/p{number}", f"/page/{number}", f"/v1/{number}"):
                    await client.request(f"M{number}", path)
                    await client.get(path)
                await client.post(TRANSDUCE, json={"model": f"m{number}", "inputs": ["a"]})

            for number in range(5):
                await ask(number)
            await client.get("/metrics")
            before = len((await client.get("/metrics")).text.splitlines())
            for number in range(5, 40):
                await ask(number)
            after = len((await client.get("/metrics")).text.splitlines())
            assert after == before

    asyncio.run(run())
