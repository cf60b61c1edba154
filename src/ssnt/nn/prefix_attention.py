"""The SSNT with attention over the source prefix that has been read, which the paper names as future work.

Cell (i, j) attends to ``h_1 .. h_i`` and to nothing after them, so that the model stays exact and, with a
unidirectional encoder, online:

    p(y_j | i) = softmax(W_h h_i + W_s s_j + W_c c_ij + b),  c_ij = sum_{k <= i} softmax_{k <= i}(s_j^T W_a h_k) h_k

The transition is the SSNT's, over ``h_i`` and ``s_j`` alone: with ``c_ij`` its hidden layer would not split either, and
would cost several times as much as the words do, for one bit a cell. The context costs what ``J x I x V`` logits cost:
little for a vocabulary of characters, too much for one of words.
"""

from __future__ import annotations

from typing import ClassVar, Never

import torch
from torch import Tensor, nn

from ssnt.config.model import Architecture
from ssnt.errors import ModelError
from ssnt.nn.cell_words import CellWords
from ssnt.nn.model import SSNT
from ssnt.nn.prefix_grid import PrefixLogits


class PrefixAttentionWords(CellWords):
    """A word distribution that also sees what the prefix state attends to in the source so far.

    Args:
        src_size: Size of the source states.
        tgt_size: Size of the prefix states.
        vocab_size: Number of target symbols.
        tie_to: An embedding whose weight ``(V, tgt_size)`` is to be the target part as well.

    Attributes:
        context_weight: ``W_c``, ``(V, src_size)``.
        query_weight: ``W_a``, ``(src_size, tgt_size)``: Luong's general score.
    """

    def __init__(self, src_size: int, tgt_size: int, vocab_size: int, *, tie_to: nn.Embedding | None = None) -> None:
        super().__init__(src_size, tgt_size, vocab_size, tie_to=tie_to)
        bound = (src_size + tgt_size) ** -0.5
        self.context_weight = nn.Parameter(torch.empty(vocab_size, src_size).uniform_(-bound, bound))
        bound = tgt_size**-0.5
        self.query_weight = nn.Parameter(torch.empty(src_size, tgt_size).uniform_(-bound, bound))

    def cell_logits(self, src_states: Tensor, tgt_states: Tensor) -> PrefixLogits:
        """What the logits of all cells are made of, for states (B, I, Hs) and (B, J, Ht)."""
        seen = torch.arange(1, src_states.shape[1] + 1, device=src_states.device).expand(len(src_states), -1)
        return self.logits(self.source_logits(src_states), self.values(src_states), src_states, tgt_states, seen)

    def values(self, src_states: Tensor) -> Tensor:
        """What states that are attended to add to the logits, ``W_c h_k``, (B, T, V)."""
        return self.product(src_states, self.context_weight)

    def logits(
        self, source_logits: Tensor, values: Tensor, keys: Tensor, tgt_states: Tensor, seen: Tensor
    ) -> PrefixLogits:
        """What the logits of all cells are made of.

        Args:
            source_logits: ``(B, I, V)``.
            values: ``(B, T, V)``.
            keys: The states that may be attended to, ``(B, T, Hs)``.
            tgt_states: ``(B, J, Ht)``.
            seen: How many of the states each position may attend to, ``(B, I)``.
        """
        queries = self.product(tgt_states, self.query_weight)  # (B, J, Hs)
        with torch.autocast(keys.device.type, enabled=False):
            scores = torch.bmm(queries, self.wide(keys).transpose(1, 2))
        tgt_logits = self.product(tgt_states, self.tgt_weight, self.bias)
        return PrefixLogits(source_logits, tgt_logits, scores, values, seen)

    def log_probs(self, src_states: Tensor, tgt_states: Tensor) -> Never:
        """Not from single states: the distribution depends on all states before."""
        raise ModelError(
            "a distribution with attention cannot be made from a single source state; use log_grid, or the columns of "
            "ssnt.decode.make_scorer(model)"
        )


class PrefixAttentionSSNT(SSNT):
    """The SSNT with attention over the source prefix that has been read.

    Attributes:
        word: The word distribution, with its attention.
    """

    architecture: ClassVar[Architecture] = "prefix-attention"
    word: PrefixAttentionWords
    _word_class = PrefixAttentionWords
