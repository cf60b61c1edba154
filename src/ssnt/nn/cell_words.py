"""Word distributions whose logits do not split into a source and a target part."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from ssnt.nn.cell_grid import CellLogits, cell_word_grid
from ssnt.nn.joint import WordDistribution
from ssnt.nn.padding import inside


class CellWords(WordDistribution):
    """What such distributions share: a grid that is computed in chunks, all of it in float32 at least."""

    is_factored: ClassVar[bool] = False

    def log_grid(
        self, src_states: Tensor, tgt_states: Tensor, targets: Tensor, src_lens: Tensor, tgt_lens: Tensor
    ) -> Tensor:
        """Returns ``log p(y_j | i)``, (B, J, I), for states (B, I, Hs), (B, J, Ht), targets (B, J); zero in padding."""
        columns, rows = inside(src_states, src_lens), inside(tgt_states, tgt_lens)
        # Padding may hold anything, even NaN, and NaN times zero is NaN.
        src_states = torch.where(columns[..., None], src_states, 0.0)
        tgt_states = torch.where(rows[..., None], tgt_states, 0.0)
        symbols = torch.where(rows, targets, 0).long()
        return cell_word_grid(self.cell_logits(src_states, tgt_states), symbols, rows[:, :, None] & columns[:, None, :])

    def cell_logits(self, src_states: Tensor, tgt_states: Tensor) -> CellLogits:
        """What the logits of all cells are made of, for states (B, I, Hs) and (B, J, Ht)."""
        raise NotImplementedError
