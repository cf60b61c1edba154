"""Files that training goes on from, written whole or not at all, and read without running anything in them."""

from __future__ import annotations

import pickle
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch.plugins.io import CheckpointIO
from torch import Tensor

from ssnt.checkpoint.weights import encode_weights
from ssnt.errors import ModelError
from ssnt.files import atomic_path
from ssnt.nn import Model


class AtomicCheckpointIO(CheckpointIO):
    """Writes a checkpoint beside the old one and then puts it in its place; reads tensors and plain values only."""

    def save_checkpoint(self, checkpoint: dict[str, Any], path: str | Path, storage_options: Any = None) -> None:
        """Writes a checkpoint."""
        with atomic_path(path) as partial:
            torch.save(checkpoint, partial)

    def load_checkpoint(
        self,
        path: str | Path,
        map_location: Callable[..., Any] | None = None,
        weights_only: bool | None = None,
    ) -> dict[str, Any]:
        """Reads a checkpoint; whatever ``weights_only`` says, nothing in it is run."""
        return read_checkpoint(path)

    def remove_checkpoint(self, path: str | Path) -> None:
        """Deletes a checkpoint."""
        Path(path).unlink(missing_ok=True)


def read_checkpoint(path: str | Path) -> dict[str, Any]:
    """Reads a training checkpoint.

    Raises:
        ModelError: It is missing, damaged, or not a checkpoint of a training.
    """
    again = "start the training anew with --overwrite"
    try:
        checkpoint = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise ModelError(f"{path}: is missing; {again}") from None
    except (OSError, EOFError, RuntimeError, ValueError, KeyError, pickle.UnpicklingError, zipfile.BadZipFile) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ModelError(f"{path}: is damaged and cannot be read ({reason:.200}); {again}") from error
    if not isinstance(checkpoint, dict) or "progress" not in checkpoint or "state_dict" not in checkpoint:
        raise ModelError(f"{path}: is not a checkpoint of a training by ssnt; {again}")
    return checkpoint


def write_weights(path: str | Path, model: Model) -> None:
    """Writes a model's weights as safetensors.

    Raises:
        ModelError: A weight is no number.
    """
    with atomic_path(path) as partial:
        partial.write_bytes(encode_weights(model))


def average_weights(paths: Sequence[str | Path]) -> dict[str, Tensor]:
    """The mean of several files of weights, added up in float64, in the precision that they have.

    Raises:
        ModelError: A file is missing or damaged, or they do not belong together.
    """
    tables = [_read_weights(path) for path in paths]
    first = tables[0]
    for path, table in zip(paths, tables, strict=True):
        if {name: one.shape for name, one in table.items()} != {name: one.shape for name, one in first.items()}:
            raise ModelError(f"{path}: has other weights than {paths[0]}, so that they cannot be averaged")
    return {name: _mean([table[name] for table in tables]) for name in first}


def load_weights(model: Model, weights: Mapping[str, Tensor]) -> None:
    """Puts weights into a model; of tied ones only one is stored."""
    result = model.load_state_dict(dict(weights), strict=False)
    tied = {"word.tgt_weight"} if model.config.tie_target_embedding else set()
    if wrong := (set(result.missing_keys) - tied) | set(result.unexpected_keys):
        raise ModelError(f"the kept weights are not those of this model: {', '.join(sorted(wrong))}")


def _mean(tensors: Sequence[Tensor]) -> Tensor:
    if not tensors[0].is_floating_point():  # sums of lengths, the same in all
        return tensors[0]
    total = torch.zeros_like(tensors[0], dtype=torch.float64)
    for one in tensors:
        total += one
    return (total / len(tensors)).to(tensors[0].dtype)


def _read_weights(path: str | Path) -> dict[str, Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return load_file(path)
    except FileNotFoundError:
        raise ModelError(f"{path}: is missing; the training cannot be finished without it, start it anew") from None
    except (OSError, SafetensorError, ValueError) as error:
        raise ModelError(f"{path}: is damaged and cannot be read ({error!s:.200}); start the training anew") from error
