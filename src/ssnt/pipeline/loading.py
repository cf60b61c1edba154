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
    names = [one.strip() for one in name.split(",")] if "," in name and not os.path.exists(name) else [name]
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
    try:
        return join_models(models)
    except ModelError as error:
        listed = ", ".join(f"members[{place}] is {one}" for place, one in enumerate(directories))
        raise ModelError(f"{error} ({listed})") from None


def join_models(models: Sequence[Transducer]) -> Transducer:
    """The ensemble of models; if some have one model for each tag set, an ensemble for each tag set.

    Args:
        models: At least one. How to search is what the first one's settings say.

    Raises:
        ModelError: They have models for different tag sets, or their vocabularies do not fit.
    """
    if len(models) == 1:
        return models[0]
    per_tag = {place: one for place, one in enumerate(models) if isinstance(one, PerTagTransducer)}
    if not per_tag:
        return EnsembleTransducer(models)
    first_place, first = next(iter(per_tag.items()))
    for place, one in enumerate(models):
        if place in per_tag:
            _require_tag_sets(f"members[{place}]", per_tag[place], f"members[{first_place}]", first)
        else:
            _require_tags(f"members[{place}]", one, f"members[{first_place}]", first)
    joined = {tags: EnsembleTransducer([one.transducer_for(tags) for one in models]) for tags in first.models}
    return PerTagTransducer(joined, models[0].config)


def _require_tag_sets(name: str, one: PerTagTransducer, first_name: str, first: PerTagTransducer) -> None:
    """Refuses models for other tag sets than the first has."""
    if only := sorted(one.models.keys() ^ first.models.keys()):
        raise ModelError(
            f"{name}: expected models for the tag sets of {first_name}, got others: only one of the two has "
            f"{';'.join(only[0])!r}{f', and {len(only) - 1} more' if len(only) > 1 else ''}; train both on all of them"
        )


def _require_tags(name: str, one: Transducer, first_name: str, first: PerTagTransducer) -> None:
    """Refuses a model for all tag sets that has tags, but not those of a tag set."""
    known = one.vocabulary.tags
    unknown = [] if known is None else [tag for tags in first.models for tag in tags if tag not in known.table]
    if unknown:
        raise ModelError(
            f"{name}: expected a model that knows the tags of {first_name}, got one without {unknown[0]!r}; train it "
            "on all of them"
        )
