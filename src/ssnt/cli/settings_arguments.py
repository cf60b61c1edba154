"""Arguments of the verbs that train: a file of settings and KEY=VALUE, and the options that stand for settings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ssnt.cli.agreement import check_agreement
from ssnt.cli.data_options import as_column
from ssnt.cli.options import ModelName
from ssnt.errors import ConfigError

if TYPE_CHECKING:
    from ssnt.config import Config
    from ssnt.config.files import SomeConfig


def _preset_names(incomplete: str) -> Iterator[str]:
    from ssnt.config import PRESETS

    yield from (name for name in PRESETS if name.startswith(incomplete))


SettingsArguments = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="CONFIG.yaml KEY=VALUE",
        help="A file of settings, and settings that go before those in the file, such as training.max_epochs=5.",
        show_default=False,
    ),
]
PresetOption = Annotated[
    str | None,
    typer.Option(
        "--preset",
        metavar="NAME",
        autocompletion=_preset_names,
        help="Settings to begin with: inflection, summarisation, g2p or quickstart.",
        show_default=False,
    ),
]
TrainOption = Annotated[str | None, typer.Option("--train", metavar="FILE", help="Training data.", show_default=False)]
DevOption = Annotated[
    str | None,
    typer.Option("--dev", metavar="FILE", help="Data on which the best model is chosen.", show_default=False),
]
ModelOption = Annotated[
    ModelName | None,
    typer.Option(
        "--model",
        metavar="NAME",
        help=f"What kind of model: {', '.join(ModelName)}.",
        show_default="what the settings say, biSSNT+ if nothing",
    ),
]
PrintConfigOption = Annotated[
    bool, typer.Option("--print-config", help="Print all settings as YAML, and train nothing.")
]


def told_apart(arguments: Sequence[str]) -> tuple[str | None, list[str]]:
    """The file of settings, which has no equals sign in its name, and the settings."""
    files = [one for one in arguments if "=" not in one]
    if len(files) > 1:
        raise ConfigError(f"expected one file of settings, got {' and '.join(files)}; settings are KEY=VALUE")
    return (files[0] if files else None), [one for one in arguments if "=" in one]


def model_settings(name: ModelName | None) -> dict[str, Any]:
    """What the kind of model says, as settings; none if it was not given."""
    from ssnt.config import named_settings

    return {} if name is None else named_settings(name.value)


def data_settings(
    train: str | None,
    dev: str | None,
    file_format: str | None,
    source_column: str | None,
    target_column: str | None,
    tags_column: str | None,
) -> dict[str, Any]:
    """What the options about data say, as settings; None: not given."""
    columns = {"source_column": source_column, "target_column": target_column, "tags_column": tags_column}
    return {
        "train": train,
        "dev": dev,
        "format": None if file_format is None else str(file_format),
        **{name: None if column is None else as_column(column) for name, column in columns.items()},
    }


def overrides_of(settings: Sequence[str], options: dict[str, Any], cls: type[Config] | None = None) -> dict[str, Any]:
    """What the command line says, as nested settings; options that were not given are left out.

    Args:
        settings: As KEY=VALUE.
        options: The values of options, nested like settings; None: not given.
        cls: The class of the settings; None: those of a training.

    Raises:
        ConfigError: A setting is wrong, or is given twice with different values.
    """
    from ssnt.config import Config, merged, parse_overrides

    given: dict[str, Any] = {}
    for name, value in options.items():
        if isinstance(value, dict):
            if inner := {key: one for key, one in value.items() if one is not None}:
                given[name] = inner
        elif value is not None:
            given[name] = value
    set_too = parse_overrides(settings, cls or Config)
    check_agreement(given, set_too)
    return merged(given, set_too)


def going_on(before: SomeConfig, overrides: dict[str, Any]) -> SomeConfig:
    """The settings that something was started with, and what the command line changes in them.

    Raises:
        ConfigError: A setting is wrong.
    """
    from ssnt.config import merged

    settings = before.model_dump()
    if overrides.get("hardware", {}).get("engine") == "local":
        settings["hardware"]["address"] = None  # of the engine that it was started with
    return type(before).model_validate(merged(settings, overrides))


def check_given(config: Config, *options: str) -> None:
    """Refuses settings without what options such as ``--train`` stand for.

    Raises:
        ConfigError: Some are missing; all such are named.
    """
    values = {"--train": config.data.train, "--dev": config.data.dev, "--out": config.out}
    if missing := [option for option in options if values[option] is None]:
        raise ConfigError(f"{' and '.join(missing)} must be given, here or in a file of settings")
