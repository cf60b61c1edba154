"""What a model cannot do by its kind, in words: why not, and what to train instead."""

from __future__ import annotations

from ssnt.config import ArchitectureConfig
from ssnt.errors import ModelError


def without_alignment(what: str, model: ArchitectureConfig) -> ModelError:
    """The error for something that needs an alignment of a model that has none."""
    return ModelError(
        f"{what}: {model.name!r} has no alignment; {_other_search(what)}train a model that has one, such as biSSNT+ "
        "(ssnt train --model biSSNT+)"
    )


def not_online(what: str, model: ArchitectureConfig) -> ModelError:
    """The error for something that has to be done while the input arrives, of a model that reads all of it first."""
    if model.has_alignment and not model.bidirectional:  # the settings say nothing of an encoder of one's own
        return ModelError(
            f"{what}: the encoder cannot read one symbol at a time; {_other_search(what)}use one that follows "
            "ssnt.nn.StreamingEncoder"
        )
    train = "train a model that can stream, such as uniSSNT+ (ssnt train --model uniSSNT+)"
    if model.has_alignment and model.architecture != "ssnt":
        train = (
            "train it in one direction "
            f"(ssnt train --model {model.architecture} model.bidirectional=false), or uniSSNT+ (--model uniSSNT+)"
        )
    return ModelError(f"{what}: {model.name!r} reads the whole input before it writes; {_other_search(what)}{train}")


def _other_search(what: str) -> str:
    """What remains possible without training: another search, if it was a search that is refused."""
    return "search 'marginal', or " if what.startswith("search") else ""
