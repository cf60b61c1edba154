"""Monotone neural transduction: train, use and measure models that read one sequence and write another.

Every name is imported when it is first asked for: whoever scores files need not wait for torch, and whoever wants the
loss need not wait for the settings library.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ssnt.__about__ import __version__

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

_HOMES = {
    "ssnt.config": ("Config", "ModelConfig", "load_config", "load_sweep_config"),
    "ssnt.dp": ("AlignmentDistribution", "available_backends", "resolve_backend"),
    "ssnt.errors": (
        "BackendError",
        "ConfigError",
        "DataError",
        "ModelError",
        "ShapeError",
        "SsntError",
        "StorageError",
    ),
    "ssnt.loss": ("SSNTLoss", "ssnt_loss"),
    "ssnt.nn": ("SSNT",),
    "ssnt.pipeline": ("EnsembleTransducer", "Transducer", "Transduction"),
    "ssnt.sweeps": ("run_sweep",),
    "ssnt.training": ("train",),
    "ssnt.types": (
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
    "ssnt.word_grid": ("linear_word_grid",),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}
_PARTS = ("data", "decode", "dp", "metrics", "nn", "plots")


def __getattr__(name: str) -> Any:
    if name in _PARTS:
        return import_module(f"ssnt.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'ssnt' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


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
