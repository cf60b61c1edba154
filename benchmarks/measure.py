"""Timing and memory measurement shared by the benchmarks: ratios of things run alternately, best of several."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path


class Seconds(float):
    """What a call says that it took, if not all that it does counts."""


def alternately(candidates: dict[str, Callable[[], object]], repeats: int, burst: int = 3) -> dict[str, float]:
    """Best time of each candidate in seconds; they take turns, so that a busy moment hits them all alike.

    A turn is a burst of calls: the first one pays for the state in which the candidate before left memory and caches,
    and best of all calls is what counts. A call that returns `Seconds` has timed itself.
    """
    best = dict.fromkeys(candidates, float("inf"))
    for call in candidates.values():
        call()  # compiles
    for _ in range(repeats):
        for name, call in candidates.items():
            for _ in range(burst):
                start = time.perf_counter()
                said = call()
                taken = said if isinstance(said, Seconds) else time.perf_counter() - start
                best[name] = min(best[name], float(taken))
    return best


def status_bytes(field: str) -> int:
    """A field of this process's status, such as ``VmRSS``, in bytes (Linux)."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise OSError(f"{field} is not in /proc/self/status: memory is measured on Linux only")


def peak_extra_bytes(call: Callable[[], object]) -> int:
    """How far a call raises this process's resident memory above where it stood before (Linux)."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # starts the high-water mark anew
    before = status_bytes("VmRSS")
    call()
    return status_bytes("VmHWM") - before


def in_own_process(script: str, *arguments: str) -> str:
    """Runs a benchmark script again with arguments, in a process whose memory nobody else has touched."""
    done = subprocess.run([sys.executable, script, *arguments], check=True, capture_output=True, text=True)
    return done.stdout.strip()
