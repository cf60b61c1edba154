"""What this machine can compute in half precision."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import torch
from torch import Tensor

_QUESTIONS = {torch.bfloat16: "_is_mkldnn_bf16_supported", torch.float16: "_is_mkldnn_fp16_supported"}


@cache
def cpu_lacks(dtype: torch.dtype) -> bool:
    """Whether oneDNN, which computes on the CPU, has no instructions for a half precision here.

    Products are then emulated, more slowly than in float32, and there is no LSTM at all. Where torch is built without
    oneDNN it has means of its own, and nothing is known to be lacking.
    """
    question = getattr(torch.ops.mkldnn, _QUESTIONS[dtype], None) if torch.backends.mkldnn.is_available() else None
    return question is not None and not question()


def advised_on_cpu() -> str:
    """What a message advises in place of a precision that this CPU cannot train in."""
    return "float32" if cpu_lacks(torch.bfloat16) else "bfloat16 or float32"


@contextmanager
def supported_by_lstm(weight: Tensor, *tensors: Tensor) -> Iterator[list[Tensor]]:
    """Where autocast asks for an LSTM that this CPU does not have: no autocast, and tensors as precise as the weight.

    Elsewhere the tensors are as they were.
    """
    asked = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else None
    if weight.device.type != "cpu" or asked not in _QUESTIONS or not cpu_lacks(asked):
        yield list(tensors)
        return
    with torch.autocast("cpu", enabled=False):
        yield [one.to(weight.dtype) for one in tensors]
