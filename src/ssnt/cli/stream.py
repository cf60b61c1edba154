"""``ssnt stream``."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from ssnt.cli.arriving import arriving_text
from ssnt.cli.inputs import fixed_tags
from ssnt.cli.models import load_transducer
from ssnt.cli.options import DeviceOption, ModelArgument, TagsOption
from ssnt.errors import ConfigError

if TYPE_CHECKING:
    from ssnt.pipeline import TextStream, Transducer


class StreamFormat(StrEnum):
    """How a stream is shown."""

    TEXT = "text"
    JSONL = "jsonl"
    LIVE = "live"


def stream(
    model: ModelArgument,
    beam: Annotated[
        int | None,
        typer.Option(
            "--beam",
            min=1,
            metavar="K",
            help="How many hypotheses are kept; 1 with --emit-threshold.",
            show_default="the model's",
        ),
    ] = None,
    max_delay: Annotated[
        int | None,
        typer.Option(
            "--max-delay",
            min=0,
            metavar="N",
            help="Commit a symbol after at most so many further input symbols.",
            show_default="when all hypotheses agree",
        ),
    ] = None,
    emit_threshold: Annotated[
        float | None,
        typer.Option(
            "--emit-threshold",
            min=0.0,
            max=1.0,
            metavar="P",
            help="Write, and commit at once, while the probability of writing is at least this.",
            show_default=False,
        ),
    ] = None,
    tags: TagsOption = None,
    form: Annotated[
        StreamFormat | None,
        typer.Option(
            "--format",
            metavar="NAME",
            help="text: what is committed; jsonl: every update; live: one line that shows both sides.",
            show_default="live on a terminal, else text",
        ),
    ] = None,
    device: DeviceOption = "cpu",
) -> None:
    """Write while reading: standard input to standard output, symbol by symbol, with an online model.

    A line is one input; its end begins the next. What is committed is never taken back; what is tentative is what the
    best hypothesis would write next.

    text writes what is committed, at once. jsonl writes an object whenever something was read: line, read (input
    symbols so far), committed, tentative, delays (for each committed symbol, how many input symbols had been read by
    then), is_end. live shows input and output on one line, what is tentative faintly, as one types.

    Examples:
        echo zocken | ssnt stream model
        echo zocken | ssnt stream model --format jsonl --max-delay 2
        echo zocken | ssnt stream model --emit-threshold 0.5
    """
    from ssnt.cli.stream_views import open_view

    transducer = load_transducer(model, device)
    tag_set = _tags(transducer, tags)
    form = form or (StreamFormat.LIVE if sys.stdout.isatty() else StreamFormat.TEXT)

    def begin() -> TextStream:
        return transducer.stream(tag_set, beam=beam, max_delay=max_delay, emit_threshold=emit_threshold)

    current, has_read = begin(), False
    with open_view(form) as view:
        for character in arriving_text(is_typed=view.takes_keys):
            if character == "\n":
                view.end(current.finish(), current)
                current, has_read = begin(), False
            else:
                view.show(character, current.push(character))
                has_read = True
        if has_read:
            view.end(current.finish(), current)


def _tags(transducer: Transducer, tags: str | None) -> tuple[str, ...]:
    if tags is None and transducer.has_tags:
        raise ConfigError("the model was trained with tags: give those of the inputs, such as --tags 'V;PST'")
    return fixed_tags(tags, transducer.config.data, has_tags=transducer.has_tags) or ()
