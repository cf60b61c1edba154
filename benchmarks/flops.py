"""How many floating-point operations the matrix products of a training step have, by formula.

A product of ``(m, k)`` with ``(k, n)`` has ``2 m k n``; the backward pass has two products for each of the forward
pass. Nothing is counted for what is computed twice, for padding, for anything that is not a matrix product, or for the
recurrent product of a first position, whose state before it is zero.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from ssnt import Batch, ModelConfig

FORWARD_AND_BACKWARD = 3


@dataclass(frozen=True)
class Sizes:
    """What the count depends on: the pairs, and the source positions, target positions and grid cells of them all."""

    pairs: int
    src: int
    tgt: int
    cells: int

    @classmethod
    def of(cls, batches: Iterable[Batch], *, padding: bool = False) -> Sizes:
        """The sizes of some batches, with or without their padding."""
        pairs = src = tgt = cells = 0
        for batch in batches:
            assert batch.tgt is not None and batch.tgt_lens is not None  # noqa: PT018 - training batches have both
            pairs += len(batch.src)
            if padding:
                count, i, j = len(batch.src), batch.src.shape[1], batch.tgt.shape[1]
                src, tgt, cells = src + count * i, tgt + count * j, cells + count * i * j
            else:
                src, tgt = src + int(batch.src_lens.sum()), tgt + int(batch.tgt_lens.sum())
                cells += int((batch.src_lens * batch.tgt_lens).sum())
        return cls(pairs, src, tgt, cells)


def step_flops(config: ModelConfig, sizes: Sizes) -> dict[str, float]:
    """The count of forward and backward pass by parts, for a model of one layer each and without tags."""
    hidden, embed, vocab = config.hidden_size, config.embed_size, config.tgt_vocab_size
    directions = 2 if config.bidirectional else 1

    def lstm(positions: int) -> int:
        return 4 * hidden * (positions * embed + (positions - sizes.pairs) * hidden)

    states = sizes.src * hidden * directions + sizes.tgt * hidden
    parts = {
        "encoder LSTM": lstm(sizes.src) * directions,
        "decoder LSTM": lstm(sizes.tgt),
        "word grid": (states + sizes.cells) * vocab,
    }
    if config.transition == "neural":
        parts["transition"] = (states + sizes.cells) * (config.transition_hidden_size or hidden)
    return {name: float(2 * FORWARD_AND_BACKWARD * count) for name, count in parts.items()}


def total_flops(config: ModelConfig, sizes: Sizes) -> float:
    """The count of forward and backward pass."""
    return sum(step_flops(config, sizes).values())


def counted_flops(config: ModelConfig, pairs: int, src_len: int, tgt_len: int) -> int:
    """What torch counts for the same products written out one by one: it does not see into fused operations."""

    def weight(*shape: int) -> Tensor:
        return torch.randn(*shape).requires_grad_()

    def lstm(length: int) -> Tensor:
        """States (B, T, H): the products of an LSTM are those of any recurrence with four gates."""
        inputs = weight(pairs, length, config.embed_size)
        over_input, over_state = (
            weight(4 * config.hidden_size, size) for size in (config.embed_size, config.hidden_size)
        )
        states: list[Tensor] = []
        for step in range(length):
            gates = F.linear(inputs[:, step], over_input)
            if states:  # before the first position the state is zero
                gates = gates + F.linear(states[-1], over_state)
            states.append(torch.stack(gates.tanh().chunk(4, dim=1)).sum(0))
        return torch.stack(states, dim=1)

    with FlopCounterMode(display=False) as counter:
        src = torch.cat([lstm(src_len) for _ in range(2 if config.bidirectional else 1)], dim=2)
        tgt = lstm(tgt_len)
        a, b = (F.linear(side, weight(config.tgt_vocab_size, side.shape[2])) for side in (src, tgt))
        total = torch.bmm(b.exp(), a.exp().transpose(1, 2)).log().sum()
        if config.transition == "neural":
            size = config.transition_hidden_size or config.hidden_size
            left, right = (F.linear(side, weight(size, side.shape[2])) for side in (src, tgt))
            total = total + F.linear((left[:, None] + right[:, :, None]).tanh(), weight(1, size)).sum()
        total.backward()
    return counter.get_total_flops()
