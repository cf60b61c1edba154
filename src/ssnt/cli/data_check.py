"""``ssnt data check``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from ssnt.cli.data_options import data_settings
from ssnt.cli.errors import SOME_FAILED
from ssnt.cli.options import (
    FormatOption,
    PairsArgument,
    SettingsArgument,
    SourceColumnOption,
    TagsColumnOption,
    TargetColumnOption,
)

if TYPE_CHECKING:
    from ssnt.data.lines import Problem

SourcesOnlyOption = Annotated[
    bool, typer.Option("--sources-only", help="The file is for prediction: targets are not needed.")
]


def check(
    file: PairsArgument,
    settings: SettingsArgument = None,
    dev: Annotated[
        str | None,
        typer.Option(
            "--dev",
            metavar="FILE",
            help="Check this development file too: what is in it and not in FILE is counted.",
            show_default=False,
        ),
    ] = None,
    form: FormatOption = None,
    source_column: SourceColumnOption = None,
    target_column: TargetColumnOption = None,
    tags_column: TagsColumnOption = None,
    sources_only: SourcesOnlyOption = False,
) -> int:
    """Read a whole data file and list every problem with its line.

    Errors are what training or prediction would stop at; warnings are about what works and may not be meant. The exit
    code is 1 if there are errors.

    Examples:
        ssnt data check train.tsv
        ssnt data check train.tsv --dev dev.tsv
        ssnt data check train.tsv --format g2p data.max_source_length=30
        ssnt data check words.txt --sources-only
    """
    from ssnt.data.check import check_file
    from ssnt.data.readers import how_read

    data = data_settings(
        format_=form,
        source_column=source_column,
        target_column=target_column,
        tags_column=tags_column,
        settings=settings,
    )
    # told when found, and not kept: there may be as many problems as lines
    report = check_file(file, data, needs_target=not sources_only, limit=0, on_problem=_print_problem)
    reports = [report]
    if dev is not None:
        reports.append(check_file(dev, data, against=report.vocabulary, limit=0, on_problem=_print_problem))
    for one in reports:
        reading = "" if one.first is None else f"; {how_read(data, one.first)}"
        print(f"{_shown(one.path)}: {one.sentence()}{reading}", file=sys.stderr, flush=True)
    return 0 if all(one.is_usable for one in reports) else SOME_FAILED


def _shown(path: str) -> str:
    from ssnt.data.lines import shown

    return shown(path)


def _print_problem(problem: Problem) -> None:
    where = f"{_shown(problem.path)}:{problem.line}" if problem.line else _shown(problem.path)
    print(f"{where}: {'error' if problem.is_error else 'warning'}: {problem.message}")
