"""``/docs``: the OpenAPI description as a page that needs no script and loads nothing from elsewhere."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html import escape
from typing import Any

_CODE = re.compile(r"`([^`]*)`")
_HEAD = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>ssnt: the interface</title>
<link rel="icon" href="page/icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="page/style.css">
<link rel="stylesheet" href="page/reference.css">
</head>
<body>
<header class="top"><h1>ssnt: the interface</h1><p class="tagline"><a href="./">The page</a>,
<a href="openapi.json">the same for tools</a></p></header>
<main class="reference">
"""


def reference_page(description: dict[str, Any], address: str) -> bytes:
    """The page of an OpenAPI description.

    Args:
        description: What is described.
        address: Where the service is, for examples.
    """
    parts = [_HEAD, f"<p>{escape(description['info']['summary'])}</p>"]
    for path, routes in description["paths"].items():
        for method, route in routes.items():
            parts += _route(method.upper(), path, route, address)
    parts.append("<section class='card'><h2>WS /v1/stream</h2>" + _paragraphs(description["info"]["description"]))
    links = ", ".join(f"<a href='#{name}'>{name}</a>" for name in ("Open", "Push", "Finish"))
    parts.append(f"<p>Messages: {links}.</p></section><h2>Schemas</h2>")
    for name, schema in description["components"]["schemas"].items():
        parts += _schema(name, schema)
    parts.append("</main></body></html>")
    return "\n".join(parts).encode()


def _route(method: str, path: str, route: dict[str, Any], address: str) -> Iterator[str]:
    yield f"<section class='card'><h2>{method} {escape(path)}</h2><p>{escape(route.get('description', ''))}</p>"
    if body := route.get("requestBody"):
        content = body["content"]["application/json"]
        yield f"<p>Takes {_link(content['schema'])}.</p>"
        for example in content["examples"].values():
            yield f"<pre>{escape(_curl(address + path, example['value']))}</pre>"
    yield _table("status", "when", "gives")
    for status, answer in route["responses"].items():
        gives = ", ".join(f"{escape(kind)}: {_type(one['schema'])}" for kind, one in answer["content"].items())
        yield f"<tr><td>{escape(status)}</td><td>{escape(answer['description'])}</td><td>{gives}</td></tr>"
    yield "</tbody></table></section>"


def _schema(name: str, schema: dict[str, Any]) -> Iterator[str]:
    yield f"<section class='card' id='{escape(name)}'><h3>{escape(name)}</h3>"
    yield f"<p>{escape(schema.get('description', ''))}</p>"
    if properties := schema.get("properties"):
        required = schema.get("required", ())
        yield _table("field", "type", "what")
        for field, one in properties.items():
            mark = " (required)" if field in required else ""
            what = escape(one.get("description", ""))
            yield f"<tr><td><code>{escape(field)}</code>{mark}</td><td>{_type(one)}</td><td>{what}</td></tr>"
        yield "</tbody></table>"
    yield "</section>"


def _table(*columns: str) -> str:
    heads = "".join(f"<th scope='col'>{one}</th>" for one in columns)
    return f"<table><thead><tr>{heads}</tr></thead><tbody>"


def _type(schema: dict[str, Any]) -> str:
    """A type in a few words."""
    if "$ref" in schema:
        return _link(schema)
    if "anyOf" in schema or "oneOf" in schema:
        return " or ".join(_type(one) for one in schema.get("anyOf", schema.get("oneOf", [])))
    if "const" in schema or "enum" in schema:
        return " or ".join(
            f"<code>{escape(json.dumps(one))}</code>" for one in schema.get("enum", [schema.get("const")])
        )
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}{_bounds(schema)}"
    return escape(str(schema.get("type", "anything"))) + _bounds(schema)


def _bounds(schema: dict[str, Any]) -> str:
    names = {"maxLength": "characters", "maxItems": "of them", "maximum": ""}
    found = [f"at most {schema[key]:g} {what}".strip() for key, what in names.items() if key in schema]
    return f" ({', '.join(found)})" if found else ""


def _link(schema: dict[str, Any]) -> str:
    name = escape(schema["$ref"].rpartition("/")[2])
    return f"<a href='#{name}'>{name}</a>"


def _curl(address: str, value: Any) -> str:
    body = json.dumps(value, ensure_ascii=False)
    return f"curl {address} -H 'Content-Type: application/json' \\\n  -d '{body}'"


def _paragraphs(text: str) -> str:
    """Paragraphs of text, headings left out, with what is between backticks as code."""
    lines = [" ".join(one.split()) for one in text.split("\n\n")]
    marked = (_CODE.sub(r"<code>\1</code>", escape(one)) for one in lines if one and not one.startswith("#"))
    return "".join(f"<p>{one}</p>" for one in marked)
