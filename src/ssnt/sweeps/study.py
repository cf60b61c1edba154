"""Which trials a sweep has and what has become of them: Optuna's study, kept in an SQLite file.

Every decision is in the file before it has consequences, so that a sweep that was killed goes on where it was. What is
drawn for a trial depends on the seed, on the number of the trial and on what the study knows of others, and on nothing
that only this process remembers.
"""

from __future__ import annotations

import errno
import importlib.util
import sqlite3
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ssnt.config import SweepConfig
from ssnt.errors import ConfigError, StorageError
from ssnt.metrics import METRICS
from ssnt.sweeps.result import State, Trial
from ssnt.sweeps.space import Space

if TYPE_CHECKING:
    import optuna

_NAME = "ssnt"  # hyperband draws lots by it: another name is another sweep
_MESSAGE = "message"
_REDUCTION = 3
_BUSY_SECONDS = 60.0


def require_optuna() -> None:
    """Refuses what cannot be done without Optuna.

    Raises:
        ConfigError: It is not installed.
    """
    if importlib.util.find_spec("optuna") is None:
        raise ConfigError("a sweep needs Optuna, which is not installed; run pip install 'ssnt[sweep]'")


@contextmanager
def quiet_optuna() -> Iterator[None]:
    """In this block Optuna tells nothing: neither of every trial, nor that a part of it is new."""
    import optuna

    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            yield
    finally:
        optuna.logging.set_verbosity(before)


@contextmanager
def storage_errors(path: Path) -> Iterator[None]:
    """In this block a study that cannot be written, such as on a full disk, is an error like that of any other file.

    Raises:
        StorageError: So.
    """
    from optuna.exceptions import StorageInternalError
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except (StorageInternalError, SQLAlchemyError) as error:
        cause = getattr(error.__cause__ or error, "orig", None) or error
        message = f"{path}: could not be written ({cause}); free some space, or choose another place"
        raise StorageError(errno.EIO, message) from error


class Study:
    """The trials of a sweep.

    Args:
        path: The SQLite file, which is made if it is not there.
        sweep: What is searched for, and how.
        space: What is tried.
    """

    def __init__(self, path: Path, sweep: SweepConfig, space: Space) -> None:
        import optuna

        self._sweep = sweep
        self._space = space
        self._distributions = space.distributions()
        storage = _storage(path)
        self._study = optuna.create_study(
            storage=storage,
            study_name=_NAME,
            direction="maximize" if METRICS[sweep.metric].is_higher_better else "minimize",
            pruner=_pruner(sweep.pruner, space.max_epochs),
            load_if_exists=True,
        )
        # nobody else writes to the file, so that what is in it need not be read again and again
        found = self._study.get_trials(deepcopy=False)
        self._trials = {one.number + 1: _trial(one) for one in found if one.state.name != "WAITING"}
        study_id = storage.get_study_id_from_name(_NAME)
        self._running = {
            one.number + 1: optuna.Trial(
                self._study, storage.get_trial_id_from_study_id_trial_number(study_id, one.number)
            )
            for one in found
            if one.state.name == "RUNNING"
        }
        self._is_waiting = len(found) > len(self._trials)

    @property
    def total(self) -> int:
        """How many trials there are when all are done."""
        return self._space.size if self._space.is_grid else self._sweep.trial_count

    @property
    def is_over(self) -> bool:
        """Whether all trials are done."""
        return len(self._trials) >= self.total and not self._running

    def trials(self) -> list[Trial]:
        """All trials that were begun, in order."""
        return list(self._trials.values())

    def trial(self, number: int) -> Trial:
        """A trial by its number."""
        return self._trials[number]

    def ask(self) -> Trial | None:
        """The next trial; None if there are no more."""
        place = len(self._trials)
        if place >= self.total:
            return None
        if self._space.is_grid and not self._is_waiting:
            # a process that is killed right after this leaves the point waiting
            self._study.enqueue_trial(self._space.point(place))
        self._is_waiting = False
        self._study.sampler = _sampler(self._sweep, place)
        return self._begin(self._study.ask(self._distributions))

    def take_up(self) -> list[Trial]:
        """The trials that were under way when a sweep was stopped, in order."""
        for trial in self._running.values():
            self._study.sampler = _sampler(self._sweep, trial.number)
            for name, distribution in self._distributions.items():
                _draw(trial, name, distribution)  # what was not yet drawn when the process was killed
            self._begin(trial)
        return [self._trials[number] for number in self._running]

    def report(self, number: int, epoch: int, value: float) -> bool:
        """Notes what was measured after an epoch; whether the trial is to be given up, which then is noted as well.

        A trial that goes on from a checkpoint may tell of an epoch again.
        """
        trial, known = self._running[number], self._trials[number]
        if epoch < known.epochs:
            return False
        if epoch > known.epochs:
            trial.report(value, epoch)
            self._trials[number] = replace(known, epochs=epoch, last_value=value)
        if self._sweep.pruner == "none" or not trial.should_prune():
            return False
        self._end(number, "pruned")
        return True

    def complete(self, number: int, value: float) -> None:
        """Notes the value of a trial."""
        self._end(number, "complete", value)

    def fail(self, number: int, message: str) -> None:
        """Notes that a trial has failed."""
        self._running[number].set_user_attr(_MESSAGE, message)
        self._trials[number] = replace(self._trials[number], message=message)
        self._end(number, "failed")

    def _begin(self, trial: optuna.Trial) -> Trial:
        number = trial.number + 1
        before = self._trials.get(number, Trial(number, "running", {}))
        # in the order of the settings, whatever order the file has
        params = {name: trial.params[name] for name in self._distributions}
        self._running[number] = trial
        self._trials[number] = replace(before, params=params)
        return self._trials[number]

    def _end(self, number: int, state: State, value: float | None = None) -> None:
        from optuna.trial import TrialState

        states = {"complete": TrialState.COMPLETE, "pruned": TrialState.PRUNED, "failed": TrialState.FAIL}
        self._study.tell(self._running.pop(number), value, state=states[state])
        self._trials[number] = replace(self._trials[number], state=state, value=value)


