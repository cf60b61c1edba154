"""Loading a model for a command."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ssnt.pipeline import Transducer


def load_transducer(model: str, device: str = "cpu") -> Transducer:
    """Loads a model, and gives torch as many threads as suit its size, unless the environment says how many.

    Args:
        model: A model directory, or a name on the Hugging Face hub.
        device: Where it runs.
    """
    import torch

    from ssnt.pipeline import Transducer
    from ssnt.training.threads import thread_count

    transducer = Transducer.from_pretrained(model, device=device)
    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(thread_count(transducer.config))
    return transducer
