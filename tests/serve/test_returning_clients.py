"""Clients that were answered together are worked on together again, and nobody else waits for them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

import pytest

from ssnt.serve import batching
from ssnt.serve.batching import Batcher, Kind
from ssnt.serve.measures import Measures

BATCH_SECONDS = 0.6  # of which a quarter is waited for clients to return


class Work:
    """Takes its time, and remembers what it was given together."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []

    def __call__(self, values: Sequence[int]) -> list[int]:
        self.batches.append(list(values))
        time.sleep(BATCH_SECONDS)
        return list(values)


def worked_on(
    first: Sequence[int], then: Sequence[tuple[str, int]], *, gap: float = 0.03, max_batch: int = 8
) -> list[list[int]]:
    """The batches made of inputs that come together, and of others that come one by one when those are answered."""
    work = Work()

    async def test() -> None:
        one = Batcher(window=0.001, max_batch=max_batch, max_queue=100, patience=60.0, measures=Measures())
        one.start()
        await asyncio.gather(*(one.submit(Kind("a", work), [number], [5]) for number in first))
        waiting = []
        for kind, number in then:
            waiting.append(asyncio.create_task(one.submit(Kind(kind, work), [number], [5])))
            await asyncio.sleep(gap)
        await asyncio.gather(*waiting)
        await one.stop()

    asyncio.run(test())
    return work.batches


@pytest.fixture(autouse=True)
def _long_returns(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a busy machine makes no difference."""
    monkeypatch.setattr(batching, "_LONGEST_RETURN", 10.0)


def test_a_batch_waits_for_as_many_as_the_last_one_had() -> None:
    assert worked_on([1, 2, 3], [("a", 4), ("a", 5), ("a", 6)], gap=0.005) == [[1, 2, 3], [4, 5, 6]]


def test_it_does_not_wait_for_more_than_that() -> None:
    assert worked_on([1], [("a", 2), ("a", 3)]) == [[1], [2], [3]]


def test_it_does_not_wait_for_ever() -> None:
    assert worked_on([1, 2, 3], [("a", 4), ("a", 5)], gap=0.3) == [[1, 2, 3], [4], [5]]


def test_other_work_does_not_wait() -> None:
    assert worked_on([1, 2, 3], [("b", 4), ("b", 5)]) == [[1, 2, 3], [4], [5]]


def test_the_longest_wait_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batching, "_LONGEST_RETURN", 0.0)
    assert worked_on([1, 2, 3], [("a", 4), ("a", 5)]) == [[1, 2, 3], [4], [5]]