def _storage(path: Path) -> Any:
    """Where Optuna keeps the study; opened here, as the name of a file may have in it what an address cannot."""
    import optuna
    from sqlalchemy.pool import StaticPool

    return optuna.storages.RDBStorage(
        "sqlite://",
        engine_kwargs={
            "creator": partial(sqlite3.connect, path, timeout=_BUSY_SECONDS, check_same_thread=False),
            "poolclass": StaticPool,  # one thread at a time, whichever, and no other process
        },
    )


def _draw(trial: optuna.Trial, name: str, distribution: Any) -> None:
    """Draws a value, unless the trial has one."""
    from optuna.distributions import CategoricalDistribution, IntDistribution

    if isinstance(distribution, CategoricalDistribution):
        trial.suggest_categorical(name, distribution.choices)
        return
    suggest: Any = trial.suggest_int if isinstance(distribution, IntDistribution) else trial.suggest_float
    suggest(name, distribution.low, distribution.high, step=distribution.step, log=distribution.log)


def _sampler(sweep: SweepConfig, number: int) -> Any:
    """What draws a trial; a new one for each, so that a sweep that goes on draws what it would have drawn."""
    import numpy as np
    import optuna

    seed = int(np.random.SeedSequence([sweep.seed, number]).generate_state(1)[0])
    if sweep.sampler == "tpe":
        return optuna.samplers.TPESampler(seed=seed, constant_liar=True)
    return optuna.samplers.RandomSampler(seed=seed)


def _pruner(name: str, max_epochs: int) -> Any:
    from optuna import pruners

    if name == "median":
        return pruners.MedianPruner()
    if name == "asha":
        return pruners.SuccessiveHalvingPruner(min_resource=1, reduction_factor=_REDUCTION)
    if name == "hyperband":
        return pruners.HyperbandPruner(min_resource=1, max_resource=max_epochs, reduction_factor=_REDUCTION)
    return pruners.NopPruner()


def _trial(frozen: optuna.trial.FrozenTrial) -> Trial:
    states: dict[str, State] = {"COMPLETE": "complete", "PRUNED": "pruned", "FAIL": "failed"}
    state = states.get(frozen.state.name, "running")
    last = frozen.last_step
    return Trial(
        frozen.number + 1,
        state,
        dict(frozen.params),
        frozen.value if state == "complete" else None,
        last or 0,
        None if last is None else frozen.intermediate_values[last],
        str(frozen.user_attrs.get(_MESSAGE, "")),
    )
