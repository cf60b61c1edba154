"""Standard input as it arrives: what is there is answered before more is waited for."""

from __future__ import annotations

import codecs
import io
import itertools
import select
import sys
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, BinaryIO

from ssnt.errors import DataError
from ssnt.interrupts import Stop, StopNow

if TYPE_CHECKING:
    from ssnt.config import DataConfig
    from ssnt.data.lines import Problem, Watch
    from ssnt.types import Example

_CHUNK = 1 << 16
_POLL = 0.1  # seconds
_GZIP = b"\x1f\x8b"
_STDIN = "-"
_END_OF_TRANSMISSION = "\x04"


def arriving_bytes() -> Iterator[bytes]:
    """Pieces of standard input, each as soon as it is there."""
    source: Any = sys.stdin.buffer
    while piece := source.read1(_CHUNK):
        yield piece


def arriving_text(*, is_typed: bool = False) -> Iterator[str]:
    r"""The characters of standard input, each as soon as it is there; ``\r\n`` is one ``\n``.

    Args:
        is_typed: Whether these are single keys on a terminal: Enter is then ``\r`` or ``\n``, Ctrl-D ends the text, and
            keys that write nothing are passed over.

    Raises:
        DataError: It is not UTF-8; what comes before is given first.
    """
    after_return = False
    for text in _decoded():
        if is_typed:
            keys, is_over, _ = text.replace("\r", "\n").partition(_END_OF_TRANSMISSION)
            yield from (key for key in keys if key == "\n" or unicodedata.category(key) != "Cc")
            if is_over:
                return
            continue
        for character in text:
            if after_return and character != "\n":
                yield "\r"
            after_return = character == "\r"
            if not after_return:
                yield character
    if after_return:
        yield "\r"


def _decoded() -> Iterator[str]:
    """Standard input as text, in pieces; a byte order mark is dropped."""
    decoder = codecs.getincrementaldecoder("utf-8-sig")()
    line = 1
    for piece in itertools.chain(arriving_bytes(), [None]):
        try:
            text = decoder.decode(piece or b"", final=piece is None)
        except UnicodeDecodeError as error:
            good, byte = error.object[: error.start], error.object[error.start]
            yield good.decode("utf-8")
            raise DataError(
                f"<stdin>:{line + good.count(10)}: not valid UTF-8: byte 0x{byte:02x} ({error.reason}); "
                "convert the input to UTF-8"
            ) from None
        line += text.count("\n")
        yield text


def chunks(
    path: str,
    data: DataConfig,
    size: int,
    *,
    needs_target: bool,
    needs_tags: bool | None = None,
    patient_until: Stop | None = None,
    watch: Watch | None = None,
) -> Iterator[list[Example | Problem]]:
    """The examples of a file, several at a time, with a problem in the place of each bad line.

    Of a file there are always ``size`` together. From standard input come those that have arrived, so that whoever
    writes a line and waits gets an answer, unless ``patient_until`` is given.

    Args:
        path: The file; ``-`` for standard input.
        data: How it is laid out.
        size: How many examples there are together, at most.
        needs_target: Whether every example must have a target.
        needs_tags: Whether every line must say what its tags are; None: what the layout says; False: tags are ignored.
        patient_until: If given, ``size`` examples are waited for also from standard input, until it is requested to
            stop.
        watch: Called with the file, number and text of every line before it is normalised.

    Raises:
        StopNow: So.
    """
    from ssnt.data.readers import iterate

    with _tapped_input(patient_until) if path == _STDIN else nullcontext() as tap:
        chunk: list[Example | Problem] = []
        for one in iterate(path, data, needs_target=needs_target, needs_tags=needs_tags, watch=watch):
            chunk.append(one)
            is_waited_for = tap is not None and patient_until is None and not tap.has_arrived(one.line + 1)
            if len(chunk) >= size or is_waited_for:
                yield chunk
                chunk = []
        if chunk:
            yield chunk


class _Tap(io.RawIOBase):
    """Passes bytes on as they arrive and counts the lines among them, until there is a request to stop."""

    def __init__(self, source: BinaryIO, stop: Stop | None) -> None:
        self._source = source
        self._stop = stop
        self._lines = 0
        self._is_packed: bool | None = None

    def has_arrived(self, line: int) -> bool:
        """Whether reading this line, counted from 1, would not have to wait."""
        # the lines of packed input are not to be seen here; and nobody types that
        return bool(self._is_packed) or line <= self._lines

    def readable(self) -> bool:
        """Yes."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fills the buffer with what is there, or waits if nothing is."""
        while self._stop is not None:
            if self._stop.is_requested:
                raise StopNow
            if _is_ready(self._source, _POLL):
                break
        view = memoryview(buffer)
        piece = self._source.read1(len(view))  # type: ignore[attr-defined]
        if self._is_packed is None:
            self._is_packed = piece.startswith(_GZIP)
        self._lines += piece.count(b"\n")
        view[: len(piece)] = piece
        return len(piece)


def _is_ready(source: BinaryIO, seconds: float) -> bool:
    """Waits for something to read; whether it is there, or this system cannot say."""
    try:
        return bool(select.select([source], [], [], seconds)[0])
    except (OSError, ValueError):  # such as what stands for standard input in tests
        return True


@contextmanager
def _tapped_input(stop: Stop | None) -> Iterator[_Tap]:
    """Puts a tap on standard input for whoever reads it meanwhile.

    Whoever waits for more in a thread of its own must not be left there: Python cannot end while one reads.
    """
    before = sys.stdin
    tap = _Tap(before.buffer, stop)
    sys.stdin = io.TextIOWrapper(io.BufferedReader(tap))
    try:
        yield tap
    finally:
        sys.stdin = before
