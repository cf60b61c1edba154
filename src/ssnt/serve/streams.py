"""Streams of many clients, stepped together.

Streams of the same model with the same settings are a pool. While a pool has something to read it takes turns: each
turn takes what clients have asked for since the last, and steps all streams of the pool by one symbol, in a thread.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from ssnt.pipeline import StreamAnswer, TextStreams, Transducer
from ssnt.serve.answers import finite
from ssnt.serve.lattice import LiveLattice
from ssnt.serve.measures import Measures
from ssnt.serve.schemas import Open


@dataclass(frozen=True)
class _Ask:
    """Something that a client wants done before the next step."""

    act: Callable[[], None]
    stream: ServedStream
    reply: asyncio.Future[StreamAnswer]


class _Pool:
    """Streams that are stepped together, while there are any."""

    def __init__(self, streams: TextStreams, thread: ThreadPoolExecutor, measures: Measures) -> None:
        self.streams = streams  # touched during a turn, which is in the thread, or between two
        self.count = 0
        self._thread = thread
        self._measures = measures
        self._asked: list[_Ask] = []
        self._closed: list[int] = []
        self._waiting: dict[Hashable, _Ask] = {}
        self._task: asyncio.Task[None] | None = None

    def ask(self, one: _Ask) -> None:
        """Takes a client's wish for the next turn."""
        self._asked.append(one)
        self._go()

    def close(self, stream: int) -> None:
        """Forgets a stream at the next turn."""
        self._closed.append(stream)
        self._go()

    def _go(self) -> None:
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._take_turns())

    async def _take_turns(self) -> None:
        loop = asyncio.get_running_loop()
        while self._asked or self._closed or self._waiting:
            asked, self._asked = self._asked, []
            closed, self._closed = self._closed, []
            for one in asked:
                self._waiting[one.stream.number] = one
            try:
                results = await loop.run_in_executor(self._thread, self._turn, asked, closed)
            except Exception as error:  # a defect: those who wait are told, and the pool goes on with the others
                for one in self._waiting.values():
                    _settle(one, _defect(error))
                for number in (*self._waiting, *closed):
                    self.streams.close(number)
                self._waiting = {}
                continue
            for number, result in results.items():
                if number in self._waiting:
                    _settle(self._waiting.pop(number), result)
            for number in closed:
                if number in self._waiting:
                    self._waiting.pop(number).reply.cancel()

    def _turn(self, asked: list[_Ask], closed: list[int]) -> dict[Hashable, StreamAnswer | Exception]:
        """In the thread: carries out what was asked, and steps."""
        begun = time.perf_counter()
        results: dict[Hashable, StreamAnswer | Exception] = {}
        for one in asked:
            try:
                if one.stream.number not in self.streams:
                    self.streams.open(one.stream.number, one.stream.tags)
                one.act()
            except Exception as error:  # whatever it is, it is nobody else's
                results[one.stream.number] = error
        for number in closed:
            self.streams.close(number)
        self._measures.step_sizes.observe(self.streams.reading)
        results |= {answer.stream: answer for answer in self.streams.step()}
        self._measures.step_seconds.observe(time.perf_counter() - begun)
        return results


def _defect(cause: Exception) -> RuntimeError:
    """What ends a stream that cannot go on; one of our own errors would look like a mistake of the client's."""
    error = RuntimeError("a step of the streams has failed")
    error.__cause__ = cause
    return error


def _settle(one: _Ask, result: StreamAnswer | Exception) -> None:
    if one.reply.done():  # its client has gone
        return
    if isinstance(result, Exception):
        one.reply.set_exception(result)
    else:
        one.reply.set_result(result)


