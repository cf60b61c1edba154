"""Models on the Hugging Face hub."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from ssnt.__about__ import __version__
from ssnt.errors import ModelError

FILES = ("config.yaml", "vocab.json", "model.safetensors", "metrics.json", "README.md")
"""The files of a model directory; nothing else is downloaded or uploaded."""

PATTERNS = [*FILES, *(f"models/*/{name}" for name in FILES)]

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")


def find_directory(name: str | os.PathLike[str], revision: str | None = None) -> Path:
    """The directory of a model: a local one, or one that is downloaded from the hub.

    Raises:
        ModelError: There is no such directory, and it cannot be had from the hub.
    """
    path = Path(name)
    if path.is_dir():
        if revision is not None:
            raise ModelError(f"{path}: is a local directory, which has no revisions; leave out revision={revision!r}")
        return path
    if path.exists():
        raise ModelError(f"{path}: is a file; expected a model directory, such as the one it is in ({path.parent})")
    parts = [one.strip() for one in str(name).split(",")]
    if len(parts) > 1 and any(os.path.isdir(one) for one in parts):
        raise ModelError(
            f"{name}: expected one model, got {len(parts)} split by commas; where several can answer together, as in "
            "ssnt predict, --help says so"
        )
    if not isinstance(name, str) or not _HUB_ID.fullmatch(name):
        raise ModelError(
            f"{name}: there is no such directory, and it is not a name on the Hugging Face hub either "
            "(expected owner/name); check the path"
        )
    return Path(_download(name, revision))


def _download(repo_id: str, revision: str | None) -> str:
    from huggingface_hub import snapshot_download

    try:
        return str(
            snapshot_download(
                repo_id,
                revision=revision,
                allow_patterns=PATTERNS,
                library_name="ssnt",
                library_version=__version__,
            )
        )
    except Exception as error:  # several libraries raise here, for the network, the disk and the hub
        raise ModelError(
            f"{repo_id}: there is no such directory, and it could not be had from the Hugging Face hub "
            f"({_reason(error)}); check the path, or the name on the hub and the connection"
        ) from error


def upload(
    folder: Path,
    repo_id: str,
    *,
    private: bool | None,
    revision: str | None,
    commit_message: str | None,
    token: str | None,
) -> str:
    """Puts a model directory on the hub, and gives its address.

    Raises:
        ModelError: The hub cannot be reached or refuses.
    """
    from huggingface_hub import HfApi

    try:
        api: Any = HfApi(token=token, library_name="ssnt", library_version=__version__)
        address = api.create_repo(repo_id, private=private, repo_type="model", exist_ok=True)
        api.upload_folder(
            repo_id=repo_id,
            folder_path=str(folder),
            repo_type="model",
            revision=revision,
            commit_message=commit_message or "Upload ssnt model",
            allow_patterns=PATTERNS,
            delete_patterns=PATTERNS,  # those of a model that was there before and are not in this one
        )
    except Exception as error:  # several libraries raise here, for the network, the disk and the hub
        raise ModelError(
            f"{repo_id}: could not be put on the Hugging Face hub ({_reason(error)}); check the name, the connection, "
            "and that you are logged in (hf auth login)"
        ) from error
    return str(address)


def _reason(error: Exception) -> str:
    first = str(error).strip().splitlines()
    return f"{type(error).__name__}: {first[0]:.200}" if first else type(error).__name__
