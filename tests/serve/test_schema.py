"""The service does what its OpenAPI description says, to thousands of requests that are made from it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import requests
from hypothesis import HealthCheck, Phase, given, settings

from serving import Running, running

from conftest import require

schemathesis = require("schemathesis", "requests made from the description")
checks = require("schemathesis.specs.openapi.checks", "requests made from the description")

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("schema")]

CASES = {"post": 340, "get": 15}
"""How many are made of a request of each method, that should be accepted and that should not; above 2,000 in all."""

LIMITS = {"max_inputs": 3, "max_text_length": 8, "max_beam": 4, "max_nbest": 3, "max_output_length": 8}
"""Small ones, so that what is generated reaches them, and each case is quick."""

PATHS = ["/v1/transduce", "/v1/align", "/v1/score", "/v1/models", "/healthz", "/readyz", "/metrics"]
WANTED = [
    schemathesis.checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
]


@pytest.fixture(scope="module")
def small(served_models) -> Iterator[Running]:
    with running(served_models, "copy", limits=LIMITS, window_ms=0.0) as found:
        yield found


def test_the_description_is_valid_and_complete(small):
    schema = schemathesis.openapi.from_url(f"{small.url}/openapi.json")
    schema.validate()
    assert sorted(schema.raw_schema["paths"]) == sorted(PATHS)


@pytest.mark.parametrize(
    ("path", "kind"),
    # What has no parameters cannot be asked wrongly.
    [*((path, "positive") for path in PATHS), *((path, "negative") for path in PATHS[:3])],
)
def test_answers_are_as_described(small, path, kind):
    schema = schemathesis.openapi.from_url(f"{small.url}/openapi.json")
    method = "post" if path in PATHS[:3] else "get"
    mode, is_positive = schemathesis.GenerationMode(kind), kind == "positive"
    wanted = WANTED if is_positive else [*WANTED, checks.negative_data_rejection]
    statuses: Counter[int] = Counter()

    with requests.Session() as session:

        @settings(
            max_examples=CASES[method],
            deadline=None,
            derandomize=True,
            database=None,
            phases=[Phase.explicit, Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=schema[path][method.upper()].as_strategy(mode))
        def ask(case: Any) -> None:
            answer = case.call(session=session)
            statuses[answer.status_code] += 1
            case.validate_response(answer, checks=wanted)

        ask()
    if method == "post":
        assert statuses.total() >= CASES[method]
        assert statuses[200] > 30 if is_positive else statuses[200] == 0, statuses
    assert small.is_well()
    assert not [line for line in small.lines() if '"error"' in line]
