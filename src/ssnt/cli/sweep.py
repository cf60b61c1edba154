"""``ssnt sweep``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ssnt.cli.options import (
    AddressOption,
    EngineOption,
    SourceColumnOption,
    TagsColumnOption,
    TargetColumnOption,
    TrainingFormatOption,
    WorkersOption,
    hardware_settings,
)
from ssnt.cli.output import print_table
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
    from ssnt.config import SweepRunConfig


def sweep(
    arguments: SettingsArguments = None,
    preset: PresetOption = None,
    model: ModelOption = None,
    train_file: TrainOption = None,
    dev_file: DevOption = None,
    out: Annotated[
        str | None,
        typer.Option("--out", "-o", metavar="DIR", help="The directory of the sweep.", show_default=False),
    ] = None,
    file_format: TrainingFormatOption = None,
    source_column: SourceColumnOption = None,
    target_column: TargetColumnOption = None,
    tags_column: TagsColumnOption = None,
    engine: EngineOption = None,
    address: AddressOption = None,
    workers: WorkersOption = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the sweep that --out holds.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the sweep in --out.")] = False,
    print_config: PrintConfigOption = False,
) -> None:
    """Train models with different settings and find the best on the development data.

    The section sweep of the settings says what is tried: sweep.space, a grid around the paper's settings unless given,
    sweep.sampler (grid, random or tpe), sweep.pruner (none, median, asha or hyperband), sweep.metric, sweep.trials (how
    many, for random and tpe), sweep.seed (of what these draw) and sweep.keep (how many of the best models stay). The
    best model is in --out, in best; its settings are in best.yaml. A sweep that was stopped goes on with --resume.

    Examples:
        ssnt sweep --train train.tsv --dev dev.tsv --out sweep
        ssnt sweep --train train.tsv --dev dev.tsv --out sweep 'sweep.space={model.hidden_size: [32, 64]}'
        ssnt sweep sweep.yaml --out sweep --workers 2 training.max_epochs=20
        ssnt sweep sweep.yaml --out sweep sweep.sampler=tpe sweep.pruner=asha sweep.trials=40
        ssnt sweep sweep.yaml --out sweep --engine ray --address auto
        ssnt sweep --resume --out sweep
    """
    check_not_both(resume=resume, overwrite=overwrite)
    file, settings = told_apart(arguments or ())
    from ssnt.config import SweepRunConfig, dump_config

    options = {
        "data": data_settings(train_file, dev_file, file_format, source_column, target_column, tags_column),
        "model": model_settings(model),
        "hardware": hardware_settings(engine, address, workers),
        "out": out,
    }
    config = _config(file, preset, overrides_of(settings, options, SweepRunConfig), resume=resume)
    if print_config:
        print(dump_config(config), end="")
        return
    check_given(config, "--train", "--dev", "--out")
    from ssnt.sweeps import run_sweep
    from ssnt.sweeps.result import table

    result = run_sweep(config, resume=resume, overwrite=overwrite)
    header, rows = table(result.trials, result.metric)
    numeric = [0, 2, 3, *range(4, len(header))]
    print_table(header, rows, numeric=numeric)


def _config(file: str | None, preset: str | None, overrides: dict[str, Any], *, resume: bool) -> SweepRunConfig:
    """The settings of the sweep; those that it was started with, if it goes on and nothing else says what they are."""
    from ssnt.config import load_sweep_config

    if not resume or file is not None or preset is not None:
        return load_sweep_config(file, preset=preset, overrides=overrides)
    if (out := overrides.get("out")) is None:
        raise ConfigError("--out must say which sweep is to go on")
    from ssnt.sweeps import sweep_config

    return going_on(sweep_config(out), overrides)
