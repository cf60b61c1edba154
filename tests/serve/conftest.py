"""Services that several tests use, and the page of one in a browser."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from fork_server import is_usable
from ssnt.pipeline import Transducer


@pytest.fixture(scope="session")
def served_models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where models and logs of services are that run as processes."""
    return tmp_path_factory.mktemp("served")


@pytest.fixture(scope="session")
def server(served_models: Path) -> Iterator[Any]:
    """A service as a process, with the usual limits."""
    from serving import running

    with running(served_models, "copy") as found:
        yield found


@pytest.fixture(scope="session")
def quick(served_models: Path) -> Iterator[Any]:
    """A service as a process, soon out of patience."""
    from raw_clients import QUICK
    from serving import running

    with running(served_models, "copy", limits=QUICK) as found:
        yield found


# ---- the page; what needs a browser is imported where one is asked for


@pytest.fixture(scope="session")
def transducers() -> dict[str, Transducer]:
    """The models of the service that the page is on."""
    from browsing import copying_transducer, hebrew_transducer, whole_transducer

    return {"copy": copying_transducer(), "whole": whole_transducer(), "hebrew": hebrew_transducer()}


@pytest.fixture(scope="session")
def service(
    transducers: dict[str, Transducer], tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Any]:
    """The service that the page is on; a test that stops it starts it again."""
    from browsing import Service

    place = tmp_path_factory.mktemp("page")
    for name, transducer in transducers.items():
        transducer.save_pretrained(place / name)
    python = request.getfixturevalue("fork_server").python if is_usable() else sys.executable
    served = Service([f"{name}={place / name}" for name in transducers], place / "log", python)
    served.start()
    yield served
    served.stop()


@pytest.fixture(scope="module")  # as long as Playwright is there, no test can have an event loop of its own
def browser() -> Iterator[Any]:
    from browsing import CHROMIUM, playwright

    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture
def visit(browser: Any, service: Any) -> Iterator[Any]:
    """Opens the page, and sees to it that nothing went wrong there and nothing came from elsewhere."""
    from browsing import TIMEOUT, Visit

    visits: list[Visit] = []

    @contextmanager
    def opened(**settings: Any) -> Iterator[Visit]:
        defaults = {"viewport": {"width": 1280, "height": 900}, "reduced_motion": "reduce"}
        context = browser.new_context(**{**defaults, **settings})
        context.set_default_timeout(TIMEOUT)
        page = context.new_page()
        one = Visit(page)
        page.on("pageerror", lambda error: one.errors.append(str(error)))
        page.on("console", lambda line: one.errors.append(line.text) if line.type == "error" else None)
        page.on("request", lambda request: one.requests.append(request.url))
        page.goto(service.url)
        page.locator(".panel").wait_for()
        visits.append(one)
        try:
            yield one
        finally:
            context.close()

    yield opened
    for one in visits:
        assert one.errors == []
        assert [url for url in one.requests if not url.startswith((service.url, "data:", "blob:"))] == []
