"""Who may ask the service what: limits, token, other sites, and what the service says about itself."""

from __future__ import annotations

import asyncio
import hmac
from typing import Any

import pytest
from starlette.datastructures import Headers

from serving import PROBLEM, client_of, served, service, settings_of
from ssnt.errors import ConfigError
from ssnt.serve import Limits, ServeSettings, is_loopback, make_app
from ssnt.serve.guard import is_same_site
from ssnt.serve.run import _with_own_names


def tagged(*tags: str) -> dict[str, Any]:
    return {"inputs": [{"text": "a", "tags": list(tags)}]}


SMALL = {
    "max_inputs": 3,
    "max_text_length": 5,
    "max_tags": 2,
    "max_tag_length": 4,
    "max_beam": 6,
    "max_nbest": 3,
    "max_output_length": 7,
}


@pytest.mark.parametrize(
    ("good", "bad", "where"),
    [
        ({"inputs": ["a"] * 3}, {"inputs": ["a"] * 4}, "inputs"),
        ({"inputs": ["a" * 5]}, {"inputs": ["a" * 6]}, "inputs[0]"),
        ({"inputs": ["\U0001f600" * 5]}, {"inputs": ["\U0001f600" * 6]}, "inputs[0]"),
        ({"inputs": [{"text": "a" * 5}]}, {"inputs": ["a", {"text": "a" * 6}]}, "inputs[1].text"),
        ({"inputs": ["a"], "beam": 6}, {"inputs": ["a"], "beam": 7}, "beam"),
        ({"inputs": ["a"], "beam": 1}, {"inputs": ["a"], "beam": 0}, "beam"),
        ({"inputs": ["a"], "nbest": 3}, {"inputs": ["a"], "nbest": 4}, "nbest"),
        ({"inputs": ["a"], "max_length": 7}, {"inputs": ["a"], "max_length": 8}, "max_length"),
        ({"inputs": ["a"]}, {"inputs": []}, "inputs"),
        ({"inputs": ["a"]}, {"inputs": [""]}, "inputs[0]"),
        (tagged("abcd", "b"), tagged("a", "b", "c"), "inputs[0].tags"),
        (tagged("abcd"), tagged("abcde"), "inputs[0].tags[0]"),
    ],
)
def test_limits_hold_exactly(good, bad, where):
    async def run() -> None:
        async with service("tagged" if "tags" in where else "copy", limits=SMALL) as client:
            answer = await client.post("/v1/transduce", json=good)
            assert answer.status_code == 200, answer.text
            answer = await client.post("/v1/transduce", json=bad)
            assert answer.status_code == 422
            assert answer.headers["content-type"] == PROBLEM
            assert {"type": "about:blank", "title": "Unprocessable Content", "status": 422}.items() <= {
                **answer.json(),
                "title": answer.json()["title"].replace("Entity", "Content"),
            }.items()
            assert where in {one["where"] for one in answer.json()["errors"]}, answer.text

    asyncio.run(run())


def test_limits_of_pairs_hold_exactly():
    async def run() -> None:
        async with service("copy", limits=SMALL) as client:
            for path in ("/v1/align", "/v1/score"):
                pair = {"input": "a" * 5, "output": "b" * 5}
                assert (await client.post(path, json={"pairs": [pair] * 3})).status_code == 200
                for bad in ([pair] * 4, [], [pair | {"input": "a" * 6}], [pair | {"output": "b" * 6}]):
                    assert (await client.post(path, json={"pairs": bad})).status_code == 422

    asyncio.run(run())


def test_a_token_opens_what_it_guards(monkeypatch):
    compared = []
    original = hmac.compare_digest
    monkeypatch.setattr(hmac, "compare_digest", lambda one, other: compared.append(one) or original(one, other))

    async def run() -> None:
        async with service("copy", token="secret T") as client:
            for path in ("/", "/healthz", "/readyz", "/openapi.json"):
                assert (await client.get(path)).status_code == 200
            for headers in (
                {},
                {"authorization": "Bearer wrong"},
                {"authorization": "Bearer "},
                {"authorization": "Basic secret T"},
                {"authorization": "secret T"},
                {"authorization": "Bearer secret T2"},
                {"authorization": "Bearer s\xe4cret"},
            ):
                raw = {name: value.encode("latin-1") for name, value in headers.items()}
                for path in ("/v1/models", "/metrics", "/v1/nothing"):
                    answer = await client.get(path, headers=raw)
                    assert answer.status_code == 401
                    assert answer.headers["content-type"] == PROBLEM
                    assert answer.headers["www-authenticate"] == "Bearer"
                    assert "secret" not in answer.text
                answer = await client.post("/v1/transduce", json={"inputs": ["a"]}, headers=raw)
                assert answer.status_code == 401
            for scheme in ("Bearer", "bearer", "BEARER"):
                right = {"authorization": f"{scheme} secret T"}
                assert (await client.get("/v1/models", headers=right)).status_code == 200
                answer = await client.post("/v1/transduce", json={"inputs": ["abc"]}, headers=right)
                assert answer.json()["results"][0]["outputs"][0]["text"] == "gabc"

    asyncio.run(run())
    assert b"wrong" in compared  # by a function that takes as long for any
    with pytest.raises(ConfigError, match="token"):
        ServeSettings(token="")
    for token in ("ä", " T", "T "):
        with pytest.raises(ConfigError, match="token"):
            ServeSettings(token=token)
    assert "T" not in repr(ServeSettings(token="TTTTT")).replace("True", "")


