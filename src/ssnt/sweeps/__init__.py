"""Sweeps: many trainings with different settings, to find those that are best on the development data.

=============  ==================================================================================
module         what
=============  ==================================================================================
``run``        :func:`run_sweep`: starts a sweep or goes on with it
``space``      what is tried: the settings of every trial, checked before any is trained
``study``      which trials there are and what has become of them: Optuna's study, in SQLite
``directory``  what the directory of a sweep holds, and who may write there
``result``     what a sweep has found
=============  ==================================================================================
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ssnt.sweeps.directory import sweep_config
    from ssnt.sweeps.result import SweepResult, Trial
    from ssnt.sweeps.run import run_sweep

_HOMES = {"SweepResult": "result", "Trial": "result", "run_sweep": "run", "sweep_config": "directory"}


def __getattr__(name: str) -> Any:
    # torch and Lightning take seconds to import, and whoever reads a sweep's settings needs neither
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


__all__ = ["SweepResult", "Trial", "run_sweep", "sweep_config"]
