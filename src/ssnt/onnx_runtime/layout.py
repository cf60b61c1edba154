"""What an exported model consists of: the names that its writer and its reader share."""

from __future__ import annotations

from typing import Literal

ENCODER = "encoder.onnx"
ENCODER_STEP = "encoder_step.onnx"
DECODER_STEP = "decoder_step.onnx"
JOINT = "joint.onnx"
DECISIONS = "decisions.onnx"
FEATURES = "features.onnx"
GRAPHS = (ENCODER, ENCODER_STEP, DECODER_STEP, JOINT, DECISIONS, FEATURES)

VOCABULARY = "vocab.json"
MANIFEST = "export.json"
REQUIREMENTS = "requirements.txt"
CARD = "README.md"

FORMAT_VERSION = 1
"""Changes when an exported model is laid out in a way that an older ssnt cannot read."""

KIND = "ssnt-onnx"
"""What ``export.json`` says it is."""

Precision = Literal["float32", "int8"]
"""What the weights of encoder and decoder are kept in."""


def graphs_of(*, is_online: bool, has_tags: bool) -> tuple[str, ...]:
    """The graphs that an export has."""
    left_out = {*(() if is_online else (ENCODER_STEP,)), *(() if has_tags else (FEATURES,))}
    return tuple(name for name in GRAPHS if name not in left_out)
