"""From a directory that ``ssnt export`` has written to a transducer, with every file checked and none of them run."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from ssnt.data.vocab import Vocabulary
from ssnt.dp.checks import require_count
from ssnt.errors import DataError, ModelError
from ssnt.onnx_runtime.layout import (
    DECISIONS,
    DECODER_STEP,
    ENCODER,
    ENCODER_STEP,
    FEATURES,
    JOINT,
    MANIFEST,
    VOCABULARY,
)
from ssnt.onnx_runtime.manifest import AGAIN, ExportManifest, Sizes, read_checked, read_export, read_json
from ssnt.onnx_runtime.scorer import OnnxScorer
from ssnt.onnx_runtime.sessions import Session

if TYPE_CHECKING:
    from ssnt.onnx_runtime.transducer import OnnxTransducer

_HALVES = ("logits", "transition")
_STATE, _NEXT_STATE = ("hidden", "cell"), ("next_hidden", "next_cell")
_INPUTS = {
    ENCODER: ("symbols", "lengths"),
    ENCODER_STEP: ("symbols", *_STATE),
    DECODER_STEP: ("symbols", *_STATE),
    DECISIONS: ("source_transition", "prefix_transition", "log_norm"),
    FEATURES: ("tags",),
}
_OUTPUTS = {
    ENCODER: _HALVES,
    ENCODER_STEP: (*_HALVES, *_NEXT_STATE),
    DECODER_STEP: (*_HALVES, *_NEXT_STATE),
    DECISIONS: ("log_emit", "log_shift"),
    FEATURES: ("condition",),
}
_CONDITIONED = (ENCODER, ENCODER_STEP, DECODER_STEP)


def load(directory: str | os.PathLike[str], *, threads: int = 1) -> OnnxTransducer:
    """Loads an exported model; torch is not imported.

    Args:
        directory: What ``ssnt export`` has written.
        threads: How many threads each operator may use; small models gain nothing from more than one.

    Raises:
        ModelError: It is none, is incomplete, was changed since it was written, or a newer ssnt wrote it; the message
            says which file, and what to do.
        ConfigError: ``threads`` is no number of threads.
        BackendError: ONNX Runtime is not installed.
    """
    from ssnt.onnx_runtime.transducer import OnnxTransducer

    require_count("threads", threads)
    path = Path(directory)
    manifest = read_export(path)
    vocabulary = _vocabulary(path, manifest)
    sessions = {name: _session(path, name, manifest, threads) for name in manifest.files if name in _INPUTS}
    read_checked(path, JOINT, manifest.files[JOINT])  # for other languages: it is not run here, but to be whole
    return OnnxTransducer(OnnxScorer(sessions, manifest.sizes), vocabulary, manifest)


def _session(path: Path, name: str, manifest: ExportManifest, threads: int) -> Session:
    session = Session(read_checked(path, name, manifest.files[name]), path / name, threads)
    condition = ("condition",) if manifest.has_tags and name in _CONDITIONED else ()
    session.check((*_INPUTS[name], *condition), _OUTPUTS[name], _last_sizes(name, manifest.sizes), path / name)
    return session


def _last_sizes(name: str, sizes: Sizes) -> dict[str, tuple[int, ...]]:
    """The last sizes of what a graph takes and gives, as far as the model fixes them."""
    layers = sizes.encoder_layers if name == ENCODER_STEP else sizes.decoder_layers
    transitions = dict.fromkeys(("transition", "source_transition", "prefix_transition"), (sizes.transition,))
    states = dict.fromkeys((*_STATE, *_NEXT_STATE), (layers, sizes.hidden))
    return {"logits": (sizes.target_symbols,), "condition": (sizes.condition,), **transitions, **states}


def _vocabulary(path: Path, manifest: ExportManifest) -> Vocabulary:
    where, value = path / VOCABULARY, read_json(path, VOCABULARY, manifest.files[VOCABULARY])
    try:
        vocabulary = Vocabulary.from_json(value)
    except DataError as error:
        raise ModelError(f"{where}: {error}; {AGAIN}") from None
    except (TypeError, ValueError, KeyError, AttributeError, RecursionError) as error:
        raise ModelError(f"{where}: is not a vocabulary ({type(error).__name__}); {AGAIN}") from None
    sizes, expected = vocabulary.model_sizes(), manifest.sizes
    if tuple(sizes.values()) != (expected.source_symbols, expected.target_symbols, expected.tags):
        raise ModelError(f"{where}: does not fit the sizes in {MANIFEST}; {AGAIN}")
    return vocabulary
