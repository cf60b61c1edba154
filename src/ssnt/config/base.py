"""What all settings have in common: a wrong or unknown one is a ConfigError that says what was expected."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Self, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ValidationError

from ssnt.errors import ConfigError, nearest_name


class Settings(BaseModel):
    """Base of all settings: frozen, no conversions between types, no unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    if not TYPE_CHECKING:  # hidden from static checkers, which keep the exact signatures that way

        def __init__(self, /, **settings: Any) -> None:
            with _config_errors(type(self)):
                super().__init__(**settings)

        @classmethod
        def model_validate(cls, obj: Any, **options: Any) -> Self:
            """Returns checked settings from a mapping."""
            with _config_errors(cls):
                return super().model_validate(obj, **options)

        def model_copy(self, *, update: dict[str, Any] | None = None, deep: bool = False) -> Self:
            """Returns a checked copy with some settings changed."""
            # pydantic would take over the changes unchecked
            return type(self)(**{**self.model_dump(), **(update or {})})


def section_of(cls: type[BaseModel], keys: Sequence[str]) -> type[BaseModel] | None:
    """The settings class that a path of keys leads to, None if it leads to no section."""
    for key in keys:
        field = cls.model_fields.get(key)
        candidates = () if field is None else (field.annotation, *get_args(field.annotation))
        sections = [one for one in candidates if isinstance(one, type) and issubclass(one, BaseModel)]
        if not sections:
            return None
        cls = sections[0]
    return cls


def kinds_of(annotation: Any) -> set[Any]:
    """The types that a setting may have, without what else is said about them."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return kinds_of(get_args(annotation)[0])
    if origin in (Union, UnionType):
        return {kind for part in get_args(annotation) for kind in kinds_of(part)}
    return {annotation}


def unknown_setting(cls: type[BaseModel], keys: Sequence[str], value: Any) -> str:
    """Says that a setting does not exist, and which one may be meant."""
    name = ".".join(keys)
    *parents, last = keys
    parent = section_of(cls, parents)
    if parent is None:  # the section itself is misspelt
        parents = difflib.get_close_matches(parents[0], list(cls.model_fields), n=1)
        parent = section_of(cls, parents) if parents else None
    siblings = list(parent.model_fields) if parent is not None else []
    prefix = "".join(f"{part}." for part in parents)
    nearest = difflib.get_close_matches(last, siblings, n=1)
    if nearest:
        hint = f"did you mean {prefix + nearest[0]!r}?"
    elif elsewhere := _same_name_elsewhere(cls, last):
        hint = f"did you mean {elsewhere!r}?"
    else:
        hint = f"expected one of {', '.join(prefix + one for one in siblings or cls.model_fields)}"
    return f"unknown setting {name!r} (got {value!r}): {hint}"


def _same_name_elsewhere(cls: type[BaseModel], name: str) -> str | None:
    """Where in the tree of settings a name is nearest to what was written, section and all."""
    for section in cls.model_fields:
        inner = section_of(cls, [section])
        if inner is not None and (found := difflib.get_close_matches(name, list(inner.model_fields), n=1, cutoff=0.8)):
            return f"{section}.{found[0]}"
    return None


class _SettingsError(ConfigError):
    """Carries pydantic's account of what is wrong, so that an outer section can tell it with the whole name."""

    def __init__(self, message: str, details: list[Any]) -> None:
        super().__init__(message)
        self.details = details


@contextmanager
def _config_errors(cls: type[BaseModel]) -> Iterator[None]:
    """Turns pydantic's errors into one ConfigError, a line for each wrong setting."""
    try:
        yield
    except ValidationError as error:
        details = [one for outer in error.errors(include_url=False) for one in _inner(outer)]
        lines = [_explain(one, cls) for one in details]
        raise _SettingsError("\n".join(dict.fromkeys(lines)), details) from None


def _inner(details: Any) -> list[Any]:
    """The errors of a section, with the section in their names, or the error itself if it is not about a section."""
    cause = details.get("ctx", {}).get("error")
    if not isinstance(cause, _SettingsError):
        return [details]
    return [{**one, "loc": (*details["loc"], *one["loc"])} for one in cause.details]


def _explain(details: Any, cls: type[BaseModel]) -> str:
    """Says which setting is wrong, what was expected and what came."""
    keys = [str(part) for part in details["loc"]]
    key = ".".join(_without_alternatives(cls, keys))
    if details["type"] == "extra_forbidden":
        return unknown_setting(cls, keys, details["input"])
    if details["type"] == "missing":
        return f"setting {key!r}: expected a value, got none; it has no default"
    if details["type"] == "value_error":
        message = str(details["ctx"]["error"])
        # an error about several settings names them itself, and has a section or nothing for a key
        if not key:
            return message
        if section_of(cls, keys) is not None:  # a section does not know what it is called in the whole
            return re.sub(r"^setting '(\w+)'", rf"setting '{key}.\1'", message)
        return f"setting {key!r}: {message}, got {details['input']!r}"
    expected = str(details["msg"]).removeprefix("Input should be ")
    if expected.startswith(("greater", "less")):
        expected = f"a value {expected}"
    return f"setting {key!r}: expected {expected}, got {details['input']!r}{_meant(details)}"


def _meant(details: Any) -> str:
    """Which of a fixed choice of values may be meant."""
    if details["type"] != "literal_error" or not isinstance(details["input"], str):
        return ""
    nearest = nearest_name(details["input"], re.findall(r"'([^']*)'", details["ctx"]["expected"]))
    return "" if nearest is None else f"; did you mean {nearest!r}?"


def _without_alternatives(cls: type[BaseModel], keys: list[str]) -> list[str]:
    """The keys that name a setting; what pydantic adds for the parts of a union (``str``, ``int``) is left out."""
    for depth in range(1, len(keys)):
        if section_of(cls, keys[:depth]) is None:
            return keys[:depth]
    return keys
