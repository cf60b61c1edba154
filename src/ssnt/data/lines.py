"""The lines of a text file, one after another, and what is wrong with them."""

from __future__ import annotations

import gzip
import io
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias, cast

from ssnt.data.text import nfc
from ssnt.errors import DataError

STDIN = "-"
"""The name that stands for standard input."""

Watch: TypeAlias = Callable[[str, int, str], None]
"""Sees a file's name, a line's number and its text before normalisation."""

_GZIP = b"\x1f\x8b"  # no UTF-8 text begins so
_BOM = b"\xef\xbb\xbf"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that is wrong with a file.

    Attributes:
        path: The file, as it was named.
        line: The line, counted from 1; 0 if it is about the whole file.
        message: What is wrong, what was expected and what to do.
        is_error: Whether the line cannot be used; otherwise it is a warning.
    """

    path: str
    line: int
    message: str
    is_error: bool = True

    def __str__(self) -> str:
        where = f"{shown(self.path)}:{self.line}" if self.line else shown(self.path)
        return f"{where}: {self.message}"

    def as_error(self) -> DataError:
        """The exception that says the same."""
        return DataError(str(self))


def shown(path: str) -> str:
    """How a file is called in messages."""
    return "<stdin>" if path == STDIN else path


def numbered_lines(path: str) -> Iterator[tuple[int, str]]:
    r"""Reads a text file line by line, in NFC; the first line is 1.

    Files packed with gzip are unpacked, whatever their name; ``-`` is standard input. A byte order mark is dropped, and
    so is a ``\r`` at the end of a line. Only ``\n`` ends a line.

    Raises:
        DataError: The file cannot be read, or a line is not UTF-8.
    """
    for number, line in lines_or_problems(path):
        if isinstance(line, Problem):
            raise line.as_error()
        yield number, line


def lines_or_problems(path: str, watch: Watch | None = None) -> Iterator[tuple[int, str | Problem]]:
    """Reads a text file like :func:`numbered_lines`, with a problem in the place of a line that is not UTF-8.

    A problem with the file itself, such as that it does not exist, is the last thing that is yielded.
    """
    number = 0
    try:
        with _open(path) as file:
            for raw in file:
                number += 1
                if number == 1 and raw.startswith(_UTF16):
                    yield 1, Problem(path, 1, "this is UTF-16, not UTF-8; convert it, such as with iconv -t UTF-8")
                    return
                start = len(_BOM) if number == 1 and raw.startswith(_BOM) else 0
                # a line may end in \n, in \r\n or with the file
                content = raw[start:].removesuffix(b"\n").removesuffix(b"\r")
                try:
                    line = content.decode("utf-8")
                except UnicodeDecodeError as error:
                    yield number, Problem(path, number, _not_utf8(error))
                    continue
                if watch is not None:
                    watch(path, number, line)
                yield number, nfc(line)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        yield number + 1, Problem(path, number + 1, f"the packed file is damaged or cut off ({error}); get it again")
    except OSError as error:
        yield 0, Problem(path, 0, _unreadable(error))


def _not_utf8(error: UnicodeDecodeError) -> str:
    byte = error.object[error.start]
    return (
        f"not valid UTF-8: byte 0x{byte:02x} at place {error.start + 1} of the line ({error.reason}); "
        "convert the file, such as with iconv -f LATIN1 -t UTF-8"
    )


def _unreadable(error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return "no such file"
    if isinstance(error, IsADirectoryError):
        return "this is a directory; expected a file"
    return f"cannot be read ({error.strerror or error})"


@contextmanager
def _open(path: str) -> Iterator[io.BufferedReader]:
    """Opens a file for reading bytes, unpacked; standard input stays open afterwards."""
    if path == STDIN:
        yield _unpacked(_standard_input())
        return
    with open(path, "rb") as file, _unpacked(file) as unpacked:
        yield unpacked


def _unpacked(file: io.BufferedReader) -> io.BufferedReader:
    if file.peek(len(_GZIP)).startswith(_GZIP):
        return io.BufferedReader(cast(io.RawIOBase, gzip.GzipFile(fileobj=file)))
    return file


def _standard_input() -> io.BufferedReader:
    raw = getattr(sys.stdin, "buffer", None)
    if hasattr(raw, "peek"):
        return cast(io.BufferedReader, raw)
    # somebody has put something else there, such as a test
    if raw is not None:
        content = raw.read()
    else:
        content = (sys.stdin.read() if sys.stdin else "").encode("utf-8", "surrogatepass")
    return io.BufferedReader(cast(io.RawIOBase, io.BytesIO(content)))
