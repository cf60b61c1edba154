"""The models that are served."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ssnt.errors import ConfigError, nearest_name
from ssnt.pipeline import EnsembleTransducer, PerTagTransducer, Transducer
from ssnt.serve.problems import ProblemError


@dataclass(frozen=True)
class WorkedExample:
    """Something to try with a model.

    Attributes:
        text: An input.
        tags: Its tags.
        output: What comes of it.
    """

    text: str
    tags: tuple[str, ...] = ()
    output: str | None = None


@dataclass(frozen=True)
class ServedModel:
    """A model with its name.

    Attributes:
        name: What clients call it.
        transducer: The model.
        example: Something to try.
    """

    name: str
    transducer: Transducer
    example: WorkedExample | None = None

    def info(self) -> dict[str, Any]:
        """What clients are told about it."""
        transducer = self.transducer
        own = transducer.config.search
        example = self.example
        vocabulary = transducer.vocabulary_for(())
        members = _member_kinds(transducer)
        return {
            "name": self.name,
            "kind": "ensemble" if members else transducer.config.model.name,
            "members": members,
            "is_online": transducer.is_online,
            "has_alignment": transducer.has_alignment,
            "has_tags": transducer.has_tags,
            "tags": sorted(_tags(transducer)),
            "tag_sets": [list(tags) for tags in _tag_sets(transducer)],
            "source_unit": vocabulary.source_unit.name,
            "target_unit": vocabulary.target_unit.name,
            "searches": [
                "marginal",
                *(["path"] if transducer.has_alignment else []),
                *(["online"] if transducer.is_online else []),
            ],
            "search": {"search": own.search, "beam": own.beam, "nbest": 1},
            "example": None
            if example is None
            else {"text": example.text, "tags": list(example.tags), "output": example.output},
        }


def _member_kinds(transducer: Transducer) -> list[str]:
    """The kinds of an ensemble's models; of ensembles for tag sets, those of the first: all are made alike."""
    if isinstance(transducer, PerTagTransducer):
        return _member_kinds(next(iter(transducer.models.values())))
    if isinstance(transducer, EnsembleTransducer):
        return [kind for one in transducer.members for kind in _member_kinds(one) or [one.config.model.name]]
    return []


def _tag_sets(transducer: Transducer) -> Iterable[tuple[str, ...]]:
    return transducer.models if isinstance(transducer, PerTagTransducer) else ()


def _tags(transducer: Transducer) -> set[str]:
    if isinstance(transducer, PerTagTransducer):
        return {tag for tags in transducer.models for tag in tags}
    return set() if transducer.vocabulary.tags is None else set(transducer.vocabulary.tags.names)


class Models:
    """All models of a service, by their names.

    Raises:
        ConfigError: There is none, or two have the same name.
    """

    def __init__(self, models: Iterable[ServedModel]) -> None:
        self._models: Mapping[str, ServedModel] = {}
        for one in models:
            if one.name in self._models:
                raise ConfigError(f"two models are called {one.name!r}; give one of them another name: NAME=MODEL")
            self._models = {**self._models, one.name: one}
        if not self._models:
            raise ConfigError("models: expected at least one model to serve, got none")

    def __iter__(self) -> Any:
        return iter(self._models.values())

    def find(self, name: str | None) -> ServedModel:
        """The model of a name, or the only one.

        Raises:
            ProblemError: There is no such model, or it is not clear which is meant.
        """
        if name is None:
            if len(self._models) > 1:
                raise ProblemError(422, f"model: say which one: {', '.join(self._models)}")
            return next(iter(self._models.values()))
        if name not in self._models:
            nearest = nearest_name(name, list(self._models))
            hint = f"; did you mean {nearest!r}?" if nearest else f"; there are {', '.join(self._models)}"
            raise ProblemError(404, f"model: there is no model of this name{hint}")
        return self._models[name]
