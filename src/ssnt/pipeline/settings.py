"""How to search and how to stream, where the model's own settings say nothing else."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypedDict

from ssnt.config import Config
from ssnt.decode import SearchOptions, StreamOptions
from ssnt.decode.run import SearchName
from ssnt.decode.stream_options import Merge
from ssnt.types import BOS_ID, PAD_ID, End

_NEVER_WRITTEN = (PAD_ID, BOS_ID)


class SearchSettings(TypedDict, total=False):
    """How a search goes; what is not given is taken from the model's settings (``config.search``).

    Attributes:
        search: ``marginal``, ``path`` or ``online``.
        beam: How many hypotheses are kept.
        nbest: How many outputs are wanted; the others are the ``alternatives`` of the best.
        length_normalisation: Outputs are ranked by ``log_prob / length ** length_normalisation``.
        max_length: Longest output in symbols.
        beam_threshold: Hypotheses whose log probability is lower than the best by more than this are dropped.
        end: Where a path may end, ``any`` or ``last``; by default as in training.
        copy_unknown: Whether an unknown symbol in the output is replaced by the source symbol it was written at.
        max_source_length: Longer sources are refused rather than searched for hours; 2000 by default.
        batch_size: How many sources, of about the same length, are searched together at most; 256 by default.
    """

    search: SearchName | None
    beam: int | None
    nbest: int
    length_normalisation: float | None
    max_length: int | None
    beam_threshold: float
    end: End | None
    copy_unknown: bool | None
    max_source_length: int
    batch_size: int


class StreamSettings(TypedDict, total=False):
    """How a stream goes; see :class:`ssnt.decode.StreamOptions`.

    Attributes:
        beam: How many hypotheses are kept; by default as in the model's settings, and 1 with ``emit_threshold``.
        merge: Whether a prefix has the summed probability of its alignments (``sum``) or that of the best (``max``).
        max_emissions: How many symbols may be written at one source symbol.
        end: Where the output may end: ``last``, the default, or ``any``.
        beam_threshold: Hypotheses whose log probability is lower than the best by more than this are dropped.
        max_delay: A symbol is committed after at most so many further source symbols.
        emit_threshold: Write and commit at once while the probability of emitting is at least this.
        max_tail: How many symbols may wait to be committed.
        copy_unknown: Whether an unknown symbol in the output is replaced by the source symbol it was written at.
    """

    beam: int | None
    merge: Merge
    max_emissions: int
    end: End
    beam_threshold: float
    max_delay: int | None
    emit_threshold: float | None
    max_tail: int
    copy_unknown: bool | None


@dataclass(frozen=True)
class SearchPlan:
    """A search with nothing left open.

    Attributes:
        search: Which one.
        options: Its settings.
        copy_unknown: Whether unknown symbols are copied from the source.
        max_source_length: Longer sources are refused.
        batch_size: How many sources are searched together.
    """

    search: SearchName
    options: SearchOptions
    copy_unknown: bool
    max_source_length: int
    batch_size: int


def plan_search(
    config: Config,
    *,
    search: SearchName | None = None,
    beam: int | None = None,
    nbest: int = 1,
    length_normalisation: float | None = None,
    max_length: int | None = None,
    beam_threshold: float = math.inf,
    end: End | None = None,
    copy_unknown: bool | None = None,
    max_source_length: int = 2000,
    batch_size: int = 256,
) -> SearchPlan:
    """Completes :class:`SearchSettings` from a model's settings; a beam that was not asked for is as wide as needed.

    Raises:
        ConfigError: A setting is out of range.
    """
    own = config.search
    options = SearchOptions(
        beam=max(own.beam, nbest) if beam is None else beam,
        nbest=nbest,
        max_length=own.max_length if max_length is None else max_length,
        max_length_ratio=own.max_length_ratio,
        max_length_margin=own.max_length_margin,
        length_normalisation=own.length_normalisation if length_normalisation is None else length_normalisation,
        beam_threshold=beam_threshold,
        end=config.training.end if end is None else end,
        banned=_NEVER_WRITTEN,
    )
    return SearchPlan(
        search=own.search if search is None else search,
        options=options,
        copy_unknown=own.copy_unknown if copy_unknown is None else copy_unknown,
        max_source_length=max_source_length,
        batch_size=batch_size,
    )


def plan_stream(
    config: Config,
    *,
    beam: int | None = None,
    merge: Merge = "sum",
    max_emissions: int = 8,
    end: End = "last",
    beam_threshold: float = math.inf,
    max_delay: int | None = None,
    emit_threshold: float | None = None,
    max_tail: int = 1000,
    copy_unknown: bool | None = None,
) -> tuple[StreamOptions, bool]:
    """Completes :class:`StreamSettings` from a model's settings: the options, and whether to copy unknown symbols.

    Raises:
        ConfigError: A setting is out of range.
    """
    if beam is None:
        beam = config.search.beam if emit_threshold is None else 1
    options = StreamOptions(
        beam=beam,
        merge=merge,
        max_emissions=max_emissions,
        end=end,
        banned=_NEVER_WRITTEN,
        beam_threshold=beam_threshold,
        max_delay=max_delay,
        emit_threshold=emit_threshold,
        max_tail=max_tail,
    )
    return options, config.search.copy_unknown if copy_unknown is None else copy_unknown
