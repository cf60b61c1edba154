"""``ssnt predict``."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from ssnt.cli.options import (
    AddressOption,
    BatchSizeOption,
    BeamOption,
    DeviceOption,
    EngineOption,
    InputFormatOption,
    ModelsArgument,
    SearchOption,
    SourceColumnOption,
    TagsColumnOption,
    TagsOption,
    search_name,
)
from ssnt.cli.prediction_files import PredictionFormat
from ssnt.cli.prediction_run import Prediction, Request, Target
from ssnt.errors import ConfigError
from ssnt.files import check_not_both

_FileArgument = Annotated[
    str, typer.Argument(metavar="FILE", help="One input a line (.gz is unpacked); - is standard input.")
]
_NbestOption = Annotated[int, typer.Option("--nbest", min=1, metavar="N", help="So many outputs for each input.")]
_FormOption = Annotated[
    PredictionFormat | None,
    typer.Option("--format", help="How outputs are written.", show_default="text; tsv with --nbest or --align"),
]
_AlignOption = Annotated[bool, typer.Option("--align", help="Write the alignment of each output too.")]
_OutOption = Annotated[
    str | None,
    typer.Option(
        "--out",
        "-o",
        metavar="FILE",
        help="Write to a file (FILE.part until it is whole).",
        show_default="standard output",
    ),
]
_ResumeOption = Annotated[
    bool, typer.Option("--resume", help="Go on with what an earlier run has left of --out, or begin.")
]
_OverwriteOption = Annotated[
    bool, typer.Option("--overwrite", help="Throw away what an earlier run has left of --out.")
]
_WorkersOption = Annotated[
    int | None,
    typer.Option(
        "--workers",
        min=1,
        metavar="N",
        help="How many processes do the work, in one thread each.",
        show_default="this one; one a core with --engine ray",
    ),
]


def predict(
    model: ModelsArgument,
    file: _FileArgument = "-",
    search: SearchOption = None,
    beam: BeamOption = None,
    nbest: _NbestOption = 1,
    form: _FormOption = None,
    align: _AlignOption = False,
    out: _OutOption = None,
    resume: _ResumeOption = False,
    overwrite: _OverwriteOption = False,
    batch_size: BatchSizeOption = 256,
    input_format: InputFormatOption = None,
    source_column: SourceColumnOption = None,
    tags_column: TagsColumnOption = None,
    tags: TagsOption = None,
    device: DeviceOption = "cpu",
    engine: EngineOption = None,
    address: AddressOption = None,
    workers: _WorkersOption = None,
) -> int:
    """Write the output of a model for each line of input, in order.

    Input is read piece by piece, however long it is; what comes through a pipe is answered as it arrives. A column of
    right answers is ignored.

    text is one output a line. tsv has columns: line, rank, source, tags, prediction, log_prob and, with --align,
    alignment (source-target links, counted from 0). jsonl is one object for each input.

    A line that cannot be used gets an empty output, so that lines stay beside each other, and a message. The exit code
    is then 1, or 2 if no line could be used.

    Until all is done, --out FILE is in FILE.part. A run that was stopped or killed goes on with --resume, to the same
    bytes as if nothing had happened; where nothing is left of a run, it begins one, and if FILE is there and no part of
    it, it does nothing. --workers 4 works in four processes and --engine ray on a cluster, with the same
    outputs; standard input is then answered when much of it is there.

    Examples:
        ssnt predict model words.txt
        echo zocken | ssnt predict model
        ssnt predict model words.txt --nbest 3 --out outputs.tsv
        ssnt predict model words.txt --search path --beam 30 --format jsonl --align
        ssnt predict model words.txt --workers 2 --out outputs.txt
    """
    check_not_both(resume=resume, overwrite=overwrite)
    request = Request(
        model=model,
        file=file,
        search=search_name(search),
        beam=beam,
        nbest=nbest,
        form=_chosen(form, has_more=align or nbest > 1),
        align=align,
        batch_size=batch_size,
        input_format=input_format,
        source_column=source_column,
        tags_column=tags_column,
        tags=tags,
        device=device,
        engine=engine,
        address=address,
        workers=workers,
    )
    target = Target(out, file, resume=resume, overwrite=overwrite)
    if target.is_done:
        return 0
    try:
        return Prediction(request, target).run()
    except KeyboardInterrupt as interrupt:
        if target.place is None:  # nothing could be kept
            raise
        message = f"stopped; {target.how_to_go_on(str(interrupt))}"
        print(f"ssnt: {message}", file=sys.stderr, flush=True)
        raise KeyboardInterrupt(message) from None


def _chosen(form: PredictionFormat | None, *, has_more: bool) -> PredictionFormat:
    """How outputs are written.

    Raises:
        ConfigError: There is more than an output a line, and no place for it.
    """
    if form is PredictionFormat.TEXT and has_more:
        raise ConfigError("--format text is one output a line, without alignments; use --format tsv or jsonl")
    return form or (PredictionFormat.TSV if has_more else PredictionFormat.TEXT)
