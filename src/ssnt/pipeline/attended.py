"""Where attention looks while it writes: from where a model without an alignment copies what it does not know."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch

from ssnt.decode import Failure
from ssnt.nn import Model
from ssnt.pipeline.inputs import Numbers, make_batch
from ssnt.types import UNK_ID, Hypothesis

_MOST_AT_ONCE = 64


def most_attended(
    model: Model, numbers: Sequence[Numbers | Failure], found: Sequence[Sequence[Hypothesis] | Failure]
) -> dict[tuple[int, int], tuple[int, ...]]:
    """The source positions that attention looks at most, for outputs with unknown symbols.

    Args:
        model: The model; one that has no attention, or has an alignment, gives no positions.
        numbers: The inputs.
        found: The outputs of each.

    Returns:
        For an output, by the place of its input and its rank, one position for each symbol and for the end symbol.
    """
    from ssnt.nn.baselines import AttentionSeq2Seq

    if not isinstance(model, AttentionSeq2Seq):
        return {}
    outputs = {
        (index, rank): replace(one, target_numbers=hypothesis.symbols)
        for index, (one, hypotheses) in enumerate(zip(numbers, found, strict=True))
        if not isinstance(one, Failure) and not isinstance(hypotheses, Failure)
        for rank, hypothesis in enumerate(hypotheses)
        if UNK_ID in hypothesis.symbols
    }
    positions: dict[tuple[int, int], tuple[int, ...]] = {}
    for group in _groups(outputs):
        batch = make_batch([outputs[key] for key in group], has_tags=model.has_tags, device=model.device)
        with torch.no_grad():
            rows = model.most_attended(batch).tolist()
        for key, row in zip(group, rows, strict=True):
            positions[key] = tuple(row[: len(outputs[key].target_numbers) + 1])
    return positions


def _groups(outputs: dict[tuple[int, int], Numbers]) -> Iterator[list[tuple[int, int]]]:
    """Outputs of sources of similar lengths."""
    order = sorted(outputs, key=lambda key: len(outputs[key].source))
    for first in range(0, len(order), _MOST_AT_ONCE):
        yield order[first : first + _MOST_AT_ONCE]
