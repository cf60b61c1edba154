"""Set-up that the tests of sweeps share."""

from functools import partial
from pathlib import Path

import pytest

from sweeping import MakeSweep, sweep_settings

from conftest import require

require("optuna", "sweeps")


@pytest.fixture
def make_sweep(tmp_path: Path) -> MakeSweep:
    """Makes settings of a sweep of the tiny task; keyword arguments are settings of the section ``sweep``."""
    return partial(sweep_settings, tmp_path)
