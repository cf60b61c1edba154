"""A folder of plans with one small table on a small data set, in the layout of the real ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from experiments import datasets, results
from experiments import plan as plan_module

MakeTable = Callable[[Mapping[str, Any], Mapping[str, Sequence[str]]], Path]


@pytest.fixture
def make_toy_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MakeTable]:
    """Writes a plan, as the table ``toy``, and the lines of each part of the data set ``inflection/toy``."""

    def make(plan: Mapping[str, Any], parts: Mapping[str, Sequence[str]]) -> Path:
        data = tmp_path / "data" / "inflection" / "toy"
        data.mkdir(parents=True)
        for part, lines in parts.items():
            (data / f"{part}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
        home = tmp_path / "plans"
        (home / "toy").mkdir(parents=True)
        (home / "toy" / "plan.yaml").write_text(yaml.safe_dump(dict(plan)), encoding="utf-8")
        monkeypatch.setenv("SSNT_DATA", str(tmp_path / "data"))
        monkeypatch.setattr(plan_module, "HOME", home)
        monkeypatch.setattr(results, "HOME", home)
        datasets.load.cache_clear()
        return home

    yield make
    datasets.load.cache_clear()
