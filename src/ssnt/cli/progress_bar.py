"""How far a command has come with a file: a line that moves on a terminal, and nothing elsewhere."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

from ssnt.cli.output import is_terminal

if TYPE_CHECKING:
    from rich.progress import Progress

_GZIP = b"\x1f\x8b"


class ProgressBar:
    """Shows nothing; see :func:`make_bar`.

    Attributes:
        read_bytes: How much of the files has been read.
    """

    def __init__(self) -> None:
        self.read_bytes = 0

    @property
    def is_shown(self) -> bool:
        """Whether somebody sees it."""
        return False

    def watch(self, path: str, number: int, line: str) -> None:
        """Counts a line that is read."""
        self.read_bytes += (len(line) if line.isascii() else len(line.encode())) + 1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Leaves the terminal as it was."""

    def skip(self, read_bytes: int) -> None:
        """Moves the line over what was done before."""

    def begin(self, lines: int, read_bytes: int) -> None:
        """Notes where the work begins, to tell how fast it goes from there."""

    def show(self, lines: int, read_bytes: int) -> None:
        """Moves the line.

        Args:
            lines: How many lines are done.
            read_bytes: How much of the files that is.
        """


class RichBar(ProgressBar):
    """Keeps a line at the bottom of the terminal: bar, lines, lines per second, time left.

    Args:
        total: How many bytes there are to read; None: nobody knows.
    """

    def __init__(self, total: int | None) -> None:
        super().__init__()
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        self._total = total
        self._bar: Progress = Progress(
            BarColumn(bar_width=24),
            TextColumn("{task.fields[text]}"),
            console=Console(stderr=True, highlight=False),
            transient=True,
            redirect_stdout=False,  # results go there
            refresh_per_second=5,
        )
        self._task = self._bar.add_task("", total=total, text="")
        self.begin(0, 0)

    @property
    def is_shown(self) -> bool:
        """Yes."""
        return True

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        """Takes the line away."""
        self._bar.stop()

    def skip(self, read_bytes: int) -> None:
        """Moves the line over what was done before."""
        self._bar.update(self._task, completed=read_bytes, text="reading what is done already")

    def begin(self, lines: int, read_bytes: int) -> None:
        """Notes where the work begins, to tell how fast it goes from there."""
        self._start, self._first_line, self._first_byte = time.monotonic(), lines, read_bytes

    def show(self, lines: int, read_bytes: int) -> None:
        """Moves the line."""
        from ssnt.training.display import clock

        parts = [f"{lines} lines"]
        seconds = time.monotonic() - self._start
        if lines > self._first_line and seconds > 0:
            parts.append(f"{(lines - self._first_line) / seconds:.0f} lines/s")
        read = read_bytes - self._first_byte
        if self._total is not None and read > 0:
            parts.append(f"{clock(max(0, self._total - read_bytes) * seconds / read)} left")
        self._bar.update(self._task, completed=read_bytes, text="  ".join(parts))


def make_bar(files: Sequence[str], out: str | None) -> ProgressBar:
    """A bar, if standard error is a terminal and the results do not go to it.

    Args:
        files: What is read.
        out: The file that results go to; None: standard output.
    """
    if not sys.stderr.isatty() or ((out is None or out == "-") and is_terminal()):
        return ProgressBar()
    return RichBar(_text_size(files))


def _text_size(files: Sequence[str]) -> int | None:
    """How many bytes of text there are; None if that is not known before all was read."""
    total = 0
    for name in files:
        if not os.path.isfile(name):
            return None
        with open(name, "rb") as file:
            if file.read(len(_GZIP)) == _GZIP:
                return None
        total += os.path.getsize(name)
    return total
