"""Model directories to be damaged, for tests of what happens then."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from ssnt.checkpoint.manifest import _checksum


def begin_training(directory: Path) -> Path:
    """Makes a directory one of a training that has only begun; gives the file that says so."""
    record = directory / "training" / "config.yaml"
    record.parent.mkdir(parents=True, exist_ok=True)
    record.write_text("format_version: 1\nssnt_version: 0.1\ndata_sha256: {}\nconfig: {}\n", encoding="utf-8")
    return record


def contents(directory: Path) -> dict[str, bytes]:
    """All files in a directory."""
    return {str(one.relative_to(directory)): one.read_bytes() for one in directory.rglob("*") if one.is_file()}


def rewritten(directory: Path, **changes: Any) -> None:
    """Changes keys of config.yaml, and makes the checksum fit."""
    path = directory / "config.yaml"
    content = {**yaml.safe_load(path.read_text(encoding="utf-8")), **changes}
    content["checksum"] = _checksum(content)
    path.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")


def replaced(directory: Path, name: str, content: bytes) -> None:
    """Puts other content into a file, and makes the SHA-256 of it fit."""
    (directory / name).write_bytes(content)
    files = yaml.safe_load((directory / "config.yaml").read_text(encoding="utf-8"))["files"]
    rewritten(directory, files={**files, name: hashlib.sha256(content).hexdigest()})


def failing(number: int, what: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Lets the given one of all renamings fail, counted from 0, and gives the names of those before it."""
    done: list[str] = []
    for name in ("rename", "replace"):
        original = getattr(os, name)

        def step(source: Any, target: Any, *, original: Any = original, **more: Any) -> None:
            if len(done) == number:
                what()
            done.append(str(target))
            original(source, target, **more)

        monkeypatch.setattr(os, name, step)
    return done
