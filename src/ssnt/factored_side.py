"""One side of the logits of a :mod:`factored <ssnt.factored_softmax>` softmax, and its gradients.

The products with the weight matrices, which are most of the work, are here; under autocast to bfloat16 they are taken
in bfloat16, as those of any linear layer there.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from ssnt.huge_pages import empty_like as empty_like_in_huge_pages


def narrow_dtype(states: Tensor) -> torch.dtype | None:
    """Bfloat16 under autocast to it; float16, whose range logits can leave, is not used."""
    device = states.device.type
    if states.dtype != torch.float32 or not torch.is_autocast_enabled(device):
        return None
    return torch.bfloat16 if torch.get_autocast_dtype(device) == torch.bfloat16 else None


@dataclass(frozen=True)
class Side:
    """One side of the logits, ``states @ weight.T + bias``.

    Attributes:
        states: ``(B, N, H)``.
        weight: ``(V, H)``.
        bias: ``(V,)``, on one side only.
        narrow: The dtype of products with the weight, if it is not that of the states.
    """

    states: Tensor
    weight: Tensor
    bias: Tensor | None
    narrow: torch.dtype | None = None

    @property
    def size(self) -> int:
        """``N``."""
        return self.states.shape[1]

    @property
    def rows(self) -> int:
        """``B * N``."""
        return self.states.shape[0] * self.size

    def logits(self, chunk: slice, room: Tensor) -> Tensor:
        """Fills ``room``, of at least ``B * N * C`` numbers, and returns it as ``(B, N, C)``."""
        width = chunk.stop - chunk.start
        out = room.view(-1)[: self.rows * width].view(self.rows, width)
        if self.narrow is not None:
            out.copy_(torch.mm(self.narrow_states, self.weight[chunk].to(self.narrow).T))
            if self.bias is not None:
                out += self.bias[chunk]
            return out.view(*self.states.shape[:2], width)
        states, weight = self.states.flatten(0, 1).to(room.dtype), self.weight[chunk].to(room.dtype)
        if self.bias is None:
            torch.mm(states, weight.T, out=out)
        else:
            torch.addmm(self.bias[chunk].to(room.dtype), states, weight.T, out=out)
        return out.view(*self.states.shape[:2], width)

    @cached_property
    def narrow_states(self) -> Tensor:
        """``(B * N, H)``, rounded."""
        return self.states.flatten(0, 1).to(self.narrow)

    def scratch(self, chunk_size: int, dtype: torch.dtype | None = None) -> Tensor:
        """Room for the logits of one chunk."""
        return self.states.new_empty(self.rows * chunk_size, dtype=dtype)

    def gradient_room(self, needed: bool) -> Tensor | None:
        """The gradient of the weight, to be written, if it is needed and has room for exponentials meanwhile."""
        if not needed or self.rows > self.weight.shape[1]:
            return None
        return empty_like_in_huge_pages(self.weight)


class SideGradients:
    """Collects the gradients of one side chunk by chunk; those nobody needs are not computed."""

    def __init__(self, side: Side, weight: Tensor | None, needs_states: bool, needs_weight: bool, needs_bias: bool):
        self._side = side
        # The states gather a sum over chunks; weights and bias are written once, a chunk each.
        self.states = torch.zeros_like(side.states, memory_format=torch.contiguous_format) if needs_states else None
        self.weight = empty_like_in_huge_pages(side.weight) if needs_weight and weight is None else weight
        self.bias = torch.empty_like(side.bias) if needs_bias and side.bias is not None else None

    def add(self, chunk: slice, grad_logits: Tensor) -> None:
        """Takes the gradients of a chunk's logits, ``(B, N, C)``; the chunk's exponentials are no longer needed."""
        flat = grad_logits.flatten(0, 1)
        if self.bias is not None:
            self.bias[chunk] = flat.sum(dim=0)
        if self._side.narrow is None:
            self._add_products(chunk, flat)
        else:
            self._add_narrow_products(chunk, flat.to(self._side.narrow))

    def _add_products(self, chunk: slice, grad_logits: Tensor) -> None:
        if self.states is not None:
            self.states.view(-1, self.states.shape[2]).addmm_(grad_logits, self._side.weight[chunk])
        if self.weight is not None:
            torch.mm(grad_logits.T, self._side.states.flatten(0, 1), out=self.weight[chunk])

    def _add_narrow_products(self, chunk: slice, grad_logits: Tensor) -> None:
        if self.states is not None:
            product = grad_logits @ self._side.weight[chunk].to(grad_logits.dtype)
            self.states.view(-1, self.states.shape[2]).add_(product)
        if self.weight is not None:
            self.weight[chunk] = grad_logits.T @ self._side.narrow_states
