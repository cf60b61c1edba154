"""Records of what was started: its settings, and the SHA-256 of its data, which have to be the same to go on."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from ssnt.__about__ import __version__
from ssnt.config import Config, flattened, read_settings, to_yaml, upgraded
from ssnt.config.files import SomeConfig
from ssnt.errors import ConfigError, DataError
from ssnt.files import write_text

FORMAT_VERSION = 1
"""Changes when a run is kept in a way that an older ssnt cannot go on from."""

_PRECISION = "hardware.precision"
_SAME_WEIGHTS = {"float32", "bfloat16"}  # in either the weights of a checkpoint are float32


def write_record(
    path: Path, header: str, config: Config, hashes: Mapping[str, str], more: Mapping[str, Any] | None = None
) -> None:
    """Writes settings, the SHA-256 of the data that they are used with, and what else there is to remember."""
    content = {
        "format_version": FORMAT_VERSION,
        "ssnt_version": __version__,
        "data_sha256": dict(hashes),
        **(more or {}),
        "config": with_whole_paths(config).model_dump(),
    }
    write_text(path, header + to_yaml(content))


def read_record(path: Path, cls: type[SomeConfig], what: str) -> tuple[SomeConfig, dict[str, str]]:
    """The settings in a record, and the SHA-256 of the data.

    Args:
        path: The file.
        cls: The class of the settings.
        what: What messages call that which the record is of.

    Raises:
        ConfigError: It is no such record, or a newer ssnt has written it.
    """
    content = read_settings(path)
    version = content.get("format_version")
    if not isinstance(version, int) or version > FORMAT_VERSION:
        raise ConfigError(
            f"{path}: was written by a newer ssnt (format_version {version!r}, this ssnt goes on from "
            f"{FORMAT_VERSION}); upgrade ssnt"
        )
    hashes = content.get("data_sha256")
    if not isinstance(hashes, dict) or not isinstance(content.get("config"), dict):
        raise ConfigError(f"{path}: is not the record of a {what}; choose another directory (--out)")
    try:
        return cls.model_validate(upgraded(content["config"])), hashes
    except ConfigError as error:
        raise ConfigError("\n".join(f"{path}: {line}" for line in str(error).splitlines())) from None


def check_unchanged(
    out: Path,
    before: tuple[Config, Mapping[str, str]],
    now: tuple[Config, Mapping[str, str]],
    may_change: Collection[str],
    what: str,
) -> None:
    """Refuses to go on with other settings or data than something was started with.

    The precision may change between those that have the same checkpoints: not every machine has all of them.

    Args:
        out: Its directory.
        before: The settings, and the SHA-256 of the data, that it was started with.
        now: Those that it is to go on with.
        may_change: Settings that do not matter.
        what: What messages call it.

    Raises:
        ConfigError: A setting differs that matters; all such are named.
        DataError: A data file has changed.
    """
    old, new = flattened(before[0].model_dump()), flattened(now[0].model_dump())
    same = {_PRECISION} if {old.get(_PRECISION), new.get(_PRECISION)} <= _SAME_WEIGHTS else set()
    names = [name for name in dict.fromkeys((*new, *old)) if name not in may_change and name not in same]
    if differing := [name for name in names if old.get(name) != new.get(name)]:
        changes = ", ".join(f"{name} (was {old.get(name)!r}, is {new.get(name)!r})" for name in differing)
        raise ConfigError(
            f"{out}: the {what} cannot go on with other settings than it was started with: {changes}; leave "
            "them as they were, or start anew with --overwrite or another --out"
        )
    for part in ("train", "dev"):
        if before[1].get(part) != now[1].get(part):
            path = getattr(now[0].data, part) or f"data.{part}"
            raise DataError(
                f"{path}: the {part} data is not what the {what} in {out} was started with (its SHA-256 "
                "differs); put the old file back, or start anew with --overwrite"
            )


def with_whole_paths(config: SomeConfig) -> SomeConfig:
    """Settings whose files are found from any directory."""
    names = {name: getattr(config.data, name) for name in ("train", "dev", "cache")}
    whole = {name: os.path.abspath(path) for name, path in names.items() if path is not None}
    return config.model_copy(update={"data": config.data.model_copy(update=whole)})
