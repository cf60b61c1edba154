"""Given outputs: their exact probabilities and alignments, in batches of similar lengths."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields

import numpy as np
import torch

from ssnt.config import BatchConfig
from ssnt.data.batching import plan_in_length_order
from ssnt.decode import AlignmentFailure, ModelScorer, PairAlignment, align_each
from ssnt.errors import DataError
from ssnt.nn import SSNT
from ssnt.pipeline.inputs import Numbers, make_batch
from ssnt.pipeline.results import AlignedPair, PairScore
from ssnt.types import End

_MOST_CELLS = 1_000_000  # of the grids of a batch


def score_pairs(
    model: SSNT, pairs: Mapping[int, Numbers], *, end: End, batch_size: int
) -> Iterator[tuple[int, PairScore | DataError]]:
    """Scores pairs, in whatever order is fastest."""
    for group in _groups(pairs, batch_size):
        for index, log_prob in zip(group, _log_probs(model, [pairs[index] for index in group], end), strict=True):
            one = pairs[index]
            if isinstance(log_prob, DataError):
                yield index, log_prob
                continue
            yield index, PairScore(log_prob, len(one.target) + 1, one.unknown_target, one.unknown, one.unknown_tags)


def align_pairs(
    model: SSNT, pairs: Mapping[int, Numbers], *, end: End, batch_size: int, link_threshold: float
) -> Iterator[tuple[int, AlignedPair | DataError]]:
    """Aligns pairs, in whatever order is fastest."""
    for group in _groups(pairs, batch_size):
        batch = make_batch(
            [pairs[index] for index in group], has_tags=model.features is not None, device=model.word.bias.device
        )
        found = align_each(ModelScorer(model), batch, end=end, link_threshold=link_threshold)
        for index, alignment in zip(group, found, strict=True):
            if isinstance(alignment, AlignmentFailure):
                yield index, alignment.error
            else:
                yield index, _with_symbols(alignment, pairs[index])


def _with_symbols(alignment: PairAlignment, one: Numbers) -> AlignedPair:
    known = {field.name: getattr(alignment, field.name) for field in fields(alignment)}
    return AlignedPair(
        **{**known, "emit": alignment.emit.cpu()},
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


def _log_probs(model: SSNT, pairs: list[Numbers], end: End) -> list[float | DataError]:
    batch = make_batch(pairs, has_tags=model.features is not None, device=model.word.bias.device)
    try:
        with torch.no_grad():
            nll = model.loss(batch, end=end, reduction="none")
    except DataError as error:
        if len(pairs) == 1:
            return [error]
        # one of them is to blame, and the others are not to suffer for it
        return [_log_probs(model, [one], end)[0] for one in pairs]
    return [-value for value in nll.double().tolist()]
