"""Services that several tests use."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


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
