"""Set-up that the tests of training share."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path

import pytest

from ssnt.config import Config
from tagged import write_tagged
from trainings import MakeConfig, tiny_config


@pytest.fixture
def make_config(tmp_path: Path) -> MakeConfig:
    """Makes settings of a run on the tiny task; keyword arguments are sections with what differs."""
    return partial(tiny_config, tmp_path)


@pytest.fixture
def make_tagged(make_config: MakeConfig, tmp_path: Path) -> MakeConfig:
    data = {
        "train": write_tagged(tmp_path / "tagged.tsv", {"UP": 60, "TWICE": 40, "ADD": 20}, seed=1),
        "dev": write_tagged(tmp_path / "tagged-dev.tsv", {"UP": 10, "TWICE": 10, "ODD": 3}, seed=2),
        "tags_column": 3,
    }

    def make(**sections: Mapping[str, object]) -> Config:
        own = {"per_tag": True, "max_epochs": 3, **sections.pop("training", {})}
        hardware = {"workers": 2, **sections.pop("hardware", {})}
        return make_config(data={**data, **sections.pop("data", {})}, training=own, hardware=hardware, **sections)

    return make
