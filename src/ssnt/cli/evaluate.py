"""``ssnt evaluate``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ssnt.cli.data_options import data_settings
from ssnt.cli.errors import tell
from ssnt.cli.inputs import UnknownTags
from ssnt.cli.models import load_transducer
from ssnt.cli.options import (
    BeamOption,
    DeviceOption,
    FormatOfModelOption,
    JsonOption,
    MetricsOption,
    ModelsArgument,
    PairsArgument,
    ResamplesOption,
    SearchOption,
    SourceColumnOption,
    TagsColumnOption,
    TargetColumnOption,
    names,
    search_name,
)
from ssnt.cli.output import counted, results
from ssnt.cli.prediction_files import PredictionFormat
from ssnt.cli.scoring import print_scores
from ssnt.errors import ConfigError

if TYPE_CHECKING:
    from ssnt.evaluation import Evaluation


def evaluate(
    model: ModelsArgument,
    file: PairsArgument,
    metrics: MetricsOption = None,
    search: SearchOption = None,
    beam: BeamOption = None,
    predictions: Annotated[
        str | None,
        typer.Option(
            "--predictions", metavar="FILE", help="Write the outputs too, as ssnt predict does.", show_default=False
        ),
    ] = None,
    predictions_format: Annotated[
        PredictionFormat, typer.Option("--predictions-format", help="How outputs are written.")
    ] = PredictionFormat.TSV,
    resamples: ResamplesOption = 1000,
    form: FormatOfModelOption = None,
    source_column: SourceColumnOption = None,
    target_column: TargetColumnOption = None,
    tags_column: TagsColumnOption = None,
    device: DeviceOption = "cpu",
    as_json: JsonOption = False,
) -> None:
    """Measure a model on a file of pairs, with bootstrap intervals.

    Lines with the same input and tags are one item with several right answers, of which the best counts. An input that
    cannot be used counts as wrong. Every number has a signature, which says how it was computed.

    Metrics are accuracy, macro_accuracy (averaged over sets of tags), item_error_rate, edit_distance, per, wer,
    rouge_1, rouge_2, rouge_l, perplexity (exact, for each target symbol) and, for a model that is online, latency.

    Examples:
        ssnt evaluate model test.tsv
        ssnt evaluate model test.tsv --metrics accuracy,per --beam 30 --predictions outputs.tsv
        ssnt evaluate model test.tsv --metrics latency --json
    """
    from ssnt.data.readers import read_examples
    from ssnt.evaluation import evaluate_model

    transducer = load_transducer(model, device)
    data = data_settings(
        transducer.config.data,
        format_=form,
        source_column=source_column,
        target_column=target_column,
        tags_column=tags_column,
    )
    examples = list(read_examples(file, data, needs_tags=transducer.has_tags))
    if metrics is None:
        has_groups = transducer.has_tags
        wanted = ["accuracy", *(["macro_accuracy"] if has_groups else []), "edit_distance", "perplexity"]
    else:
        wanted = names(metrics)
    found = evaluate_model(transducer, examples, wanted, beam=beam, search=search_name(search), resamples=resamples)
    if predictions is not None:
        if not found.predictions:
            raise ConfigError(
                "--predictions: there are no outputs to write, as none of the metrics looks at any; add one that does, "
                "such as --metrics accuracy,perplexity"
            )
        _write_predictions(found, predictions, predictions_format)
    _tell_failures(found, file)
    unknown_tags = UnknownTags(transducer, data)
    for one in examples:
        unknown_tags.see(one.tags)
    unknown_tags.tell()
    print_scores(found.scores, as_json=as_json)


def _write_predictions(found: Evaluation, out: str, form: PredictionFormat) -> None:
    from ssnt.decode import Failure
    from ssnt.pipeline.prediction_lines import PredictionLines
    from ssnt.types import Example

    with results(out) as sink:
        lines = PredictionLines(form)
        sink.write(lines.header())
        for question, output in zip(found.questions, found.predictions, strict=True):
            example = Example(question.source, None, question.tags, question.line)
            if isinstance(output, Failure):
                sink.write(lines.of_failure(example, str(output.error)))
            else:
                sink.write(lines.of(example, [output]))


def _tell_failures(found: Evaluation, path: str) -> None:
    for failure in found.failures:
        tell(f"{path}:{found.questions[failure.index].line}: {failure.error}", "warning")
    if found.failures:
        consequence = "count as wrong" if found.predictions else "are left out"  # if there is but latency
        tell(
            f"{len(found.failures)} of {counted(len(found.items), 'input')} could not be used, and {consequence}",
            "warning",
        )
