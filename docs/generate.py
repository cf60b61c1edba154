"""Writes the pages that are made from the code: docs/settings.md and docs/commands.md.

    python docs/generate.py            writes them
    python docs/generate.py --check    writes nothing, and exits with 1 if one is out of date

The text between the tables is in ``docs/intros/``.
"""

from __future__ import annotations

import enum
import inspect
import re
import sys
import types
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from typer.models import ArgumentInfo, OptionInfo, ParameterInfo

from ssnt.cli.app import VERBS, Verb, examples_of
from ssnt.config import PRESETS, Config, preset_path

DOCS = Path(__file__).parent
_NOTE = "<!-- Written by docs/generate.py: change the code or docs/intros/, and run it. -->\n"


def main() -> None:
    """Writes the pages, or checks them."""
    stale = []
    for name, text in pages().items():
        path = DOCS / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            stale.append(name)
            if "--check" not in sys.argv[1:]:
                path.write_text(text, encoding="utf-8", newline="\n")
    print("\n".join(f"docs/{name}" for name in stale) or "all pages are up to date")
    sys.exit(1 if stale and "--check" in sys.argv[1:] else 0)


def pages() -> dict[str, str]:
    """The text of every generated page by its name."""
    return {"settings.md": settings_page(), "commands.md": commands_page()}


# ---------------------------------------------------------------------------------------------------------- settings


def settings_page() -> str:
    """All settings: what the classes in ``ssnt.config`` say of them, and the presets."""
    parts = [_NOTE, _intro("settings")]
    parts += [_section(name, field) for name, field in Config.model_fields.items() if _is_section(field)]
    top = {name: field for name, field in Config.model_fields.items() if not _is_section(field)}
    parts += ["## Beside the sections\n", _settings_table("", top, attributes(Config))]
    parts.append(_intro("presets"))
    for name in PRESETS:
        yaml = preset_path(name).read_text(encoding="utf-8").strip()
        parts.append(f"### `{name}` {{ #preset-{name} }}\n\n```yaml\n{yaml}\n```\n")
    return "\n".join(parts)


def attributes(cls: type) -> dict[str, str]:
    """What the docstrings of a class and its bases say of each attribute."""
    found: dict[str, str] = {}
    for one in reversed(cls.__mro__):
        text = inspect.cleandoc(one.__dict__.get("__doc__") or "").partition("Attributes:\n")[2]
        for match in re.finditer(r"^    (\w+): (.*(?:\n {5,}.*)*)", text, re.MULTILINE):
            found[match[1]] = markdown(" ".join(match[2].split()))
    return found


def markdown(text: str) -> str:
    """A docstring's text as Markdown: references, literals and options become code, and None is what YAML calls it."""
    text = re.sub(r":\w+:`~?(?:[\w.]*\.)?(\w+)`", r"`\1`", text).replace("``", "`")
    parts = text.split("`")
    parts[::2] = [_prose(part) for part in parts[::2]]
    return "`".join(parts)


def _prose(text: str) -> str:
    """Text outside of code, in which nothing is emphasis by accident."""
    text = re.sub(r"([_*<])", r"\\\1", text)
    text = re.sub(r"(?<![\w-])(--[a-z][a-z-]+)", r"`\1`", text)
    return re.sub(r"\bNone\b", "`null`", text)


def _intro(name: str) -> str:
    return (DOCS / "intros" / f"{name}.md").read_text(encoding="utf-8")


def _is_section(field: FieldInfo) -> bool:
    return isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel)


def _section(name: str, field: FieldInfo) -> str:
    cls: Any = field.annotation
    first = markdown(inspect.cleandoc(cls.__doc__ or "").splitlines()[0])
    return f"## {name}\n\n{first}\n\n{_settings_table(f'{name}.', cls.model_fields, attributes(cls))}"


def _settings_table(prefix: str, fields: dict[str, FieldInfo], said: dict[str, str]) -> str:
    rows = [
        (f"`{prefix}{name}`", _allowed(field), f"`{_value(field.default)}`", said[name])
        for name, field in fields.items()
    ]
    return _table(("setting", "values", "default", "meaning"), rows)


def _value(value: Any) -> str:
    """A value as YAML has it."""
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _allowed(field: FieldInfo) -> str:
    """The values that a setting may have, in words."""
    parts = list(dict.fromkeys(_kinds(field.annotation, tuple(field.metadata))))
    return " or ".join(parts)


def _kinds(kind: Any, limits: tuple[Any, ...] = ()) -> Iterator[str]:
    origin = get_origin(kind)
    if origin is Annotated:
        inner, *more = get_args(kind)
        yield from _kinds(inner, (*limits, *more))
    elif origin in (Union, types.UnionType):
        for one in get_args(kind):
            yield from _kinds(one, limits)
    elif origin is Literal:
        yield ", ".join(f"`{one}`" for one in get_args(kind))
    elif kind is types.NoneType:
        yield "`null`"
    else:
        word = {bool: "`true`, `false`", int: "whole number", float: "number", str: "text"}[kind]
        yield word + (_limits(limits) if kind in (int, float) else "")


