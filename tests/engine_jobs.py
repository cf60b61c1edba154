"""Jobs for the tests of engines: each does one thing that a job can do, quickly."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ssnt.engines.base import DONE, STOPPED, Report
from ssnt.errors import DataError, ModelError
from ssnt.interrupts import Stop

Tell = Callable[[Report], None]
PATIENCE = 60.0


def count(order: dict[str, Any], tell: Tell, stop: Stop) -> Report:
    """Counts, and says who it is; what it prints is no report."""
    for number in range(order.get("to", 2)):
        print("noise")
        tell({"number": number})
    return {
        "state": DONE,
        "process": os.getpid(),
        "directory": os.getcwd(),
        "threads": os.environ.get("OMP_NUM_THREADS"),
        "value": order.get("value"),
    }


def wait(order: dict[str, Any], tell: Tell, stop: Stop) -> Report:
    """Goes on until it is asked to stop, and then saves."""
    tell({"process": os.getpid(), "parent": os.getppid()})
    deadline = time.monotonic() + PATIENCE
    while not stop.is_requested:
        if time.monotonic() > deadline:
            return {"state": DONE}
        time.sleep(0.01)
    if "saved" in order:
        tell({"saving": True})
        time.sleep(order.get("takes", 0.0))
        Path(order["saved"]).write_text("saved")
    return {"state": STOPPED, "has_saved": True}


def be_stopped(order: dict[str, Any], tell: Tell, stop: Stop) -> Report:
    """Is stopped, by somebody who is not asked to, until there are so many lines in a file."""
    with Path(order["file"]).open("a") as file:
        file.write("begun\n")
    if len(Path(order["file"]).read_text().splitlines()) <= order["times"]:
        os.kill(os.getpid(), signal.SIGTERM)
        return wait({}, tell, stop)
    return {"state": DONE}


def be_given_up(order: dict[str, Any], tell: Tell, stop: Stop) -> Report:
    """Does what can be given up at once."""
    with stop.giving_up_allowed():
        tell({"process": os.getpid()})
        time.sleep(PATIENCE)
    return {"state": DONE}


def die(order: dict[str, Any], tell: Tell, stop: Stop) -> Report:
    """Is killed until there are so many lines in a file; ``who`` is killed, the process or its parent."""
    with Path(order["file"]).open("a") as file:
        file.write("begun\n")
    begun = len(Path(order["file"]).read_text().splitlines())
    tell({"begun": begun})
    if begun <= order["times"]:
        os.kill(os.getpid() if order.get("who") != "parent" else os.getppid(), signal.SIGKILL)
        return wait({}, tell, stop)
    return {"state": DONE}


def fail(order: dict[str, Any], tell: Tell, stop: Stop) -> Report:
    """Raises."""
    raise {"data": DataError("bad data"), "model": ModelError("diverged"), "other": KeyError("x")}[order["how"]]
