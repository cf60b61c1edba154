"""Loading a model for a command."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ssnt.pipeline import Transducer


def load_transducer(model: str, device: str = "cpu") -> Transducer:
    """Loads a model, and gives torch as many threads as suit its size, unless the environment says how many.

    Args:
        model: A model directory, a name on the Hugging Face hub, or several of these, split by commas: their ensemble.
        device: Where it runs.
    """
    import torch

    from ssnt.pipeline.loading import find_models, load_models
    from ssnt.training.threads import thread_count

    transducer = load_models(find_models(model), device)
    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(thread_count(transducer.config))
    return transducer
