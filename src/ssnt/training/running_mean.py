"""A running mean of a model's weights: steadier than the weights themselves, without waiting for small steps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from ssnt.errors import ModelError

_WARM = 10  # at first the mean is over about a tenth of the steps so far, as the weights it began with mean nothing


class RunningMean:
    """The mean ``m <- d m + (1 - d) w`` of the weights ``w`` after every step, with ``d = min(decay, t / (t + 10))``.

    Args:
        model: Whose weights.
        decay: How much of the mean stays at each step; 0.999 is a mean over about a thousand steps.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self._decay = decay
        self._weights = dict(model.named_parameters())
        self._means = {name: one.detach().clone() for name, one in self._weights.items()}

    def update(self, step: int) -> None:
        """Takes the weights after a step, counted from 1, into the mean."""
        share = 1.0 - min(self._decay, step / (step + _WARM))
        with torch.no_grad():
            torch._foreach_lerp_(list(self._means.values()), list(self._weights.values()), share)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Lets the model have the mean for its weights meanwhile."""
        own = {name: one.detach().clone() for name, one in self._weights.items()}
        self._put(self._means)
        try:
            yield
        finally:
            self._put(own)

    def to_state(self) -> dict[str, Tensor]:
        """The mean, for a checkpoint."""
        return self._means

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Goes on with a mean that :meth:`to_state` gave.

        Raises:
            ModelError: It is of another model.
        """
        if {name: one.shape for name, one in state.items()} != {name: one.shape for name, one in self._means.items()}:
            raise ModelError("the running mean in the checkpoint is not of this model's weights; start anew")
        for name, mean in self._means.items():
            mean.copy_(state[name])

    def _put(self, values: Mapping[str, Tensor]) -> None:
        with torch.no_grad():
            for name, weight in self._weights.items():
                weight.copy_(values[name])
