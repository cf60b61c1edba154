"""What others have published, and what this project asks of itself, from ``published.yaml``."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

_FILE = Path(__file__).parents[1] / "published.yaml"


@lru_cache(maxsize=1)
def published() -> dict[str, Any]:
    """The file's content."""
    found: dict[str, Any] = yaml.safe_load(_FILE.read_text(encoding="utf-8"))
    return found


def inflection_sets() -> list[str]:
    """The seven sets, in the order of Table 4."""
    return list(published()["inflection"]["table4"])
