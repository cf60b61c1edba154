"""How far a training has come: all that has to be remembered besides weights and the optimiser's state."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from ssnt.config import Config
from ssnt.metrics import METRICS

HARDLY = 0.1
"""With a smaller share of outputs right, perplexity says more about what was learnt."""

_SHARES = ("accuracy", "macro_accuracy", "wer")


@dataclass(frozen=True)
class Kept:
    """The weights after one validation, which are kept because they are among the best.

    Attributes:
        epoch: The epoch that they are from.
        value: Their value in the metric that decides.
        perplexity: Their dev perplexity, which decides between equal values; infinite without development data.
        file: The file that holds them, in the run's directory.
    """

    epoch: int
    value: float
    perplexity: float
    file: str


@dataclass(frozen=True)
class Row:
    """One line of the log: an epoch, and what was measured after it.

    Attributes:
        epoch: The epoch, counted from 1.
        step: Steps since the beginning.
        learning_rate: The step size at the last step.
        train_loss: Mean of ``-log p(y|x)`` over the epoch's pairs, with dropout and while the weights changed.
        train_perplexity: The same for each target symbol, as a perplexity.
        dev_perplexity: On the development data; None without any, or after an epoch without validation.
        metric: The metric that decides; empty after an epoch without validation.
        value: Its value.
        is_best: Whether these weights are better than all before.
        pairs_per_second: Training speed.
        seconds: Time since the beginning, interruptions not counted.
    """

    epoch: int
    step: int
    learning_rate: float
    train_loss: float
    train_perplexity: float
    dev_perplexity: float | None
    metric: str
    value: float | None
    is_best: bool
    pairs_per_second: float
    seconds: float


@dataclass
class Progress:
    """Where a training is.

    Attributes:
        epoch: The epoch that it is in, counted from 1.
        epoch_step: Steps done in this epoch.
        step: Steps done since the beginning.
        loss_sums: For each process the sum of its pairs' losses in this epoch.
        pairs: Pairs of this epoch so far, over all processes.
        symbols: Their target symbols, end symbols included.
        validated_step: The step at which there was a validation last; 0: there was none.
        best_value: The best value so far; None before the first validation.
        best_perplexity: The lowest dev perplexity so far.
        since_best: Validations since the last improvement.
        kept: The best weights, best first.
        plateau_scale: What the schedule ``plateau`` multiplies the step size by.
        plateau_count: Validations without improvement that count for it.
        seconds: Time spent so far; in the log only.
        rows: The log.
    """

    epoch: int = 1
    epoch_step: int = 0
    step: int = 0
    loss_sums: list[float] = field(default_factory=lambda: [0.0])
    pairs: int = 0
    symbols: int = 0
    validated_step: int = 0
    best_value: float | None = None
    best_perplexity: float = math.inf
    since_best: int = 0
    kept: list[Kept] = field(default_factory=list)
    plateau_scale: float = 1.0
    plateau_count: int = 0
    seconds: float = 0.0
    rows: list[Row] = field(default_factory=list)

    def to_state(self) -> dict[str, Any]:
        """The progress as plain values, for a checkpoint."""
        return asdict(self)

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """What :meth:`to_state` gave."""
        kept, rows = [Kept(**one) for one in state["kept"]], [Row(**one) for one in state["rows"]]
        return cls(**{**state, "kept": kept, "rows": rows})

    def begin_next_epoch(self) -> None:
        """Moves to the beginning of the next epoch."""
        self.epoch += 1
        self.epoch_step = self.pairs = self.symbols = 0
        self.loss_sums = [0.0] * len(self.loss_sums)

    def is_out_of_steps(self, config: Config) -> bool:
        """Whether there may be no more steps, whatever the epoch."""
        return config.training.max_steps is not None and self.step >= config.training.max_steps

    def end_reason(self, config: Config) -> str | None:
        """Why the training is over; None if it is not."""
        if self.is_out_of_steps(config) and self.validated_step == self.step:
            return f"training.max_steps ({config.training.max_steps}) is reached"
        if self.epoch > config.training.max_epochs:
            return f"training.max_epochs ({config.training.max_epochs}) is reached"
        patience = config.validation.patience
        if patience is not None and self.since_best >= patience:
            return f"the best value was {self.since_best} validations ago (validation.patience)"
        return None

    def note_value(self, value: float, metric: str, perplexity: float | None = None) -> bool:
        """Takes notice of a validation's value; says whether it is an improvement.

        It is one if the value is better than all before. As long as hardly anything is right, a lower dev perplexity is
        one too: a model may learn for many epochs before its first output is right.
        """
        is_better = self.best_value is None or _badness(value, metric) < _badness(self.best_value, metric)
        if is_better:
            self.best_value = value
        if perplexity is not None and perplexity < self.best_perplexity:
            self.best_perplexity = perplexity
            is_better = is_better or _is_hardly_right(self.best_value, metric)
        self.since_best = 0 if is_better else self.since_best + 1
        self.validated_step = self.step
        return is_better

    def keep(self, new: Kept, metric: str, count: int) -> bool:
        """Puts weights among the ``count`` best, where they belong there; says whether they are the very best.

        Of equal values, as accuracies often are, the one with the lower perplexity is better, and then the earlier one.
        """

        def order(one: Kept) -> tuple[float, float, int]:
            return _badness(one.value, metric), _badness(one.perplexity, "perplexity"), one.epoch

        self.kept = sorted([*self.kept, new], key=order)[:count]
        return self.kept[0] is new


def _is_hardly_right(value: float | None, metric: str) -> bool:
    """Whether a value says that next to no output is right; never for metrics that tell degrees of wrong apart."""
    if value is None or math.isnan(value) or metric not in _SHARES:
        return False
    share_right = value if METRICS[metric].is_higher_better else 1.0 - value
    return share_right < HARDLY


def _badness(value: float, metric: str) -> float:
    if math.isnan(value):
        return math.inf
    return -value if METRICS[metric].is_higher_better else value
