"""The graphs of an exported model, each in a session of ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ssnt.arrays import Array
from ssnt.errors import BackendError, ModelError
from ssnt.onnx_runtime.layout import MANIFEST
from ssnt.onnx_runtime.manifest import AGAIN

_view = np.ndarray.view
_ELSEWHERE = b"location"
"""Under this key, which is in no graph of ours, a graph says in which other file, anywhere, a weight is."""


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
        if _ELSEWHERE in content:
            raise ModelError(f"{where}: refers to data in another file, which cannot be checked; {AGAIN}")
        options = ort.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
        options.log_severity_level = 3  # errors, which are raised as well
        try:
            session = ort.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # its exceptions have no base of their own
            reason = " ".join(str(error).split()) or type(error).__name__
            raise ModelError(f"{where}: cannot be run by ONNX Runtime: {reason:.300}; {AGAIN}") from None
        given, made = session.get_inputs(), session.get_outputs()
        self._inputs, self._outputs = [one.name for one in given], [one.name for one in made]
        self._shapes = {one.name: tuple(one.shape) for one in (*given, *made)}
        self._run: Callable[..., list[Any]] = session.run

    def __call__(self, *arrays: Any) -> list[Any]:
        """Runs the graph: inputs in the order in which it declares them, None where it has none; gives Arrays."""
        given = [_view(array, np.ndarray) for array in arrays if array is not None]
        return [_view(one, Array) for one in self._run(self._outputs, dict(zip(self._inputs, given, strict=True)))]

    def check(
        self, inputs: tuple[str, ...], outputs: tuple[str, ...], ends: Mapping[str, tuple[int, ...]], where: Path
    ) -> None:
        """Refuses a graph that takes or gives something else than it should.

        Args:
            inputs: What it takes, in order.
            outputs: What it gives, in order.
            ends: The last sizes of those of them that have the same sizes always.
            where: Its file, for messages.

        Raises:
            ModelError: It does.
        """
        if (tuple(self._inputs), tuple(self._outputs)) != (inputs, outputs):
            raise ModelError(
                f"{where}: expected a graph from {', '.join(inputs)} to {', '.join(outputs)}, got one from "
                f"{', '.join(self._inputs)} to {', '.join(self._outputs)}; {AGAIN}"
            )
        for name in (*inputs, *outputs):
            expected, shape = ends.get(name, ()), self._shapes[name]
            if shape[len(shape) - len(expected) :] != expected:
                raise ModelError(
                    f"{where}: {name}: expected the last sizes to be {expected}, as {MANIFEST} says, got {shape}; "
                    f"{AGAIN}"
                )