def _limits(limits: tuple[Any, ...]) -> str:
    signs = {"gt": ">", "ge": ">=", "lt": "<", "le": "<="}
    said = [
        f"{signs[name]} {getattr(one, name):g}"
        for one in _flat(limits)
        for name in signs
        if getattr(one, name, None) is not None
    ]
    return f" {', '.join(said)}" if said else ""


def _flat(limits: tuple[Any, ...]) -> Iterator[Any]:
    for one in limits:
        yield from _flat(tuple(one.metadata)) if isinstance(one, FieldInfo) else (one,)


# ---------------------------------------------------------------------------------------------------------- commands


def commands_page() -> str:
    """All commands: what their functions and the table of verbs say of them."""
    return "\n".join([_NOTE, _intro("commands"), *map(_command, VERBS)])


def _command(verb: Verb) -> str:
    function = verb.function()
    name = " ".join(filter(None, ("ssnt", verb.group, verb.name)))
    parameters = list(_parameters(function))
    arguments = [one for one in parameters if isinstance(one.info, ArgumentInfo)]
    options = [one for one in parameters if isinstance(one.info, OptionInfo)]
    usage = " ".join([name, *(one.in_usage for one in arguments), "[OPTIONS]"])
    text = inspect.cleandoc(function.__doc__ or "").partition("Examples:")[0].strip()
    parts = [f"## {name}\n", f"```text\n{usage}\n```\n", markdown(text) + "\n"]
    if arguments:
        rows = [(f"`{one.name}`", one.help) for one in arguments]
        parts.append(_table(("argument", "meaning"), rows))
    if options:
        parts.append(_table(("option", "default", "meaning"), [(one.name, one.default, one.help) for one in options]))
    commands = "".join(f"$ {line}\n" for line in examples_of(function))
    parts.append(f"```console\n{commands}```\n")
    return "\n".join(parts)


class Parameter:
    """An argument or an option of a command, as its function declares it.

    Attributes:
        info: The declaration.
        help: What it means.
    """

    def __init__(self, parameter: inspect.Parameter, kind: Any, info: ParameterInfo) -> None:
        self._parameter, self._kind, self.info = parameter, kind, info
        self.help = markdown(info.help or "")
        if self._choices and not info.metavar:
            self.help += f" One of {', '.join(f'`{one}`' for one in self._choices)}."

    @property
    def name(self) -> str:
        """Its name, with what stands for its value."""
        if isinstance(self.info, ArgumentInfo):
            return self.info.metavar or self._parameter.name.upper()
        # within Annotated the first name is taken for the default
        named = [self.info.default, *(self.info.param_decls or ())]
        decls = [one for one in named if isinstance(one, str) and one.startswith("-")]
        decls = decls or [f"--{self._parameter.name.replace('_', '-')}"]
        value = "" if bool in self._kinds else f" {self.info.metavar or 'NAME'}"
        return ", ".join(f"`{one}{value}`" for one in decls)

    @property
    def in_usage(self) -> str:
        """How the usage of the command shows it."""
        several = " ..." if any(get_origin(kind) is list for kind in self._kinds) else ""
        is_needed = self._parameter.default is inspect.Parameter.empty
        return self.name + several if is_needed else f"[{self.name}]{several}"

    @property
    def default(self) -> str:
        """What holds if it is not given."""
        if isinstance(self.info.show_default, str):
            return self.info.show_default
        value = self._parameter.default
        if value is inspect.Parameter.empty:
            return "needed"
        return "" if value is None or value is False else f"`{value}`"

    @property
    def _kinds(self) -> tuple[Any, ...]:
        return get_args(self._kind) if isinstance(self._kind, types.UnionType) else (self._kind,)

    @property
    def _choices(self) -> list[str]:
        enums = [kind for kind in self._kinds if isinstance(kind, type) and issubclass(kind, enum.Enum)]
        return [str(one.value) for kind in enums for one in kind]


def _parameters(function: Any) -> Iterator[Parameter]:
    hints = get_type_hints(function, include_extras=True)
    for name, parameter in inspect.signature(function).parameters.items():
        if get_origin(hints[name]) is Annotated:
            kind, *infos = get_args(hints[name])
            for info in infos:
                if isinstance(info, ParameterInfo) and not info.hidden:
                    yield Parameter(parameter, kind, info)


def _table(header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """A table in Markdown."""
    lines = [header, ("---",) * len(header), *rows]
    if wrong := [cell for line in lines for cell in line if "|" in cell]:
        # in code within a table, some readers of Markdown show the backslash that others need
        raise ValueError(f"a table cannot show {wrong[0]!r}")
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


if __name__ == "__main__":
    main()
