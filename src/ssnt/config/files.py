"""Settings in YAML files: read, written, overridden by ``key=value``, and the presets that come with the package."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel

from ssnt.config.base import kinds_of, section_of, unknown_setting
from ssnt.config.run import Config
from ssnt.errors import ConfigError

SomeConfig = TypeVar("SomeConfig", bound=Config)

PRESETS = ("inflection", "summarisation", "g2p", "quickstart")
"""The settings that come with the package, by name: commented YAML files."""

_SINGLE_QUOTED, _DOUBLE_QUOTED = r"'(?:[^']|'')*'", r'"(?:[^"\\]|\\.)*"'
_QUOTED = re.compile(f"{_SINGLE_QUOTED}|{_DOUBLE_QUOTED}", re.DOTALL)
_WHOLE_NUMBER = re.compile(r"[-+]?[0-9]{1,18}")


class _Loader(yaml.SafeLoader):
    """Reads ``1e-3`` as a number, which YAML 1.1 does not, and refuses a key given twice."""


class _Dumper(yaml.SafeDumper):
    """Writes what :class:`_Loader` reads back as the same: the text ``1e3`` in quotes."""


for _class in (_Loader, _Dumper):
    _class.add_implicit_resolver(
        "tag:yaml.org,2002:float",
        re.compile(r"^[-+]?(?:[0-9][0-9_]*)(?:\.[0-9_]*)?[eE][-+]?[0-9]+$"),
        list("-+0123456789"),
    )


def _represent_text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    # other ends of lines than \n become one when they are read, unless they are escaped
    style = '"' if set(text) & set("\r\x85\u2028\u2029") else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)


def _mapping_without_repeats(loader: _Loader, node: yaml.MappingNode) -> dict[Any, Any]:
    seen: set[Any] = set()
    for key_node, _ in node.value:
        key = loader.construct_object(key_node)
        if key in seen:
            raise yaml.constructor.ConstructorError(
                None, None, f"setting {key!r} is given twice; leave one out", key_node.start_mark
            )
        seen.add(key)
    return loader.construct_mapping(node)


_Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping_without_repeats)


def preset_path(name: str) -> Path:
    """The file of a preset.

    Raises:
        ConfigError: There is none of this name.
    """
    if name not in PRESETS:
        nearest = difflib.get_close_matches(name, PRESETS, n=1)
        hint = f"did you mean {nearest[0]!r}?" if nearest else f"expected one of {', '.join(PRESETS)}"
        raise ConfigError(f"unknown preset {name!r}: {hint}")
    return Path(str(files("ssnt").joinpath("presets", f"{name}.yaml")))


def read_settings(path: str | Path) -> dict[str, Any]:
    """The settings in a YAML file as nested dictionaries, not yet checked.

    Raises:
        ConfigError: The file cannot be read, is not YAML or holds something else; the message has the line.
    """
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigError(f"{path}: there is no such file") from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise ConfigError(f"{path}:{line}: not valid UTF-8 ({error.reason}); save the file as UTF-8") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    return parse_settings(text, str(path))


def parse_settings(text: str, where: str) -> dict[str, Any]:
    """The settings in YAML text; ``where`` is what messages call it."""
    try:
        settings = yaml.load(text, _Loader)
    except yaml.MarkedYAMLError as error:
        line = "" if error.problem_mark is None else f":{error.problem_mark.line + 1}"
        raise ConfigError(f"{where}{line}: not valid YAML: {error.problem}") from None
    except (yaml.YAMLError, ValueError, TypeError, LookupError, RecursionError) as error:
        # a value that is not what its tag says, a key that is a list, brackets without end
        raise ConfigError(f"{where}: not valid YAML: {error}") from None
    if settings is None:
        return {}
    if not isinstance(settings, dict):
        raise ConfigError(f"{where}: expected settings, one 'name: value' a line, got {type(settings).__name__}")
    return settings


def merged(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Nested settings with others laid over them."""
    result = dict(base)
    for key, value in changes.items():
        old = result.get(key)
        result[key] = merged(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return result


def upgraded(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings that an older ssnt has written down, with the names that they have now."""
    training, hardware = settings.get("training"), settings.get("hardware")
    if not isinstance(training, Mapping) or not isinstance(hardware, Mapping) or "workers" not in training:
        return dict(settings)
    kept = {name: value for name, value in training.items() if name != "workers"}
    return {**settings, "training": kept, "hardware": {**hardware, "workers": training["workers"]}}


def flattened(settings: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """Nested settings by their dotted names."""
    flat: dict[str, Any] = {}
    for key, value in settings.items():
        if isinstance(value, Mapping):
            flat |= flattened(value, f"{before}{key}.")
        else:
            flat[f"{before}{key}"] = value
    return flat


def nested(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings by their dotted names as nested dictionaries."""
    result: dict[str, Any] = {}
    for name, value in settings.items():
        *parents, last = name.split(".")
        inner: dict[str, Any] = {last: value}
        for key in reversed(parents):
            inner = {key: inner}
        result = merged(result, inner)
    return result


def parse_overrides(overrides: Iterable[str], cls: type[BaseModel] = Config) -> dict[str, Any]:
    """Settings from the command line, such as ``training.max_epochs=5``, as nested dictionaries.

    A value is YAML. But where a setting may be text, all of it is that text, so that ``#``, ``,`` and ``:`` stand for
    themselves; only ``null``, ``~`` and nothing at all mean None, quotes around it are taken off, and a whole number is
    one where the setting may be a number too. Space around the text is left out unless it is in quotes or is all there
    is.

    Raises:
        ConfigError: One is not of this form, or names no setting, or two give a setting different values.
    """
    result: dict[str, Any] = {}
    for override in overrides:
        name, equals, text = override.partition("=")
        keys = name.strip().split(".")
        if not equals or not all(keys):
            raise ConfigError(f"{override!r}: expected section.setting=value, such as training.max_epochs=5")
        parent = section_of(cls, keys[:-1])
        field = None if parent is None else parent.model_fields.get(keys[-1])
        if field is None:
            raise ConfigError(unknown_setting(cls, keys, _plain_value(text)))
        kinds = kinds_of(field.annotation)
        value: Any = _text_value(text, kinds, override) if str in kinds else _yaml_value(text, override)
        change = nested({".".join(keys): value})
        if found := first_disagreement(result, change):
            raise ConfigError(
                f"setting {found.name!r}: given twice, as {found.first!r} and as {found.second!r}; leave one out"
            )
        result = merged(result, change)
    return result


@dataclass(frozen=True)
class Disagreement:
    """A setting, or a section, to which two give different values.

    Attributes:
        name: Its dotted name.
        first: What the first one says.
        second: What the second one says.
    """

    name: str
    first: Any
    second: Any


def first_disagreement(first: Mapping[str, Any], second: Mapping[str, Any], before: str = "") -> Disagreement | None:
    """The first of the second nested settings that the first ones have otherwise; None: they can be merged."""
    for key, value in second.items():
        if key not in first:
            continue
        name, old = f"{before}{key}", first[key]
        if isinstance(old, Mapping) and isinstance(value, Mapping):
            if found := first_disagreement(old, value, f"{name}."):
                return found
        elif old != value or isinstance(old, bool) != isinstance(value, bool):  # to Python, true is 1
            return Disagreement(name, old, value)
    return None


def _text_value(text: str, kinds: Collection[Any], override: str) -> Any:
    """The value of a setting that may be text."""
    stripped = text.strip() or text
    if stripped in ("", "null", "~"):
        return None
    if _QUOTED.fullmatch(stripped):
        return _yaml_value(stripped, override)
    return int(stripped) if int in kinds and _WHOLE_NUMBER.fullmatch(stripped) else stripped


def _yaml_value(text: str, override: str) -> Any:
    return parse_settings(f"value: {text}" if text else "value:", repr(override)).get("value")


def _plain_value(text: str) -> Any:
    """A value for a message, as it would be read if it can be."""
    try:
        return _yaml_value(text, "")
    except ConfigError:
        return text


def load_config(
    path: str | Path | None = None, *, preset: str | None = None, overrides: Mapping[str, Any] | None = None
) -> Config:
    """The settings of a run: a preset, what a file changes in it, and what the caller changes in that.

    Args:
        path: A YAML file.
        preset: One of :data:`PRESETS`, to begin with.
        overrides: Nested settings that go before both.

    Raises:
        ConfigError: A setting is unknown or wrong; the message names the file.
    """
    return load_settings(Config, path, preset=preset, overrides=overrides)


def load_settings(
    cls: type[SomeConfig],
    path: str | Path | None = None,
    *,
    preset: str | None = None,
    overrides: Mapping[str, Any] | None = None,
) -> SomeConfig:
    """Settings of some class; see :func:`load_config`."""
    settings: dict[str, Any] = {} if preset is None else read_settings(preset_path(preset))
    if path is not None:
        settings = merged(settings, read_settings(path))
        try:
            cls.model_validate(settings)  # so that a mistake in the file is told with the file's name
        except ConfigError as error:
            raise ConfigError("\n".join(f"{path}: {line}" for line in str(error).splitlines())) from None
    return cls.model_validate(merged(settings, overrides or {}))


def dump_config(config: BaseModel) -> str:
    """All settings as YAML, which :func:`load_config` reads back to the same."""
    return to_yaml(config.model_dump())


def to_yaml(value: Any) -> str:
    """Plain values as YAML, which :func:`parse_settings` reads back to the same."""
    text: str = yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)
    return text
