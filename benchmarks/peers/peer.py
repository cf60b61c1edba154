"""Talks to a peer: a driver that runs in an environment of its own, and does on command what is to be timed."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from options import skip

HERE = Path(__file__).resolve().parent
ENVIRONMENTS = HERE / "envs"


def require_peer(environment: str) -> None:
    """Ends the benchmark, and says so, if a peer is not installed."""
    if not (ENVIRONMENTS / environment / ".installed").exists():
        skip(f"needs {environment}; install it with python benchmarks/peers/install.py")


class Peer:
    """A driver in its environment, waiting for commands.

    Args:
        environment: Its name, as in ``install.py``.
        driver: The script beside this file.
        *arguments: What the script is started with.

    Attributes:
        about: What the driver says of itself: its package's ``version``, and settings if it has any.

    Raises:
        SystemExit: The environment is not there, or the driver ends before it answers.
    """

    def __init__(self, environment: str, driver: str, *arguments: object) -> None:
        require_peer(environment)
        python = ENVIRONMENTS / environment / "bin" / "python"
        # not a pipe: nobody would empty it, and the driver would wait for ever once it is full
        self._said = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115 - lives as long
        threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
        self._process = subprocess.Popen(
            [python, HERE / driver, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            text=True,
            env={**os.environ, **threads, "PYTHONWARNINGS": "ignore", "WANDB_MODE": "disabled"},
        )
        self.about = self._answer()

    def ask(self, *command: object) -> dict[str, Any]:
        """What the driver answers to a command."""
        self._stdin().write(" ".join(map(str, command)) + "\n")
        self._stdin().flush()
        return self._answer()

    def close(self) -> None:
        """Lets the driver end."""
        self._stdin().close()
        self._process.wait()
        self._said.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None):
        if kind is None:
            self.close()
        else:
            self._process.kill()
            self._process.wait()
            self._said.close()

    def _stdin(self) -> Any:
        return self._process.stdin

    def _answer(self) -> dict[str, Any]:
        line = self._process.stdout.readline() if self._process.stdout else ""
        if not line:
            code = self._process.wait()
            self._said.seek(0)
            raise SystemExit(f"the peer has ended with code {code}:\n{self._said.read()}")
        answer: dict[str, Any] = json.loads(line)
        return answer
