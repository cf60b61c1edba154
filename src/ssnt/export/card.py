"""What an exported model says of itself to people, and what it needs."""

from __future__ import annotations

from ssnt.data.vocab import Vocabulary
from ssnt.onnx_runtime.layout import (
    DECISIONS,
    DECODER_STEP,
    ENCODER,
    ENCODER_STEP,
    FEATURES,
    JOINT,
    MANIFEST,
    REQUIREMENTS,
    VOCABULARY,
)
from ssnt.onnx_runtime.manifest import ExportManifest

ALWAYS_NEEDED = ("numpy>=1.26", "onnxruntime>=1.20", "pydantic>=2.7", "PyYAML>=6.0")
"""What runs an exported model, besides ssnt itself."""

_FOR_UNITS = {"graphemes": "regex>=2024.5", "bpe": "tokenizers>=0.20"}

_ABOUT = {
    ENCODER: "whole sources -> source halves",
    ENCODER_STEP: "one more source symbol -> source halves, for streams",
    DECODER_STEP: "one more output symbol -> prefix halves",
    JOINT: "both halves -> log p(emit), log p(shift), log p(symbol | emit) at each cell",
    DECISIONS: "the decision alone, for searches that normalise words by products",
    FEATURES: "tags -> condition of encoder and decoder",
    VOCABULARY: "symbols, tags, and how text is divided",
}


def requirements(vocabulary: Vocabulary) -> str:
    """The content of ``requirements.txt``."""
    units = {vocabulary.source_unit.name, vocabulary.target_unit.name}
    extra = [package for unit, package in _FOR_UNITS.items() if unit in units]
    lines = [f"# pip install -r {REQUIREMENTS} && pip install --no-deps ssnt", *ALWAYS_NEEDED, *extra]
    return "\n".join(lines) + "\n"


def card(manifest: ExportManifest) -> str:
    """The content of ``README.md``."""
    rows = [f"| `{name}` | {_ABOUT[name].replace('|', chr(92) + '|')} |" for name in _ABOUT if name in manifest.files]
    sizes = ", ".join(f"{name} {value}" for name, value in vars(manifest.sizes).items())
    call = 'model.transduce(["input"], tags=[["V", "PST"]])' if manifest.has_tags else 'model.transduce(["input"])'
    return f"""# {manifest.config.model.name} as ONNX ({manifest.precision})

Written by ssnt {manifest.ssnt_version} (`ssnt export`). It runs without PyTorch:

    pip install -r {REQUIREMENTS} && pip install --no-deps ssnt

    from ssnt.onnx_runtime import load

    model = load("DIR")
    print({call}[0].text)

| file | what |
|---|---|
{chr(10).join(rows)}

`{MANIFEST}` has the settings, the sizes and the SHA-256 of each of these. Sizes: {sizes}.
Inputs and outputs of the graphs, for other languages, are described in ssnt's documentation under "Export".
"""
