"""The step size as a function of the step: nothing to save, nothing that can get out of step after a resume."""

from __future__ import annotations

import math

from ssnt.config import OptimiserConfig


def fraction(optimiser: OptimiserConfig, step: int, total_steps: int) -> float:
    """The step size at a step as a fraction of the highest one.

    Args:
        optimiser: The settings.
        step: The step, counted from 1.
        total_steps: The step at which ``linear`` and ``cosine`` arrive at ``final_fraction``; after it they stay there.
    """
    if step < optimiser.warmup_steps:
        return step / optimiser.warmup_steps
    peak = max(1, optimiser.warmup_steps)
    if optimiser.schedule == "inverse-sqrt":
        return math.sqrt(peak / step)
    if optimiser.schedule in ("constant", "plateau"):
        return 1.0
    done = min(1.0, (step - peak) / max(1, total_steps - peak))
    left = 1.0 - done if optimiser.schedule == "linear" else (1.0 + math.cos(math.pi * done)) / 2
    return optimiser.final_fraction + (1.0 - optimiser.final_fraction) * left


def learning_rate(optimiser: OptimiserConfig, step: int, total_steps: int, plateau_scale: float = 1.0) -> float:
    """The step size at a step, counted from 1.

    Args:
        optimiser: The settings.
        step: The step.
        total_steps: How many steps the whole training has.
        plateau_scale: What the schedule ``plateau`` has come down to.
    """
    return optimiser.learning_rate * plateau_scale * fraction(optimiser, step, total_steps)
