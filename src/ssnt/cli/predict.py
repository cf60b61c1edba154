"""``ssnt predict``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from ssnt.cli.data_options import data_settings
from ssnt.cli.errors import tell
from ssnt.cli.inputs import CHUNK_BATCHES, Inputs
from ssnt.cli.models import load_transducer
from ssnt.cli.options import (
    BatchSizeOption,
    BeamOption,
    DeviceOption,
    InputFormatOption,
    ModelArgument,
    OutOption,
    SearchOption,
    SourceColumnOption,
    TagsColumnOption,
    TagsOption,
    search_name,
)
from ssnt.cli.output import counted, results
from ssnt.cli.prediction_files import PredictionFormat, PredictionWriter
from ssnt.errors import ConfigError, DataError

if TYPE_CHECKING:
    from ssnt.decode import Failure
    from ssnt.pipeline import Transduction
    from ssnt.types import Example


def predict(
    model: ModelArgument,
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="One input a line (.gz is unpacked); - is standard input.")
    ] = "-",
    search: SearchOption = None,
    beam: BeamOption = None,
    nbest: Annotated[int, typer.Option("--nbest", min=1, metavar="N", help="So many outputs for each input.")] = 1,
    form: Annotated[
        PredictionFormat | None,
        typer.Option("--format", help="How outputs are written.", show_default="text; tsv with --nbest or --align"),
    ] = None,
    align: Annotated[bool, typer.Option("--align", help="Write the alignment of each output too.")] = False,
    out: OutOption = None,
    batch_size: BatchSizeOption = 64,
    input_format: InputFormatOption = None,
    source_column: SourceColumnOption = None,
    tags_column: TagsColumnOption = None,
    tags: TagsOption = None,
    device: DeviceOption = "cpu",
) -> int:
    """Write the output of a model for each line of input, in order.

    Input is read piece by piece, however long it is; what comes through a pipe is answered as it arrives. A column of
    right answers is ignored.

    text is one output a line. tsv has columns: line, rank, source, tags, prediction, log_prob and, with --align,
    alignment (source-target links, counted from 0). jsonl is one object for each input.

    A line that cannot be used gets an empty output, so that lines stay beside each other, and a message. The exit code
    is then 1, or 2 if no line could be used.

    Examples:
        ssnt predict model words.txt
        echo zocken | ssnt predict model
        ssnt predict model words.txt --nbest 3 --out outputs.tsv
        ssnt predict model words.txt --search path --beam 30 --format jsonl --align
    """
    form = form or (PredictionFormat.TSV if align or nbest > 1 else PredictionFormat.TEXT)
    if form is PredictionFormat.TEXT and (align or nbest > 1):
        raise ConfigError("--format text is one output a line, without alignments; use --format tsv or jsonl")
    transducer = load_transducer(model, device)
    data = data_settings(
        transducer.config.data,
        format_=input_format,
        source_column=source_column,
        tags_column=tags_column,
        needs_target=False,
    )
    inputs = Inputs(file, data, needs_target=False, has_tags=transducer.has_tags, tags=tags)

    def answer(examples: Sequence[Example]) -> Sequence[Transduction | Failure]:
        return transducer.transduce_each(
            examples, search=search_name(search), beam=beam, nbest=nbest, batch_size=batch_size
        )

    unknown = [0, 0]  # inputs with symbols, and with tags, that the model does not know
    chunks = inputs.chunks(CHUNK_BATCHES * batch_size)
    with results(out) as sink:
        writer = PredictionWriter(sink, form, with_alignment=align)
        for chunk in chunks:
            for example, output in inputs.answered(chunk, answer):
                if isinstance(output, DataError):
                    writer.write_failure(example, str(output))
                else:
                    writer.write(example, (output, *output.alternatives))
                    unknown = [unknown[0] + bool(output.unknown), unknown[1] + bool(output.unknown_tags)]
            sink.flush()
    for count, what in zip(unknown, ("symbols", "tags"), strict=True):
        if count:
            tell(f"{counted(count, 'input')} with {what} that the model does not know", "warning")
    return inputs.exit_code()
