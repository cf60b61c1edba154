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
from typing import Any, NamedTuple

from ssnt.errors import SsntError
from ssnt.pipeline import StreamAnswer, TextStreams, Transducer
from ssnt.serve.answers import finite
from ssnt.serve.lattice import LiveLattice
from ssnt.serve.measures import Measures
from ssnt.serve.schemas import Open


class Reply(NamedTuple):
    """What a stream answers.

    Attributes:
        answer: What was written.
        lattice: What has changed in the lattice.
    """

    answer: StreamAnswer
    lattice: dict[str, Any] | None


@dataclass(frozen=True)
class _Ask:
    """Something that a client wants done before the next step."""

    act: Callable[[], None]
    stream: ServedStream
    reply: asyncio.Future[Reply]


class _Pool:
    """Streams that are stepped together, while there are any."""

    def __init__(self, streams: TextStreams, thread: ThreadPoolExecutor, measures: Measures) -> None:
        self.streams = streams  # touched in the thread alone
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
                    _settle(one, error)
                    self.streams.close(one.stream.number)
                self._waiting = {}
                continue
            for number, result in results.items():
                if number in self._waiting:
                    _settle(self._waiting.pop(number), result)
            for number in closed:
                if number in self._waiting:
                    self._waiting.pop(number).reply.cancel()

    def _turn(self, asked: list[_Ask], closed: list[int]) -> dict[Hashable, Reply | Exception]:
        """In the thread: carries out what was asked, and steps."""
        begun = time.perf_counter()
        results: dict[Hashable, Reply | Exception] = {}
        for one in asked:
            if one.stream.number not in self.streams:
                self.streams.open(one.stream.number, one.stream.tags)
            try:
                one.act()
            except SsntError as error:
                results[one.stream.number] = error
        for number in closed:
            self.streams.close(number)
        self._measures.step_sizes.observe(self.streams.reading)
        for answer in self.streams.step():
            results[answer.stream] = Reply(answer, self._lattice(answer))
        self._measures.step_seconds.observe(time.perf_counter() - begun)
        return results

    def _lattice(self, answer: StreamAnswer) -> dict[str, Any] | None:
        waiting = self._waiting.get(answer.stream)
        lattice = None if waiting is None else waiting.stream.lattice
        return None if lattice is None else lattice.news(answer)


def _settle(one: _Ask, result: Reply | Exception) -> None:
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
    """

    pool: _Pool
    number: int
    tags: tuple[int, ...]
    lattice: LiveLattice | None
    measures: Measures
    length: int = 0
    committed: str = ""
    is_open: bool = field(default=True)

    async def push(self, text: str) -> dict[str, Any]:
        """Reads more text."""
        self.length += len(text)
        reply = await self._asked(lambda: self.pool.streams.feed(self.number, text))
        return {"type": "update", **self._update(reply)}

    async def finish(self) -> dict[str, Any]:
        """Ends the input."""
        reply = await self._asked(lambda: self.pool.streams.end(self.number))
        before = self.committed
        update, answer = self._update(reply), reply.answer
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

    async def _asked(self, act: Callable[[], None]) -> Reply:
        reply: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self.pool.ask(_Ask(act, self, reply))
        return await reply

    def _update(self, reply: Reply) -> dict[str, Any]:
        update = reply.answer.update
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
        return found if self.lattice is None else found | {"lattice": reply.lattice}


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
        stream = ServedStream(pool, self._opened, numbers, lattice, self._measures)
        self._measures.open_streams.inc()
        return stream

    def stop(self) -> None:
        """Ends the thread."""
        self._thread.shutdown(cancel_futures=True)

    def _forget_empty_pools(self) -> None:
        """Clients choose the settings, so that there may be many pools; those without streams go."""
        self._pools = {key: pool for key, pool in self._pools.items() if pool.count}
