"""Exact alignment of given pairs: which part of the source wrote which part of the target, and how surely.

Axes: ``B`` batch, ``J`` target, ``I`` source. The end symbols of a pair take part like all others; the formats
(:mod:`ssnt.decode.formats`) leave them out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ssnt.arrays import namespace, no_grad
from ssnt.decode.scorer import Scorer, require_alignment
from ssnt.dp import AlignmentDistribution
from ssnt.errors import ConfigError, DataError, ModelError
from ssnt.types import EOS_ID, Alignment, Batch, End

if TYPE_CHECKING:
    from torch import Tensor

LINK_THRESHOLD = 0.25
"""A source position is linked to a target symbol if it wrote it with at least this probability."""


@dataclass(frozen=True)
class Segment:
    """A source span and the target span that it wrote; both half open, at least one of them not empty.

    Attributes:
        src_start: First source position.
        src_end: One beyond the last source position.
        tgt_start: First target position.
        tgt_end: One beyond the last target position.
    """

    src_start: int
    src_end: int
    tgt_start: int
    tgt_end: int

    @property
    def is_deletion(self) -> bool:
        """Whether the source span wrote nothing."""
        return self.tgt_start == self.tgt_end


@dataclass(frozen=True)
class PairAlignment:
    """How one pair aligns; all positions count from 0 and include the end symbols.

    Attributes:
        path: The most probable alignment, with one position for each target symbol, and ``log p(y, a|x)``.
        confidence: For each target symbol the posterior probability of its position on the path.
        emit: Emission posteriors ``P(a_j = i | x, y)``, ``(J, I)``.
        segments: The pair cut into blocks; see :func:`find_segments`.
        log_prob: ``log p(y|x)``, summed over all alignments.
    """

    path: Alignment
    confidence: tuple[float, ...]
    emit: Tensor = field(compare=False)  # arrays have no single answer to ==
    segments: tuple[Segment, ...]
    log_prob: float

    @property
    def src_len(self) -> int:
        """Source length, the end symbol counted."""
        return self.emit.shape[1]

    @property
    def tgt_len(self) -> int:
        """Target length, the end symbol counted."""
        return self.emit.shape[0]


@dataclass(frozen=True)
class AlignmentFailure:
    """A pair that could not be aligned.

    Attributes:
        index: Its place in the batch.
        error: What is wrong; the message names the index.
    """

    index: int
    error: DataError


def align(
    scorer: Scorer[Any, Any], batch: Batch, *, end: End = "any", link_threshold: float = LINK_THRESHOLD
) -> list[PairAlignment]:
    """Aligns every pair of a batch exactly.

    Args:
        scorer: The model, or several as one.
        batch: The pairs, both sides with their end symbol.
        end: Where a path may end: ``"any"`` (the paper) or ``"last"``.
        link_threshold: How probable a further link must be to join segments; see :func:`find_segments`.

    Returns:
        One alignment a pair, in order.

    Raises:
        DataError: A pair has no possible alignment, or lacks an end symbol; the message names its index.
    """
    results = align_each(scorer, batch, end=end, link_threshold=link_threshold)
    for result in results:
        if isinstance(result, AlignmentFailure):
            raise result.error
    return [result for result in results if isinstance(result, PairAlignment)]


def align_each(
    scorer: Scorer[Any, Any], batch: Batch, *, end: End = "any", link_threshold: float = LINK_THRESHOLD
) -> list[PairAlignment | AlignmentFailure]:
    """Aligns as :func:`align` does, with a failure in the place of each pair that cannot be aligned.

    A failure is about the data of one pair: no possible alignment, a missing end symbol, a symbol outside the
    vocabulary, a score that is not a number. What is wrong with the batch or the model as a whole still raises.
    """
    if not 0.0 < link_threshold <= 1.0:
        raise ConfigError(f"link_threshold must be above 0 and at most 1, got {link_threshold!r}")
    require_alignment(scorer, "align")
    try:
        results = _align_batch(scorer, batch, end, link_threshold)
    except DataError:
        # One pair spoilt the whole batch: alone, each shows whether it was that one.
        results = [_align_alone(scorer, batch, b, end, link_threshold) for b in range(len(batch.src_lens))]
    return [
        AlignmentFailure(b, result) if isinstance(result, DataError) else result for b, result in enumerate(results)
    ]


def find_segments(emit: Tensor, positions: Sequence[int], *, link_threshold: float = LINK_THRESHOLD) -> list[Segment]:
    """Cuts a pair into blocks of source and target that belong together.

    A target symbol is linked to its position on the path, and to every other position that wrote it with a posterior of
    at least ``link_threshold``. Blocks are the finest cut of both sequences, in order, that breaks no link: symbols
    linked to one position are in one block, and so are the positions linked to one symbol, with what lies between them.
    With a threshold of 1 only the path counts, and each block has one source position.

    Source positions in no block are deletions: every maximal run of them is a segment with an empty target. So each
    source symbol and each target symbol is in exactly one segment, and the segments are in order on both sides.

    The target's end symbol has only its link on the path: where to stop says nothing about what belongs together.

    Args:
        emit: Emission posteriors of one pair, ``(J, I)``.
        positions: The path: a position for each target symbol.
        link_threshold: Least posterior of a further link, above 0 and at most 1.
    """
    tgt_len, src_len = emit.shape
    linked = (emit >= link_threshold).tolist()
    linked[-1] = [False] * src_len
    blocks: list[Segment] = []
    for j in range(tgt_len):
        links = [i for i in range(src_len) if linked[j][i] or i == positions[j]]
        block = Segment(links[0], links[-1] + 1, j, j + 1)
        while blocks and block.src_start < blocks[-1].src_end:
            last = blocks.pop()
            block = Segment(
                min(last.src_start, block.src_start), max(last.src_end, block.src_end), last.tgt_start, block.tgt_end
            )
        blocks.append(block)
    return _with_deletions(blocks, src_len, tgt_len)


def _with_deletions(blocks: Sequence[Segment], src_len: int, tgt_len: int) -> list[Segment]:
    """Fills the gaps between blocks."""
    segments: list[Segment] = []
    at = 0
    for block in blocks:
        if at < block.src_start:
            segments.append(Segment(at, block.src_start, block.tgt_start, block.tgt_start))
        segments.append(block)
        at = block.src_end
    if at < src_len:
        segments.append(Segment(at, src_len, tgt_len, tgt_len))
    return segments


@no_grad()
def _align_batch(
    scorer: Scorer[Any, Any], batch: Batch, end: End, link_threshold: float, first: int = 0
) -> list[PairAlignment | DataError]:
    """Aligns all pairs at once; in messages, they are numbered from ``first`` on."""
    tgt, tgt_lens = _target(batch)
    source = scorer.read(batch)
    grid = scorer.grid(source, tgt, tgt_lens)
    distribution = AlignmentDistribution.of(grid, end=end)
    log_probs = distribution.log_partition().tolist()
    emit = distribution.posteriors().emit  # (B, J, I)
    paths = distribution.kbest(1)
    sizes = zip(batch.src_lens.tolist(), tgt_lens.tolist(), strict=True)
    results: list[PairAlignment | DataError] = []
    for b, (src_len, tgt_len) in enumerate(sizes):
        problem = _unended(first + b, src=batch.src[b, :src_len], tgt=tgt[b, :tgt_len])
        if problem is None and not (log_probs[b] > -math.inf and paths[b]):
            problem = DataError(
                f"pair {first + b} has no possible alignment: its {src_len} source and {tgt_len} target symbols, "
                f"end symbols counted, have log probability {log_probs[b]} with end={end!r}"
            )
        if problem is not None:
            results.append(problem)
            continue
        chances = emit[b, :tgt_len, :src_len].clone()  # the rest of the batch need not stay in memory
        results.append(_describe(chances, paths[b][0], log_probs[b], link_threshold))
    return results


def _describe(emit: Tensor, path: Alignment, log_prob: float, link_threshold: float) -> PairAlignment:
    positions = namespace(emit).tensor(path.positions, device=emit.device)
    confidence = emit.gather(1, positions[:, None])[:, 0].tolist()
    segments = find_segments(emit, path.positions, link_threshold=link_threshold)
    return PairAlignment(path, tuple(confidence), emit, tuple(segments), log_prob)


def _target(batch: Batch) -> tuple[Tensor, Tensor]:
    if batch.tgt is None or batch.tgt_lens is None:
        raise ModelError("tgt and tgt_lens: expected the targets to align the sources with, got None")
    return batch.tgt, batch.tgt_lens


def _unended(b: int, **sides: Tensor) -> DataError | None:
    """The formats leave the last symbols out, so they have to be the end symbols."""
    for name, symbols in sides.items():
        last = int(symbols[-1])
        if last != EOS_ID:
            return DataError(
                f"pair {b} must end in the end symbol ({EOS_ID}) on both sides, "
                f"got {name}[{b}, {len(symbols) - 1}] = {last}"
            )
    return None


def _align_alone(
    scorer: Scorer[Any, Any], batch: Batch, b: int, end: End, link_threshold: float
) -> PairAlignment | DataError:
    """Aligns one pair, without the padding that the others gave it."""
    tgt, tgt_lens = _target(batch)
    src_len, tgt_len = int(batch.src_lens[b]), int(tgt_lens[b])
    row = slice(b, b + 1)
    alone = Batch(
        batch.src[row, :src_len],
        batch.src_lens[row],
        tgt[row, :tgt_len],
        tgt_lens[row],
        None if batch.features is None else batch.features[row],
    )
    try:
        return _align_batch(scorer, alone, end, link_threshold, first=b)[0]
    except DataError as error:
        return DataError(f"pair {b} cannot be aligned: {error}")
