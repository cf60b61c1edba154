"""Monotone neural transduction: train, use and measure models that read one sequence and write another.

Every name is imported when it is first asked for: whoever scores files need not wait for torch, and whoever wants the
loss need not wait for the settings library.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ssnt.__about__ import __version__
from ssnt.lazy import lazy_names

if TYPE_CHECKING:
    from ssnt import data, decode, dp, metrics, nn, plots
    from ssnt.config import Config, ModelConfig, load_config, load_sweep_config
    from ssnt.dp import AlignmentDistribution, available_backends, resolve_backend
    from ssnt.errors import BackendError, ConfigError, DataError, ModelError, ShapeError, SsntError, StorageError
    from ssnt.loss import SSNTLoss, ssnt_loss
    from ssnt.nn import SSNT
    from ssnt.pipeline import EnsembleTransducer, Transducer, Transduction
    from ssnt.sweeps import run_sweep
    from ssnt.training import train
    from ssnt.types import BOS_ID, EOS_ID, PAD_ID, UNK_ID, Alignment, Batch, Example, Grid, Hypothesis, Posteriors
    from ssnt.word_grid import linear_word_grid

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        ".config": ("Config", "ModelConfig", "load_config", "load_sweep_config"),
        ".dp": ("AlignmentDistribution", "available_backends", "resolve_backend"),
        ".errors": (
            "BackendError",
            "ConfigError",
            "DataError",
            "ModelError",
            "ShapeError",
            "SsntError",
            "StorageError",
        ),
        ".loss": ("SSNTLoss", "ssnt_loss"),
        ".nn": ("SSNT",),
        ".pipeline": ("EnsembleTransducer", "Transducer", "Transduction"),
        ".sweeps": ("run_sweep",),
        ".training": ("train",),
        ".types": (
            "BOS_ID",
            "EOS_ID",
            "PAD_ID",
            "UNK_ID",
            "Alignment",
            "Batch",
            "Example",
            "Grid",
            "Hypothesis",
            "Posteriors",
        ),
        ".word_grid": ("linear_word_grid",),
    },
    parts=("data", "decode", "dp", "metrics", "nn", "plots"),
)

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
    "Config",
    "ConfigError",
    "DataError",
    "EnsembleTransducer",
    "Example",
    "Grid",
    "Hypothesis",
    "ModelConfig",
    "ModelError",
    "Posteriors",
    "SSNTLoss",
    "ShapeError",
    "SsntError",
    "StorageError",
    "Transducer",
    "Transduction",
    "__version__",
    "available_backends",
    "data",
    "decode",
    "dp",
    "linear_word_grid",
    "load_config",
    "load_sweep_config",
    "metrics",
    "nn",
    "plots",
    "resolve_backend",
    "run_sweep",
    "ssnt_loss",
    "train",
]
