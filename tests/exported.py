"""Small random models of all kinds that can be exported, and their exports."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from ssnt.checkpoint import SavedModel
from ssnt.config import ModelConfig
from ssnt.nn import Model, build_model
from ssnt.pipeline import Transducer
from transducers import make_config, make_vocabulary

from conftest import require

onnx = require("onnx", "exporting models")
onnxruntime = require("onnxruntime", "running exported models")

KINDS: dict[str, dict[str, Any]] = {
    "uniSSNT": {"bidirectional": False, "transition": "geometric"},
    "biSSNT": {"bidirectional": True, "transition": "geometric"},
    "uniSSNT+": {"bidirectional": False},
    "biSSNT+": {"bidirectional": True},
    "uniSSNT+ with tags": {"bidirectional": False, "tags": ("V", "N", "PST")},
    "biSSNT+ with tags, skip": {"bidirectional": True, "tags": ("V", "N", "PST"), "source_skip": True},
    "uniSSNT+ of layers, skip, tied": {
        **{"bidirectional": False, "source_skip": True, "tie_target_embedding": True},
        **{"encoder_layers": 2, "decoder_layers": 3, "embed_size": 6},
    },
    "biSSNT+ of layers": {"bidirectional": True, "encoder_layers": 3, "decoder_layers": 2, "transition_hidden_size": 5},
    "uni rnnt": {"bidirectional": False, "architecture": "rnnt"},
    "bi rnnt with tags": {"bidirectional": True, "architecture": "rnnt", "tags": ("V", "N", "PST")},
}
STREAMING = [name for name, settings in KINDS.items() if not settings["bidirectional"]]


def make(kind: str, seed: int = 1, scale: float = 3.0) -> Transducer:
    """A transducer whose weights are random, and large enough for it to be of some opinion."""
    settings = dict(KINDS[kind])
    vocabulary = make_vocabulary(tags=settings.pop("tags", ()))
    config = make_config(**settings)
    torch.manual_seed(seed)
    model = build_model(ModelConfig(**config.model.model_dump(), **vocabulary.model_sizes())).eval()
    model.prepare([4, 5], [3, 6])
    scale_weights(model, scale)
    return Transducer(model, vocabulary, config)


def scale_weights(model: Model, scale: float) -> None:
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(scale)


def export(transducer: Transducer, directory: Path, **settings: Any) -> Path:
    """Exports a transducer."""
    from ssnt.export import export_onnx

    saved = SavedModel(transducer.model, transducer.vocabulary, transducer.config, transducer.metrics)
    export_onnx(saved, directory, **settings)
    return directory


def run(model: Any, **inputs: Any) -> dict[str, np.ndarray]:
    """Runs a graph."""
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    given = {name: value.numpy() if isinstance(value, torch.Tensor) else value for name, value in inputs.items()}
    names = [one.name for one in session.get_outputs()]
    return dict(zip(names, session.run(names, given), strict=True))
