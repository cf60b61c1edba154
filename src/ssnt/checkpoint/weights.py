"""``model.safetensors``: the weights of a model, checked against its settings before anything large is made."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ssnt.checkpoint.folder import AGAIN, WEIGHTS, Folder
from ssnt.checkpoint.shapes import LENGTH_SUMS, expected_shapes
from ssnt.config import ModelConfig
from ssnt.errors import ModelError
from ssnt.nn import Model, build_model

MOST_HEADER_BYTES = 1 << 20
"""A model has some twenty tensors, of which the header says name, type and shape."""

_TIED = ("word.tgt_weight", "decoder.embedding.weight")  # the same tensor if they are tied, and stored once
_FLOATS = ("F64", "F32", "F16", "BF16")
_NAMES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
}


@dataclass(frozen=True)
class TensorSpec:
    """What the header says of a tensor.

    Attributes:
        dtype: As safetensors calls it, such as ``F32``.
        shape: Its shape.
    """

    dtype: str
    shape: tuple[int, ...]


def encode_weights(model: Model) -> bytes:
    """A model's weights as a safetensors file; the same weights give the same bytes.

    Raises:
        ModelError: They could not be loaded again: the model has parts that its settings do not describe, or weights
            that are no numbers.
    """
    from safetensors.torch import save

    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in _stored(model).items()}
    specs = {name: TensorSpec(_NAMES.get(one.dtype, str(one.dtype)), tuple(one.shape)) for name, one in tensors.items()}
    difference = _difference(expected_specs(model.config), specs)
    if difference is not None:
        raise ModelError(
            f"the model cannot be saved, as its settings do not describe all of it: {difference}; a model with an "
            "encoder of its own is saved by whoever made the encoder"
        )
    _check_values(tensors, "the model cannot be saved")
    return save(tensors, metadata={"format": "pt"})


def read_weights(folder: Folder, config: ModelConfig, sha256: str) -> Model:
    """Builds the model of some settings from a directory's weights.

    Nothing is allocated before the header has been compared with the settings, and the bytes with their SHA-256.

    Raises:
        ModelError: The file is damaged, does not fit the settings, or has weights that are no numbers.
    """
    where = str(folder.path / WEIGHTS)
    specs, end = _read_header(folder.head(WEIGHTS, 8 + MOST_HEADER_BYTES), where)
    if max(config.encoder_layers, config.decoder_layers) > len(specs):
        raise ModelError(f"{where}: has {len(specs)} tensors, too few for the layers that config.yaml says; {AGAIN}")
    difference = _difference(expected_specs(config), specs)
    if difference is not None:
        raise ModelError(f"{where}: does not fit config.yaml and vocab.json: {difference}; {AGAIN}")
    content = folder.read_checked(WEIGHTS, end, sha256)
    tensors = _decode(content, where)
    _check_values(tensors, where)
    with torch.random.fork_rng(devices=[]):  # whoever loads a model does not expect other random numbers after it
        model = build_model(config)
    floating = next(tensor.dtype for tensor in tensors.values() if tensor.is_floating_point())
    model.to(floating)
    if config.tie_target_embedding:
        tensors[_TIED[0]] = tensors[_TIED[1]]
    model.load_state_dict(tensors)
    return model.eval()


def _stored(model: Model) -> dict[str, Tensor]:
    tensors: dict[str, Tensor] = dict(model.state_dict())
    if model.config.tie_target_embedding:
        tensors.pop(_TIED[0], None)
    return tensors


def expected_specs(config: ModelConfig) -> dict[str, TensorSpec]:
    """The tensors of a model with these settings, as they are stored."""
    shapes = expected_shapes(config)
    if config.tie_target_embedding:
        del shapes[_TIED[0]]
    return {name: TensorSpec("I64" if name == LENGTH_SUMS else "F32", shape) for name, shape in shapes.items()}


def _difference(expected: Mapping[str, TensorSpec], got: Mapping[str, TensorSpec]) -> str | None:
    """The first difference between two sets of tensors, None if there is none; any one floating type is right."""
    if missing := sorted(expected.keys() - got.keys()):
        return f"{missing[0]} is missing"
    if surplus := sorted(got.keys() - expected.keys()):
        return f"{surplus[0]!r:.80} is not a part of such a model"
    floats = {got[name].dtype for name, spec in expected.items() if spec.dtype in _FLOATS}
    if len(floats) > 1:
        return f"expected weights of one type, got {' and '.join(sorted(floats))}"
    for name, spec in expected.items():
        if got[name].shape != spec.shape:
            return f"{name}: expected shape {spec.shape}, got {got[name].shape}"
        allowed = _FLOATS if spec.dtype in _FLOATS else (spec.dtype,)
        if got[name].dtype not in allowed:
            return f"{name}: expected {' or '.join(allowed)}, got {got[name].dtype!r:.80}"
    return None


def _read_header(head: bytes, where: str) -> tuple[dict[str, TensorSpec], int]:
    """What a safetensors file says it holds, and how many bytes the whole file has to have."""
    size = int.from_bytes(head[:8], "little")
    damaged = f"{where}: is not a complete safetensors file"
    if len(head) < 8 or not 2 <= size <= MOST_HEADER_BYTES or len(head) < 8 + size:
        raise ModelError(f"{damaged}: its header is cut short or too long; {AGAIN}")
    try:
        header: Any = json.loads(head[8 : 8 + size])
        header.pop("__metadata__", None)
        specs, end = {}, 0
        for name, one in header.items():
            specs[name] = TensorSpec(str(one["dtype"]), tuple(_whole(length) for length in one["shape"]))
            end = max(end, _whole(one["data_offsets"][1]))
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError):
        raise ModelError(f"{damaged}: its header cannot be read; {AGAIN}") from None
    return specs, 8 + size + end


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**62:
        raise ValueError
    return value


def _decode(content: bytes, where: str) -> dict[str, Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        return load(content)
    except (SafetensorError, ValueError, RuntimeError, TypeError, KeyError) as error:
        raise ModelError(f"{where}: is not a complete safetensors file ({error!s:.200}); {AGAIN}") from None


def _check_values(tensors: Mapping[str, Tensor], where: str) -> None:
    for name, tensor in tensors.items():
        if tensor.is_floating_point():
            if not bool(tensor.isfinite().all()):
                raise ModelError(
                    f"{where}: {name} holds NaN or infinite weights, as after a training that diverged; "
                    "train with a smaller learning rate, or with gradient clipping"
                )
        elif not bool((tensor > 0).all()):  # sums of lengths, from which the geometric transition is estimated
            raise ModelError(
                f"{where}: {name}: expected the sums of the training pairs' lengths, got {tensor.tolist()}; "
                "call estimate_transition before saving"
            )
