"""Monotone neural transduction: exact losses, models and alignments for segment to segment neural transduction."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ssnt.__about__ import __version__
from ssnt.dp import AlignmentDistribution, available_backends, resolve_backend
from ssnt.errors import BackendError, ConfigError, DataError, ModelError, ShapeError, SsntError
from ssnt.loss import SSNTLoss, ssnt_loss
from ssnt.types import BOS_ID, EOS_ID, PAD_ID, UNK_ID, Alignment, Batch, Grid, Posteriors
from ssnt.word_grid import linear_word_grid

if TYPE_CHECKING:
    from ssnt.config import ModelConfig
    from ssnt.nn import SSNT

# Imported when first asked for: whoever wants only the loss need not wait for the settings library.
_LAZY = {"ModelConfig": "ssnt.config", "SSNT": "ssnt.nn"}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'ssnt' has no attribute {name!r}")
    return getattr(import_module(_LAZY[name]), name)


__all__ = [
    "BOS_ID",
    "EOS_ID",
    "PAD_ID",
    "SSNT",
    "UNK_ID",
    "Alignment",
    "AlignmentDistribution",
    "BackendError",
    "Batch",
    "ConfigError",
    "DataError",
    "Grid",
    "ModelConfig",
    "ModelError",
    "Posteriors",
    "SSNTLoss",
    "ShapeError",
    "SsntError",
    "__version__",
    "available_backends",
    "linear_word_grid",
    "resolve_backend",
    "ssnt_loss",
]
