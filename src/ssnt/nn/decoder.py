"""The prefix decoder: output symbols so far to states ``s_j``."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ssnt.errors import ShapeError
from ssnt.nn.recurrent import SymbolLSTM
from ssnt.symbols import check_symbols
from ssnt.types import BOS_ID


class PrefixDecoder(SymbolLSTM):
    """An LSTM over the previous output symbols: ``s_j`` encodes ``y_1..y_{j-1}`` and nothing else.

    It sees neither source nor alignment: that is what makes the sum over alignments tractable, and why a
    hypothesis needs one decoder state however many alignments it stands for.

    To decode, ``step`` from ``initial_state`` with ``BOS_ID``; a chain of steps equals ``forward``.
    """

    def __init__(
        self,
        vocab_size: int,
        embed_size: int,
        hidden_size: int,
        *,
        layers: int = 1,
        condition_size: int = 0,
        dropout: float = 0.0,
    ) -> None:
        # Never bidirectional: that would show a state the symbols it is to predict.
        super().__init__(
            vocab_size, embed_size, hidden_size, layers=layers, condition_size=condition_size, dropout=dropout
        )

    def forward(self, tgt: Tensor, condition: Tensor | None = None) -> Tensor:
        """Maps the target (B, J) to states (B, J, H), each from the symbols before its own."""
        # Padding comes after every valid position and cannot reach it, so that nobody needs to know where it begins.
        return self._states(self._inputs(self._before(tgt), condition), None)

    def embedding_for_output(self) -> nn.Embedding:
        """The embedding, begun anew so that it may be an output projection as well."""
        # embeddings start with variance one, far too much for a projection
        nn.init.normal_(self.embedding.weight, std=self.embedding.embedding_dim**-0.5)
        return self.embedding

    def _before(self, tgt: Tensor) -> Tensor:
        """The symbol before each one of the target (B, J)."""
        check_symbols("tgt", tgt, ("B", "J"), self.vocab_size)
        if tgt.numel() == 0:
            raise ShapeError(
                f"tgt: expected at least one pair and one symbol, got shape {tuple(tgt.shape)}; "
                "a sequence has at least its end symbol"
            )
        start = torch.full_like(tgt[:, :1], BOS_ID)  # (B, 1)
        return torch.cat([start, tgt[:, :-1]], dim=1)  # (B, J)
