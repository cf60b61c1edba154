"""A file of results that is written over hours: what is done survives whatever happens, and the rest is done later.

::

    FILE.part         what is done so far; it becomes FILE when all is
    FILE.part.json    the journal: what the outputs depend on, and how far input and output have come

The journal is written from time to time, after the part is on the disk, and replaced as a whole. What the part holds
beyond the journal is cut off when a run goes on, and done again: the result is the same, byte by byte.
"""

from __future__ import annotations

import errno
import json
import os
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

from ssnt.cli.output import counted
from ssnt.errors import ConfigError, StorageError
from ssnt.files import put_in_place, sync, write_json

SAVE_SECONDS = 2.0
"""So often the journal is written, at most: whoever is killed loses no more than this and what was under way."""

_KIND = "ssnt predict"
_FORMAT_VERSION = 1


@dataclass(frozen=True)
class Done:
    """How far a run has come.

    Attributes:
        chunks: Chunks of input that are done.
        lines: Lines in them.
        failed: Lines that could not be used.
        unknown: Inputs with symbols that the model does not know.
        unknown_tags: Inputs with tags that it does not know.
        input_sha256: Of all that was read for these chunks.
        part_bytes: How long the part is with their outputs.
    """

    chunks: int = 0
    lines: int = 0
    failed: int = 0
    unknown: int = 0
    unknown_tags: int = 0
    input_sha256: str = ""
    part_bytes: int = 0


@dataclass(frozen=True)
class Journal:
    """What is known of an unfinished run.

    Attributes:
        settings: What its outputs depend on besides the input, by name.
        done: How far it has come.
    """

    settings: Mapping[str, Any]
    done: Done


class Place:
    """Where an output file is made.

    Args:
        out: The file.
    """

    def __init__(self, out: str) -> None:
        self.out = out
        self.file = Path(os.path.realpath(out))  # what a link points to is replaced, not the link
        self.part = self.file.with_name(f"{self.file.name}.part")
        self.journal = self.file.with_name(f"{self.file.name}.part.json")

    @property
    def is_special(self) -> bool:
        """Whether it is a device or a pipe, which is written to as it is."""
        return self.file.exists() and not self.file.is_file() and not self.file.is_dir()

    def check(self, *, resume: bool, overwrite: bool) -> Journal | None:
        """Refuses to begin where an unfinished run is, unless it is to go on or to be thrown away.

        Returns:
            The journal of the run that is to go on; None if there is none.

        Raises:
            ConfigError: So; or what has the name of a part or a journal is something else.
        """
        if self.file.is_dir():
            raise ConfigError(f"{self.out}: is a directory; --out must name a file")
        found = self._found()
        if resume:
            return found
        if found is not None and not overwrite:
            raise ConfigError(
                f"{self.part}: holds an unfinished run ({counted(found.done.lines, 'line')} done); go on with it "
                "(--resume), throw it away and begin anew (--overwrite), or choose another --out"
            )
        return None

    @property
    def is_whole(self) -> bool:
        """Whether the file is there, and no part of a later one."""
        return self.file.exists() and not self.part.exists()

    def remove(self) -> None:
        """Removes an unfinished run."""
        for path in (self.part, self.journal):
            with suppress(FileNotFoundError):
                path.unlink()

    def read(self) -> Journal:
        """The journal.

        Raises:
            ConfigError: It is something else.
        """
        try:
            content = json.loads(self.journal.read_text(encoding="utf-8"))
            if content["kind"] != _KIND or content["format_version"] != _FORMAT_VERSION:
                raise ValueError
            return Journal(dict(content["settings"]), Done(**content["done"]))
        except (OSError, ValueError, KeyError, TypeError):
            raise ConfigError(
                f"{self.journal}: is no journal that this ssnt can read; move it and {self.part.name} elsewhere or "
                "remove them"
            ) from None

    def _found(self) -> Journal | None:
        """The journal of a run that is unfinished.

        Raises:
            ConfigError: The files are not ours, and nobody knows what they are worth.
        """
        journal = self.read() if self.journal.exists() else None
        if not self.part.exists():
            return None  # a journal alone was left by a run that was killed when it had just finished
        if journal is None and self.part.stat().st_size > 0:
            raise ConfigError(
                f"{self.part}: is in the way, and there is no journal beside it ({self.journal.name}) that says what "
                "it is; move it elsewhere or remove it"
            )
        return journal


