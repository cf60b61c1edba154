"""What the user sees of a training: a line that moves on a terminal, a line for each epoch elsewhere."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ssnt.training.progress import Row

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID


@dataclass(frozen=True)
class Moment:
    """A training as it is shown.

    Attributes:
        epoch: The epoch, counted from 1.
        max_epochs: How many there are at most.
        epoch_step: Steps done in it.
        epoch_steps: Steps that it has.
        loss: Mean loss of a pair in this epoch so far.
        pairs_per_second: Training speed since the start.
        seconds_left: How long it still takes if it goes on to the last epoch; None: not known yet.
        is_validating: Whether it is measuring rather than training.
    """

    epoch: int
    max_epochs: int
    epoch_step: int
    epoch_steps: int
    loss: float
    pairs_per_second: float
    seconds_left: float | None
    is_validating: bool = False


class Display:
    """Shows nothing; the others show more.

    Attributes:
        interval: Seconds between two calls of :meth:`show` that are worth the trouble; None: it shows nothing.
    """

    interval: float | None = None

    def note(self, text: str) -> None:
        """Says something that the user should know."""

    def show(self, moment: Moment) -> None:
        """Shows where the training is."""

    def add(self, row: Row, max_epochs: int) -> None:
        """Shows an epoch that is over."""

    def show_part(self, overall: str, text: str, *, is_done: bool) -> None:
        """Shows what one of several trainings that go on side by side has come to."""

    def close(self) -> None:
        """Leaves the terminal as it was."""


class PlainDisplay(Display):
    """Writes a line for each epoch to standard error."""

    def note(self, text: str) -> None:
        """Writes a line for each line of a text."""
        for line in text.splitlines():
            print(f"ssnt: {line}", file=sys.stderr, flush=True)

    def add(self, row: Row, max_epochs: int) -> None:
        """Writes the line of an epoch."""
        print(row_text(row, max_epochs), file=sys.stderr, flush=True)

    def show_part(self, overall: str, text: str, *, is_done: bool) -> None:
        """Writes a line for each training that has ended."""
        if is_done:
            print(f"{overall}  {text}", file=sys.stderr, flush=True)


class RichDisplay(Display):
    """Keeps a line at the bottom of the terminal: bar, loss, dev metric, examples per second, time left."""

    interval = 0.2

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        self._console = Console(stderr=True, highlight=False)
        self._bar: RichProgress = Progress(
            TextColumn("{task.fields[epoch]}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[text]}"),
            console=self._console,
            transient=True,
            refresh_per_second=5,
        )
        self._task: TaskID | None = None
        self._dev = ""

    def note(self, text: str) -> None:
        """Writes above the line that moves."""
        self._print(text)

    def show(self, moment: Moment) -> None:
        """Moves the line."""
        doing = "validating" if moment.is_validating else f"{moment.pairs_per_second:.0f} examples/s"
        left = "" if moment.seconds_left is None else f"at most {clock(moment.seconds_left)} left"
        parts = [f"loss {moment.loss:.4f}", self._dev, doing, left]
        self._bar.update(
            self._started(),
            total=moment.epoch_steps,
            completed=moment.epoch_step,
            epoch=f"epoch {moment.epoch}/{moment.max_epochs}",
            text="  ".join(filter(None, parts)),
        )

    def add(self, row: Row, max_epochs: int) -> None:
        """Writes the line of an epoch above the line that moves."""
        if row.value is not None:
            self._dev = f"{row.metric} {row.value:.4f}"
        self._print(row_text(row, max_epochs), "bold" if row.is_best else "")

    def show_part(self, overall: str, text: str, *, is_done: bool) -> None:
        """Moves the line; a training that has ended is written above it."""
        if is_done:
            self._print(text)
        done, _, total = overall.partition(" ")[0].partition("/")
        self._bar.update(self._started(), total=int(total), completed=int(done), epoch=overall, text=text)

    def _print(self, text: str, style: str = "") -> None:
        from rich.text import Text

        self._console.print(Text(text, style), soft_wrap=True)

    def _started(self) -> TaskID:
        if self._task is None:
            self._bar.start()
            self._task = self._bar.add_task("", epoch="", text="")
        return self._task

    def close(self) -> None:
        """Takes the line away."""
        if self._task is not None:
            self._bar.stop()
            self._task = None


def choose_display(display: bool | None) -> Display:
    """The display that is asked for; None: on a terminal a line that moves, elsewhere plain lines."""
    if display is False:
        return Display()
    if display or sys.stderr.isatty():
        return RichDisplay()
    return PlainDisplay()


def row_text(row: Row, max_epochs: int) -> str:
    """The line of an epoch."""
    parts = [f"epoch {row.epoch:>{len(str(max_epochs))}}/{max_epochs}", f"loss {row.train_loss:.4f}"]
    if row.dev_perplexity is not None:
        parts.append(f"dev perplexity {row.dev_perplexity:.4f}")
    if row.value is not None and (row.metric, row.value) != ("perplexity", row.dev_perplexity):
        where = "train" if row.dev_perplexity is None else "dev"
        parts.append(f"{where} {row.metric} {row.value:.4f}")
    parts += [f"{row.pairs_per_second:.0f} examples/s", clock(row.seconds)]
    return "  ".join(parts) + ("  best" if row.is_best else "")


def clock(seconds: float) -> str:
    """A time as people read it, such as ``1:02:03``."""
    whole = round(seconds)
    minutes, rest = whole // 60, whole % 60
    return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}" if minutes >= 60 else f"{minutes}:{rest:02d}"


class Pace:
    """How fast a training goes: measured from when this process took it up.

    Attributes:
        train_seconds: Time spent in steps.
    """

    def __init__(self) -> None:
        self.train_seconds = 0.0
        self._pairs = 0
        self._epoch_pairs = 0
        self._epoch_seconds = 0.0
        self._steps = 0
        self._start = self._last = time.perf_counter()

    def begin(self) -> None:
        """Leaves out the time since the last step, such as for a validation."""
        self._last = time.perf_counter()

    def step(self, pairs: int) -> float:
        """Notes a step, and gives the time."""
        now = time.perf_counter()
        self.train_seconds += now - self._last
        self._epoch_seconds += now - self._last
        self._last = now
        self._pairs += pairs
        self._epoch_pairs += pairs
        self._steps += 1
        return now

    def elapsed(self) -> float:
        """Seconds since this process took the training up."""
        return time.perf_counter() - self._start

    def pairs_per_second(self) -> float:
        """Speed of training since this process took it up."""
        return self._pairs / self.train_seconds if self.train_seconds > 0 else 0.0

    def end_epoch(self) -> float:
        """Speed in the epoch that is over."""
        speed = self._epoch_pairs / self._epoch_seconds if self._epoch_seconds > 0 else 0.0
        self._epoch_pairs, self._epoch_seconds = 0, 0.0
        return speed

    def seconds_left(self, steps: int) -> float | None:
        """How long so many steps take, at the pace so far, validations included."""
        return steps * self.elapsed() / self._steps if self._steps else None
