"""What this machine can compute in half precision."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import torch
from torch import Tensor

_QUESTIONS = {torch.bfloat16: "_is_mkldnn_bf16_supported", torch.float16: "_is_mkldnn_fp16_supported"}
_BFLOAT16_WITH_AVX512 = ("avx512_bf16", "amx_bf16")  # either is enough


@cache
def cpu_lacks(dtype: torch.dtype) -> bool:
    """Whether oneDNN, which computes on the CPU, has no instructions for a half precision here.

    Products are then emulated, more slowly than in float32, and there may be no LSTM at all. Where torch is built
    without oneDNN it has means of its own, and nothing is known to be lacking.
    """
    question = getattr(torch.ops.mkldnn, _QUESTIONS[dtype], None) if torch.backends.mkldnn.is_available() else None
    if question is None:
        return False
    return not question() or (dtype == torch.bfloat16 and _emulates_bfloat16())


def _emulates_bfloat16() -> bool:
    """Whether this is a CPU whose bfloat16 oneDNN only emulates: it says yes to any AVX-512, also to the older ones.

    They need instructions for float32 and more of them, so that it is slower than float32 itself.
    """
    ask = getattr(torch.cpu, "get_capabilities", None)
    if ask is not None:
        known = ask()
        return bool(known.get("avx512_f")) and not any(known.get(one) for one in _BFLOAT16_WITH_AVX512)
    # an older torch, which tells less, and if it cannot be asked at all is believed
    names = ("avx512", "avx512_bf16", "amx_tile")
    answers = [getattr(torch.cpu, f"_is_{one}_supported", lambda: None)() for one in names]
    return answers == [True, False, False]


def advised_on_cpu() -> str:
    """What a message advises in place of a precision that this CPU cannot train in."""
    return "float32" if cpu_lacks(torch.bfloat16) else "bfloat16 or float32"


@contextmanager
def supported_by_lstm(weight: Tensor, *tensors: Tensor) -> Iterator[list[Tensor]]:
    """Where autocast asks for an LSTM that this CPU lacks or emulates, it is off, and tensors are as the weight is.

    Elsewhere both are as they were.
    """
    asked = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else None
    if weight.device.type != "cpu" or asked not in _QUESTIONS or not cpu_lacks(asked):
        yield list(tensors)
        return
    with torch.autocast("cpu", enabled=False):
        yield [one.to(weight.dtype) for one in tensors]
