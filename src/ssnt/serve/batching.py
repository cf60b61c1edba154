"""Inputs that arrive together are worked on together.

Inputs wait in queues, one for each kind of work and class of lengths, so that what is in a batch is alike. The queue
that has waited longest for its turn is next, and in a queue requests take turns: who asks for much does not keep others
waiting. There are two lanes, each with a thread of its own, so that short inputs do not wait for long ones.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from ssnt.serve.measures import Measures
from ssnt.serve.problems import ProblemError

SHORT = 64
"""How many symbols times a tenth of the beam the short lane takes."""

_MOST_SYMBOLS = 4096
"""How many symbols a batch has, padding counted, so that none takes long; fewer with a wide beam."""

_LONGEST_RETURN = 0.03
"""How long a batch waits for the clients of the last one, at most, in seconds."""

Run = Callable[[Sequence[Any]], Sequence[Any]]
"""Works on items and gives a result for each; runs in a thread."""


@dataclass(frozen=True)
class Kind:
    """Which inputs can be worked on together.

    Attributes:
        key: Equal for inputs that can be.
        run: What works on them.
        weight: How much work a symbol is, relative to a beam of ten.
    """

    key: Hashable
    run: Run = field(compare=False, hash=False)
    weight: float = field(default=1.0, compare=False)


@dataclass
class _Request:
    """Inputs that one client waits for."""

    results: list[Any]
    missing: int
    done: asyncio.Future[list[Any]]


@dataclass(frozen=True)
class _Item:
    value: Any
    request: _Request
    place: int
    arrived: float


@dataclass
class _Queue:
    """Inputs that wait for the same work.

    Attributes:
        kind: The work.
        size: Longest input of this class.
        since: Since when it waits for its turn.
    """

    kind: Kind
    size: int
    since: float
    _requests: deque[deque[_Item]] = field(default_factory=deque)
    _count: int = 0

    @property
    def key(self) -> tuple[Hashable, int]:
        return self.kind.key, self.size

    def __len__(self) -> int:
        return self._count

    def add(self, item: _Item) -> None:
        if not self._requests or self._requests[-1][-1].request is not item.request:
            self._requests.append(deque())
        self._requests[-1].append(item)
        self._count += 1

    def pop(self) -> _Item:
        """The next input of the request whose turn it is."""
        first = self._requests.popleft()
        item = first.popleft()
        if first:
            self._requests.append(first)
        self._count -= 1
        return item


@dataclass(frozen=True)
class _Past:
    """A batch that has been worked on."""

    key: Hashable
    count: int
    ended: float
    seconds: float


class _Lane:
    """One thread with its queues."""

    def __init__(self, name: str, batcher: Batcher) -> None:
        self._batcher = batcher
        self._queues: dict[tuple[Hashable, int], _Queue] = {}
        self._last: _Past | None = None
        self._arrived = asyncio.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"ssnt-{name}")
        self._task = asyncio.get_running_loop().create_task(self._work())

    def add(self, kind: Kind, size: int, item: _Item) -> None:
        self._queues.setdefault((kind.key, size), _Queue(kind, size, item.arrived)).add(item)
        self._arrived.set()

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._thread.shutdown()

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            if not self._queues:
                self._arrived.clear()
                await self._arrived.wait()
            queue = min(self._queues.values(), key=lambda one: one.since)
            await self._gather(queue)
            items = self._take(queue)
            if not items:
                continue
            values = [item.value for item in items]
            self._batcher.measures.batch_sizes.observe(len(items))
            begun = time.monotonic()
            try:
                results: Sequence[Any] = await loop.run_in_executor(self._thread, queue.kind.run, values)
                self._batcher.settle(items, results)
            except Exception as error:  # the clients are told, and the lane goes on
                self._batcher.fail(items, error)
            ended = time.monotonic()
            self._last = _Past(queue.key, len(items), ended, ended - begun)

    async def _gather(self, queue: _Queue) -> None:
        """Waits until a batch is full or its first input has waited long enough.

        Clients that were answered together ask again together, and answering them all takes longer than the window. So
        what is like the last batch waits for them, a fraction of the time that a batch takes; otherwise a small batch
        of clients that began at another moment would be worked on between two large ones for ever.
        """
        until = returned = queue.since + self._batcher.window
        last, expected = self._last, 0
        if last is not None and last.key == queue.key and self._batcher.window:
            expected = last.count
            returned = max(until, last.ended + min(last.seconds / 4, _LONGEST_RETURN))
        while len(queue) < self._most(queue):
            left = (until if len(queue) >= expected else returned) - time.monotonic()
            if left <= 0:
                return
            self._arrived.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._arrived.wait()

    def _most(self, queue: _Queue) -> int:
        work = queue.size * max(1.0, queue.kind.weight)
        return max(1, min(self._batcher.max_batch, int(_MOST_SYMBOLS / work)))

    def _take(self, queue: _Queue) -> list[_Item]:
        """The next batch, less what has waited too long and what nobody waits for any more."""
        now, most, before = time.monotonic(), self._most(queue), len(queue)
        taken: list[_Item] = []
        while len(queue) and len(taken) < most:
            item = queue.pop()
            if item.arrived < now - self._batcher.patience:
                late = ProblemError(503, "the request waited too long to be worked on; try again later", retry_after=5)
                self._batcher.fail([item], late)
            elif not item.request.done.done():
                taken.append(item)
        self._batcher.leave(before - len(queue))
        if len(queue):
            queue.since = now
        else:
            del self._queues[queue.key]
        return taken


class Batcher:
    """Puts inputs of many requests together.

    Args:
        window: How long the first input of a batch waits for others, in seconds.
        max_batch: How many inputs a batch has, at most.
        max_queue: How many inputs may wait; requests beyond that are refused.
        patience: How long an input may wait, in seconds.
        measures: Where queue lengths and batch sizes are counted.
    """

    def __init__(self, *, window: float, max_batch: int, max_queue: int, patience: float, measures: Measures) -> None:
        self.window = window
        self.max_batch = max_batch
        self.patience = patience
        self.measures = measures
        self._max_queue = max_queue
        self._waiting = 0
        self._lanes: dict[str, _Lane] = {}

    def start(self) -> None:
        """Begins to work; needs a running event loop."""
        self._lanes = {name: _Lane(name, self) for name in ("short", "long")}

    async def stop(self) -> None:
        """Ends the lanes; what was accepted has been answered before, since the server waits for that."""
        for lane in self._lanes.values():
            await lane.stop()

    async def submit(self, kind: Kind, values: Sequence[Any], lengths: Sequence[int]) -> list[Any]:
        """Gives inputs to be worked on, and waits for their results.

        Args:
            kind: What is to be done with them.
            values: The inputs.
            lengths: How many symbols each has, about.

        Raises:
            ProblemError: Too many are waiting.
        """
        if not values:
            return []
        if self._waiting + len(values) > self._max_queue:
            raise ProblemError(503, "too many inputs are waiting to be worked on; try again later", retry_after=1)
        request = _Request([None] * len(values), len(values), asyncio.get_running_loop().create_future())
        arrived = time.monotonic()
        for place, (value, length) in enumerate(zip(values, lengths, strict=True)):
            size = _length_class(length)
            lane = self._lanes["short" if size * kind.weight <= SHORT else "long"]
            lane.add(kind, size, _Item(value, request, place, arrived))
        self._waiting += len(values)
        self.measures.queue_length.set(self._waiting)
        return await request.done

    def leave(self, count: int) -> None:
        """So many inputs wait no longer."""
        self._waiting -= count
        self.measures.queue_length.set(self._waiting)

    def settle(self, items: Sequence[_Item], results: Sequence[Any]) -> None:
        """Hands out results.

        Raises:
            ValueError: There are more or fewer of them than items, and nobody could say whose are whose.
        """
        if len(results) != len(items):
            raise ValueError(f"expected a result for each of {len(items)} items, got {len(results)}")
        for item, result in zip(items, results, strict=True):
            request = item.request
            request.results[item.place] = result
            request.missing -= 1
            if not request.missing and not request.done.done():
                request.done.set_result(request.results)

    def fail(self, items: Sequence[_Item], error: Exception) -> None:
        """Tells those who wait for items that there will be no result."""
        for item in items:
            if not item.request.done.done():
                item.request.done.set_exception(error)


def _length_class(length: int) -> int:
    """The next power of two, at least 16."""
    return max(16, 1 << (max(length, 1) - 1).bit_length())
