"""Running the command line in tests: in this process, which is quick, or in one of its own, which is real."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Outcome:
    """What a command has left."""

    code: int
    out: str
    err: str


Run = Callable[..., Outcome]


def command_line(*arguments: str | Path) -> list[str]:
    """What starts the command line in a process of its own."""
    return [sys.executable, "-m", "ssnt", *map(str, arguments)]


def environment(**changes: str) -> dict[str, str]:
    """The environment of such a process."""
    return {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "100", **changes}


def process(*arguments: str | Path, stdin: bytes = b"", **changes: str) -> Outcome:
    """Runs a command in a process of its own; ``changes`` are variables of its environment."""
    done = subprocess.run(
        command_line(*arguments),
        input=stdin,
        capture_output=True,
        env=environment(**changes),
        check=False,
        timeout=120,
    )
    return Outcome(done.returncode, done.stdout.decode(), done.stderr.decode())


@contextmanager
def started(*arguments: str | Path, **settings: Any) -> Iterator[subprocess.Popen[bytes]]:
    """A command that is running meanwhile; whatever happens, it does not go on afterwards."""
    job = subprocess.Popen(command_line(*arguments), **{"env": environment(), **settings})
    try:
        yield job
    finally:
        job.kill()
        job.wait()
        for end in (job.stdin, job.stdout, job.stderr):
            if end is not None:
                with suppress(OSError):
                    end.close()


def write(path: Path, *lines: str) -> Path:
    """Writes a text file of these lines."""
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path
