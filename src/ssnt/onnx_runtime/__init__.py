"""Exported models, run by ONNX Runtime and NumPy: the same searches, streams and alignments without PyTorch.

==============  ===========================================================================
module          what
==============  ===========================================================================
``directory``   :func:`load`: what ``ssnt export`` has written, with every file checked
``transducer``  :class:`OnnxTransducer`: text in, text out
``scorer``      the model as the searches see it
``sessions``    the graphs, ready to run
``manifest``    ``export.json``
``layout``      the names of the files
==============  ===========================================================================

Importing this imports neither torch nor what trains and draws. Every name is imported when it is first asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ssnt.onnx_runtime.directory import load
    from ssnt.onnx_runtime.manifest import ExportManifest, read_export
    from ssnt.onnx_runtime.scorer import OnnxScorer
    from ssnt.onnx_runtime.transducer import OnnxTransducer

_HOME = {
    "ExportManifest": "manifest",
    "OnnxScorer": "scorer",
    "OnnxTransducer": "transducer",
    "load": "directory",
    "read_export": "manifest",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'ssnt.onnx_runtime' has no attribute {name!r}")
    value = getattr(import_module(f"ssnt.onnx_runtime.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


__all__ = ["ExportManifest", "OnnxScorer", "OnnxTransducer", "load", "read_export"]
