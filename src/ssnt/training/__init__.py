"""Training: from settings and data files to a model directory, whatever happens meanwhile.

=================  ==================================================================================
module             what
=================  ==================================================================================
``fit``            :func:`train`: starts a training or goes on with it, and writes the model
``module``         a step: loss, gradient, step size, random numbers
``datamodule``     batches, from wherever a training goes on
``callbacks``      what happens between steps: validation, selection, checkpoints, stopping
``progress``       how far a training has come, which its checkpoints remember
``validation``     measuring a model on the development data
``schedule``       the step size as a function of the step
``checkpoints``    files to go on from, and averages of weights
``run_directory``  what the directory of a run holds, and who may write there
``records``        settings and data that a run was started with, to be the same when it goes on
``logs``           ``log.csv`` and TensorBoard
``display``        what the user sees
``processes``      several processes that train one model
``per_tag``        one model for each tag set, trained side by side
``tag_sets``       the tag sets of data, and which of them can have a model
``job``            the training of one model as a job of an engine
``answers``        what models answer where they are trained, to measure them together
``threads``        one number of threads for everything
``quiet``          Lightning without its advice
=================  ==================================================================================
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ssnt.lazy import lazy_names

if TYPE_CHECKING:
    from ssnt.interrupts import TrainingInterrupted
    from ssnt.training.fit import train
    from ssnt.training.run_directory import MAY_CHANGE, run_config

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        ".run_directory": ("MAY_CHANGE", "run_config"),
        "ssnt.interrupts": ("TrainingInterrupted",),
        ".fit": ("train",),
    },
)

__all__ = ["MAY_CHANGE", "TrainingInterrupted", "run_config", "train"]
