"""``ssnt compare``."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from ssnt.cli.data_options import data_settings
from ssnt.cli.options import (
    FormatOption,
    JsonOption,
    MetricOption,
    ResamplesOption,
    SeedOption,
    SettingsArgument,
    SourceColumnOption,
    TagsColumnOption,
    TargetColumnOption,
)
from ssnt.cli.score import PredictionsFormatOption


def compare(
    a: Annotated[str, typer.Argument(metavar="A", help="Predictions of one system.")],
    b: Annotated[str, typer.Argument(metavar="B", help="Predictions of the other, for the same inputs.")],
    references: Annotated[str, typer.Argument(metavar="REFERENCES", help="A data file with the right answers.")],
    settings: SettingsArgument = None,
    metric: MetricOption = "accuracy",
    form: FormatOption = None,
    source_column: SourceColumnOption = None,
    target_column: TargetColumnOption = None,
    tags_column: TagsColumnOption = None,
    predictions_format: PredictionsFormatOption = None,
    resamples: ResamplesOption = 1000,
    seed: SeedOption = 1,
    as_json: JsonOption = False,
) -> None:
    """Test whether one system is better than another on the same inputs, by the paired bootstrap.

    The p-value says how likely a difference at least as large would be, in either direction, if both were equally good.

    Examples:
        ssnt compare outputs.txt baseline.txt test.tsv
        ssnt compare outputs.txt baseline.txt test.tsv --metric edit_distance --resamples 10000
    """
    from ssnt.cli.output import counted, print_table
    from ssnt.cli.scoring import interval, number, read_items, scored_unit
    from ssnt.metrics import compare as compare_items
    from ssnt.metrics import find_metric

    find_metric(metric)  # before files are read
    data = data_settings(
        format_=form,
        source_column=source_column,
        target_column=target_column,
        tags_column=tags_column,
        settings=settings,
    )
    items_a = read_items(a, references, data, predictions_format)
    items_b = read_items(b, references, data, predictions_format)
    found = compare_items(items_a, items_b, metric, unit=scored_unit(data), resamples=resamples, seed=seed)
    if as_json:
        print(json.dumps(found.to_record(), ensure_ascii=False, indent=2))
        return
    rows = [
        ["A", a, number(found.value_a), str(found.wins_a)],
        ["B", b, number(found.value_b), str(found.wins_b)],
    ]
    print_table(["", "predictions", found.metric, "better on"], rows, numeric=(2, 3))
    print(f"difference A - B  {found.difference:+.4f}  (95% interval {interval(found.low, found.high)})")
    print(f"p-value           {found.p_value:.4f}  ({counted(found.ties, 'tie')})")
    print(f"signature         {found.signature}")
