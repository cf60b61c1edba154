"""The service in tests: in this process, which is quick, or as a process of its own, with real sockets."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch

from ssnt.config import ModelConfig
from ssnt.nn import build_model
from ssnt.pipeline import PerTagTransducer, Transducer
from transducers import copying_transducer, make_config, make_transducer, make_vocabulary

from conftest import require

# As values, since an import would come before the question whether it is there.
fastapi = require("fastapi", "the service")
httpx = require("httpx", "asking the service")
require("prometheus_client", "the service's metrics")
serve = require("ssnt.serve", "the service")

BASE = "http://service"
PST, PRS = ("PST", "V"), ("3", "PRS", "V")
PROBLEM = "application/problem+json"


def encoder_decoder() -> Transducer:
    """A model that has no alignment."""
    vocabulary, config = make_vocabulary(), make_config({"max_length": 8}, architecture="attention", bidirectional=True)
    torch.manual_seed(3)
    model = build_model(ModelConfig(**config.model.model_dump(), **vocabulary.model_sizes())).eval()
    return Transducer(model, vocabulary, config, {"scores": {}})


def per_tag() -> PerTagTransducer:
    config = make_config(training={"per_tag": True}, embed_size=16, hidden_size=24)
    models = {PST: copying_transducer(), PRS: make_transducer(2, make_vocabulary("abc"))}
    return PerTagTransducer(models, config, {"scores": {}})


@cache
def transducers() -> Mapping[str, Transducer]:
    """A model of each kind."""
    bidirectional = make_config({"max_length": 8}, bidirectional=True)
    return {
        "copy": copying_transducer(),
        "tagged": copying_transducer(tags=("X",)),
        "whole": make_transducer(5, None, bidirectional),
        "attention": encoder_decoder(),
        "per tag": per_tag(),
    }


def served(*names: str) -> list[Any]:
    return [serve.ServedModel(name, transducers()[name]) for name in names]


@asynccontextmanager
async def client_of(app: Any, **settings: Any) -> AsyncIterator[Any]:
    """Asks an app without a socket; it is started and stopped."""
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url=BASE, timeout=120, **settings) as client,
    ):
        yield client


@asynccontextmanager
async def service(*names: str, **settings: Any) -> AsyncIterator[Any]:
    """A service of some models in this process; ``limits`` are given as a mapping."""
    async with client_of(serve.make_app(served(*names), settings_of(settings))) as client:
        yield client


def settings_of(values: Mapping[str, Any]) -> Any:
    known = dict(values)
    return serve.ServeSettings(serve.Limits(**known.pop("limits", {})), **known)


def measure(text: str, name: str) -> float:
    """The value of a metric, labels included in its name."""
    found = re.search(rf"^{re.escape(name)} (\S+)$", text, re.MULTILINE)
    return float(found[1]) if found else 0.0


@dataclass
class Running:
    """The service as a process."""

    process: subprocess.Popen[bytes]
    port: int
    log: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def connect(self, timeout: float = 60.0) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=timeout)

    def get(self, path: str) -> Any:
        return httpx.get(self.url + path, timeout=60)

    def post(self, path: str, body: Any, **more: Any) -> Any:
        return httpx.post(self.url + path, json=body, timeout=60, **more)

    def measure(self, name: str) -> float:
        return measure(self.get("/metrics").text, name)

    def is_well(self) -> bool:
        """Whether it still works."""
        answer = self.post("/v1/transduce", {"inputs": ["abc"]})
        return answer.status_code == 200 and answer.json()["results"][0]["outputs"][0]["text"] == "gabc"

    def memory(self) -> int:
        """Resident bytes."""
        pages = Path(f"/proc/{self.process.pid}/statm").read_text(encoding="ascii").split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def lines(self) -> list[str]:
        return self.log.read_text(encoding="utf-8").splitlines()

    def stop(self, number: int = signal.SIGTERM, seconds: float = 60.0) -> int:
        """Tells it to stop, and gives its exit code."""
        self.process.send_signal(number)
        return self.process.wait(seconds)


@contextmanager
def running(place: Path, *names: str, **settings: Any) -> Iterator[Running]:
    """Runs the service in a process of its own; whatever happens, it does not go on afterwards."""
    for name in names:
        if not (place / name).exists():
            transducers()[name].save_pretrained(place / name)
    asked = settings_of(settings)
    given = json.dumps({**asdict(asked), "models": [str(place / name) for name in names]})
    log, ready = place / f"log-{time.monotonic_ns()}", place / f"ready-{time.monotonic_ns()}"
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with log.open("wb") as stderr:
        process = subprocess.Popen(
            [sys.executable, __file__, given, str(ready)], stdout=stderr, stderr=stderr, env=environment
        )
    try:
        deadline = time.monotonic() + 120
        while not ready.exists():
            if process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"the service does not start:\n{log.read_text(encoding='utf-8')[-2000:]}")
            time.sleep(0.05)
        yield Running(process, int(ready.read_text(encoding="ascii")), log)
    finally:
        process.kill()
        process.wait()


def until(true: Any, seconds: float = 30.0) -> bool:
    """Waits until something is true."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if true():
            return True
        time.sleep(0.05)
    return bool(true())


def main() -> None:
    """The process."""
    torch.set_num_threads(1)
    given, ready = json.loads(sys.argv[1]), Path(sys.argv[2])
    models = [serve.ServedModel(Path(one).name, Transducer.from_pretrained(one)) for one in given.pop("models")]
    limits = serve.Limits(**given.pop("limits"))
    given["cors_origins"] = tuple(given["cors_origins"])

    def started(address: str) -> None:
        written = ready.with_suffix(".part")
        written.write_text(address.rpartition(":")[2], encoding="ascii")
        written.rename(ready)

    serve.serve(models, serve.ServeSettings(limits, **given), port=0, on_start=started)


if __name__ == "__main__":
    main()
