"""What every request passes: size and time limits, the token, headers, logs and counts."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import time
from collections.abc import Callable, Collection
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ssnt.serve.logs import log_event
from ssnt.serve.measures import Measures
from ssnt.serve.problems import ProblemError, problem_of
from ssnt.serve.settings import ServeSettings, is_ip_address

_GUARDED = ("/v1/", "/metrics")
_LINGER = 2.0
"""How many seconds the rest of a body is read that is not wanted."""

_PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


def is_token_right(settings: ServeSettings, given: str | None) -> bool:
    """Whether a client may be served; how long the comparison takes does not tell how much of the token was right."""
    if settings.token is None:
        return True
    return given is not None and hmac.compare_digest(given.encode(), settings.token.encode())


def bearer(headers: Headers) -> str | None:
    """The token in a request's headers."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else None


def is_same_site(headers: Headers, allowed: Collection[str]) -> bool:
    """Whether a page that opens a socket is our own, or one that was allowed; programs send no origin."""
    origin = headers.get("origin")
    if origin is None or origin in allowed or "*" in allowed:
        return True
    try:
        return urlsplit(origin).netloc == headers.get("host")
    except ValueError:  # it is no address at all
        return False


def host_objection(headers: Headers, settings: ServeSettings) -> ProblemError | None:
    """Why a client is not served that asks for the service by a name that is not its own.

    A page elsewhere can make its own name mean this machine (DNS rebinding); for its browser the service is then a part
    of its site. An address in place of a name cannot be made to mean anything else.
    """
    if not settings.host_names or "host" not in headers:
        return None
    try:
        name = (urlsplit(f"//{headers['host']}").hostname or "").removesuffix(".")
    except ValueError:  # it is no address at all
        name = ""
    if name in settings.host_names or is_ip_address(name):
        return None
    return ProblemError(421, "the service does not go by this name; if it should, start it with --allow-host NAME")


class Guard:
    """The outermost layer of the app.

    Args:
        app: What answers.
        settings: Limits and token.
        measures: Where requests are counted.
        is_draining: Whether the service is about to stop: connections are closed after their answer.
    """

    def __init__(
        self, app: ASGIApp, settings: ServeSettings, measures: Measures, is_draining: Callable[[], bool]
    ) -> None:
        self._app = app
        self._settings = settings
        self._measures = measures
        self._is_draining = is_draining

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request; sockets have guards of their own."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun, status, method = time.perf_counter(), 0, scope["method"]
        asked = {**scope, "method": "GET"} if method == "HEAD" else scope

        async def send_on(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                self._add_headers(scope, MutableHeaders(scope=message))
            elif method == "HEAD":  # the same head as for GET, and no body
                message = {**message, "body": b""}
            await send(message)

        try:
            await self._answer(asked, receive, send_on)
        except Exception as error:  # told here, where the headers are added; further out it would be logged twice
            if status:  # an answer that has begun cannot be taken back
                raise
            await problem_of(error).response()(scope, receive, send_on)
        finally:
            self._count(asked, method, status or 500, time.perf_counter() - begun)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        try:
            if problem := host_objection(headers, self._settings):
                raise problem
            is_guarded = scope["path"].startswith(_GUARDED) and scope["method"] != "OPTIONS"
            if is_guarded and not is_token_right(self._settings, bearer(headers)):
                raise ProblemError(401, "send the service's token: Authorization: Bearer TOKEN")
            body = await self._body(headers, receive)
        except ProblemError as problem:
            await self._refuse(problem, headers, receive, send)
            return
        await self._app(scope, _replayed(body, receive), send)

    async def _body(self, headers: Headers, receive: Receive) -> bytes:
        """The whole body, if it is not too large and does not take too long."""
        limits = self._settings.limits
        too_large = ProblemError(413, f"the body is larger than max_body_bytes ({limits.max_body_bytes})")
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > limits.max_body_bytes:
            raise too_large
        parts, size, more = [], 0, True
        deadline = asyncio.get_running_loop().time() + limits.body_seconds
        while more:
            try:
                async with asyncio.timeout_at(deadline):
                    message = await receive()
            except TimeoutError:
                raise ProblemError(408, f"the body did not come within {limits.body_seconds:g} seconds") from None
            if message["type"] == "http.disconnect":
                raise ProblemError(400, "the body is incomplete")
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > limits.max_body_bytes:
                raise too_large
            more = message.get("more_body", False)
        return b"".join(parts)

    async def _refuse(self, problem: ProblemError, headers: Headers, receive: Receive, send: Send) -> None:
        """Tells a problem when the body is not read yet; the rest of it is thrown away, and the connection closed.

        A connection that is closed before all is read is reset, and the client might not see the answer.
        """
        response = problem.response()
        has_body = "transfer-encoding" in headers or headers.get("content-length", "0") != "0"
        if has_body:
            response.headers["connection"] = "close"
        await send({"type": "http.response.start", "status": problem.status, "headers": response.raw_headers})
        if has_body:
            await send({"type": "http.response.body", "body": response.body, "more_body": True})
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LINGER):
                    while (message := await receive())["type"] == "http.request" and message.get("more_body", False):
                        pass
        await send({"type": "http.response.body", "body": b"" if has_body else response.body})

    def _add_headers(self, scope: Scope, headers: MutableHeaders) -> None:
        headers["x-content-type-options"] = "nosniff"
        headers["referrer-policy"] = "no-referrer"
        headers["content-security-policy"] = _PAGE_POLICY
        if "cache-control" not in headers:
            headers["cache-control"] = "no-store" if scope["path"].startswith("/v1/") else "no-cache"
        if self._is_draining():
            headers["connection"] = "close"

    def _count(self, scope: Scope, method: str, status: int, seconds: float) -> None:
        route = scope.get("route")
        name = getattr(route, "path", "(none)")  # not the path itself, of which clients could make any number
        self._measures.requests.labels(name, _known_method(method), str(status)).inc()
        self._measures.latency.labels(name).observe(seconds)
        log_event("request", method=method, route=name, status=status, ms=round(seconds * 1000, 2))


def _known_method(method: str) -> str:
    return method if method in ("GET", "POST", "HEAD", "OPTIONS") else "(other)"


def _replayed(body: bytes, receive: Receive) -> Receive:
    """Gives a body that has been read already, then whatever else comes."""
    given = False

    async def replay() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay
