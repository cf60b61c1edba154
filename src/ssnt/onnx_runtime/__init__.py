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

from typing import TYPE_CHECKING

from ssnt.lazy import lazy_names

if TYPE_CHECKING:
    from ssnt.onnx_runtime.directory import load
    from ssnt.onnx_runtime.manifest import ExportManifest, read_export
    from ssnt.onnx_runtime.scorer import OnnxScorer
    from ssnt.onnx_runtime.transducer import OnnxTransducer

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        ".manifest": ("ExportManifest", "read_export"),
        ".scorer": ("OnnxScorer",),
        ".transducer": ("OnnxTransducer",),
        ".directory": ("load",),
    },
)

__all__ = ["ExportManifest", "OnnxScorer", "OnnxTransducer", "load", "read_export"]
