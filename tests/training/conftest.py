"""Set-up that the tests of training share."""

from functools import partial
from pathlib import Path

import pytest

from trainings import MakeConfig, tiny_config


@pytest.fixture
def make_config(tmp_path: Path) -> MakeConfig:
    """Makes settings of a run on the tiny task; keyword arguments are sections with what differs."""
    return partial(tiny_config, tmp_path)
