"""What ``metrics.json`` holds: scores with their signatures, and what they depend on."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import PurePath
from typing import Any

from ssnt.__about__ import __version__
from ssnt.errors import DataError
from ssnt.metrics import Score


def metrics_record(
    *,
    scores: Mapping[str, Iterable[Score]],
    data: Mapping[str, Mapping[str, Any]] | None = None,
    seed: int | None = None,
    command: str | None = None,
    training: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Puts together what is known of a model, as JSON values.

    Args:
        scores: The scores on each part of the data, such as ``{"dev": [...]}``.
        data: For each part of the data its ``file``, ``sha256``, and whatever else, such as the number of ``examples``.
            Of the file only the name is kept: where it was on some machine is nobody's business.
        seed: Of the training.
        command: The command line of the training.
        training: Anything else, such as steps and seconds.
    """
    parts = {
        part: {key: PurePath(value).name if key == "file" else value for key, value in details.items()}
        for part, details in (data or {}).items()
    }
    return {
        "ssnt_version": __version__,
        "seed": seed,
        "command": command,
        "data": parts,
        "scores": {part: [score.to_record() for score in found] for part, found in scores.items()},
        "training": dict(training or {}),
    }


def encode_metrics(metrics: Mapping[str, Any]) -> bytes:
    """Metrics as a JSON file.

    Raises:
        DataError: They hold something that JSON has no way to write.
    """
    try:
        text = json.dumps(dict(metrics), ensure_ascii=False, indent=2, allow_nan=False)
        return (text + "\n").encode("utf-8")
    except (TypeError, ValueError, RecursionError) as error:
        raise DataError(
            f"metrics: expected strings, finite numbers, lists and dictionaries, which JSON can hold: {error}"
        ) from None
