"""``export.json``: what an exported model is, its settings and sizes, and what its other files have to be."""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

from ssnt.__about__ import __version__
from ssnt.config import Config, upgraded
from ssnt.errors import ConfigError, ModelError
from ssnt.onnx_runtime.layout import FORMAT_VERSION, KIND, MANIFEST, VOCABULARY, Precision, graphs_of
from ssnt.types import BOS_ID, EOS_ID, PAD_ID, UNK_ID

AGAIN = "copy the whole directory again from where it came, or export the model again (ssnt export)"

_MOST_BYTES = 1 << 22
_MOST_FILE_BYTES = 1 << 32
_SHA256 = re.compile(r"[0-9a-f]{64}")
_KEYS = {
    *("kind", "format_version", "ssnt_version", "model", "precision", "is_online", "has_tags"),
    *("special", "sizes", "files", "config", "checksum"),
}


@dataclass(frozen=True)
class Sizes:
    """The sizes of an exported model's inputs and states.

    Attributes:
        source_symbols: Source symbols, the four special ones included.
        target_symbols: Target symbols, the four special ones included.
        tags: Tags, padding included; 0 without.
        condition: Size of encoded tags; 0 without.
        transition: Size of a half of the decision.
        hidden: Size of every LSTM layer.
        encoder_layers: Number of encoder layers.
        decoder_layers: Number of decoder layers.
    """

    source_symbols: int
    target_symbols: int
    tags: int
    condition: int
    transition: int
    hidden: int
    encoder_layers: int
    decoder_layers: int


@dataclass(frozen=True)
class ExportManifest:
    """What ``export.json`` says.

    Attributes:
        config: The settings that the model was trained with.
        sizes: Its sizes.
        is_online: Whether it can write while it reads.
        has_tags: Whether every input comes with tags.
        precision: What its weights are kept in.
        files: SHA-256 of each other file that is read.
        ssnt_version: The ssnt that wrote it.
    """

    config: Config
    sizes: Sizes
    is_online: bool
    has_tags: bool
    precision: Precision
    files: Mapping[str, str]
    ssnt_version: str = field(default=__version__)

    def to_text(self) -> str:
        """The file's content."""
        content: dict[str, Any] = {
            "kind": KIND,
            "format_version": FORMAT_VERSION,
            "ssnt_version": self.ssnt_version,
            "model": self.config.model.name,
            "precision": self.precision,
            "is_online": self.is_online,
            "has_tags": self.has_tags,
            "special": {"pad": PAD_ID, "begin": BOS_ID, "end": EOS_ID, "unknown": UNK_ID},
            "sizes": vars(self.sizes),
            "files": dict(self.files),
            "config": self.config.model_dump(mode="json"),
        }
        content["checksum"] = _checksum(content)
        return json.dumps(content, ensure_ascii=False, indent=2) + "\n"


def read_export(directory: str | os.PathLike[str]) -> ExportManifest:
    """Reads and checks what a directory says of itself.

    Raises:
        ModelError: It is no exported model, is damaged, or a newer ssnt wrote it.
    """
    path = Path(directory)
    if not path.is_dir():
        what = "is a file; expected a directory" if path.exists() else "there is no such directory"
        raise ModelError(f"{path}: {what} that ssnt export has written")
    where = path / MANIFEST
    if not where.exists():
        hint = ""
        if (path / "config.yaml").exists():
            hint = f"; it is a model directory: write one with ssnt export {path} --onnx DIR"
        raise ModelError(f"{path}: is not an exported model: there is no {MANIFEST} in it{hint}")
    content = _parsed(read_regular(where, _MOST_BYTES), where)
    if not isinstance(content, dict) or content.get("kind") != KIND:
        raise ModelError(f"{where}: is not the {MANIFEST} of an exported model: kind is not {KIND!r}")
    _check_version(content, where)
    if content.get("checksum") != _checksum(content) or set(content) != _KEYS:
        raise ModelError(f"{where}: was changed since it was written (its checksum does not fit); {AGAIN}")
    return _manifest(content, where)