ORIGIN = "https://elsewhere.example"


def test_pages_of_other_sites_are_not_let_in_unless_told():
    preflight = {"origin": ORIGIN, "access-control-request-method": "POST"}
    preflight |= {"access-control-request-headers": "content-type,authorization"}

    async def run(origins: tuple[str, ...], token: str | None) -> list[Any]:
        async with service("copy", cors_origins=origins, token=token) as client:
            return [
                await client.options("/v1/transduce", headers=preflight),
                await client.get("/v1/models", headers={"origin": ORIGIN}),
                await client.get("/v1/models", headers={"origin": "https://evil.example"}),
            ]

    for answer in asyncio.run(run((), None)):
        assert not [name for name in answer.headers if name.startswith("access-control")]
    asked, same, other = asyncio.run(run((ORIGIN,), None))
    assert asked.status_code == 200
    assert asked.headers["access-control-allow-origin"] == ORIGIN
    assert same.headers["access-control-allow-origin"] == ORIGIN
    assert "access-control-allow-origin" not in other.headers
    asked, same, _ = asyncio.run(run((ORIGIN,), "T"))
    assert asked.status_code == 200  # a browser asks without the token
    assert same.status_code == 401
    assert same.headers["access-control-allow-origin"] == ORIGIN  # or the page could not see that a token is wanted


def test_all_sites_can_be_let_in():
    assert is_same_site(Headers({"origin": ORIGIN, "host": "a"}), ("*",))
    assert not is_same_site(Headers({"origin": ORIGIN, "host": "a"}), ("https://other.example",))
    ServeSettings(cors_origins=("*", ORIGIN, "http://localhost:3000", "http://[::1]:80"))


@pytest.mark.parametrize(
    "origin", ["", "example.org", f"{ORIGIN}/", f"{ORIGIN}/page", "https://", "HTTPS://a.example", "https://[", "null"]
)
def test_what_is_no_origin_is_refused(origin):
    """No browser would ever send it, so it would let nobody in."""
    with pytest.raises(ConfigError, match="cors_origins"):
        ServeSettings(cors_origins=(origin,))


@pytest.mark.parametrize(
    ("host", "is_known"),
    [
        ("localhost", True),
        ("localhost:8000", True),
        ("LOCALHOST.:8000", True),
        ("127.0.0.1:8000", True),
        ("[::1]:8000", True),
        ("evil.example", False),
        ("localhost.evil.example:8000", False),
        ("localhost@evil.example", False),
        ("[", False),
        ("", False),
    ],
)
def test_a_name_must_be_ours(host, is_known):
    """A page of ``evil.example`` whose name means this machine is of the same origin for its browser."""

    async def run() -> None:
        async with service("copy", host_names=("localhost",)) as client:
            for path in ("/", "/v1/models", "/metrics"):
                for method in ("GET", "HEAD", "OPTIONS"):
                    answer = await client.request(method, path, headers={"host": host})
                    assert (answer.status_code != 421) is is_known
            answer = await client.post("/v1/transduce", json={"inputs": ["a"]}, headers={"host": host})
            assert answer.status_code == (200 if is_known else 421)
            assert is_known or "--allow-host" in answer.json()["detail"]

    asyncio.run(run())


def test_names_matter_where_being_here_is_all_it_takes():
    given = ServeSettings(host_names=("example.org",))
    assert _with_own_names(ServeSettings(), "127.0.0.1").host_names == ("localhost",)
    assert _with_own_names(ServeSettings(), "LOCALHOST").host_names == ("localhost", "localhost")
    assert _with_own_names(ServeSettings(token="t"), "127.0.0.1").host_names == ()
    assert _with_own_names(ServeSettings(), "0.0.0.0").host_names == ()
    assert _with_own_names(ServeSettings(), "").host_names == ()
    assert _with_own_names(given, "0.0.0.0").host_names == ("localhost", "example.org")


@pytest.mark.parametrize(
    "name",
    [
        "",
        "Example.org",
        "http://example.org",
        "example.org:80",
        "a/b",
        "[::1]",
        "*",
        "*.org",
        "a.",
        "bücher.org",
        "a b",
    ],
)
def test_what_is_no_name_of_a_host_is_refused(name):
    with pytest.raises(ConfigError, match="host_names"):
        ServeSettings(host_names=(name,))


