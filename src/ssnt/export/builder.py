"""A small hand for writing ONNX graphs: names are found for values, and constants are kept once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 17
"""The operators' version: what ONNX Runtime 1.12 and all later ones run, and other runtimes too."""

_IR_VERSION = 8
_TYPES = {np.dtype(np.float32): TensorProto.FLOAT, np.dtype(np.int64): TensorProto.INT64}

Axis = int | str
"""A size, or the name of one that is known only when the graph runs."""


class Graph:
    """A graph that is being written.

    Args:
        name: What it is called.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._nodes: list[onnx.NodeProto] = []
        self._inputs: list[onnx.ValueInfoProto] = []
        self._outputs: list[onnx.ValueInfoProto] = []
        self._constants: dict[str, npt.NDArray[Any]] = {}

    def input(self, name: str, dtype: npt.DTypeLike, shape: Sequence[Axis]) -> str:
        """Declares an input, and gives its name back."""
        self._inputs.append(_declared(name, dtype, shape))
        return name

    def constant(self, value: npt.ArrayLike, name: str | None = None) -> str:
        """Keeps an array; whole numbers are int64, all others float32."""
        array = np.asarray(value)
        array = np.ascontiguousarray(array, dtype=np.int64 if array.dtype.kind in "iub" else np.float32)
        for known, other in self._constants.items():
            if name is None and other.dtype == array.dtype and np.array_equal(other, array):
                return known
        name = f"constant_{len(self._constants)}" if name is None else name
        self._constants[name] = array
        return name

    def node(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """Adds a node with one output, whose name is returned; an empty name is an input that is left out."""
        return self.nodes(operator, *inputs, outputs=1, **attributes)[0]

    def nodes(self, operator: str, *inputs: str, outputs: int, **attributes: Any) -> list[str]:
        """Adds a node with several outputs, whose names are returned."""
        number = len(self._nodes)
        names = [f"{operator.lower()}_{number}" + (f"_{k}" if outputs > 1 else "") for k in range(outputs)]
        self._nodes.append(helper.make_node(operator, list(inputs), names, name=f"{operator}_{number}", **attributes))
        return names

    def output(self, name: str, value: str, dtype: npt.DTypeLike, shape: Sequence[Axis]) -> None:
        """Gives a value to whoever runs the graph, under a name."""
        self._nodes.append(helper.make_node("Identity", [value], [name], name=f"output_{name}"))
        self._outputs.append(_declared(name, dtype, shape))

    def to_model(self, about: str, properties: Mapping[str, str] | None = None) -> onnx.ModelProto:
        """The whole graph, checked.

        Args:
            about: A sentence on what it computes, for whoever opens the file.
            properties: What else it is to say of itself.
        """
        constants = [numpy_helper.from_array(array, name) for name, array in self._constants.items()]
        graph = helper.make_graph(self._nodes, self._name, self._inputs, self._outputs, constants, doc_string=about)
        opsets = [helper.make_opsetid("", OPSET)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=_IR_VERSION, producer_name="ssnt")
        helper.set_model_props(model, dict(properties or {}))
        onnx.checker.check_model(model, full_check=True)
        return model


def _declared(name: str, dtype: npt.DTypeLike, shape: Sequence[Axis]) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, _TYPES[np.dtype(dtype)], list(shape))
