"""``ssnt train``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ssnt.cli.options import (
    PerTagAddressOption,
    PerTagEngineOption,
    PerTagWorkersOption,
    SourceColumnOption,
    TagsColumnOption,
    TargetColumnOption,
    TrainingFormatOption,
    hardware_settings,
)
from ssnt.cli.settings_arguments import (
    DevOption,
    ModelOption,
    PresetOption,
    PrintConfigOption,
    SettingsArguments,
    TrainOption,
    check_given,
    data_settings,
    going_on,
    model_settings,
    overrides_of,
    told_apart,
)
from ssnt.errors import ConfigError
from ssnt.files import check_not_both

if TYPE_CHECKING:
    from ssnt.config import Config


def train(
    arguments: SettingsArguments = None,
    preset: PresetOption = None,
    model: ModelOption = None,
    train_file: TrainOption = None,
    dev_file: DevOption = None,
    out: Annotated[
        str | None,
        typer.Option("--out", "-o", metavar="DIR", help="The model directory to write.", show_default=False),
    ] = None,
    file_format: TrainingFormatOption = None,
    source_column: SourceColumnOption = None,
    target_column: TargetColumnOption = None,
    tags_column: TagsColumnOption = None,
    per_tag: Annotated[bool, typer.Option("--per-tag", help="Train one model for each set of tags.")] = False,
    engine: PerTagEngineOption = None,
    address: PerTagAddressOption = None,
    workers: PerTagWorkersOption = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the training that --out holds.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what is in --out.")] = False,
    print_config: PrintConfigOption = False,
) -> None:
    """Train a model on a file of pairs and write a model directory.

    Settings come from a preset, then a file, then the command line. A training that was stopped goes on with --resume,
    to the same weights as if it had not been stopped: the settings are then those it was started with.

    Examples:
        ssnt train --train train.tsv --dev dev.tsv --out model
        ssnt train --preset inflection --format sigmorphon2017 --train train.tsv --dev dev.tsv --out model
        ssnt train --model seq2seq --train train.tsv --dev dev.tsv --out model
        ssnt train settings.yaml --out model training.max_epochs=20 model.hidden_size=64
        ssnt train --per-tag --workers 4 --tags-column 3 --train train.tsv --dev dev.tsv --out model
        ssnt train --resume --out model
        ssnt train --preset g2p --print-config > settings.yaml
    """
    check_not_both(resume=resume, overwrite=overwrite)
    file, settings = told_apart(arguments or ())
    overrides = overrides_of(
        settings,
        {
            "data": data_settings(train_file, dev_file, file_format, source_column, target_column, tags_column),
            "model": model_settings(model),
            "training": {"per_tag": per_tag or None},
            "hardware": hardware_settings(engine, address, workers),
            "out": out,
        },
    )
    from ssnt.config import dump_config

    config = _config(file, preset, overrides, resume=resume)
    given = {"--engine": engine, "--address": address, "--workers": workers}
    if not config.training.per_tag and (useless := [option for option, value in given.items() if value is not None]):
        raise ConfigError(
            f"{' and '.join(useless)}: these are for the many models of --per-tag; one model is trained by several "
            "processes with hardware.devices"
        )
    if print_config:
        print(dump_config(config), end="")
    else:
        _run(config, resume=resume, overwrite=overwrite)


def _config(file: str | None, preset: str | None, overrides: dict[str, Any], *, resume: bool) -> Config:
    """The settings of the run; those that it was started with, if it goes on and nothing else says what they are."""
    from ssnt.config import load_config

    if not resume or file is not None or preset is not None:
        return load_config(file, preset=preset, overrides=overrides)
    if (out := overrides.get("out")) is None:
        raise ConfigError("--out must say which training is to go on")
    from ssnt.training.run_directory import run_config

    return going_on(run_config(out), overrides)


def _run(config: Config, *, resume: bool, overwrite: bool) -> None:
    check_given(config, "--train", "--out")
    from ssnt.training import train as run

    run(config, resume=resume, overwrite=overwrite)
