"""``config.yaml``: what a model directory is, its settings, and what its other files have to be."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

import yaml

from ssnt.__about__ import __version__
from ssnt.checkpoint.folder import AGAIN, CONFIG, METRICS, MODELS, TRAINING, VOCABULARY, WEIGHTS, Folder
from ssnt.checkpoint.ours import is_record
from ssnt.config import Config, parse_settings, to_yaml, upgraded
from ssnt.errors import ConfigError, ModelError

FORMAT_VERSION = 1
"""Changes when a model directory is laid out in a way that an older ssnt cannot read."""

Kind = Literal["model", "per-tag"]
TagSet = tuple[str, ...]

FILES: Mapping[str, tuple[str, ...]] = {"model": (WEIGHTS, VOCABULARY, METRICS), "per-tag": (METRICS,)}
"""The files of each kind that are checked; the model card may be edited."""

MOST_BYTES = 1 << 22
"""No ``config.yaml`` has more."""

_KEYS = {"model": ("files", "config"), "per-tag": ("files", "config", "models")}
_MOST_DEPTH = 20
_SUB_DIRECTORY = re.compile(rf"{MODELS}/[0-9]{{3,9}}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_OPENING = (
    yaml.FlowSequenceStartToken,
    yaml.FlowMappingStartToken,
    yaml.BlockSequenceStartToken,
    yaml.BlockMappingStartToken,
)
_CLOSING = (yaml.FlowSequenceEndToken, yaml.FlowMappingEndToken, yaml.BlockEndToken)
_HEADER = """\
# An ssnt model directory: ssnt.Transducer.from_pretrained reads it. The checksum is over all settings in this file, so
# that a change by accident is noticed; to use the model with other settings, give them when you use it.
"""


@dataclass(frozen=True)
class SubModel:
    """One of the models of a directory that has one for each tag set.

    Attributes:
        directory: Its directory, such as ``models/000``.
        tags: The tag set, sorted.
        sha256: SHA-256 of its own ``config.yaml``, which has those of its files.
    """

    directory: str
    tags: TagSet
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """What ``config.yaml`` says.

    Attributes:
        kind: ``model``, or ``per-tag`` for one model for each tag set.
        config: The settings that the model was trained with.
        files: SHA-256 of each file that is checked.
        models: The models of a ``per-tag`` directory.
        ssnt_version: The ssnt that wrote the directory.
    """

    kind: Kind
    config: Config
    files: Mapping[str, str]
    models: tuple[SubModel, ...] = ()
    ssnt_version: str = field(default=__version__)

    def to_text(self) -> str:
        """The file's content."""
        content: dict[str, Any] = {
            "format_version": FORMAT_VERSION,
            "ssnt_version": self.ssnt_version,
            "kind": self.kind,
            "files": dict(self.files),
        }
        if self.kind == "per-tag":
            content["models"] = {one.directory: {"tags": list(one.tags), "sha256": one.sha256} for one in self.models}
        content["config"] = self.config.model_dump()
        content["checksum"] = _checksum(content)
        return _HEADER + to_yaml(content)


def read_manifest(directory: str | Path | Folder) -> Manifest:
    """Reads and checks the ``config.yaml`` of a model directory.

    Raises:
        ModelError: There is none, it was changed, or a newer ssnt wrote it.
    """
    folder = directory if isinstance(directory, Folder) else Folder(directory)
    where = str(folder.path / CONFIG)
    content = _parsed(_text(folder), where)
    _check_version(content, where)
    kind: Any = content.get("kind")
    if kind not in get_args(Kind):
        raise ModelError(f"{where}: kind: expected one of {', '.join(get_args(Kind))}, got {kind!r:.80}; {AGAIN}")
    if content.get("checksum") != _checksum(content):
        raise ModelError(
            f"{where}: was changed since it was written (its checksum does not fit); to use other settings, load the "
            f"model and give them there; to mend the file, {AGAIN}"
        )
    _check_keys(content, ("format_version", "ssnt_version", "kind", "checksum", *_KEYS[kind]), where)
    return Manifest(
        kind=kind,
        config=_config(content["config"], where),
        files=_files(content["files"], FILES[kind], where),
        models=_models(content["models"], where) if kind == "per-tag" else (),
        ssnt_version=str(content["ssnt_version"]),
    )


def _text(folder: Folder) -> str:
    path = folder.path
    if not path.is_dir():
        what = "is a file; expected a model directory" if path.exists() else "there is no such model directory"
        raise ModelError(f"{path}: {what}")
    if not folder.has(CONFIG):
        if is_record(path / TRAINING / CONFIG) and not folder.has(WEIGHTS):
            raise ModelError(
                f"{path}: holds an unfinished training ({TRAINING}/) but no model yet; "
                f"go on with it: ssnt train --resume --out {path}"
            )
        if folder.has("export.json"):
            raise ModelError(
                f"{path}: holds a model that was exported as ONNX, which ssnt.onnx_runtime.load runs; here the model "
                "directory that it was exported from is wanted"
            )
        known = [name for name in (WEIGHTS, VOCABULARY, METRICS) if folder.has(name)]
        if known:
            raise ModelError(f"{path / CONFIG}: is missing, though there is {' and '.join(known)}; {AGAIN}")
        raise ModelError(f"{path}: is not a model directory: there is no {CONFIG} in it")
    try:
        return folder.read(CONFIG, MOST_BYTES).decode("utf-8")
    except UnicodeDecodeError:
        raise ModelError(f"{path / CONFIG}: is not valid UTF-8; {AGAIN}") from None


