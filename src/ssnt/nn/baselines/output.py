"""States to the distribution over the next symbol, in memory that does not grow with the vocabulary."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ssnt.nn.padding import inside
from ssnt.word_grid import linear_word_grid

_FEW_LOGITS = 4 << 20
"""So many logits may be made at once; of more, a chunk of the vocabulary at a time."""


class OutputDistribution(nn.Module):
    """``softmax(W s_j + b)``.

    Args:
        size: Size of the states.
        vocab_size: Number of target symbols.
        tie_to: An embedding whose weight ``(V, size)`` is to be ``W`` as well.
    """

    tgt_weight: Tensor

    def __init__(self, size: int, vocab_size: int, *, tie_to: nn.Embedding | None = None) -> None:
        super().__init__()
        bound = size**-0.5
        if tie_to is None:
            self.tgt_weight = nn.Parameter(torch.empty(vocab_size, size).uniform_(-bound, bound))
        else:
            self.tgt_weight = tie_to.weight
        self.bias = nn.Parameter(torch.empty(vocab_size).uniform_(-bound, bound))

    def log_word(self, states: Tensor, targets: Tensor, tgt_lens: Tensor) -> Tensor:
        """Returns ``log p(y_j)``, (B, J), for states (B, J, H) and targets (B, J); zero in padding."""
        if states.shape[0] * states.shape[1] * len(self.bias) > _FEW_LOGITS:
            return self._log_word_in_chunks(states, targets, tgt_lens)
        chosen = self.log_probs(states).gather(2, targets[..., None])[..., 0]
        return torch.where(inside(targets, tgt_lens), chosen, 0.0)

    def _log_word_in_chunks(self, states: Tensor, targets: Tensor, tgt_lens: Tensor) -> Tensor:
        """As a word grid of one column, whose source has nothing to say."""
        silence = states.new_zeros(len(states), 1, 1)
        weight = self.tgt_weight.new_zeros(len(self.bias), 1)
        return linear_word_grid(silence, states, weight, self.tgt_weight, self.bias, targets, tgt_lens=tgt_lens)[..., 0]

    def log_probs(self, states: Tensor) -> Tensor:
        """Returns the whole distribution (..., V) for states (..., H), in float32 at least."""
        logits = F.linear(states, self.tgt_weight, self.bias)
        return logits.log_softmax(dim=-1, dtype=torch.promote_types(logits.dtype, torch.float32))
