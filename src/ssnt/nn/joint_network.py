"""The SSNT whose words look at source and prefix together, by a hidden layer as later RNN transducers have it.

In the paper, and in :mod:`ssnt.nn.joint`, the logits of a cell are sums of a source and a prefix part: what a prefix
says for or against a symbol is the same wherever the model is in the source. Here a hidden layer sees both:

    p(y_j | i) = softmax(W_h h_i + W_s s_j + W_o tanh(U_h h_i + U_s s_j + c) + b)

A path stays what it was, so that the model is exact, and, with a unidirectional encoder, online. With a hidden layer of
``D`` units the grid costs ``J x I x D x V`` products: little for letters or phones, too much for words.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ssnt.config.model import Architecture
from ssnt.nn.cell_grid import CellGradients, CellLogits, Cells, Chunk
from ssnt.nn.cell_words import CellWords
from ssnt.nn.model import SSNT


@dataclass(frozen=True)
class JointLogits(CellLogits):
    """What the logits of all cells are made of; a cell's inner numbers are its hidden units, ``(b, j, I, D)``.

    Attributes:
        src_hidden: Source part of the hidden layer, with its bias, ``(B, I, D)``.
        tgt_hidden: Target part of the hidden layer, ``(B, J, D)``.
        weight: From the hidden layer to the logits, ``(V, D)``.
    """

    src_hidden: Tensor
    tgt_hidden: Tensor
    weight: Tensor

    @property
    def inner_size(self) -> int:
        """Number of hidden units."""
        return self.weight.shape[1]

    def of_chunk(self, chunk: Chunk) -> Cells:
        """The cells of a chunk."""
        pairs, rows = chunk.pairs, chunk.rows
        hidden = (self.src_hidden[pairs, None] + self.tgt_hidden[pairs, rows, None]).tanh_()
        logits = F.linear(hidden, self.weight)
        return Cells(logits.add_(self.src[pairs, None]).add_(self.tgt[pairs, rows, None]), hidden)

    def gradients(self) -> CellGradients:
        """Gradients that are zero, or not computed yet."""
        return _JointGradients(self)


class _JointGradients(CellGradients):
    def __init__(self, logits: JointLogits) -> None:
        self._logits = logits
        self._src_hidden, self._src = torch.zeros_like(logits.src_hidden), torch.zeros_like(logits.src)
        self._tgt_hidden, self._tgt = torch.empty_like(logits.tgt_hidden), torch.empty_like(logits.tgt)
        self._weight = torch.zeros_like(logits.weight)

    def add(self, chunk: Chunk, of_logits: Tensor, inner: Tensor) -> None:
        self._src[chunk.pairs] += of_logits.sum(dim=1)
        self._tgt[chunk.pairs, chunk.rows] = of_logits.sum(dim=2)
        self._weight.addmm_(of_logits.flatten(0, 2).T, inner.flatten(0, 2))
        of_hidden = torch.matmul(of_logits, self._logits.weight)  # (b, j, I, D)
        of_hidden.addcmul_(of_hidden * inner, inner, value=-1.0)  # times the slope of tanh, 1 - tanh^2
        self._src_hidden[chunk.pairs] += of_hidden.sum(dim=1)
        self._tgt_hidden[chunk.pairs, chunk.rows] = of_hidden.sum(dim=2)

    def in_order(self) -> tuple[Tensor | None, ...]:
        return self._src, self._tgt, self._src_hidden, self._tgt_hidden, self._weight


class JointWords(CellWords):
    """A word distribution with a hidden layer over both states, beside the paper's linear one.

    Args:
        src_size: Size of the source states.
        tgt_size: Size of the prefix states, and of the hidden layer.
        vocab_size: Number of target symbols.
        tie_to: An embedding whose weight ``(V, tgt_size)`` is to be the target part as well.
    """

    def __init__(self, src_size: int, tgt_size: int, vocab_size: int, *, tie_to: nn.Embedding | None = None) -> None:
        super().__init__(src_size, tgt_size, vocab_size, tie_to=tie_to)
        self.src_layer = nn.Linear(src_size, tgt_size)
        self.tgt_layer = nn.Linear(tgt_size, tgt_size, bias=False)
        self.output_layer = nn.Linear(tgt_size, vocab_size, bias=False)  # the logits' bias is the linear part's

    def cell_logits(self, src_states: Tensor, tgt_states: Tensor) -> JointLogits:
        """What the logits of all cells are made of, for states (B, I, Hs) and (B, J, Ht)."""
        return self.logits(self.source_logits(src_states), self.source_hidden(src_states), tgt_states)

    def source_hidden(self, src_states: Tensor) -> Tensor:
        """The source part of the hidden layer, ``U_h h_i + c``, (B, I, D)."""
        return self.product(src_states, self.src_layer.weight, self.src_layer.bias)

    def logits(self, source_logits: Tensor, source_hidden: Tensor, tgt_states: Tensor) -> JointLogits:
        """What the logits of all cells are made of, for the source's two parts and prefix states (B, J, Ht)."""
        tgt_logits = self.product(tgt_states, self.tgt_weight, self.bias)
        tgt_hidden = self.product(tgt_states, self.tgt_layer.weight)
        return JointLogits(source_logits, tgt_logits, source_hidden, tgt_hidden, self.wide(self.output_layer.weight))

    def log_probs(self, src_states: Tensor, tgt_states: Tensor) -> Tensor:
        """Returns the whole distribution (..., V) for states (..., Hs) and (..., Ht) that broadcast."""
        tgt_hidden = self.product(tgt_states, self.tgt_layer.weight)
        hidden = torch.tanh(self.source_hidden(src_states) + tgt_hidden)
        linear = self.source_logits(src_states) + self.product(tgt_states, self.tgt_weight, self.bias)
        return (linear + self.product(hidden, self.output_layer.weight)).log_softmax(dim=-1)


class JointNetworkSSNT(SSNT):
    """The SSNT whose words look at source and prefix together.

    Attributes:
        word: The word distribution, with its hidden layer.
    """

    architecture: ClassVar[Architecture] = "joint-network"
    word: JointWords
    _word_class = JointWords
