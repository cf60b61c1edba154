"""The OpenAPI description: what the routes take and give, with the limits of this service and examples that work."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode, models_json_schema

from ssnt.serve.problems import MEDIA_TYPE
from ssnt.serve.schemas import (
    AlignAnswer,
    AlignRequest,
    Finish,
    ModelsAnswer,
    Open,
    ProblemDetails,
    Push,
    ScoreAnswer,
    ScoreRequest,
    TransduceAnswer,
    TransduceRequest,
    with_limits,
)
from ssnt.serve.settings import ServeSettings

_WORK: dict[str, tuple[type[BaseModel], type[BaseModel]]] = {
    "/v1/transduce": (TransduceRequest, TransduceAnswer),
    "/v1/align": (AlignRequest, AlignAnswer),
    "/v1/score": (ScoreRequest, ScoreAnswer),
}
_SENT: tuple[type[BaseModel], ...] = (*(request for request, _ in _WORK.values()), Open, Push, Finish)
_GIVEN: tuple[type[BaseModel], ...] = (*(answer for _, answer in _WORK.values()), ModelsAnswer, ProblemDetails)
_PROBLEMS = {
    400: "The body is not JSON.",
    401: "The token is missing or wrong.",
    404: "There is no such model.",
    408: "The body did not come in time.",
    413: "The body is too large.",
    415: "The body is not said to be JSON.",
    421: "The service is asked for by a name that is not its own.",
    422: "The request, or every input in it, cannot be used.",
    503: "Too much is waiting to be worked on, or the service stops.",
}
_STREAM = """

## Streams

`WS /v1/stream` speaks JSON in text frames, one answer for each message, in order: `open`, then `push` as often as
there is text, then `finish`; then `open` again if wanted. Each `push` is
answered by an `update` with what is committed now (never taken back) and what is tentative; `finish` by an `end` with
the rest.
"""


def describe(app: FastAPI, settings: ServeSettings, models: Sequence[str]) -> None:
    """Gives an app its description.

    Args:
        app: The app.
        settings: Its limits.
        models: The names of its models; if there are several, examples say which is meant.
    """
    named = {"model": models[0]} if len(models) > 1 else {}

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _description(app, settings, named)
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


def _description(app: FastAPI, settings: ServeSettings, named: dict[str, str]) -> dict[str, Any]:
    found = get_openapi(
        title="ssnt",
        version=app.version,
        summary="Monotone neural transducers: exact outputs, alignments, probabilities and streams.",
        description="Errors are problem descriptions (RFC 9457)." + _STREAM,
        routes=app.routes,
    )
    modes: list[tuple[type[BaseModel], JsonSchemaMode]] = [(one, "validation") for one in _SENT]
    modes += [(one, "serialization") for one in _GIVEN]
    _, schemas = models_json_schema(modes, ref_template="#/components/schemas/{model}")
    found["components"] = {"schemas": with_limits(schemas["$defs"], settings.limits)}
    for path, (request, answer) in _WORK.items():
        route = found["paths"][path]["post"]
        content = {"schema": _ref(request), "examples": _examples(request, named)}
        route["requestBody"] = {"required": True, "content": {"application/json": content}}
        route["responses"] = _responses(answer, _PROBLEMS)
    found["paths"]["/v1/models"]["get"]["responses"] = _responses(ModelsAnswer, {401: _PROBLEMS[401]})
    status = {"type": "object", "properties": {"status": {"type": "string"}}, "required": ["status"]}
    for path, problems in (("/healthz", {}), ("/readyz", {503: "Not now."})):
        responses = {"200": {"description": "Yes.", "content": {"application/json": {"schema": status}}}}
        found["paths"][path]["get"]["responses"] = responses | _problems(problems)
    text = {"200": {"description": "Yes.", "content": {"text/plain": {"schema": {"type": "string"}}}}}
    found["paths"]["/metrics"]["get"]["responses"] = text | _problems({401: _PROBLEMS[401]})
    if settings.token is not None:
        found["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        for path in (*_WORK, "/v1/models", "/metrics"):
            for route in found["paths"][path].values():
                route["security"] = [{"token": []}]
    return found


def _ref(model: type[BaseModel]) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{model.__name__}"}


def _examples(model: type[BaseModel], named: dict[str, str]) -> dict[str, Any]:
    extra = model.model_config.get("json_schema_extra")
    values: Any = extra.get("examples", []) if isinstance(extra, dict) else []
    return {f"example {number}": {"value": named | value} for number, value in enumerate(values, start=1)}


def _responses(model: type[BaseModel], problems: dict[int, str]) -> dict[str, Any]:
    good = {"description": "Done.", "content": {"application/json": {"schema": _ref(model)}}}
    return {"200": good} | _problems(problems)


def _problems(problems: dict[int, str]) -> dict[str, Any]:
    content = {MEDIA_TYPE: {"schema": _ref(ProblemDetails)}}
    return {str(status): {"description": text, "content": content} for status, text in problems.items()}
