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

from typing import TYPE_CHECKING

from ssnt.lazy import lazy_names

if TYPE_CHECKING:
    from ssnt.sweeps.directory import sweep_config
    from ssnt.sweeps.result import SweepResult, Trial
    from ssnt.sweeps.run import run_sweep

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        ".result": ("SweepResult", "Trial"),
        ".run": ("run_sweep",),
        ".directory": ("sweep_config",),
    },
)

__all__ = ["SweepResult", "Trial", "run_sweep", "sweep_config"]
