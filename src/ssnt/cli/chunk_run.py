"""The chunks of a file, answered in this process or by the workers of an engine, and written in order."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from ssnt.cli.progress_bar import ProgressBar
from ssnt.cli.resumable_output import Done
from ssnt.errors import ConfigError, ModelError
from ssnt.interrupts import Stop, StopNow

if TYPE_CHECKING:
    from ssnt.cli.inputs import Inputs
    from ssnt.data.lines import Problem
    from ssnt.engines.base import Engine, Job, Report
    from ssnt.pipeline.bulk import Answer, BulkSettings
    from ssnt.types import Example

CHUNKS_AHEAD = 8
"""So many chunks a worker may be begun while the oldest is not finished: their results wait in memory."""


class Output(Protocol):
    """Where results go."""

    def write(self, text: str, done: Done) -> None:
        """Writes the results of a chunk, with how far the run has come."""
        ...


@dataclass(frozen=True)
class Chunk:
    """Some lines of a file.

    Attributes:
        number: Which chunk, counted from 0.
        lines: The lines.
        sha256: Of all that was read up to its end.
        read_bytes: How many bytes that is.
    """

    number: int
    lines: list[Example | Problem]
    sha256: str
    read_bytes: int


class ChunkReader:
    """Reads the chunks of a file, after those that are done already.

    Args:
        found: The lines of the file, some at a time.
        path: Its name, for messages.
        bar: Where it is shown how far reading has come.
    """

    def __init__(self, found: Iterator[list[Example | Problem]], path: str, bar: ProgressBar) -> None:
        self._found, self._path, self._bar = found, path, bar
        self._number = 0
        self._sha256 = hashlib.sha256()

    def skip(self, done: Done) -> None:
        """Reads what is done already, and answers none of it.

        Raises:
            ConfigError: It is not what was read then.
        """
        if not done.chunks:
            return
        for _ in range(done.chunks):
            chunk = next(self, None)
            if chunk is None:
                break
            self._bar.skip(chunk.read_bytes)
        if (self._number, self._sha256.hexdigest()) != (done.chunks, done.input_sha256):
            raise ConfigError(
                f"{self._path}: its first {done.lines} lines are not what they were when the run was begun; put the "
                "old file back, or begin anew with --overwrite"
            )
        self._bar.begin(done.lines, self._bar.read_bytes)

    def __iter__(self) -> Iterator[Chunk]:
        return self

    def __next__(self) -> Chunk:
        lines = next(self._found)
        for one in lines:
            self._sha256.update(_in_short(one))
        self._number += 1
        return Chunk(self._number - 1, lines, self._sha256.hexdigest(), self._bar.read_bytes)


def _in_short(one: Example | Problem) -> bytes:
    """What an input is to a model; the name of the file does not matter."""
    from ssnt.types import Example

    if isinstance(one, Example):
        return f"{one.line} {one.source!r} {one.tags!r}\n".encode()
    return f"{one.line} {one.message!r}\n".encode()


class Account:
    """Writes the answers of chunks, which come in order, and keeps count of what was wrong with lines.

    Args:
        inputs: The file that they are from.
        output: Where they go.
        bar: Where it is shown how far the work has come.
        done: How far it had come before.
    """

    def __init__(self, inputs: Inputs, output: Output, bar: ProgressBar, done: Done) -> None:
        self._inputs, self._output, self._bar = inputs, output, bar
        self.unknown, self.unknown_tags = done.unknown, done.unknown_tags
        inputs.lines, inputs.failed = done.lines, done.failed

    def add(self, chunk: Chunk, answer: Answer) -> None:
        """Takes the next answer."""
        self._inputs.lines += answer.lines
        for problem in answer.problems:
            self._inputs.tell(problem)
        self.unknown += answer.unknown
        self.unknown_tags += answer.unknown_tags
        counts = (self._inputs.lines, self._inputs.failed, self.unknown, self.unknown_tags)
        self._output.write(answer.text, Done(chunk.number + 1, *counts, chunk.sha256))
        self._bar.show(self._inputs.lines, chunk.read_bytes)


def run_here(
    chunks: Iterator[Chunk],
    answer: Callable[[list[Example | Problem]], Answer],
    add: Callable[[Chunk, Answer], None],
    stop: Stop,
) -> None:
    """Answers chunks in this process.

    Raises:
        StopNow: A signal; the chunk that was under way is given up.
    """
    while True:
        with stop.giving_up_allowed():
            chunk = next(chunks, None)
            if chunk is None:
                return
            found = answer(chunk.lines)
        add(chunk, found)


def run_on(
    engine: Engine,
    chunks: Iterator[Chunk],
    settings: BulkSettings,
    add: Callable[[Chunk, Answer], None],
    stop: Stop,
) -> None:
    """Has chunks answered by the workers of an engine.

    Raises:
        StopNow: A signal; the chunks that were under way are given up.
        ModelError: A worker could not do its work.
    """
    order = _InOrder(chunks, settings, add, CHUNKS_AHEAD * engine.workers)
    engine.run(order.jobs(), order.tell, stop)
    if order.is_over:
        return
    if stop.is_requested:
        raise StopNow
    raise RuntimeError("the engine has left jobs undone")


class _InOrder:
    """Gives chunks to workers, and puts what comes back into the order of the file.

    There is no job for the time being while too many answers wait for an older one: memory stays bounded however long
    that takes. One thread asks for jobs while another tells of them.
    """

    def __init__(
        self, chunks: Iterator[Chunk], settings: BulkSettings, add: Callable[[Chunk, Answer], None], most_ahead: int
    ) -> None:
        self._chunks, self._settings, self._add = chunks, settings, add
        self._most_ahead = most_ahead
        self._under_way: dict[Job, Chunk] = {}
        self._early: dict[int, tuple[Chunk, Answer]] = {}
        self._given = self._next = -1  # numbers of chunks: the one after the last that was given, and the next to write
        self._has_more = True

    @property
    def is_over(self) -> bool:
        """Whether all is written."""
        return not self._has_more and self._next == self._given

    def jobs(self) -> Iterator[Job | None]:
        """Chunks as jobs, and None whenever too many wait."""
        from ssnt.pipeline.bulk import make_job

        while True:
            if self._given - self._next >= self._most_ahead:
                yield None
                continue
            chunk = next(self._chunks, None)
            if chunk is None:
                self._has_more = False
                return
            if self._given < 0:
                self._next = chunk.number
            self._given = chunk.number + 1
            name = f"lines {chunk.lines[0].line} to {chunk.lines[-1].line} of {self._settings.path}"
            job = make_job(name, chunk.lines, self._settings)
            self._under_way[job] = Chunk(chunk.number, [], chunk.sha256, chunk.read_bytes)  # the job has the lines
            yield job

    def tell(self, job: Job, report: Report) -> None:
        """Takes what a worker says of a job, and writes what is next in order.

        Raises:
            ModelError: The worker could not do its work.
        """
        from ssnt.engines.base import DONE, FAILED
        from ssnt.pipeline.bulk import read_answer

        if report.get("state") == FAILED:
            raise ModelError(f"{job.name}: {report['message']}")
        if report.get("state") != DONE:
            return
        chunk = self._under_way.pop(job)
        self._early[chunk.number] = chunk, read_answer(report)
        while self._next in self._early:
            self._add(*self._early.pop(self._next))
            self._next += 1
