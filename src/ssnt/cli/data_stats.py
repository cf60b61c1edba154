"""``ssnt data stats``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from ssnt.cli.data_check import SourcesOnlyOption
from ssnt.cli.data_options import data_settings
from ssnt.cli.options import (
    FormatOption,
    JsonOption,
    PairsArgument,
    SettingsArgument,
    SourceColumnOption,
    TagsColumnOption,
    TargetColumnOption,
)

if TYPE_CHECKING:
    from ssnt.data.stats import Side, Stats

_MOST_TAGS = 20


def stats(
    file: PairsArgument,
    settings: SettingsArgument = None,
    against: Annotated[
        str | None,
        typer.Option(
            "--against",
            metavar="FILE",
            help="A training file: symbols and tags that it does not have are counted.",
            show_default=False,
        ),
    ] = None,
    form: FormatOption = None,
    source_column: SourceColumnOption = None,
    target_column: TargetColumnOption = None,
    tags_column: TagsColumnOption = None,
    sources_only: SourcesOnlyOption = False,
    as_json: JsonOption = False,
) -> None:
    """Count what a data file holds: examples, lengths, symbols, tags.

    Examples:
        ssnt data stats train.tsv
        ssnt data stats dev.tsv --against train.tsv --json
    """
    from ssnt.data.stats import file_stats

    data = data_settings(
        format_=form,
        source_column=source_column,
        target_column=target_column,
        tags_column=tags_column,
        settings=settings,
    )
    found = file_stats(file, data, needs_target=not sources_only, against=against)
    if as_json:
        print(json.dumps(found.to_json(), ensure_ascii=False, indent=2))
    else:
        _print_stats(found, is_compared=against is not None)


def _print_stats(found: Stats, *, is_compared: bool) -> None:
    from ssnt.cli.output import counted, print_table
    from ssnt.data.stats import PERCENTILES

    sides = [("source", found.source), *([("target", found.target)] if found.target is not None else [])]
    print(f"{counted(found.examples, 'example')}; {found.report.sentence()}")
    header = ["", "unit", "symbols", "different", "seen once", "mean", *(f"{p}%" for p in PERCENTILES), "longest"]
    print_table(header, [[name, *_cells(side)] for name, side in sides], numeric=range(2, len(header)))
    if found.tag_sets and any(found.tag_sets):
        print(f"{counted(len(found.tag_sets), 'set')} of {counted(len(found.tags), 'tag')}")
        rows = [[";".join(tags), str(count)] for tags, count in found.tag_sets.most_common(_MOST_TAGS)]
        print_table(["tags", "examples"], rows, numeric=(1,))
        if len(found.tag_sets) > _MOST_TAGS:
            print(f"and {len(found.tag_sets) - _MOST_TAGS} more; --json has all")
    if is_compared:
        parts = {"source": found.unseen_source, "target": found.unseen_target, "tags": found.unseen_tags}
        rows = [
            [name, str(len(unseen)), str(unseen.total()), " ".join(one for one, _ in unseen.most_common(_MOST_TAGS))]
            for name, unseen in parts.items()
        ]
        print_table(["not in training", "different", "times", "most frequent"], rows, numeric=(1, 2))


def _cells(side: Side) -> list[str]:
    from ssnt.data.stats import PERCENTILES

    lengths = [str(side.percentile(percent)) for percent in PERCENTILES]
    counts = [side.symbols, len(side.counts), len(side.seen_once)]
    return [side.unit, *map(str, counts), f"{side.mean_length:.1f}", *lengths, str(max(side.lengths, default=0))]
