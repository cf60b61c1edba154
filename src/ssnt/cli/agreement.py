"""What options say, and what KEY=VALUE says, must agree: which of them is meant cannot be told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ssnt.errors import ConfigError


def check_agreement(by_options: Mapping[str, Any], by_settings: Mapping[str, Any]) -> None:
    """Refuses settings to which an option and KEY=VALUE give different values.

    Args:
        by_options: What options have given, nested like settings.
        by_settings: What KEY=VALUE has given, nested.

    Raises:
        ConfigError: There is one.
    """
    from ssnt.config.files import first_disagreement

    found = first_disagreement(by_options, by_settings)
    if found is None:
        return
    if isinstance(found.first, Mapping):
        option = _option(found.name, next(iter(found.first)))
        raise ConfigError(
            f"setting {found.name!r}: expected none beside {option}, which sets a part of it; leave one out"
        )
    section, _, key = found.name.rpartition(".")
    raise ConfigError(
        f"setting {found.name!r}: given twice, as {found.first!r} by {_option(section, key)} and as {found.second!r} "
        f"by {found.name}=; leave one out"
    )


def _option(section: str, key: str) -> str:
    """The option that stands for a setting."""
    return "--model" if section == "model" else f"--{key.replace('_', '-')}"
