"""Checks of what comes into the model, besides :func:`ssnt.symbols.check_symbols`.

Shapes, dtypes and devices are always checked. Values are checked on the CPU only: on a GPU it would make
the host wait for the device at every batch.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ssnt.dp.checks import checked_lengths, require_tensor
from ssnt.errors import ModelError, ShapeError


def check_lengths(name: str, lens: Tensor, of: str, sequences: Tensor) -> None:
    """Checks that ``lens`` (B,) are lengths of ``sequences`` (B, T, ...), which ``of`` names."""
    if sequences.dim() < 2 or 0 in sequences.shape[:2]:
        raise ShapeError(
            f"{of}: expected a batch axis and a sequence axis, neither empty, got shape "
            f"{tuple(sequences.shape)}; a sequence has at least its end symbol"
        )
    checked_lengths(name, lens, sequences.size(0), sequences.size(1), of, lens.device)


def check_same_batch(name: str, values: Tensor, of: str, batch_size: int) -> None:
    """Checks that ``values`` has as many rows as ``of``."""
    if values.shape[:1] != (batch_size,):
        raise ShapeError(
            f"{name}: expected {batch_size} rows, as {of} has, got shape {tuple(values.shape)}; "
            "every tensor of a batch holds the same pairs"
        )


def check_device(name: str, values: Tensor, device: torch.device) -> None:
    """Checks that ``values`` is a tensor, and where the model is."""
    require_tensor(name, values)
    if values.device != device:
        raise ShapeError(
            f"{name}: expected a tensor on {device}, where the model is, got one on {values.device}; "
            f"move the batch with batch.to({str(device)!r})"
        )


def check_condition(condition: Tensor | None, size: int, batch_size: int) -> None:
    """Checks that a condition (B, C) is there if, and only if, the module was built for one."""
    if condition is None:
        if size:
            raise ModelError(
                f"condition: expected a tensor of shape ({batch_size}, {size}), got None; "
                f"pass the output of a FeatureEncoder, or build the module with condition_size=0"
            )
    elif condition.shape != (batch_size, size):
        raise ModelError(
            f"condition: expected {f'shape ({batch_size}, {size})' if size else 'None'}, got shape "
            f"{tuple(condition.shape)}; build the module with the condition_size it is to be used with"
        )
