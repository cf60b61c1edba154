"""How a data file is laid out, told on the command line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ssnt.cli.agreement import check_agreement
from ssnt.errors import ConfigError

if TYPE_CHECKING:
    from ssnt.config import DataConfig

_NOWHERE = {False: 1_000_000, True: "(not read)"}
_LAYOUT = ("source_column", "target_column", "tags_column", "tag_separator")


def data_settings(
    base: DataConfig | None = None,
    *,
    format_: str | None = None,
    source_column: str | None = None,
    target_column: str | None = None,
    tags_column: str | None = None,
    settings: Sequence[str] | None = None,
    needs_target: bool = True,
) -> DataConfig:
    """The settings of a data file: those of a model or the defaults, changed by what the command line says.

    Args:
        base: What to begin with.
        format_: Another layout; what ``base`` says about columns is then forgotten.
        source_column: Column of the source, by number or name.
        target_column: Column of the target.
        tags_column: Column of the tags.
        settings: More settings, as ``data.lowercase=true`` or ``lowercase=true``.
        needs_target: Whether the target is read. If not, its column gives way to the others.

    Raises:
        ConfigError: A setting is unknown or wrong, or is given twice with different values.
    """
    from ssnt.config import DataConfig

    base = base or DataConfig()
    given: dict[str, Any] = {} if format_ is None else {"format": str(format_)}
    for name, column in zip(_LAYOUT, (source_column, target_column, tags_column), strict=False):
        if column is not None:
            given[name] = as_column(column)
    set_too = _parsed(settings or ())
    check_agreement({"data": given}, {"data": set_too})
    forgotten = dict.fromkeys(_LAYOUT) if given.get("format", base.format) != base.format else {}
    data = base.model_copy(update=forgotten | given | set_too)
    return data if needs_target else _with_target_aside(data)


def as_column(text: str) -> int | str:
    """A column as settings have it: digits are its number, anything else its name."""
    return int(text) if text.isascii() and text.isdigit() else text


def _with_target_aside(data: DataConfig) -> DataConfig:
    """The same layout with the column of the target, which is not read, where no other column is."""
    from ssnt.data.formats import resolve_format

    try:
        resolve_format(data)
    except ConfigError:
        aside = data.model_copy(update={"target_column": _NOWHERE[data.format == "jsonl"]})
        resolve_format(aside)  # anything else that is wrong still is
        return aside
    return data


def _parsed(settings: Sequence[str]) -> dict[str, Any]:
    from ssnt.config import parse_overrides

    whole = [one if "." in one.partition("=")[0] else f"data.{one}" for one in settings]
    parsed = parse_overrides(whole)
    others = [name for name in parsed if name != "data"]
    if others:
        raise ConfigError(f"{others[0]}: only settings of the data count here, such as data.lowercase=true")
    data: dict[str, Any] = parsed.get("data", {})
    return data
