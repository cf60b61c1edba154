"""The joint: source state ``h_i`` and prefix state ``s_j`` to a distribution over the next symbol."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ssnt.word_grid import linear_word_grid


class WordDistribution(nn.Module):
    """The paper's ``softmax(W_w [h_i; s_j] + b_w)``, with ``W_w`` kept as its source and target halves.

    Args:
        src_size: Size of the source states.
        tgt_size: Size of the prefix states.
        vocab_size: Number of target symbols.
        tie_to: An embedding whose weight ``(V, tgt_size)`` is to be the target half as well.

    Attributes:
        is_factored: Whether the logits are sums of a source and a target part, on which searches rely.
    """

    is_factored: ClassVar[bool] = True
    tgt_weight: Tensor

    def __init__(self, src_size: int, tgt_size: int, vocab_size: int, *, tie_to: nn.Embedding | None = None) -> None:
        super().__init__()
        bound = (src_size + tgt_size) ** -0.5  # as nn.Linear does for the undivided matrix
        self.src_weight = nn.Parameter(torch.empty(vocab_size, src_size).uniform_(-bound, bound))
        if tie_to is None:
            self.tgt_weight = nn.Parameter(torch.empty(vocab_size, tgt_size).uniform_(-bound, bound))
        else:
            self.tgt_weight = tie_to.weight
        self.bias = nn.Parameter(torch.empty(vocab_size).uniform_(-bound, bound))

    def log_grid(
        self, src_states: Tensor, tgt_states: Tensor, targets: Tensor, src_lens: Tensor, tgt_lens: Tensor
    ) -> Tensor:
        """Returns ``log p(y_j | h_i, s_j)``, (B, J, I), for states (B, I, Hs), (B, J, Ht), targets (B, J)."""
        return linear_word_grid(
            src_states,
            tgt_states,
            self.src_weight,
            self.tgt_weight,
            self.bias,
            targets,
            src_lens=src_lens,
            tgt_lens=tgt_lens,
        )

    def log_probs(self, src_states: Tensor, tgt_states: Tensor) -> Tensor:
        """Returns the whole distribution (..., V) for states (..., Hs) and (..., Ht) that broadcast."""
        logits = F.linear(src_states, self.src_weight) + F.linear(tgt_states, self.tgt_weight, self.bias)
        return logits.log_softmax(dim=-1, dtype=torch.promote_types(logits.dtype, torch.float32))

    def source_logits(self, src_states: Tensor) -> Tensor:
        """The source part of the logits, ``W_h h_i``, (..., V), in float32 at least."""
        return self.product(src_states, self.src_weight)

    def product(self, states: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        """A linear layer in float32 at least, whatever autocast says: logits leave the range of float16."""
        with torch.autocast(states.device.type, enabled=False):
            return F.linear(self.wide(states), self.wide(weight), None if bias is None else self.wide(bias))

    def wide(self, values: Tensor) -> Tensor:
        """Values in float32 at least."""
        return values.to(torch.promote_types(self.bias.dtype, torch.float32))
