"""``ssnt align``."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from ssnt.cli.data_options import data_settings
from ssnt.cli.inputs import CHUNK_BATCHES, Inputs
from ssnt.cli.models import load_transducer
from ssnt.cli.options import (
    BatchSizeOption,
    DeviceOption,
    InputFormatOption,
    ModelArgument,
    OutOption,
    PairsArgument,
    SourceColumnOption,
    TagsColumnOption,
    TagsOption,
    TargetColumnOption,
)
from ssnt.cli.output import results
from ssnt.errors import DataError

if TYPE_CHECKING:
    from ssnt.decode import Failure
    from ssnt.pipeline import AlignedPair
    from ssnt.types import Example


class AlignmentFormat(StrEnum):
    """How alignments are written."""

    PHARAOH = "pharaoh"
    JSONL = "jsonl"
    JOINT = "joint"


def align(
    model: ModelArgument,
    file: PairsArgument,
    form: Annotated[
        AlignmentFormat,
        typer.Option("--format", metavar="NAME", help="How alignments are written: pharaoh, jsonl or joint."),
    ] = AlignmentFormat.PHARAOH,
    plot: Annotated[
        str | None,
        typer.Option("--plot", metavar="DIR", help="Draw the pairs, a PNG file for each.", show_default=False),
    ] = None,
    plot_limit: Annotated[
        int, typer.Option("--plot-limit", min=0, metavar="N", help="Draw the first so many pairs only.")
    ] = 20,
    out: OutOption = None,
    batch_size: BatchSizeOption = 64,
    input_format: InputFormatOption = None,
    source_column: SourceColumnOption = None,
    target_column: TargetColumnOption = None,
    tags_column: TagsColumnOption = None,
    tags: TagsOption = None,
    device: DeviceOption = "cpu",
) -> int:
    """Align pairs of input and output exactly: which input symbols wrote which output symbols.

    pharaoh is one line a pair with source-target links, counted from 0: 0-0 1-1 1-2. joint has the segments, as in
    a|b}c d}_, where _ is nothing. jsonl has the links with their probabilities, the segments and log probabilities.

    A line that cannot be used gets an empty line (in jsonl an object with an error), and a message. The exit code is
    then 1, or 2 if no line could be used.

    Examples:
        ssnt align model test.tsv
        ssnt align model test.tsv --format joint --out aligned.txt
        ssnt align model test.tsv --format jsonl --plot pictures --plot-limit 3
    """
    transducer = load_transducer(model, device)
    data = data_settings(
        transducer.config.data,
        format_=input_format,
        source_column=source_column,
        target_column=target_column,
        tags_column=tags_column,
    )
    inputs = Inputs(file, data, needs_target=True, has_tags=transducer.has_tags, tags=tags)

    def answer(examples: Sequence[Example]) -> Sequence[AlignedPair | Failure]:
        return transducer.align_each(examples, batch_size=batch_size)

    drawn = 0
    chunks = inputs.chunks(CHUNK_BATCHES * batch_size)
    with results(out) as sink:
        for chunk in chunks:
            for example, pair in inputs.answered(chunk, answer):
                _write(sink, form, example, pair)
                if plot is not None and drawn < plot_limit and not isinstance(pair, DataError):
                    _draw(plot, example, pair)
                    drawn += 1
            sink.flush()
    return inputs.exit_code()


def _write(sink: TextIO, form: AlignmentFormat, example: Example, pair: AlignedPair | DataError) -> None:
    from ssnt.decode.formats import joint_sequence, pharaoh, to_json_line, to_record

    if isinstance(pair, DataError):
        is_json = form is AlignmentFormat.JSONL
        sink.write(to_json_line({"line": example.line, "error": str(pair)}) if is_json else "")
    elif form is AlignmentFormat.JSONL:
        record = to_record(pair, pair.source_symbols, pair.target_symbols)
        sink.write(to_json_line({"line": example.line, **record}))
    elif form is AlignmentFormat.PHARAOH:
        sink.write(pharaoh(pair))
    else:
        sink.write(joint_sequence(pair, pair.source_symbols, pair.target_symbols))
    sink.write("\n")


def _draw(directory: str, example: Example, pair: AlignedPair) -> None:
    """Draws one pair; the file is named after its line, as symbols may not be fit for a file's name."""
    from ssnt.decode.formats import END
    from ssnt.plots import plot_alignment, save_figure

    source, target = [*pair.source_symbols, END], [*pair.target_symbols, END]
    figure = plot_alignment(pair.emit, source, target, pair.path)
    save_figure(figure, Path(directory) / f"line-{example.line:05d}.png")
