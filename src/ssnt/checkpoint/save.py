"""Models into directories, whole or not at all."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from ssnt.checkpoint.card import MARK, model_card
from ssnt.checkpoint.folder import CARD, CONFIG, METRICS, MODELS, TRAINING, VOCABULARY, WEIGHTS, Folder
from ssnt.checkpoint.load import SavedModel, model_config, read_vocabulary
from ssnt.checkpoint.manifest import Manifest, SubModel, TagSet, read_manifest, tag_set
from ssnt.checkpoint.publish import remove_unlisted, require_free, staged
from ssnt.checkpoint.record import encode_metrics
from ssnt.checkpoint.weights import encode_weights
from ssnt.config import Config
from ssnt.data.vocab import Vocabulary
from ssnt.errors import ModelError
from ssnt.files import atomic_path, sha256_of, write_json, write_text
from ssnt.nn import Model


def save_model(
    directory: str | Path,
    model: Model,
    vocabulary: Vocabulary,
    config: Config,
    metrics: Mapping[str, Any],
    *,
    overwrite: bool = False,
    name: str | None = None,
) -> None:
    """Writes a model directory.

    Whatever happens meanwhile, the directory is what it was before or holds the new model. Paths in the settings are
    shortened to file names: where files were on some machine is no part of a model.

    Args:
        directory: Where; a ``training`` directory inside it may exist already, and stays.
        model: The model.
        vocabulary: Its symbols and tags.
        config: The settings it was trained with.
        metrics: Its scores and what they depend on; see :func:`~ssnt.checkpoint.metrics_record`.
        overwrite: Whether a model that is there already may be replaced.
        name: What the model card calls the model; by default the directory's name.

    Raises:
        StorageError: There is something already, or it cannot be written.
        ModelError: The model does not fit its settings and vocabulary, or has weights that are no numbers.
    """
    require_free(directory, overwrite=overwrite)
    with staged(directory) as stage:
        old = listed_files(directory)
        _write_model(stage, SavedModel(model, vocabulary, config, metrics), name or _name(directory))
    remove_unlisted(directory, old, (WEIGHTS, VOCABULARY, METRICS))


def save_per_tag(
    directory: str | Path,
    models: Mapping[TagSet, str],
    config: Config,
    metrics: Mapping[str, Any],
    *,
    overwrite: bool = False,
    name: str | None = None,
) -> None:
    """Makes one model directory of several that are inside it already, one for each tag set.

    Args:
        directory: The directory.
        models: For each tag set the directory of its model relative to ``directory``, such as ``models/000``.
        config: The settings they were trained with.
        metrics: Their scores together.
        overwrite: Whether a model that is there already may be replaced.
        name: What the model card calls the model; by default the directory's name.

    Raises:
        StorageError: There is a model already, or it cannot be written.
        ModelError: There are no models, two for one tag set, or one is not where it should be.
    """
    require_free(directory, overwrite=overwrite, beside=(TRAINING, MODELS))
    index = [_listed_model(Path(directory), tags, place) for tags, place in models.items()]
    with staged(directory) as stage:
        old = listed_files(directory)
        _write_index(stage, index, config, metrics, name or _name(directory))
    remove_unlisted(directory, old, (METRICS, *(one.directory for one in index)))


def save_models(
    directory: str | Path,
    models: Mapping[TagSet, SavedModel],
    config: Config,
    metrics: Mapping[str, Any],
    *,
    overwrite: bool = False,
    name: str | None = None,
) -> None:
    """Writes models for tag sets, and the directory around them, all at once; as :func:`save_model` for a single one.

    Args:
        directory: Where.
        models: The model of each tag set.
        config: The settings they were trained with.
        metrics: Their scores together.
        overwrite: Whether a model that is there already may be replaced.
        name: What the model card calls the model; by default the directory's name.
    """
    require_free(directory, overwrite=overwrite)
    with staged(directory) as stage:
        old = listed_files(directory)
        first = first_free_number(Path(directory))
        index = []
        for number, (tags, saved) in enumerate(sorted(models.items()), start=first):
            place = stage / MODELS / f"{number:03d}"
            place.mkdir(parents=True)
            _write_model(place, saved, f"{name or _name(directory)}: {';'.join(tags)}")
            index.append(_listed_model(stage, tags, f"{MODELS}/{place.name}"))
        _write_index(stage, index, config, metrics, name or _name(directory))
    remove_unlisted(directory, old, (METRICS, *(one.directory for one in index)))


def update_metrics(directory: str | Path, metrics: Mapping[str, Any]) -> None:
    """Writes other metrics into a model directory, such as with the scores on test data.

    The model card is written anew too, unless somebody has edited it and deleted the line that says so.

    Raises:
        ModelError: There is no model directory, or it is damaged.
        StorageError: It cannot be written.
    """
    folder = Folder(directory)
    manifest = read_manifest(folder)
    content = encode_metrics(metrics)
    vocabulary = read_vocabulary(folder, manifest) if manifest.kind == "model" else None
    is_own_card = not folder.has(CARD) or MARK.encode() in folder.head(CARD, 1 << 24)
    with staged(directory) as stage:
        _write_bytes(stage / METRICS, content)
        if is_own_card:
            tag_sets = [one.tags for one in manifest.models]
            write_text(stage / CARD, model_card(_name(directory), manifest.config, metrics, vocabulary, tag_sets))
        files = {**manifest.files, METRICS: hashlib.sha256(content).hexdigest()}
        new = Manifest(manifest.kind, manifest.config, files, manifest.models, manifest.ssnt_version)
        write_text(stage / CONFIG, new.to_text())


def listed_files(directory: str | Path) -> tuple[str, ...]:
    """What a directory has of the model that is in it now."""
    try:
        manifest = read_manifest(directory)
    except ModelError:
        return ()
    return (*manifest.files, *(one.directory for one in manifest.models))


def first_free_number(directory: Path) -> int:
    """A number above those of the models that are there, which stay until the new ones have taken over."""
    taken = [int(place.name) for place in directory.glob(f"{MODELS}/*") if place.name.isdecimal()]
    return max(taken, default=-1) + 1


def without_places(config: Config) -> Config:
    """The settings without the places that files had on the machine of the training, and without that of processes."""
    data = {key: None if value is None else _file_name(value) for key, value in _paths(config).items()}
    return config.model_copy(
        update={
            "data": config.data.model_copy(update={**data, "cache": None}),
            "hardware": config.hardware.without_engine(),
            "out": None,
        }
    )


def _paths(config: Config) -> dict[str, str | None]:
    return {"train": config.data.train, "dev": config.data.dev}


def _file_name(path: str) -> str:
    return PurePosixPath(path.replace("\\", "/")).name or path


def _write_model(stage: Path, saved: SavedModel, name: str) -> None:
    """Writes the files of one model, the one that describes the others last."""
    expected = model_config(saved.config, saved.vocabulary)
    if saved.model.config != expected:
        names = [key for key, value in expected if getattr(saved.model.config, key) != value]
        raise ModelError(
            f"the model cannot be saved with these settings and this vocabulary, as its own differ: {', '.join(names)}"
        )
    config = without_places(saved.config)
    _write_bytes(stage / WEIGHTS, encode_weights(saved.model))
    write_json(stage / VOCABULARY, saved.vocabulary.to_json())
    _write_bytes(stage / METRICS, encode_metrics(saved.metrics))
    write_text(stage / CARD, model_card(name, config, saved.metrics, saved.vocabulary))
    files = {name: sha256_of(stage / name) for name in (WEIGHTS, VOCABULARY, METRICS)}
    write_text(stage / CONFIG, Manifest("model", config, files).to_text())


def _write_index(stage: Path, index: Sequence[SubModel], config: Config, metrics: Mapping[str, Any], name: str) -> None:
    if not index:
        raise ModelError("models: expected at least one tag set with its model, got none")
    keys = [one.tags for one in index]
    if repeated := next((key for key in keys if keys.count(key) > 1), None):
        raise ModelError(f"models: expected each tag set once, got {';'.join(repeated)} again")
    config = without_places(config)
    _write_bytes(stage / METRICS, encode_metrics(metrics))
    write_text(stage / CARD, model_card(name, config, metrics, None, keys))
    files = {METRICS: sha256_of(stage / METRICS)}
    write_text(stage / CONFIG, Manifest("per-tag", config, files, tuple(index)).to_text())


def _listed_model(directory: Path, tags: TagSet, place: str) -> SubModel:
    manifest = read_manifest(directory / place)
    if manifest.kind != "model":
        raise ModelError(f"{directory / place}: expected a single model, got one for each tag set")
    return SubModel(place, tag_set(tags), sha256_of(directory / place / CONFIG))


def _name(directory: str | Path) -> str:
    return Path(directory).absolute().name or "model"


def _write_bytes(path: Path, content: bytes) -> None:
    with atomic_path(path) as partial:
        partial.write_bytes(content)
