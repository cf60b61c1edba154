"""What in a directory ssnt has written, and what is somebody else's and must stay as it is."""

from __future__ import annotations

import os
import re
from pathlib import Path

from ssnt.checkpoint.card import MARK
from ssnt.checkpoint.folder import CARD, CONFIG, METRICS, MODELS, PENDING, TRAINING, VOCABULARY, WEIGHTS

LOCK = "lock"
"""What keeps other processes from training in the same directory; by itself it is no training."""

LAST, LOG, TENSORBOARD = "last.ckpt", "log.csv", "tensorboard"
"""What else is in ``training``, besides its record and the best weights."""

_MOST_BYTES = 1 << 22
_MOST_SHOWN = 5
_NUMBER = re.compile(r"[0-9]{3,9}")
_BEST_WEIGHTS = re.compile(r"epoch-[0-9]+\.safetensors")
_MANIFEST = ("format_version", "ssnt_version", "kind")
_RECORD = ("format_version", "ssnt_version", "data_sha256")


def is_manifest(path: Path) -> bool:
    """Whether a file is the ``config.yaml`` of a model directory, of whatever version, damaged or not."""
    return _has_keys(path, _MANIFEST)


def is_record(path: Path) -> bool:
    """Whether a file is the record of a training, ``training/config.yaml``."""
    return _has_keys(path, _RECORD)


def has_model(directory: Path) -> bool:
    """Whether a directory holds a model, which may be on its way into it still."""
    return any(is_manifest(directory / place / CONFIG) for place in ("", PENDING))


def is_ours(directory: Path) -> bool:
    """Whether a directory holds a model or a training."""
    return has_model(directory) or is_record(directory / TRAINING / CONFIG)


def is_blank(training: Path) -> bool:
    """Whether a ``training`` directory holds nothing yet but what a process that was killed has left."""
    return not training.is_symlink() and all(one.name == LOCK or _is_partial(one) for one in training.iterdir())


def is_foreign_card(path: Path) -> bool:
    """Whether a ``README.md`` is somebody's own: not the model card, or one that was edited and is to be kept."""
    return os.path.lexists(path) and MARK not in _text(path)


def foreign_files(directory: Path) -> list[str]:
    """What has the name of a file of a model, so that a model would take its place, and is none."""
    names = [CONFIG] if not is_manifest(directory / CONFIG) else []
    if not has_model(directory):
        names += [WEIGHTS, VOCABULARY, METRICS, PENDING]
    found = [name for name in names if os.path.lexists(directory / name)]
    models = directory / MODELS
    if os.path.lexists(models) and (models.is_symlink() or not models.is_dir()):
        return [*found, MODELS]
    return [*found, *(f"{MODELS}/{one.name}" for one in _numbered(directory) if not (is_ours(one) or _is_empty(one)))]


def own_files(directory: Path) -> list[Path]:
    """What ssnt has written into the directory of one model, and into its ``training``; ``config.yaml`` comes first."""
    training = directory / TRAINING
    if not is_ours(directory):
        return [training] if training.is_dir() and is_blank(training) else []
    names = [CONFIG, WEIGHTS, VOCABULARY, METRICS, *([] if is_foreign_card(directory / CARD) else [CARD])]
    found = [directory / name for name in names if os.path.lexists(directory / name)]
    found += [one for one in _entries(directory) if one.name == PENDING or _is_partial(one)]
    return found + [
        one
        for one in _entries(training)
        if one.name in (LAST, CONFIG, LOG, TENSORBOARD, LOCK) or _BEST_WEIGHTS.fullmatch(one.name) or _is_partial(one)
    ]


def other_files(directory: Path) -> list[str]:
    """What else is there: somebody else's, which would be lost with the directory."""
    own = set(own_files(directory))
    found = [one for one in _entries(directory) if one.name != TRAINING or one.is_symlink() or not one.is_dir()]
    found += [] if directory / TRAINING in own else _entries(directory / TRAINING)
    return [str(one.relative_to(directory)) for one in found if one not in own]


def own_models(directory: Path) -> list[Path]:
    """The directories of the models and trainings for single tag sets that are inside a directory."""
    if (directory / MODELS).is_symlink():
        return []
    return [one for one in _numbered(directory) if not one.is_symlink() and (is_ours(one) or _is_empty(one))]


def shown(names: list[str]) -> str:
    """Some names for a message."""
    rest = len(names) - _MOST_SHOWN
    return ", ".join(names[:_MOST_SHOWN]) + (f" and {rest} others" if rest > 0 else "")


def _entries(directory: Path) -> list[Path]:
    return sorted(directory.iterdir()) if directory.is_dir() and not directory.is_symlink() else []


def _is_partial(path: Path) -> bool:
    """Whether a file or directory is half written, by a process that was killed if it is still there."""
    return path.name.startswith(".") and path.name.endswith(".partial")


def _numbered(directory: Path) -> list[Path]:
    return sorted(one for one in directory.glob(f"{MODELS}/*") if _NUMBER.fullmatch(one.name))


def _is_empty(directory: Path) -> bool:
    """Whether nothing is in a directory but a training that has not begun."""
    return directory.is_dir() and all(
        one.name == TRAINING and one.is_dir() and is_blank(one) for one in directory.iterdir()
    )


def _has_keys(path: Path, keys: tuple[str, ...]) -> bool:
    text = _text(path)
    return all(re.search(rf"^{key}:", text, re.MULTILINE) for key in keys)


def _text(path: Path) -> str:
    try:
        if not path.is_file():  # reading a pipe or a device may never end
            return ""
        with path.open(encoding="utf-8", errors="replace") as file:
            return file.read(_MOST_BYTES)
    except OSError:
        return ""