def read_checked(directory: Path, name: str, sha256: str) -> bytes:
    """The content of a file, if it is still the one that was written.

    Raises:
        ModelError: It is missing, or is not.
    """
    path = directory / name
    content = read_regular(path, _MOST_FILE_BYTES)
    if hashlib.sha256(content).hexdigest() != sha256:
        raise ModelError(
            f"{path}: was cut short or changed since it was written (its SHA-256 is not the one in {MANIFEST}); {AGAIN}"
        )
    return content


def read_json(directory: Path, name: str, sha256: str) -> Any:
    """A JSON file, if it is still the one that was written."""
    return _parsed(read_checked(directory, name, sha256), directory / name)


def read_regular(path: Path, most: int) -> bytes:
    """The content of a regular file of at most ``most`` bytes.

    Raises:
        ModelError: There is none, or it cannot be read.
    """
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):  # reading a pipe or a device may never end
            raise ModelError(f"{path}: is not a regular file; {AGAIN}")
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_size > most:
                raise ModelError(f"{path}: has more than the {most} bytes that are expected of it; {AGAIN}")
            return file.read()
    except FileNotFoundError:
        raise ModelError(f"{path}: is missing; {AGAIN}") from None
    except (OSError, MemoryError) as error:
        reason = getattr(error, "strerror", None) or type(error).__name__
        raise ModelError(f"{path}: cannot be read: {reason}") from None


def _parsed(content: bytes, where: Path) -> Any:
    try:
        return json.loads(content.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise ModelError(f"{where}: is not valid JSON: {reason:.200}; {AGAIN}") from None


def _check_version(content: dict[str, Any], where: Path) -> None:
    version = content.get("format_version")
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise ModelError(f"{where}: format_version: expected a number of at least 1, got {version!r:.80}; {AGAIN}")
    if version > FORMAT_VERSION:
        raise ModelError(
            f"{where}: was written by a newer ssnt ({content.get('ssnt_version')!s:.40}, format_version {version}; "
            f"this is {__version__}, which reads up to {FORMAT_VERSION}); upgrade: pip install --upgrade ssnt"
        )


def _manifest(content: dict[str, Any], where: Path) -> ExportManifest:
    try:
        sizes = Sizes(**{str(name): _count(value) for name, value in content["sizes"].items()})
        config = Config.model_validate(upgraded(content["config"]))
        is_online, has_tags = _truth("is_online", content), _truth("has_tags", content)
        files = dict(content["files"])
    except (ConfigError, TypeError, ValueError, AttributeError) as error:
        raise ModelError(f"{where}: {error}; {AGAIN}") from None
    expected = {VOCABULARY, *graphs_of(is_online=is_online, has_tags=has_tags)}
    if set(files) != expected or not all(isinstance(one, str) and _SHA256.fullmatch(one) for one in files.values()):
        raise ModelError(f"{where}: files: expected a SHA-256 of each of {', '.join(sorted(expected))}; {AGAIN}")
    if content["precision"] not in get_args(Precision):
        raise ModelError(f"{where}: precision: expected {' or '.join(get_args(Precision))}; {AGAIN}")
    version = str(content["ssnt_version"])
    return ExportManifest(config, sizes, is_online, has_tags, content["precision"], files, version)


def _truth(name: str, content: dict[str, Any]) -> bool:
    value = content[name]
    if not isinstance(value, bool):
        raise ValueError(f"{name}: expected true or false, got {value!r:.80}")
    return value


def _count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 31:
        raise ValueError(f"sizes: expected whole numbers, got {value!r:.80}")
    return value


def _checksum(content: Mapping[str, Any]) -> str:
    """SHA-256 of all but the checksum itself, in a form in which layout has no part."""
    rest = {key: value for key, value in content.items() if key != "checksum"}
    text = json.dumps(rest, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
