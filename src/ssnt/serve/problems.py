"""What goes wrong, as clients are told: problem descriptions of RFC 9457."""

from __future__ import annotations

import json
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from ssnt.errors import SsntError
from ssnt.serve.logs import log_defect

MEDIA_TYPE = "application/problem+json"
_MOST_ERRORS = 20
_LONGEST = 200
"""How many characters are said about a mistake; a few messages quote what was sent."""


class ProblemError(Exception):
    """Something that a client is told.

    Attributes:
        status: The HTTP status.
        detail: What is wrong, and what to do.
        retry_after: After how many seconds it may be worth trying again.
        errors: The single mistakes, where there are several.
    """

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        retry_after: int | None = None,
        errors: Sequence[dict[str, str]] = (),
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.retry_after = retry_after
        self.errors = tuple(errors)

    def body(self) -> dict[str, Any]:
        """The problem as JSON."""
        found: dict[str, Any] = {
            "type": "about:blank",
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "detail": self.detail,
        }
        return found | ({"errors": list(self.errors)} if self.errors else {})

    def headers(self) -> dict[str, str]:
        """What belongs into the head of the answer."""
        found = {} if self.retry_after is None else {"retry-after": str(self.retry_after)}
        return found | ({"www-authenticate": "Bearer"} if self.status == HTTPStatus.UNAUTHORIZED else {})

    def response(self) -> Response:
        """The problem as an answer."""
        content = json.dumps(self.body(), ensure_ascii=True)
        return Response(content, self.status, self.headers(), media_type=MEDIA_TYPE)


def problem_of(error: Exception) -> ProblemError:
    """What a client is told about an error; about a defect, nothing but that it is one."""
    if isinstance(error, ProblemError):
        return error
    if isinstance(error, SsntError):
        return ProblemError(422, str(error))
    log_defect(error)
    return ProblemError(500, "the service has a defect; its log says more")


def mistakes(errors: Sequence[Any]) -> ProblemError:
    """The mistakes that the check of a request has found, in few words."""
    found = [{"where": _place(one["loc"]), "problem": _words(one)[:_LONGEST]} for one in errors[:_MOST_ERRORS]]
    first = found[0] if found else {"where": "body", "problem": "is not valid"}
    status = 400 if any(one["type"] == "json_invalid" for one in errors) else 422
    return ProblemError(status, f"{first['where']}: {first['problem']}", errors=found)


def _words(error: Any) -> str:
    """What is wrong with a part of a request, in our words where the library's are unclear."""
    if error["type"] == "extra_forbidden":
        return "there is no such field here; /docs lists the fields"
    if error["type"] == "union_tag_invalid":
        return 'type: expected "open", "push" or "finish"'
    return str(error["msg"])


def _place(location: Sequence[Any]) -> str:
    """Where in a request: ``inputs[0].text``."""
    place = ""
    for part in location[1:] if location and location[0] in ("body", "query", "path", "header") else location:
        if isinstance(part, int):
            place += f"[{part}]"
        elif not str(part).startswith("("):  # which of several kinds was tried
            place += f".{part:.60}" if place else f"{part:.60}"
    return place or "body"


def tell_problems(app: FastAPI) -> None:
    """Makes an app answer errors with problem descriptions."""

    async def invalid(_: Request, error: Exception) -> Response:
        return mistakes(error.errors() if isinstance(error, RequestValidationError) else ()).response()

    async def http(_: Request, error: Exception) -> Response:
        if not isinstance(error, HTTPException):
            raise error
        response = ProblemError(error.status_code, str(error.detail)).response()
        response.headers.update(error.headers or {})
        return response

    async def ours(_: Request, error: Exception) -> Response:  # the guard tells of defects
        return problem_of(error).response()

    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, http)
    for kind in (ProblemError, SsntError):
        app.add_exception_handler(kind, ours)
