"""The SSNT whose words look at source and prefix together, by a hidden layer as RNN transducers have it.

In the paper the logits of a cell are sums of a source and a prefix part: what a prefix says for or against a symbol is
the same wherever the model is in the source. Here a hidden layer sees both:

    p(y_j | i) = softmax(W_h h_i + W_s s_j + W_o tanh(U_h h_i + U_s s_j + c) + b)

A path stays what it was, so that the model is exact, and, with a unidirectional encoder, online. The layer costs what
``J x I`` cells of hidden and vocabulary size cost: little for letters or phones, too much for words.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ssnt.nn.cell_grid import Chunk, cell_word_grid, cut_rows, without_padding
from ssnt.nn.joint import WordDistribution
from ssnt.nn.model import SSNT


@dataclass(frozen=True)
class JointLogits:
    """What the logits of all cells are made of.

    Attributes:
        src_hidden: Source part of the hidden layer, with its bias, ``(B, I, D)``.
        tgt_hidden: Target part of the hidden layer, ``(B, J, D)``.
        src: Source part of the logits, ``(B, I, V)``.
        tgt: Target part of the logits, with their bias, ``(B, J, V)``.
        weight: From the hidden layer to the logits, ``(V, D)``.
    """

    src_hidden: Tensor
    tgt_hidden: Tensor
    src: Tensor
    tgt: Tensor
    weight: Tensor

    @property
    def parts(self) -> tuple[Tensor, ...]:
        """All tensors."""
        return self.src_hidden, self.tgt_hidden, self.src, self.tgt, self.weight

    @classmethod
    def of_parts(cls, parts: tuple[Tensor, ...]) -> JointLogits:
        """From all tensors."""
        return cls(*parts)

    @property
    def dtype(self) -> torch.dtype:
        """Of the logits."""
        return self.src.dtype

    @property
    def vocab_size(self) -> int:
        """Number of symbols."""
        return self.src.shape[2]

    def chunks(self, chunk_bytes: int) -> Iterator[Chunk]:
        """Cuts the target rows of all pairs into chunks of some bytes of logits and hidden states, or of a row."""
        batch, rows, hidden_size = self.tgt_hidden.shape
        row_bytes = self.src.shape[1] * (self.vocab_size + hidden_size) * self.src.element_size()
        return cut_rows(batch, rows, row_bytes, chunk_bytes)

    def of_chunk(self, pairs: slice, rows: slice) -> tuple[Tensor, Tensor]:
        """The logits of a chunk, ``(b, j, I, V)``, and its hidden states, ``(b, j, I, D)``."""
        hidden = (self.src_hidden[pairs, None] + self.tgt_hidden[pairs, rows, None]).tanh_()
        logits = F.linear(hidden, self.weight)
        return logits.add_(self.src[pairs, None]).add_(self.tgt[pairs, rows, None]), hidden

    def gradients(self) -> JointGradients:
        """Gradients that are zero, or not computed yet."""
        return JointGradients(self)


class JointGradients:
    """Those of all that the logits are made of, chunk by chunk."""

    def __init__(self, logits: JointLogits) -> None:
        self._logits = logits
        self._src_hidden, self._src = torch.zeros_like(logits.src_hidden), torch.zeros_like(logits.src)
        self._tgt_hidden, self._tgt = torch.empty_like(logits.tgt_hidden), torch.empty_like(logits.tgt)
        self._weight = torch.zeros_like(logits.weight)

    def add(self, pairs: slice, rows: slice, slopes: Tensor, hidden: Tensor) -> None:
        """Takes what the cells of a chunk say, given slopes ``(b, j, I, V)`` and hidden states ``(b, j, I, D)``."""
        self._src[pairs] += slopes.sum(dim=1)
        self._tgt[pairs, rows] = slopes.sum(dim=2)
        self._weight.addmm_(slopes.flatten(0, 2).T, hidden.flatten(0, 2))
        inner = torch.matmul(slopes, self._logits.weight)  # (b, j, I, D)
        inner.addcmul_(inner * hidden, hidden, value=-1.0)  # tanh's own slope, 1 - tanh^2
        self._src_hidden[pairs] += inner.sum(dim=1)
        self._tgt_hidden[pairs, rows] = inner.sum(dim=2)

    def in_order(self) -> tuple[Tensor, ...]:
        """One for each part."""
        return self._src_hidden, self._tgt_hidden, self._src, self._tgt, self._weight


class JointWords(WordDistribution):
    """A word distribution with a hidden layer over both states, beside the paper's linear one.

    Args:
        src_size: Size of the source states.
        tgt_size: Size of the prefix states, and of the hidden layer.
        vocab_size: Number of target symbols.
        tie_to: An embedding whose weight ``(V, tgt_size)`` is to be the target part as well.
    """

    is_factored: ClassVar[bool] = False

    def __init__(self, src_size: int, tgt_size: int, vocab_size: int, *, tie_to: nn.Embedding | None = None) -> None:
        super().__init__(src_size, tgt_size, vocab_size, tie_to=tie_to)
        self.src_layer = nn.Linear(src_size, tgt_size)
        self.tgt_layer = nn.Linear(tgt_size, tgt_size, bias=False)
        self.output_layer = nn.Linear(tgt_size, vocab_size, bias=False)  # the logits' bias is the linear part's

    def log_grid(
        self, src_states: Tensor, tgt_states: Tensor, targets: Tensor, src_lens: Tensor, tgt_lens: Tensor
    ) -> Tensor:
        """Returns ``log p(y_j | i)``, (B, J, I), for states (B, I, Hs), (B, J, Ht), targets (B, J); zero in padding."""
        src_states, columns = without_padding(src_states, src_lens)
        tgt_states, rows = without_padding(tgt_states, tgt_lens)
        logits = self.logits(self.source_hidden(src_states), self.source_logits(src_states), tgt_states)
        return cell_word_grid(logits, torch.where(rows, targets, 0).long(), rows[:, :, None] & columns[:, None, :])

    def source_logits(self, src_states: Tensor) -> Tensor:
        """The source part of the logits, ``W_h h_i``, (B, I, V)."""
        return self._widened(F.linear(src_states, self.src_weight))

    def source_hidden(self, src_states: Tensor) -> Tensor:
        """The source part of the hidden layer, ``U_h h_i + c``, (B, I, D)."""
        return self._widened(self.src_layer(src_states))

    def logits(self, src_hidden: Tensor, src_logits: Tensor, tgt_states: Tensor) -> JointLogits:
        """What the logits of all cells are made of, for the source's parts and prefix states (B, J, Ht)."""
        tgt_logits = F.linear(tgt_states, self.tgt_weight, self.bias)
        parts = src_hidden, self.tgt_layer(tgt_states), src_logits, tgt_logits, self.output_layer.weight
        return JointLogits(*(self._widened(part) for part in parts))

    def log_probs(self, src_states: Tensor, tgt_states: Tensor) -> Tensor:
        """Returns the whole distribution (..., V) for states (..., Hs) and (..., Ht) that broadcast."""
        hidden = torch.tanh(self.src_layer(src_states) + self.tgt_layer(tgt_states))
        linear = F.linear(src_states, self.src_weight) + F.linear(tgt_states, self.tgt_weight, self.bias)
        logits: Tensor = linear + self.output_layer(hidden)
        return logits.log_softmax(dim=-1, dtype=torch.promote_types(logits.dtype, torch.float32))

    def _widened(self, values: Tensor) -> Tensor:
        """Float32 at least, also under autocast."""
        return values.to(torch.promote_types(self.bias.dtype, torch.float32))


class JointNetworkSSNT(SSNT):
    """The SSNT whose words look at source and prefix together.

    Attributes:
        word: The word distribution, with its hidden layer.
    """

    word: JointWords
    _word_class = JointWords
