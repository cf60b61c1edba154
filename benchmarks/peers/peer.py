"""Talks to a peer: a driver that runs in an environment of its own, and does on command what is to be timed."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any, Self

HERE = Path(__file__).resolve().parent
ENVIRONMENTS = HERE / "envs"


class Peer:
    """A driver in its environment, waiting for commands.

    Args:
        environment: Its name, as in ``install.py``.
        driver: The script beside this file.
        *arguments: What the script is started with.

    Raises:
        SystemExit: The environment is not there.
    """

    def __init__(self, environment: str, driver: str, *arguments: object) -> None:
        python = ENVIRONMENTS / environment / "bin" / "python"
        if not (ENVIRONMENTS / environment / ".installed").exists():
            raise SystemExit(f"# skipped: needs the peer {environment}; install it: python benchmarks/peers/install.py")
        threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
        self._process = subprocess.Popen(
            [python, HERE / driver, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
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

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None):
        if kind is None:
            self.close()
        else:
            self._process.kill()

    def _stdin(self) -> Any:
        return self._process.stdin

    def _answer(self) -> dict[str, Any]:
        line = self._process.stdout.readline() if self._process.stdout else ""
        if not line:
            said = self._process.stderr.read() if self._process.stderr else ""
            raise SystemExit(f"the peer has ended with code {self._process.wait()}:\n{said}")
        answer: dict[str, Any] = json.loads(line)
        return answer
