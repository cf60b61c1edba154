"""What this machine can compute in half precision."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import cache

import torch


@cache
def cpu_has_bfloat16() -> bool:
    """Whether this CPU multiplies in bfloat16, which needs AVX-512, AMX or the like.

    Elsewhere torch emulates such products, many times slower than those in float32, and has no LSTM at all.
    """
    return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


def cpu_precisions() -> str:
    """What a message advises in place of a precision that a CPU cannot train in."""
    return "bfloat16 or float32" if cpu_has_bfloat16() else "float32"


def supported_precision(device: torch.device) -> AbstractContextManager[object]:
    """What an LSTM is to run in: no autocast to what this CPU has no LSTM for, which would raise."""
    if device.type == "cpu" and not cpu_has_bfloat16():
        return torch.autocast("cpu", enabled=False)
    return nullcontext()
