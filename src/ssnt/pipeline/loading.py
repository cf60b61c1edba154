"""Models as commands are given them: one, or several that answer together."""

from __future__ import annotations

import os
from collections.abc import Sequence

from ssnt.errors import ModelError
from ssnt.pipeline.ensemble import EnsembleTransducer
from ssnt.pipeline.hub import find_directory
from ssnt.pipeline.per_tag import PerTagTransducer
from ssnt.pipeline.transducer import Transducer


def find_models(name: str) -> tuple[str, ...]:
    """The directories that a name stands for.

    Args:
        name: A directory, a name on the Hugging Face hub, or several of these, split by commas.

    Returns:
        Their paths, as they were given.

    Raises:
        ModelError: There is no such directory, and it cannot be had from the hub.
    """
    names = name.split(",") if "," in name and not os.path.exists(name) else [name]
    if not all(names):
        raise ModelError(f"{name!r}: expected a model, or several split by commas, got none in one place")
    return tuple(str(find_directory(one)) for one in names)


def load_models(directories: Sequence[str], device: str = "cpu") -> Transducer:
    """Loads a model; several are loaded as their ensemble.

    Raises:
        ModelError: A model cannot be loaded, or they cannot be joined.
        BackendError: There is no such device here.
    """
    models = [Transducer.from_pretrained(one, device=device) for one in directories]
    if len(models) == 1:
        return models[0]
    try:
        return _joined(models)
    except ModelError as error:
        listed = ", ".join(f"members[{place}] is {one}" for place, one in enumerate(directories))
        raise ModelError(f"{error} ({listed})") from None


def _joined(models: Sequence[Transducer]) -> Transducer:
    """The ensemble of models; if some have one model for each tag set, an ensemble for each tag set."""
    by_tags = [(place, one) for place, one in enumerate(models) if isinstance(one, PerTagTransducer)]
    if not by_tags:
        return EnsembleTransducer(models)
    first_place, first = by_tags[0]
    for place, one in by_tags:
        if one.models.keys() != first.models.keys():
            raise ModelError(
                f"members[{place}]: expected models for the tag sets of members[{first_place}], got others"
            )
    joined = {tags: EnsembleTransducer([one.transducer_for(tags) for one in models]) for tags in first.models}
    return PerTagTransducer(joined, first.config)
