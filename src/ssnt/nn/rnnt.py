"""The RNN transducer (Graves, 2012) on the SSNT's lattice: reading on is one more symbol, the null symbol.

At each cell there is one softmax over the target symbols and the null symbol, whose logits are sums of a source and a
prefix part. With ``log Z`` the log of the sum over the target symbols alone, it splits exactly into what the lattice is
made of:

    p(emit) = sigmoid(log Z - null),  p(shift) = sigmoid(null - log Z),  p(y | emit) = exp(logit_y - log Z)

``log Z`` is known from the word grid and the logits of the targets, so that the decisions cost almost nothing. What
differs from Graves: outputs end with an end symbol as in all models here, and not with a last null symbol.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ssnt.config.model import Architecture
from ssnt.nn.joint import WordDistribution
from ssnt.nn.model import SSNT
from ssnt.nn.padding import inside
from ssnt.nn.protocol import Encoding
from ssnt.nn.transition import LogTransition
from ssnt.types import Grid


class NullTransition(nn.Module):
    """The logit ``a_i + b_j`` of the null symbol, against that of all target symbols together, which is ``log Z``.

    Not a :class:`~ssnt.nn.Transition`: it cannot decide before ``log Z`` is known.
    """

    def __init__(self, src_size: int, tgt_size: int) -> None:
        super().__init__()
        bound = (src_size + tgt_size) ** -0.5  # as for the rows of the word distribution, of which this is one more
        self.src_weight = nn.Parameter(torch.empty(src_size).uniform_(-bound, bound))
        self.tgt_weight = nn.Parameter(torch.empty(tgt_size).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(1).uniform_(-bound, bound))

    def log_grid(self, src_states: Tensor, tgt_states: Tensor, log_norm: Tensor) -> LogTransition:
        """Returns both decisions at every cell, (B, J, I), for states (B, I, Hs), (B, J, Ht) and ``log Z``."""
        return self.log_grid_from(self.source_half(src_states), tgt_states, log_norm)

    def source_half(self, src_states: Tensor) -> Tensor:
        """The source's part of the null logits, (B, I), float32 at least."""
        return _product(src_states, self.src_weight) + self.bias

    def log_grid_from(self, src_half: Tensor, tgt_states: Tensor, log_norm: Tensor) -> LogTransition:
        """Returns what :meth:`log_grid` does, from the source half."""
        log_null = src_half[:, None, :] + _product(tgt_states, self.tgt_weight)[:, :, None]  # (B, J, I)
        return LogTransition(F.logsigmoid(log_norm - log_null), F.logsigmoid(log_null - log_norm))


def _product(states: Tensor, weight: Tensor) -> Tensor:
    """States (..., H) times a weight (H,), in float32 at least: half precision would round decisions too coarsely."""
    with torch.autocast(states.device.type, enabled=False):
        dtype = torch.promote_types(weight.dtype, torch.float32)
        return states.to(dtype) @ weight.to(dtype)


@dataclass(frozen=True)
class NormalisedWords:
    """The word grid with the normaliser of its cells, both ``(B, J, I)``."""

    log_word: Tensor
    log_norm: Tensor


class RNNT(SSNT):
    """The RNN transducer, with the SSNT's encoder, prefix decoder and word distribution.

    ``config.transition`` and ``config.transition_hidden_size`` have no effect. ``config.tie_target_embedding`` does not
    concern the null symbol.

    Attributes:
        transition: The null symbol's logit.
    """

    architecture: ClassVar[Architecture] = "rnnt"
    transition: NullTransition  # type: ignore[assignment]  # it asks for log Z as well

    def grid_of(self, encoding: Encoding, src_lens: Tensor, tgt: Tensor, tgt_lens: Tensor) -> Grid:
        """Returns the lattice of sources that are encoded already, with targets (B, J)."""
        src_states = self.output_dropout(encoding.states)  # (B, I, Hs)
        tgt_states = self.output_dropout(self.decoder(tgt, encoding.condition))  # (B, J, Ht)
        words = _normalised_words(self.word, src_states, tgt_states, tgt, src_lens, tgt_lens)
        decisions = self.transition.log_grid(src_states, tgt_states, words.log_norm)
        return Grid(words.log_word, decisions.log_emit, decisions.log_shift, src_lens, tgt_lens)

    def decisions_from(self, src_half: Tensor, prefix_states: Tensor, log_norm: Tensor) -> LogTransition:
        """Returns both decisions of prefixes (B, K, Ht) at every position, (B, K, I), given ``log Z`` there."""
        return self.transition.log_grid_from(src_half, prefix_states, log_norm)

    def _build_transition(self, src_size: int) -> NullTransition:  # type: ignore[override]
        return NullTransition(src_size, self.config.hidden_size)


def _normalised_words(
    word: WordDistribution, src_states: Tensor, tgt_states: Tensor, tgt: Tensor, src_lens: Tensor, tgt_lens: Tensor
) -> NormalisedWords:
    """The grid of the targets and its ``log Z``, which is the logit of a target minus its log probability."""
    valid = inside(tgt, tgt_lens)
    symbols = torch.where(valid, tgt, 0)
    # A symbol that is banned by its bias tells nothing of log Z, so that another has to stand in for it.
    is_banned = valid & (word.bias.detach()[symbols] == -math.inf)  # (B, J)
    symbols = torch.where(is_banned, word.bias.detach().argmax(), symbols)
    log_word = word.log_grid(src_states, tgt_states, symbols, src_lens, tgt_lens)  # (B, J, I)
    log_norm = _logits_of(word, src_states, tgt_states, symbols, log_word.dtype) - log_word
    return NormalisedWords(log_word.masked_fill(is_banned[..., None], -math.inf), log_norm)


def _logits_of(
    word: WordDistribution, src_states: Tensor, tgt_states: Tensor, symbols: Tensor, dtype: torch.dtype
) -> Tensor:
    """The logit of one symbol a row at every position, (B, J, I), for symbols (B, J)."""
    with torch.autocast(src_states.device.type, enabled=False):
        src_rows, tgt_rows = (F.embedding(symbols, one).to(dtype) for one in (word.src_weight, word.tgt_weight))
        of_prefixes = (tgt_states.to(dtype) * tgt_rows).sum(dim=2) + word.bias.to(dtype)[symbols]  # (B, J)
        return torch.baddbmm(of_prefixes[..., None], src_rows, src_states.to(dtype).transpose(1, 2))