def _parsed(text: str, where: str) -> dict[str, Any]:
    try:
        _check_yaml(text, where)
        return parse_settings(text, where)
    except ModelError:
        raise
    except ConfigError as error:
        raise ModelError(f"{error}; {AGAIN}") from None
    except Exception as error:  # what the YAML library raises for values like !!int "" is not limited to its own errors
        raise ModelError(f"{where}: not valid YAML ({type(error).__name__}); {AGAIN}") from None


def _check_yaml(text: str, where: str) -> None:
    """Refuses YAML that a small file can be made of, and that takes for ever to read."""
    depth = 0
    for token in yaml.scan(text, Loader=yaml.SafeLoader):
        if isinstance(token, yaml.AliasToken):  # a few lines with aliases can stand for more than any memory holds
            raise ModelError(f"{where}: has YAML aliases, which no model directory needs; {AGAIN}")
        if isinstance(token, _OPENING):
            depth += 1
        elif isinstance(token, _CLOSING):
            depth -= 1
        if depth > _MOST_DEPTH:
            raise ModelError(f"{where}: is nested more deeply than any model directory needs; {AGAIN}")


def _check_version(content: dict[str, Any], where: str) -> None:
    version = content.get("format_version")
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise ModelError(
            f"{where}: is not the {CONFIG} of a model directory: format_version: expected a number of at least 1, "
            f"got {version!r:.80}"
        )
    if version > FORMAT_VERSION:
        raise ModelError(
            f"{where}: was written by a newer ssnt ({content.get('ssnt_version')!s:.40}, format_version {version}; "
            f"this is {__version__}, which reads up to {FORMAT_VERSION}); upgrade: pip install --upgrade ssnt"
        )


def _checksum(content: Mapping[str, Any]) -> str:
    """SHA-256 of all but the checksum itself, in a form in which layout and comments have no part."""
    rest = {key: value for key, value in content.items() if key != "checksum"}
    try:
        text = json.dumps(rest, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError):
        return "none: this cannot have been written by ssnt"
    return hashlib.sha256(text.encode()).hexdigest()


def _check_keys(content: dict[str, Any], expected: tuple[str, ...], where: str) -> None:
    different = sorted(set(expected) ^ set(content), key=str)
    if different:
        raise ModelError(f"{where}: expected {', '.join(expected)}, got more or less: {different!r:.80}; {AGAIN}")


def _config(value: Any, where: str) -> Config:
    if not isinstance(value, dict):
        raise ModelError(f"{where}: config: expected settings, got {type(value).__name__}; {AGAIN}")
    try:
        return Config.model_validate(upgraded(value))
    except ConfigError as error:
        raise ModelError("\n".join(f"{where}: config: {line}" for line in str(error).splitlines())) from None


def _files(value: Any, expected: tuple[str, ...], where: str) -> dict[str, str]:
    if not isinstance(value, dict) or set(value) != set(expected):
        raise ModelError(f"{where}: files: expected those of {', '.join(expected)}, got {value!r:.120}; {AGAIN}")
    for name, sha256 in value.items():
        _check_sha256(sha256, f"{where}: files: {name}")
    return dict(value)


def _models(value: Any, where: str) -> tuple[SubModel, ...]:
    if not isinstance(value, dict) or not value:
        raise ModelError(f"{where}: models: expected directories with their tags, got {value!r:.80}; {AGAIN}")
    models: dict[TagSet, SubModel] = {}
    for directory, details in value.items():
        if not isinstance(directory, str) or not _SUB_DIRECTORY.fullmatch(directory):
            raise ModelError(
                f"{where}: models: expected names such as {MODELS}/000, which stay inside the model directory, "
                f"got {directory!r:.80}"
            )
        here = f"{where}: models: {directory}"
        if not isinstance(details, dict) or set(details) != {"tags", "sha256"}:
            raise ModelError(f"{here}: expected tags and sha256, got {details!r:.80}; {AGAIN}")
        _check_sha256(details["sha256"], here)
        tags = details["tags"]
        if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
            raise ModelError(f"{here}: tags: expected a list of strings, got {tags!r:.80}; {AGAIN}")
        if (key := tag_set(tags)) in models:
            raise ModelError(f"{here}: tags: expected each tag set once, got {', '.join(key)!r:.80} again; {AGAIN}")
        models[key] = SubModel(directory, key, details["sha256"])
    return tuple(models.values())


def tag_set(tags: Any) -> TagSet:
    """Tags as a key: a set, whatever the order of the file."""
    return tuple(sorted(set(tags)))


def _check_sha256(value: Any, where: str) -> None:
    if not isinstance(value, str) or not _SHA256.fullmatch(value):
        raise ModelError(f"{where}: expected a SHA-256, got {value!r:.80}; {AGAIN}")
