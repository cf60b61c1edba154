"""``ssnt train``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ssnt.cli.data_options import as_column
from ssnt.cli.options import SourceColumnOption, TagsColumnOption, TargetColumnOption, TrainingFormatOption
from ssnt.errors import ConfigError

if TYPE_CHECKING:
    from ssnt.config import Config


def _preset_names(incomplete: str) -> Iterator[str]:
    from ssnt.config import PRESETS

    yield from (name for name in PRESETS if name.startswith(incomplete))


def train(
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="CONFIG.yaml KEY=VALUE",
            help="A file of settings, and settings that go before those in the file, such as training.max_epochs=5.",
            show_default=False,
        ),
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option(
            "--preset",
            metavar="NAME",
            autocompletion=_preset_names,
            help="Settings to begin with: inflection, summarisation, g2p or quickstart.",
            show_default=False,
        ),
    ] = None,
    train_file: Annotated[
        str | None, typer.Option("--train", metavar="FILE", help="Training data.", show_default=False)
    ] = None,
    dev_file: Annotated[
        str | None,
        typer.Option("--dev", metavar="FILE", help="Data on which the best model is chosen.", show_default=False),
    ] = None,
    out: Annotated[
        str | None,
        typer.Option("--out", "-o", metavar="DIR", help="The model directory to write.", show_default=False),
    ] = None,
    file_format: TrainingFormatOption = None,
    source_column: SourceColumnOption = None,
    target_column: TargetColumnOption = None,
    tags_column: TagsColumnOption = None,
    per_tag: Annotated[bool, typer.Option("--per-tag", help="Train one model for each set of tags.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the training that --out holds.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what is in --out.")] = False,
    print_config: Annotated[
        bool, typer.Option("--print-config", help="Print all settings as YAML, and train nothing.")
    ] = False,
) -> None:
    """Train a model on a file of pairs and write a model directory.

    Settings come from a preset, then a file, then the command line. A training that was stopped goes on with --resume,
    to the same weights as if it had not been stopped: the settings are then those it was started with.

    Examples:
        ssnt train --train train.tsv --dev dev.tsv --out model
        ssnt train --preset inflection --format sigmorphon2017 --train train.tsv --dev dev.tsv --out model
        ssnt train settings.yaml --out model training.max_epochs=20 model.hidden_size=64
        ssnt train --resume --out model
        ssnt train --preset g2p --print-config > settings.yaml
    """
    if resume and overwrite:
        raise ConfigError("--resume goes on with what is there and --overwrite replaces it; give one of them")
    file, settings = _told_apart(arguments or ())
    overrides = _overrides(
        settings,
        {
            "data": {
                "train": train_file,
                "dev": dev_file,
                "format": None if file_format is None else str(file_format),
                "source_column": None if source_column is None else as_column(source_column),
                "target_column": None if target_column is None else as_column(target_column),
                "tags_column": None if tags_column is None else as_column(tags_column),
            },
            "training": {"per_tag": per_tag or None},
            "out": out,
        },
    )
    from ssnt.config import dump_config

    config = _config(file, preset, overrides, resume=resume)
    if print_config:
        print(dump_config(config), end="")
    else:
        _run(config, resume=resume, overwrite=overwrite)


def _told_apart(arguments: Sequence[str]) -> tuple[str | None, list[str]]:
    """The file of settings, which has no equals sign in its name, and the settings."""
    files = [one for one in arguments if "=" not in one]
    if len(files) > 1:
        raise ConfigError(f"expected one file of settings, got {' and '.join(files)}; settings are KEY=VALUE")
    return (files[0] if files else None), [one for one in arguments if "=" in one]


def _overrides(settings: Sequence[str], options: dict[str, Any]) -> dict[str, Any]:
    """What the command line says, as nested settings; options that were not given are left out."""
    from ssnt.config import merged, parse_overrides

    given: dict[str, Any] = {}
    for name, value in options.items():
        if isinstance(value, dict):
            given[name] = {inner: one for inner, one in value.items() if one is not None}
        elif value is not None:
            given[name] = value
    return merged(given, parse_overrides(settings))


def _config(file: str | None, preset: str | None, overrides: dict[str, Any], *, resume: bool) -> Config:
    """The settings of the run; those that it was started with, if it goes on and nothing else says what they are."""
    from ssnt.config import Config, load_config, merged

    if not resume or file is not None or preset is not None:
        return load_config(file, preset=preset, overrides=overrides)
    if (out := overrides.get("out")) is None:
        raise ConfigError("--out must say which training is to go on")
    from ssnt.training.run_directory import run_config

    return Config.model_validate(merged(run_config(out).model_dump(), overrides))


def _run(config: Config, *, resume: bool, overwrite: bool) -> None:
    required = {"--train": config.data.train, "--out": config.out}
    if missing := [option for option, value in required.items() if value is None]:
        raise ConfigError(f"{' and '.join(missing)} must be given, here or in a file of settings")
    from ssnt.training import train as run

    run(config, resume=resume, overwrite=overwrite)
