"""Trained models as ONNX, which run without PyTorch.

=============  ===============================================================================
module         what
=============  ===============================================================================
``directory``  :func:`export_onnx`: a model into a directory, whole or not at all
``graphs``     a model as graphs
``recurrent``  its LSTMs
``builder``    writing graphs
``quantise``   weights in 8 bits
``card``       what the directory says to people
=============  ===============================================================================

What is written is read by :mod:`ssnt.onnx_runtime`.
"""

from ssnt.export.directory import export_onnx, exportable

__all__ = ["export_onnx", "exportable"]
