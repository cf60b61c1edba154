"""The page in a real browser: the service that it is on, and what somebody does who visits it."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ssnt.pipeline import Transducer
from transducers import copying_transducer, make_config, make_transducer, make_vocabulary

from conftest import IN_CI, require

require("fastapi", "the service")
playwright = require("playwright.sync_api", "the page in a browser")
axe = require("axe_playwright_python.sync_playwright", "the page's accessibility")

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
if CHROMIUM is None:
    message = "no Chromium is installed: the page in a browser (apt install chromium, or set CHROMIUM)"
    if IN_CI:
        pytest.fail(message, pytrace=False)
    pytest.skip(message, allow_module_level=True)

MARKS = [pytest.mark.slow, pytest.mark.xdist_group("browser")]
"""Of all tests in a browser, so that there is one browser and one service."""

TAGS = ("CASE", *(f"T{number}" for number in range(20)))
HEBREW_SOURCE = "אבגדהוזחטיכל"
HEBREW_TARGET = "אבגדהומנסעפצק"
TIMEOUT = 15_000
playwright.expect.set_options(timeout=TIMEOUT)


def hebrew_transducer() -> Transducer:
    """The transducer that copies, in another alphabet."""
    learnt = copying_transducer()
    return Transducer(learnt.model, make_vocabulary(HEBREW_SOURCE, HEBREW_TARGET), learnt.config, learnt.metrics)


def whole_transducer() -> Transducer:
    """A transducer with tags that reads the whole input first; its outputs are random, but always the same."""
    return make_transducer(5, make_vocabulary(tags=TAGS), make_config({"max_length": 8}, bidirectional=True))


@dataclass
class Service:
    """`ssnt serve` as a process."""

    arguments: list[str]
    log: Path
    python: str = sys.executable
    port: int = 0
    process: subprocess.Popen[bytes] | None = None

    def __post_init__(self) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def start(self, *more: str) -> None:
        command = [self.python, "-m", "ssnt", "serve", *self.arguments, "--port", str(self.port), *more]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, "OMP_NUM_THREADS": "1"})
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                with urllib.request.urlopen(f"{self.url}readyz", timeout=5):
                    return
            except (urllib.error.URLError, ConnectionError, TimeoutError):
                time.sleep(0.1)
        pytest.fail(f"the service does not start:\n{self.log.read_text(encoding='utf-8')[-2000:]}")

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


@dataclass
class Visit:
    """A page that is open, with what went wrong on it."""

    page: Any
    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def type(self, text: str) -> None:
        """Replaces the input, and waits until all panels have an answer to it."""
        self.page.fill("#text", text)
        self.page.press("#text", "Enter")
        self.settle()

    def settle(self) -> None:
        panels = self.page.locator(".panel")
        for index in range(panels.count()):
            playwright.expect(panels.nth(index)).to_have_attribute("data-state", "ended")

    def choose(self, name: str, panel: int = 0) -> Any:
        """Lets a panel use a model; gives the panel."""
        self.panel(panel).locator(".model-select").select_option(name)
        return self.panel(panel)

    def panel(self, index: int = 0) -> Any:
        return self.page.locator(".panel").nth(index)

    def set_slider(self, panel: Any, name: str, value: int) -> None:
        slider = panel.get_by_label(name, exact=True)
        slider.fill(str(value))

    def output(self, panel: int = 0) -> str:
        return str(self.panel(panel).locator(".output-box").get_attribute("data-committed"))

    def path(self, panel: int = 0) -> list[int]:
        numbers = self.panel(panel).locator(".grid").get_attribute("data-path")
        return [int(number) for number in numbers.split(",")] if numbers else []

    def cells(self, panel: int = 0) -> dict[tuple[int, int], float]:
        """The probabilities that the grid shows, by target and source position."""
        rows = self.panel(panel).locator(".cell").evaluate_all("cells => cells.map((cell) => ({...cell.dataset}))")
        return {(int(row["j"]), int(row["i"])): float(row["p"]) for row in rows}

    def open_all(self) -> None:
        """Unfolds everything that is folded."""
        self.page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")

    def no_sideways(self) -> bool:
        return bool(self.page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth"))

    def serious(self) -> list[str]:
        """What axe finds serious or critical."""
        found = axe.Axe().run(self.page).response["violations"]
        return [
            f"{one['id']}: {one['help']}: {[node['html'][:200] for node in one['nodes'][:3]]}"
            for one in found
            if one["impact"] in {"serious", "critical"}
        ]


Visitor = Callable[..., Any]


def assert_shows(visit: Visit, emit: Any, path: list[int], panel: int = 0) -> None:
    """The grid has all cells of the library's alignment, with its probabilities, and its path."""
    shown = visit.cells(panel)
    target, source = emit.shape
    assert set(shown) == {(j, i) for j in range(target) for i in range(source)}
    for (j, i), p in shown.items():
        assert p == pytest.approx(float(emit[j, i]), abs=1e-4), (j, i)
    assert visit.path(panel) == path
