"""Weights in 8 bits: smaller files, and answers that differ a little."""

from __future__ import annotations

import logging
import tempfile
from pathlib import Path

import onnx

from ssnt.onnx_runtime.layout import DECODER_STEP, ENCODER, ENCODER_STEP

QUANTISED = (ENCODER, ENCODER_STEP, DECODER_STEP)
"""The graphs that have weights worth the while."""


def quantised(graphs: dict[str, onnx.ModelProto]) -> dict[str, onnx.ModelProto]:
    """The graphs with the weights of encoder and decoder in 8 bits; activations are quantised as they come.

    What results needs ONNX Runtime: some of its operators are that runtime's own.
    """
    return {name: _quantised(model) if name in QUANTISED else model for name, model in graphs.items()}


def _quantised(model: onnx.ModelProto) -> onnx.ModelProto:
    from onnxruntime.quantization import QuantType, quantize_dynamic

    root = logging.getLogger()
    level = root.level
    root.setLevel(logging.ERROR)  # it advises everybody, on the root logger, to do what makes no difference here
    try:
        with tempfile.TemporaryDirectory(prefix="ssnt-") as place:
            target = Path(place) / "int8.onnx"
            # seven bits of the eight: without VNNI instructions products of all eight overflow, and outputs are wrong
            quantize_dynamic(model, target, per_channel=True, weight_type=QuantType.QInt8, reduce_range=True)
            small = onnx.load(target)
    finally:
        root.setLevel(level)
    small.doc_string = model.doc_string
    return small
