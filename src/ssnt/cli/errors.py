"""Errors as the user of the command line meets them: one clear message and an exit code."""

from __future__ import annotations

import codecs
import errno
import os
import re
import sys
import traceback
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from ssnt.__about__ import __version__
from ssnt.errors import SsntError, nearest_name

_ESCAPING = "ssnt-escape"
_PYTHON = re.compile(r", (?:resume=True|overwrite=True|out)(?=\))| \((?:resume|overwrite)=True\)")
_NO_CHOICE = re.compile(r"(?P<where>.*: )'(?P<value>.*?)' is not one of (?P<choices>'.*')\.?", re.DOTALL)
_NO_ROOM = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT)

SOME_FAILED = 1
MISTAKE = 2
DEFECT = 70
INTERRUPTED = 130
READER_GONE = 141
"""What a shell reports for any program whose reader has gone: 128 and the number of SIGPIPE."""


def call(function: Callable[[], Any], *, debug: bool) -> int:
    """Calls a function, tells its errors on standard error, and returns the exit code.

    Args:
        function: What to run. If it returns a number, that is the exit code.
        debug: Whether a traceback is printed for errors that are not defects, too.
    """
    try:
        code = function()
        sys.stdout.flush()
    except KeyboardInterrupt as interrupt:
        # a training that was stopped has said already how to go on
        return _after(INTERRUPTED, "" if str(interrupt) else "ssnt: stopped", debug)
    except SsntError as error:
        return _after(MISTAKE, _marked(_without_python(str(error))), debug)
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            return _after(READER_GONE, "", debug) if _reader_has_gone() else _defect()
        return _defect() if error.errno is None else _after(MISTAKE, _marked(_sentence(error)), debug)
    except Exception as error:
        if _is_the_parsers(error):
            raise
        return _defect()
    return code if isinstance(code, int) else 0


def tell(message: str, kind: str = "error") -> None:
    """Prints a message on standard error, each of its lines marked as ours."""
    print(_marked(message, kind), file=sys.stderr, flush=True)


def _marked(message: str, kind: str = "error") -> str:
    return "\n".join(f"ssnt: {kind}: {line}" for line in message.splitlines())


def _without_python(message: str) -> str:
    """A message of the library without what only a program could do: it names options with their arguments' names."""
    return _PYTHON.sub("", message)


def usage_message(message: str) -> str:
    """What the parser of the command line says is wrong, in our words."""
    message = message.replace(": Value error, ", ": ", 1)  # of the library that checks values for the parser
    if found := _NO_CHOICE.fullmatch(message):
        choices = found["choices"].strip("'").split("', '")
        nearest = nearest_name(found["value"], choices)
        hint = f"; did you mean {nearest!r}?" if nearest else ""
        return f"{found['where']}{found['value']!r} is not one of {found['choices']}{hint}"
    return message


def show_warnings() -> None:
    """Makes warnings one line each, without the place in the code that a user can do nothing with."""
    plain = warnings.showwarning
    ours = os.path.dirname(os.path.dirname(__file__)) + os.sep

    def show(message: Any, category: Any, filename: str, lineno: int, *rest: Any, **more: Any) -> None:
        if category.__module__.partition(".")[0] == "ssnt" or filename.startswith(ours):
            tell(str(message), "warning")
        else:
            plain(message, category, filename, lineno, *rest, **more)

    warnings.showwarning = show


def use_utf8() -> None:
    """Makes both outputs UTF-8, whatever the locale says.

    Names of files that are not text in this locale come out as the bytes that they are; what else UTF-8 cannot say
    becomes an escape.
    """
    codecs.register_error(_ESCAPING, _escaped)
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, ValueError):  # what stands for it in tests has no settings, or is closed
            stream.reconfigure(encoding="utf-8", errors=_ESCAPING, newline="\n")  # type: ignore[union-attr]


def _escaped(error: UnicodeError) -> tuple[str | bytes, int]:
    try:
        return codecs.lookup_error("surrogateescape")(error)
    except UnicodeError:
        return codecs.lookup_error("backslashreplace")(error)


def _after(code: int, message: str, debug: bool) -> int:
    """Tells what happened, and lets go of an output that cannot be written, so that nothing complains at exit."""
    if debug:
        traceback.print_exc()
    with suppress(OSError):
        print(message, end="\n" if message else "", file=sys.stderr, flush=True)
    try:
        sys.stdout.flush()
    except OSError:
        # The interpreter flushes once more when it ends, and would print what went wrong.
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return code


def _defect() -> int:
    traceback.print_exc()
    message = f"this is a defect in ssnt {__version__}, not a mistake of yours; please report it with the lines above"
    print(f"ssnt: {message}", file=sys.stderr, flush=True)
    return DEFECT


def _sentence(error: OSError) -> str:
    what = error.strerror or str(error)
    if isinstance(error.filename, str | bytes):
        return f"{os.fsdecode(error.filename)}: {what}"
    # files are opened by name and written by those who tell which; what is left has no name
    return f"standard output: {what}" if error.errno in _NO_ROOM else what


def _reader_has_gone() -> bool:
    """Whether nobody reads standard output any more; any other broken pipe is a defect of ours."""
    try:
        import select

        poll = select.poll()
        poll.register(sys.stdout.fileno(), 0)
        return any(events & (select.POLLERR | select.POLLHUP) for _, events in poll.poll(0))
    except (AttributeError, OSError, ValueError):
        return True  # this system cannot say


def _is_the_parsers(error: Exception) -> bool:
    """Whether an exception is one that Typer raises to end a command, such as for a wrong option."""
    import typer

    # whichever of click and its copy in Typer it is: Exit is a RuntimeError, usage errors have an exit code and show
    return isinstance(error, typer.Exit | typer.Abort) or hasattr(error, "format_message")
