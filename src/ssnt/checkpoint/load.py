"""From a model directory to a model, with every file checked and none of them run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from ssnt.checkpoint.folder import AGAIN, CONFIG, METRICS, VOCABULARY, WEIGHTS, Folder
from ssnt.checkpoint.manifest import MOST_BYTES, Manifest, SubModel, TagSet, read_manifest
from ssnt.checkpoint.weights import read_weights
from ssnt.config import Config, ModelConfig
from ssnt.data.vocab import Vocabulary
from ssnt.errors import ConfigError, DataError, ModelError
from ssnt.nn import Model

_MOST_JSON_BYTES = 1 << 29

LoadedT = TypeVar("LoadedT")


@dataclass(frozen=True)
class SavedModel:
    """What a model directory holds.

    Attributes:
        model: The model, ready for use, on the CPU.
        vocabulary: Its symbols and tags.
        config: The settings it was trained with.
        metrics: Its scores and what they depend on.
    """

    model: Model
    vocabulary: Vocabulary
    config: Config
    metrics: Mapping[str, Any]


@dataclass(frozen=True)
class SavedPerTag:
    """What a directory with one model for each tag set holds.

    Attributes:
        models: The models by their tag sets, which are sorted.
        config: The settings they were trained with.
        metrics: Their scores together.
    """

    models: Mapping[TagSet, SavedModel]
    config: Config
    metrics: Mapping[str, Any]


def load(directory: str | Path) -> SavedModel | SavedPerTag:
    """Loads a model directory of either kind.

    Raises:
        ModelError: It is none, is incomplete, was changed since it was written, or a newer ssnt wrote it; the message
            says which file, and what to do.
    """
    return _consistent(Folder(directory), _load)


def load_model(directory: str | Path) -> SavedModel:
    """Loads a directory that holds one model.

    Raises:
        ModelError: As :func:`load`, or it holds one model for each tag set.
    """
    saved = load(directory)
    if isinstance(saved, SavedPerTag):
        raise ModelError(
            f"{directory}: holds {len(saved.models)} models, one for each tag set; load it with "
            "Transducer.from_pretrained, or one of its models/ directories by itself"
        )
    return saved


def load_per_tag(directory: str | Path) -> SavedPerTag:
    """Loads a directory that holds one model for each tag set.

    Raises:
        ModelError: As :func:`load`, or it holds a single model.
    """
    saved = load(directory)
    if isinstance(saved, SavedModel):
        raise ModelError(f"{directory}: holds a single model, not one for each tag set; use load_model")
    return saved


def _consistent(folder: Folder, read: Callable[[Folder, Manifest], LoadedT]) -> LoadedT:
    """Reads a directory; once more, if somebody has put another model there meanwhile."""
    manifest = read_manifest(folder)
    try:
        return read(folder, manifest)
    except ModelError:
        if (now := read_manifest(folder)) == manifest:
            raise
        return read(folder, now)


def _load(folder: Folder, manifest: Manifest) -> SavedModel | SavedPerTag:
    if manifest.kind == "model":
        return _load_single(folder, manifest)
    models = {one.tags: _load_inner(folder, one) for one in manifest.models}
    return SavedPerTag(models, manifest.config, _read_metrics(folder, manifest))


def _load_inner(folder: Folder, one: SubModel) -> SavedModel:
    inner = folder.inner(one.directory)
    if hashlib.sha256(inner.read(CONFIG, MOST_BYTES)).hexdigest() != one.sha256:
        raise ModelError(
            f"{inner.path / CONFIG}: was changed since it was written (its SHA-256 is not the one in "
            f"{folder.path / CONFIG}); {AGAIN}"
        )
    return _consistent(inner, _load_single)


def _load_single(folder: Folder, manifest: Manifest) -> SavedModel:
    if manifest.kind != "model":
        raise ModelError(f"{folder.path}: expected a single model, got one for each tag set; {AGAIN}")
    metrics = _read_metrics(folder, manifest)
    vocabulary = read_vocabulary(folder, manifest)
    try:
        config = model_config(manifest.config, vocabulary)
    except ConfigError as error:
        raise ModelError(f"{folder.path / CONFIG}: does not fit {VOCABULARY}: {error}; {AGAIN}") from None
    model = read_weights(folder, config, manifest.files[WEIGHTS])
    return SavedModel(model, vocabulary, manifest.config, metrics)


def read_vocabulary(folder: Folder, manifest: Manifest) -> Vocabulary:
    """The vocabulary of a model directory.

    Raises:
        ModelError: The file is missing, was changed, or is not a vocabulary.
    """
    value = _read_json(folder, VOCABULARY, manifest.files[VOCABULARY])
    try:
        return Vocabulary.from_json(value)
    except DataError as error:
        raise ModelError(f"{folder.path / VOCABULARY}: {error}; {AGAIN}") from None
    except (TypeError, ValueError, KeyError, AttributeError, RecursionError) as error:
        reason = type(error).__name__
        raise ModelError(f"{folder.path / VOCABULARY}: is not a vocabulary ({reason}); {AGAIN}") from None


def _read_metrics(folder: Folder, manifest: Manifest) -> dict[str, Any]:
    metrics = _read_json(folder, METRICS, manifest.files[METRICS])
    if not isinstance(metrics, dict):
        raise ModelError(f"{folder.path / METRICS}: expected an object, got {type(metrics).__name__}; {AGAIN}")
    return metrics


def model_config(config: Config, vocabulary: Vocabulary) -> ModelConfig:
    """The settings of the model that a run trains, now that it is known how many symbols there are."""
    settings: dict[str, Any] = {**config.model.model_dump(), **vocabulary.model_sizes()}
    return ModelConfig(**settings)


def _read_json(folder: Folder, name: str, sha256: str) -> Any:
    content = folder.read_checked(name, _MOST_JSON_BYTES, sha256)
    try:
        return json.loads(content.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise ModelError(f"{folder.path / name}: is not valid JSON: {reason:.200}; {AGAIN}") from None