class ResumableOutput:
    """Writes results to a part, which takes the name of the file in the end; used in a ``with`` block.

    After an error what is done is kept, with its journal; if nothing is done in a new run, nothing is left.

    Args:
        place: Where.
        settings: What the outputs depend on besides the input.
        begun: The journal of the run that goes on; None: a new one begins, and what is there is removed.
        header: What comes before all results.

    Attributes:
        done: How far it has come.

    Raises:
        ConfigError: The run was begun with other settings, its part is not whole, or another process is at it.
        StorageError: It cannot be written.
    """

    def __init__(self, place: Place, settings: Mapping[str, Any], begun: Journal | None, header: str = "") -> None:
        self._place = place
        self._settings = settings
        self._is_new = begun is None
        self._guard = threading.Lock()  # workers' results may still be coming in when the block ends
        self.done = self._saved = Done()
        self._last_save = time.monotonic()
        self._file = self._opened(begun)
        try:
            if begun is not None:
                self._go_on()
            else:
                self._begin(header)
        except BaseException as error:
            self._close()
            if begun is None:
                place.remove()
            if isinstance(error, OSError):
                raise self._explained(error) from error
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with self._guard:
            if error is None:
                self._finish()
                return
            if self.done.chunks:
                with suppress(OSError):  # what went wrong first is told; an older journal is good too
                    self.save()
            self._close()
            if self._is_new and not self.done.chunks:
                self._place.remove()

    def write(self, text: str, done: Done) -> None:
        """Writes the results of a chunk.

        Args:
            text: The results.
            done: How far the run has come with them; the part's length is filled in here.

        Raises:
            StorageError: They cannot be written; those before are kept.
        """
        with self._guard:
            try:
                self._file.write(text.encode())
                self._file.flush()
                self.done = replace(done, part_bytes=self._file.tell())
                if time.monotonic() - self._last_save >= SAVE_SECONDS:
                    self.save()
            except OSError as error:
                raise self._explained(error) from error

    def save(self) -> None:
        """Writes the journal, after the part, of which it only knows what has left the buffer."""
        sync(self._place.part)
        content = {"kind": _KIND, "format_version": _FORMAT_VERSION, "settings": dict(self._settings)}
        write_json(self._place.journal, content | {"done": asdict(self.done)})
        self._saved = self.done
        self._last_save = time.monotonic()

    @property
    def kept(self) -> str:
        """What is kept; empty if nothing is."""
        if not self.done.chunks:
            return ""
        return f"{counted(self._saved.lines, 'line')} done, kept in {self._place.part}"

    def _finish(self) -> None:
        try:
            self._file.flush()
            put_in_place(self._place.part, self._place.file)
            self._place.journal.unlink()
        except OSError as error:
            raise self._explained(error) from error
        finally:
            self._close()

    def _close(self) -> None:
        """Lets go of the part. What could not be written is still in the buffer, and fails again, which is no news."""
        with suppress(OSError):
            self._file.close()

    def _opened(self, begun: Journal | None) -> BinaryIO:
        """The part, which belongs to this process as long as it is open."""
        part = self._place.part
        try:
            part.parent.mkdir(parents=True, exist_ok=True)
            file = part.open("r+b" if begun is not None else "ab")
        except OSError as error:
            raise self._explained(error) from error
        if not _lock(file, part):
            file.close()
            raise ConfigError(f"{part}: another process is writing it; wait for it, or choose another --out")
        return file

    def _begin(self, header: str) -> None:
        self._place.journal.unlink(missing_ok=True)
        self._file.truncate(0)
        self._file.seek(0)
        self._file.write(header.encode())
        self._file.flush()
        self.done = Done(part_bytes=self._file.tell())
        self.save()

    def _go_on(self) -> None:
        """Takes off what the journal does not know of."""
        journal = self._place.read()  # again: another process may have been at it until it was locked
        check_settings(self._place, journal.settings, self._settings)
        self.done = self._saved = journal.done
        size = self._file.seek(0, os.SEEK_END)
        if size < self.done.part_bytes:
            raise ConfigError(
                f"{self._place.part}: has {size} bytes, and its journal says {self.done.part_bytes}: it was changed "
                "meanwhile; begin anew with --overwrite"
            )
        self._file.seek(self.done.part_bytes)
        self._file.truncate()

    def _explained(self, error: OSError) -> StorageError:
        if isinstance(error, StorageError):  # about the journal, which nobody has asked for
            message = str(error).replace(str(self._place.journal), self._place.out)
            return StorageError(error.errno or errno.EIO, message)
        what = f"{self._place.out}: could not be written ({error.strerror or error})"
        return StorageError(error.errno or errno.EIO, f"{what}; what was there before is unchanged")


def check_settings(place: Place, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """Refuses to go on with anything that would give other outputs.

    Raises:
        ConfigError: Something differs; all such are named.
    """
    differ = [
        f"{name} was {_shown(old.get(name))} and is {_shown(new.get(name))}"
        for name in dict.fromkeys([*new, *old])
        if old.get(name) != new.get(name)
    ]
    if differ:
        raise ConfigError(
            f"{place.part}: was begun otherwise: {'; '.join(differ)}; go on with what it was begun with, or begin anew "
            "with --overwrite"
        )


def _shown(value: Any) -> str:
    text = "not given" if value is None else str(value)
    return text if len(text) <= 40 else f"{text[:12]}..."


def _lock(file: BinaryIO, path: Path) -> bool:
    """Keeps other processes out for as long as the file is open; whether none was in."""
    try:
        import fcntl
    except ImportError:  # a system without such locks
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return True
    # whoever had it may have finished meanwhile and given it its name
    return path.exists() and os.path.samestat(os.fstat(file.fileno()), path.stat())
