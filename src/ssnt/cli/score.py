"""``ssnt score``."""

from __future__ import annotations

from typing import Annotated

import typer

from ssnt.cli.data_options import data_settings
from ssnt.cli.options import (
    FormatOption,
    JsonOption,
    MetricsOption,
    ResamplesOption,
    SeedOption,
    SettingsArgument,
    SourceColumnOption,
    TagsColumnOption,
    TargetColumnOption,
    names,
)
from ssnt.cli.prediction_files import PredictionFormat
from ssnt.errors import ConfigError

PredictionsFormatOption = Annotated[
    PredictionFormat | None,
    typer.Option("--predictions-format", help="How predictions are written.", show_default="by their first line"),
]


def score(
    predictions: Annotated[
        str, typer.Argument(metavar="PREDICTIONS", help="What ssnt predict wrote, or a file with one output a line.")
    ],
    references: Annotated[str, typer.Argument(metavar="REFERENCES", help="A data file with the right answers.")],
    settings: SettingsArgument = None,
    metrics: MetricsOption = None,
    form: FormatOption = None,
    source_column: SourceColumnOption = None,
    target_column: TargetColumnOption = None,
    tags_column: TagsColumnOption = None,
    predictions_format: PredictionsFormatOption = None,
    resamples: ResamplesOption = 1000,
    seed: SeedOption = 1,
    as_json: JsonOption = False,
) -> None:
    """Score a file of predictions against a file of right answers.

    There is one prediction for each line of the references, or one for each different input. If the references have
    several answers for an input, the best counts. Every number has a signature, which says how it was computed.

    Metrics are accuracy, macro_accuracy (averaged over sets of tags), item_error_rate, edit_distance, per, wer,
    rouge_1, rouge_2 and rouge_l.

    Examples:
        ssnt score outputs.txt test.tsv
        ssnt score outputs.txt test.tsv --metrics accuracy,per --json
        ssnt score outputs.txt test.tsv data.lowercase=true --resamples 0
    """
    from ssnt.cli.scoring import print_scores, read_items, scored_unit
    from ssnt.metrics import evaluate

    data = data_settings(
        format_=form,
        source_column=source_column,
        target_column=target_column,
        tags_column=tags_column,
        settings=settings,
    )
    wanted = None if metrics is None else names(metrics)
    if wanted is not None and "perplexity" in wanted:
        raise ConfigError("perplexity cannot be told from predictions: it needs the model; use ssnt evaluate")
    items = read_items(predictions, references, data, predictions_format)
    if wanted is None:
        has_tags = any(item.group for item in items)
        wanted = ["accuracy", *(["macro_accuracy"] if has_tags else []), "edit_distance"]
    scores = evaluate(items, wanted, unit=scored_unit(data), resamples=resamples, seed=seed)
    print_scores(scores, as_json=as_json)
