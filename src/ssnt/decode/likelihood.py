"""How probable given outputs are, under any scorer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ssnt.arrays import no_grad
from ssnt.decode.scorer import Scorer
from ssnt.dp import AlignmentDistribution
from ssnt.errors import ModelError
from ssnt.types import Batch, End

if TYPE_CHECKING:
    from torch import Tensor


@no_grad()
def log_likelihood(scorer: Scorer[Any, Any], batch: Batch, *, end: End = "any") -> Tensor:
    """The exact ``log p(y|x)`` of every pair of a batch, summed over all alignments, ``(B,)``.

    Args:
        scorer: The model, or several as one.
        batch: The pairs, both sides with their end symbol.
        end: Where a path may end: ``"any"`` (the paper) or ``"last"``.

    Raises:
        ModelError: There are no targets.
        DataError: A symbol is outside the vocabulary, or a score is not a number.
    """
    if batch.tgt is None or batch.tgt_lens is None:
        raise ModelError("tgt and tgt_lens: expected the targets of every pair, got None; give both with the batch")
    grid = scorer.grid(scorer.read(batch), batch.tgt, batch.tgt_lens)
    return AlignmentDistribution.of(grid, end=end).log_partition()