@dataclass
class ServedStream:
    """One client's stream.

    Attributes:
        pool: Those it is stepped together with.
        number: Its number, which no other stream has had.
        tags: Numbers of its tags.
        lattice: Its lattice, if the client wants it.
        length: How many characters it was given.
        committed: The text committed so far.
        is_open: Whether it reads.
        measures: Where it is counted.
        drawing: The thread in which lattices are computed.
    """

    pool: _Pool
    number: int
    tags: tuple[int, ...]
    lattice: LiveLattice | None
    measures: Measures
    drawing: ThreadPoolExecutor
    length: int = 0
    committed: str = ""
    is_open: bool = field(default=True)

    async def push(self, text: str) -> dict[str, Any]:
        """Reads more text."""
        self.length += len(text)
        answer = await self._asked(lambda: self.pool.streams.feed(self.number, text))
        return {"type": "update", **await self._update(answer)}

    async def finish(self) -> dict[str, Any]:
        """Ends the input."""
        answer = await self._asked(lambda: self.pool.streams.end(self.number))
        before = self.committed
        update = await self._update(answer)
        self._over()
        best = answer.outputs[0].hypothesis if answer.outputs else None
        return {
            "type": "end",
            **update,
            **_chances(None if best is None else best.log_prob),
            "is_complete": best is not None and best.is_complete,
            "unknown": answer.unknown,
            "outputs": [{"text": before + one.text, **_chances(one.hypothesis.log_prob)} for one in answer.outputs],
        }

    def close(self) -> None:
        """Forgets the stream, whatever it is at."""
        if self.is_open:
            self._over()
            self.pool.close(self.number)

    def _over(self) -> None:
        self.is_open = False
        self.pool.count -= 1
        self.measures.open_streams.dec()

    async def _asked(self, act: Callable[[], None]) -> StreamAnswer:
        reply: asyncio.Future[StreamAnswer] = asyncio.get_running_loop().create_future()
        self.pool.ask(_Ask(act, self, reply))
        return await reply

    async def _update(self, answer: StreamAnswer) -> dict[str, Any]:
        update = answer.update
        self.committed += update.committed
        found: dict[str, Any] = {
            "read": update.read,
            "committed": update.committed,
            "tentative": update.tentative,
            "symbols": list(update.symbols),
            "delays": list(update.delays),
            "written": list(update.written),
            "tentative_symbols": list(update.tentative_symbols),
        }
        if self.lattice is None:
            return found
        # Not in the thread of the streams: those without a lattice are not to wait for it.
        loop = asyncio.get_running_loop()
        try:
            return found | {"lattice": await loop.run_in_executor(self.drawing, self.lattice.news, answer)}
        except Exception as error:  # what was written is lost to the client, so the stream cannot go on
            raise _defect(error) from error


def _chances(log_prob: float | None) -> dict[str, float | None]:
    """A probability in both forms; a stream that has read nothing has none."""
    if log_prob is None:
        return {"log_prob": None, "probability": None}
    return {"log_prob": finite(log_prob), "probability": math.exp(log_prob)}


class StreamPools:
    """All streams of a service.

    Args:
        max_lattice_cells: Up to which size lattices are sent.
        measures: Where streams are counted.
    """

    def __init__(self, max_lattice_cells: int, measures: Measures) -> None:
        self._max_lattice_cells = max_lattice_cells
        self._measures = measures
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="ssnt-streams")
        self._drawing = ThreadPoolExecutor(1, thread_name_prefix="ssnt-lattices")
        self._pools: dict[Hashable, _Pool] = {}
        self._opened = 0

    def open(self, transducer: Transducer, wanted: Open) -> ServedStream:
        """Opens a stream.

        Raises:
            ModelError: The model has to see the whole input.
            DataError: The tags do not suit the model.
            ConfigError: A setting is out of range.
        """
        tags = wanted.tags or []
        model = transducer.transducer_for(tags)
        # A model of a tag set is asked without tags: they have chosen it.
        numbers = tuple(model.stream_tags(None if transducer.has_tags and not model.has_tags else tags))
        settings = {name: getattr(wanted, name) for name in ("beam", "max_delay", "emit_threshold", "merge", "end")}
        key = (id(model), *settings.values())
        if key not in self._pools:
            self._forget_empty_pools()
            self._pools[key] = _Pool(model.streams(**settings), self._thread, self._measures)
        pool = self._pools[key]
        lattice = LiveLattice(model, numbers, wanted.end, self._max_lattice_cells) if wanted.lattice else None
        self._opened += 1
        pool.count += 1
        stream = ServedStream(pool, self._opened, numbers, lattice, self._measures, self._drawing)
        self._measures.open_streams.inc()
        return stream

    def stop(self) -> None:
        """Ends the thread."""
        self._thread.shutdown(cancel_futures=True)
        self._drawing.shutdown(cancel_futures=True)

    def _forget_empty_pools(self) -> None:
        """Clients choose the settings, so that there may be many pools; those without streams go."""
        self._pools = {key: pool for key, pool in self._pools.items() if pool.count}