def test_head_is_get_without_the_body():
    async def run() -> None:
        async with service("copy", token="T") as client:
            for path in ("/", "/healthz", "/page/style.css", "/docs", "/nothing", "/v1/models"):
                got, head = await client.get(path), await client.head(path)
                assert head.status_code == got.status_code
                assert head.content == b""
                assert head.headers == got.headers
            headers = {"authorization": "Bearer T"}
            answer = await client.head("/v1/transduce", headers=headers)
            assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
            text = (await client.get("/metrics", headers=headers)).text
            assert 'ssnt_requests_total{method="HEAD",route="/healthz",status="200"} 1.0' in text

    asyncio.run(run())


def test_every_answer_has_the_headers_that_keep_browsers_safe():
    async def run() -> None:
        async with service("copy") as client:
            for path in ("/", "/v1/models", "/healthz", "/nothing", "/metrics", "/page/style.css"):
                headers = (await client.get(path)).headers
                assert headers["x-content-type-options"] == "nosniff"
                assert headers["referrer-policy"] == "no-referrer"
                assert headers["content-security-policy"].startswith("default-src 'none'; script-src 'self';")
                assert "server" not in headers
            assert (await client.get("/v1/models")).headers["cache-control"] == "no-store"

    asyncio.run(run())


def test_the_description_has_the_limits_and_its_examples_work():
    async def run() -> None:
        async with service("copy", limits=SMALL | {"max_text_length": 20}) as client:
            description = (await client.get("/openapi.json")).json()
            count = 0
            for path, operations in description["paths"].items():
                for name, operation in operations.items():
                    assert operation.get("summary")
                    assert "200" in operation["responses"]
                    if name != "post":
                        answer = await client.get(path)
                        assert answer.status_code == 200
                        continue
                    for example in operation["requestBody"]["content"]["application/json"]["examples"].values():
                        answer = await client.post(path, json=example["value"])
                        assert answer.status_code == 200, (path, example, answer.text)
                        count += 1
            assert count >= 4
            schemas = description["components"]["schemas"]
            request = schemas["TransduceRequest"]["properties"]
            assert request["inputs"]["maxItems"] == 3
            assert request["nbest"]["maximum"] == 3
            assert schemas["Input"]["properties"]["text"]["maxLength"] == 20
            assert schemas["Input"]["properties"]["tags"]["anyOf"][0]["maxItems"] == 2
            assert schemas["Input"]["properties"]["tags"]["anyOf"][0]["items"]["maxLength"] == 4
            assert "x-limit" not in str(description)
            assert "securitySchemes" not in description["components"]

    asyncio.run(run())


def test_the_description_says_that_a_token_is_needed():
    async def run() -> Any:
        async with service("copy", token="T") as client:
            return (await client.get("/openapi.json")).json()

    description = asyncio.run(run())
    assert description["components"]["securitySchemes"] == {"token": {"type": "http", "scheme": "bearer"}}
    assert description["paths"]["/v1/transduce"]["post"]["security"] == [{"token": []}]
    assert "security" not in description["paths"]["/healthz"]["get"]


def test_health_readiness_and_metrics():
    async def run() -> None:
        app = make_app(served("copy"), settings_of({}))
        async with client_of(app) as client:
            assert (await client.get("/healthz")).json() == {"status": "ok"}
            assert (await client.get("/readyz")).json() == {"status": "ready"}
            await client.post("/v1/transduce", json={"inputs": ["a", "b"]})
            text = (await client.get("/metrics")).text
            assert 'ssnt_requests_total{method="POST",route="/v1/transduce",status="200"} 1.0' in text
            assert 'ssnt_request_seconds_count{route="/v1/transduce"} 1.0' in text
            assert "ssnt_batch_size_sum 2.0" in text
            assert "ssnt_queue_length 0.0" in text
            app.state.service.is_ready = False
            answer = await client.get("/readyz")
            assert answer.status_code == 503
            assert answer.headers["content-type"] == PROBLEM
            assert answer.headers["connection"] == "close"
            assert (await client.get("/healthz")).status_code == 200

    asyncio.run(run())


def test_models_need_names_of_their_own():
    with pytest.raises(ConfigError, match="two models are called 'copy'"):
        make_app([*served("copy"), *served("copy")])
    with pytest.raises(ConfigError, match="at least one model"):
        make_app([])


@pytest.mark.parametrize("name", ["max_inputs", "idle_seconds", "max_queue"])
def test_a_limit_is_more_than_nothing(name):
    for value in (0, -1, float("nan")):
        with pytest.raises(ConfigError, match=name):
            Limits(**{name: value})
    for settings in ({"window_ms": -1}, {"max_batch": 0}, {"drain_seconds": 0}):
        with pytest.raises(ConfigError, match=next(iter(settings))):
            ServeSettings(**settings)


@pytest.mark.parametrize(
    ("host", "loopback"),
    [("127.0.0.1", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("", False), ("a.invalid", False)],
)
def test_what_is_loopback(host, loopback):
    assert is_loopback(host) is loopback
