"""Where results go: standard output, line by line if somebody waits for them, or a file that is whole or not there."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TextIO

from ssnt.files import atomic_path


@contextmanager
def results(out: str | None) -> Iterator[TextIO]:
    """Gives a text file to write results to: standard output, or a file that takes its name when all went well.

    Raises:
        StorageError: The file cannot be written.
    """
    if out is None or out == "-":
        yield sys.stdout
        return
    with atomic_path(out) as partial, partial.open("w", encoding="utf-8", newline="\n") as file:
        yield file


def is_terminal() -> bool:
    """Whether somebody looks at the results, rather than a program or a file."""
    return sys.stdout.isatty()


def counted(number: int, what: str) -> str:
    """A number with what it counts, such as ``1 line`` and ``2 lines``."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]], *, numeric: Sequence[int] = ()) -> None:
    """Prints a table: with a rule and colours on a terminal, else columns aligned with spaces.

    Args:
        header: The names of the columns.
        rows: The cells.
        numeric: Which columns hold numbers, and are set flush right.
    """
    if is_terminal():
        from rich.box import SIMPLE_HEAD
        from rich.console import Console
        from rich.table import Table

        table = Table(box=SIMPLE_HEAD)
        for place, name in enumerate(header):
            table.add_column(name, justify="right" if place in numeric else "left", overflow="fold")
        for cells in rows:
            table.add_row(*(cell.replace("[", r"\[") for cell in cells))
        Console().print(table)
        return
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    for cells in (header, *rows):
        padded = [
            cell.rjust(width) if place in numeric else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ]
        print("  ".join(padded).rstrip())
