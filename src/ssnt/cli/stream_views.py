"""What a stream looks like: committed text alone, JSON updates, or one line that is rewritten."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ssnt.pipeline import TextStream, TextUpdate


class View(ABC):
    """Shows the updates of one input after another.

    Attributes:
        takes_keys: Whether single keys are read from a terminal, rather than lines.
    """

    takes_keys = False

    @abstractmethod
    def show(self, character: str, update: TextUpdate) -> None:
        """Shows what reading a character has brought."""

    @abstractmethod
    def end(self, update: TextUpdate, stream: TextStream) -> None:
        """Shows the rest of an input's output, after its last character."""


class TextView(View):
    """Committed text, at once; a line for each input."""

    def show(self, character: str, update: TextUpdate) -> None:
        """Writes what was committed."""
        if update.committed:
            print(update.committed, end="", flush=True)

    def end(self, update: TextUpdate, stream: TextStream) -> None:
        """Writes the rest and ends the line."""
        print(update.committed, flush=True)


class JsonView(View):
    """A JSON object for each update."""

    def __init__(self) -> None:
        self._line, self._read = 1, 0

    def show(self, character: str, update: TextUpdate) -> None:
        """Writes an object, if a symbol was read."""
        if update.read > self._read:
            self._write(update, is_end=False)

    def end(self, update: TextUpdate, stream: TextStream) -> None:
        """Writes the last object of an input, with its log probability."""
        self._write(update, is_end=True, log_prob=stream.log_prob, unknown=stream.unknown)
        self._line, self._read = self._line + 1, 0

    def _write(self, update: TextUpdate, *, is_end: bool, **more: float | None) -> None:
        from ssnt.decode.formats import to_json_line

        self._read = update.read
        record = {
            "line": self._line,
            "read": update.read,
            "committed": update.committed,
            "tentative": update.tentative,
            "delays": update.delays,
            "is_end": is_end,
        }
        print(to_json_line(record | more), flush=True)


class LiveView(View):
    """Input and output on one line of a terminal, rewritten with every update; what is tentative is faint."""

    def __init__(self) -> None:
        from rich.console import Console

        self._console = Console(highlight=False, soft_wrap=True, force_terminal=True)
        self._source = self._committed = ""
        has_keys = find_spec("termios") is not None  # not on every system
        self.takes_keys = has_keys and sys.stdin.isatty() and sys.stdout.isatty()

    def show(self, character: str, update: TextUpdate) -> None:
        """Rewrites the line."""
        self._source += character
        self._committed += update.committed
        self._draw(update.tentative)

    def end(self, update: TextUpdate, stream: TextStream) -> None:
        """Writes the line for the last time and goes to the next."""
        self._committed += update.committed
        self._draw("")
        self._source = self._committed = ""
        print(flush=True)

    def _draw(self, tentative: str) -> None:
        from rich.control import Control
        from rich.segment import ControlType
        from rich.text import Text

        line = Text.assemble((f"{self._source} → ", ""), (self._committed, "bold"), (tentative, "dim"))
        while line.cell_len >= self._console.width:  # a longer line would run over and could not be rewritten
            line = line[1 + (line.cell_len - self._console.width) // 2 :]
        self._console.control(Control(ControlType.CARRIAGE_RETURN, (ControlType.ERASE_IN_LINE, 2)))
        self._console.print(line, end="")
        self._console.file.flush()


@contextmanager
def open_view(form: str) -> Iterator[View]:
    """Gives the view of a name; a terminal that was set to single keys is set back afterwards."""
    views: dict[str, Callable[[], View]] = {"text": TextView, "jsonl": JsonView, "live": LiveView}
    view = views[form]()
    if not view.takes_keys:
        yield view
        return
    import termios
    import tty

    settings = termios.tcgetattr(sys.stdin.fileno())
    tty.setcbreak(sys.stdin.fileno(), termios.TCSADRAIN)  # what was typed already stays
    try:
        print("Type; Enter ends an input, Ctrl-D ends all.", file=sys.stderr, flush=True)
        yield view
    finally:
        termios.tcsetattr(sys.stdin.fileno(), termios.TCSADRAIN, settings)
