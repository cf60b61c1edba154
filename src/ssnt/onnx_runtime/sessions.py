"""The graphs of an exported model, each in a session of ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ssnt.arrays import Array
from ssnt.errors import BackendError, ModelError
from ssnt.onnx_runtime.manifest import AGAIN

_view = np.ndarray.view


class Session:
    """One graph, ready to run.

    Args:
        content: The graph.
        where: Its file, for messages.
        threads: How many threads an operator may use.

    Raises:
        ModelError: It is no graph that can be run.
        BackendError: ONNX Runtime is not installed.
    """

    def __init__(self, content: bytes, where: Path, threads: int) -> None:
        try:
            import onnxruntime as ort
        except ImportError as error:
            raise BackendError(f"ONNX Runtime cannot be imported ({error}); run pip install onnxruntime") from None
        options = ort.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
        options.log_severity_level = 3  # errors, which are raised as well
        try:
            session = ort.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # its exceptions have no base of their own
            reason = " ".join(str(error).split()) or type(error).__name__
            raise ModelError(f"{where}: cannot be run by ONNX Runtime: {reason:.300}; {AGAIN}") from None
        self._inputs = [one.name for one in session.get_inputs()]
        self._outputs = [one.name for one in session.get_outputs()]
        self._run: Callable[..., list[Any]] = session.run

    def __call__(self, *arrays: Any) -> list[Any]:
        """Runs the graph: inputs in the order in which it declares them, None where it has none; gives Arrays."""
        given = [_view(array, np.ndarray) for array in arrays if array is not None]
        return [_view(one, Array) for one in self._run(self._outputs, dict(zip(self._inputs, given, strict=True)))]

    def check(self, inputs: tuple[str, ...], outputs: tuple[str, ...], where: Path) -> None:
        """Refuses a graph that takes or gives something else than it should.

        Raises:
            ModelError: It does.
        """
        if (tuple(self._inputs), tuple(self._outputs)) != (inputs, outputs):
            raise ModelError(
                f"{where}: expected a graph from {', '.join(inputs)} to {', '.join(outputs)}, got one from "
                f"{', '.join(self._inputs)} to {', '.join(self._outputs)}; {AGAIN}"
            )
