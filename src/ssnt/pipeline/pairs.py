"""Given outputs: their exact probabilities and alignments, in batches of similar lengths."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np

from ssnt.arrays import NumpyDevice, no_grad, plain
from ssnt.config import BatchConfig
from ssnt.data.batching import plan_in_length_order
from ssnt.decode import AlignmentFailure, PairAlignment, Scorer, align_each
from ssnt.errors import DataError
from ssnt.pipeline.inputs import Numbers, make_batch
from ssnt.pipeline.results import AlignedPair, PairScore
from ssnt.types import Batch, End

if TYPE_CHECKING:
    import torch
    from torch import Tensor

_MOST_CELLS = 1_000_000  # of the grids of a batch


def score_pairs(
    nll_of: Callable[[Batch], Tensor],
    pairs: Mapping[int, Numbers],
    *,
    has_tags: bool,
    device: torch.device | NumpyDevice,
    batch_size: int,
) -> Iterator[tuple[int, PairScore | DataError]]:
    """Scores pairs, in whatever order is fastest.

    Args:
        nll_of: ``-log p(y|x)`` of every pair of a batch, ``(B,)``.
        pairs: What is to be scored, by places.
        has_tags: Whether the model has tags.
        device: Where it is.
        batch_size: How many pairs are scored together, at most.
    """
    for group in _groups(pairs, batch_size):
        numbers = [pairs[index] for index in group]
        for index, log_prob in zip(group, _log_probs(nll_of, numbers, has_tags, device), strict=True):
            one = pairs[index]
            if isinstance(log_prob, DataError):
                yield index, log_prob
                continue
            yield index, PairScore(log_prob, len(one.target) + 1, one.unknown_target, one.unknown, one.unknown_tags)


def align_pairs(
    scorer: Scorer[Any, Any],
    pairs: Mapping[int, Numbers],
    *,
    has_tags: bool,
    end: End,
    batch_size: int,
    link_threshold: float,
) -> Iterator[tuple[int, AlignedPair | DataError]]:
    """Aligns pairs, in whatever order is fastest."""
    for group in _groups(pairs, batch_size):
        batch = make_batch([pairs[index] for index in group], has_tags=has_tags, device=scorer.device)
        found = align_each(scorer, batch, end=end, link_threshold=link_threshold)
        for index, alignment in zip(group, found, strict=True):
            if isinstance(alignment, AlignmentFailure):
                yield index, alignment.error
            else:
                yield index, _with_symbols(alignment, pairs[index])


def _with_symbols(alignment: PairAlignment, one: Numbers) -> AlignedPair:
    known = {field.name: getattr(alignment, field.name) for field in fields(alignment)}
    return AlignedPair(
        **{**known, "emit": plain(alignment.emit.cpu())},
        source_symbols=one.source,
        target_symbols=one.target,
        unknown=one.unknown + one.unknown_target,
        unknown_tags=one.unknown_tags,
    )


def _groups(pairs: Mapping[int, Numbers], batch_size: int) -> Iterator[list[int]]:
    """Pairs of similar lengths, not too many cells together."""
    if not pairs:
        return
    indices = list(pairs)
    src_lens = np.array([len(one.source) + 1 for one in pairs.values()])
    tgt_lens = np.array([len(one.target) + 1 for one in pairs.values()])
    for group in plan_in_length_order(src_lens, tgt_lens, BatchConfig(size=batch_size, max_cells=_MOST_CELLS)):
        yield [indices[k] for k in group]


def _log_probs(
    nll_of: Callable[[Batch], Tensor], pairs: list[Numbers], has_tags: bool, device: torch.device | NumpyDevice
) -> list[float | DataError]:
    batch = make_batch(pairs, has_tags=has_tags, device=device)
    try:
        with no_grad():
            nll = nll_of(batch)
    except DataError as error:
        if len(pairs) == 1:
            return [error]
        # one of them is to blame, and the others are not to suffer for it
        return [_log_probs(nll_of, [one], has_tags, device)[0] for one in pairs]
    return [-value for value in nll.double().tolist()]
