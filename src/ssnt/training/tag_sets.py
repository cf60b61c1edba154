"""The tag sets of data: its examples by them, which of them can have a model, and what the user should know of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from ssnt.checkpoint.manifest import TagSet, tag_set
from ssnt.config import Config
from ssnt.config.run import DataConfig
from ssnt.data.filters import FilterReport, Filters
from ssnt.data.readers import files_of
from ssnt.data.text import normalise
from ssnt.data.units import units_for
from ssnt.types import Example

_SHOWN = 5


def by_tags(examples: Iterable[Example]) -> dict[TagSet, list[Example]]:
    """Examples by their tag sets, in the order of the file."""
    found: dict[TagSet, list[Example]] = {}
    for example in examples:
        found.setdefault(tag_set(example.tags), []).append(example)
    return found


def shown_tags(tags: TagSet) -> str:
    """A tag set as it is shown."""
    return ";".join(tags) if tags else "(no tags)"


def left_out_of(config: Config, train: Mapping[TagSet, Sequence[Example]]) -> dict[TagSet, str]:
    """Why no model can be trained for tag sets, for those of which fewer than two examples can be used."""
    path = files_of(str(config.data.train), config.data)[0]
    found = {}
    for tags, examples in train.items():
        report = _usable(config.data, examples)
        if report.kept < 2:
            why = report.only_one() if report.kept else report.sentence()
            found[tags] = f"{path}:{examples[0].line}: the tag set {shown_tags(tags)} is left out: {why}"
    return found


def _usable(data: DataConfig, examples: Sequence[Example]) -> FilterReport:
    """How many of a tag set's examples the filters leave to its model."""
    report = FilterReport(Filters.of(data))
    if not report.filters.is_active:  # then nothing need be divided, or learnt to be divided
        report.kept = len(examples)
        return report
    units = units_for(data, lambda: examples)
    for one in examples:
        texts = (
            normalise(text, lowercase=data.lowercase, digits_to_hash=data.digits_to_hash)
            for text in (one.source, one.target or "")
        )
        src_len, tgt_len = (len(unit.split(text)) for unit, text in zip(units, texts, strict=True))
        report.count(report.filters.verdict(src_len, tgt_len))
    return report


def notes_on(
    config: Config,
    train: Mapping[TagSet, Sequence[Example]],
    dev: Mapping[TagSet, Sequence[Example]],
    left_out: Mapping[TagSet, str],
) -> list[str]:
    """What the user should know before training starts."""
    models = train.keys() - left_out.keys()
    of = f"{len(models)} of {len(train)}" if left_out else str(len(train))
    notes = [f"{of} tag sets in {config.data.train}: one model for each", *some(left_out.values())]
    unseen = Counter({tags: len(found) for tags, found in dev.items() if tags not in models})
    if unseen:
        shown = ", ".join(f"{shown_tags(tags)} ({count})" for tags, count in unseen.most_common(_SHOWN))
        more = ", ..." if len(unseen) > _SHOWN else ""
        notes.append(
            f"{config.data.dev}: {unseen.total()} examples have tag sets that the training data does not have"
            f"{' or that are left out' if left_out else ''}, so that there will be no model for them: {shown}{more}"
        )
    if without := [tags for tags in train if tags in models and tags not in dev]:
        shown = ", ".join(map(shown_tags, without[:_SHOWN])) + (", ..." if len(without) > _SHOWN else "")
        notes.append(
            f"tag sets without development examples, whose epochs are chosen by training perplexity: {len(without)} "
            f"({shown})"
        )
    return notes


def some(reasons: Iterable[str]) -> list[str]:
    """The first of many reasons to leave tag sets out, and how many more there are."""
    lines = list(reasons)
    more = len(lines) - _SHOWN
    return lines[:_SHOWN] + ([f"tag sets that are left out besides: {more}"] if more > 0 else [])
