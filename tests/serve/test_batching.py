"""Inputs that arrive together are worked on together, and everybody gets their own results."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Sequence
from typing import Any

import pytest

from serving import measure, service, transducers
from ssnt.errors import DataError
from ssnt.serve.batching import Batcher, Kind
from ssnt.serve.measures import Measures
from ssnt.serve.problems import ProblemError


def batcher(**settings: Any) -> Batcher:
    usual = {"window": 0.02, "max_batch": 8, "max_queue": 1000, "patience": 60.0, "measures": Measures()}
    return Batcher(**usual | settings)


class Work:
    """Doubles numbers, and remembers what it was given together."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.batches: list[list[int]] = []
        self.seconds = seconds

    def __call__(self, values: Sequence[int]) -> list[int]:
        self.batches.append(list(values))
        time.sleep(self.seconds)
        if any(value < 0 for value in values):
            raise DataError("negative")
        return [2 * value for value in values]


def run(test: Any, one: Batcher) -> Any:
    async def around() -> Any:
        one.start()
        try:
            return await test()
        finally:
            await one.stop()

    return asyncio.run(around())


def test_inputs_that_arrive_together_are_one_batch():
    one, work = batcher(), Work()
    kind = Kind("double", work)

    async def test() -> None:
        found = await asyncio.gather(*(one.submit(kind, [number], [5]) for number in range(8)))
        assert found == [[2 * number] for number in range(8)]

    run(test, one)
    assert work.batches == [list(range(8))]  # full: it has not waited for more
    assert measure(one.measures.text().decode(), "ssnt_batch_size_sum") == 8
    assert measure(one.measures.text().decode(), "ssnt_batch_size_count") == 1


def test_a_batch_is_no_larger_than_allowed_and_a_request_may_be_in_several():
    one, work = batcher(max_batch=3), Work()

    async def test() -> None:
        assert await one.submit(Kind("double", work), range(8), [5] * 8) == [2 * number for number in range(8)]

    run(test, one)
    assert [len(batch) for batch in work.batches] == [3, 3, 2]


def test_no_batching():
    one, work = batcher(max_batch=1, window=0.0), Work()

    async def test() -> None:
        await asyncio.gather(*(one.submit(Kind("double", work), [number], [5]) for number in range(4)))

    run(test, one)
    assert work.batches == [[0], [1], [2], [3]]


def test_only_inputs_of_one_kind_and_about_one_length_are_together():
    one, work = batcher(), Work()
    lengths = [1, 16, 17, 32, 33, 60, 3]

    async def test() -> None:
        begun = ((Kind("one", work), 0), (Kind("other", work), 100))
        await asyncio.gather(*(one.submit(kind, range(begin, begin + 7), lengths) for kind, begin in begun))

    run(test, one)
    assert sorted(map(sorted, work.batches)) == [[0, 1, 6], [2, 3], [4, 5], [100, 101, 106], [102, 103], [104, 105]]


def test_the_first_input_waits_no_longer_than_the_window():
    one, work = batcher(window=0.2), Work()

    async def test() -> float:
        begun = time.monotonic()
        first = asyncio.create_task(one.submit(Kind("double", work), [1], [5]))
        await asyncio.sleep(0.05)
        second = asyncio.create_task(one.submit(Kind("double", work), [2], [5]))
        await asyncio.gather(first, second)
        return time.monotonic() - begun

    assert 0.19 <= run(test, one) < 10
    assert work.batches == [[1, 2]]


def test_beyond_the_queue_nothing_is_taken():
    one, work = batcher(max_queue=5, max_batch=1), Work(0.05)
    kind = Kind("double", work)

    async def test() -> None:
        first = asyncio.create_task(one.submit(kind, range(5), [5] * 5))
        await asyncio.sleep(0)
        with pytest.raises(ProblemError) as told:
            await one.submit(kind, [1], [5])
        assert told.value.status == 503
        assert told.value.headers() == {"retry-after": "1"}
        assert await first == [0, 2, 4, 6, 8]
        assert await one.submit(kind, [1], [5]) == [2]  # there is room again

    run(test, one)
    assert measure(one.measures.text().decode(), "ssnt_queue_length") == 0


def test_what_has_waited_too_long_is_given_up():
    one, work = batcher(patience=0.6, max_batch=1), Work(1.0)
    kind = Kind("double", work)

    async def test() -> None:
        found = await asyncio.gather(*(one.submit(kind, [number], [5]) for number in range(4)), return_exceptions=True)
        assert found[0] == [0]
        assert [getattr(problem, "status", None) for problem in found[1:]] == [503] * 3
        assert await one.submit(kind, [7], [5]) == [14]

    run(test, one)
    assert len(work.batches) == 2


@pytest.mark.parametrize("error", [DataError("x"), RuntimeError("x"), ValueError("x")])
def test_an_error_reaches_those_in_the_batch_and_no_others(error):
    one = batcher(max_batch=2)

    def work(values: Sequence[int]) -> list[int]:
        if 13 in values:
            raise error
        return [2 * value for value in values]

    async def test() -> None:
        kind = Kind("double", work)
        found = await asyncio.gather(
            *(one.submit(kind, [number], [5]) for number in (1, 2, 13, 4, 5, 6)), return_exceptions=True
        )
        assert found == [[2], [4], error, error, [10], [12]]
        many = asyncio.create_task(one.submit(kind, [1, 2, 13, 4, 5, 6], [5] * 6))
        with pytest.raises(type(error)):
            await many
        assert await one.submit(kind, [3], [5]) == [6]

    run(test, one)


def test_a_client_that_no_longer_waits_disturbs_nobody():
    one, work = batcher(), Work(0.05)
    kind = Kind("double", work)

    async def test() -> None:
        gone = asyncio.create_task(one.submit(kind, [1], [5]))
        here = asyncio.create_task(one.submit(kind, [2], [5]))
        await asyncio.sleep(0.001)
        gone.cancel()
        assert await here == [4]
        assert await one.submit(kind, [3], [5]) == [6]

    run(test, one)


def test_short_inputs_do_not_wait_for_long_ones():
    one = batcher(window=0.0)
    release = threading.Event()

    def work(values: Sequence[int]) -> list[int]:
        if values[0] == 500:
            release.wait(20)
        return list(values)

    async def test() -> None:
        kind = Kind("same", work)
        long = asyncio.create_task(one.submit(kind, [500], [500]))
        await asyncio.sleep(0.05)
        assert await asyncio.wait_for(one.submit(kind, [5], [5]), 10) == [5]
        assert not long.done()
        release.set()
        assert await long == [500]

    run(test, one)


def test_the_queue_that_has_waited_longest_is_next():
    one, work = batcher(window=0.0, max_batch=1), Work(0.02)

    async def test() -> None:
        busy = Kind("busy", work)
        first = asyncio.create_task(one.submit(busy, range(5), [5] * 5))
        await asyncio.sleep(0.005)
        other = asyncio.create_task(one.submit(Kind("other", work), [100], [5]))
        await asyncio.sleep(0.005)
        last = asyncio.create_task(one.submit(busy, range(10, 15), [5] * 5))
        await asyncio.gather(first, other, last)

    run(test, one)
    order = [batch[0] for batch in work.batches]
    assert order.index(100) < order.index(10)


def test_who_asks_for_much_does_not_keep_others_waiting():
    """Neither those who want the same, nor those who want something else."""
    one, work = batcher(window=0.0, max_batch=2), Work(0.01)

    async def test() -> None:
        kind = Kind("same", work)
        much = asyncio.create_task(one.submit(kind, range(20), [5] * 20))
        await asyncio.sleep(0)
        others = [asyncio.create_task(one.submit(kind, [number], [5])) for number in (100, 101)]
        other = asyncio.create_task(one.submit(Kind("other", work), [200], [5]))
        assert await asyncio.gather(*others, other) == [[200], [202], [400]]
        assert not much.done()
        assert await much == [2 * number for number in range(20)]

    run(test, one)
    order = [value for batch in work.batches for value in batch]
    assert max(order.index(value) for value in (100, 101, 200)) < 8


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_result_too_few_or_too_many_is_a_defect_and_the_lane_goes_on(count):
    one = batcher()

    async def test() -> None:
        with pytest.raises(ValueError, match="a result for each of 2 items"):
            await asyncio.wait_for(one.submit(Kind("odd", lambda _: [0] * count), [1, 2], [5, 5]), 10)
        assert await asyncio.wait_for(one.submit(Kind("double", Work()), [3], [5]), 10) == [6]

    run(test, one)


def test_what_nobody_waits_for_any_more_is_not_worked_on():
    one, begun, release = batcher(window=0.0, max_batch=1), threading.Event(), threading.Event()
    worked_on: list[int] = []

    def work(values: Sequence[int]) -> list[int]:
        worked_on.extend(values)
        begun.set()
        release.wait(20)
        return list(values)

    async def test() -> None:
        kind = Kind("same", work)
        gone = asyncio.create_task(one.submit(kind, range(50), [5] * 50))
        await asyncio.to_thread(begun.wait, 20)
        gone.cancel()
        here = asyncio.create_task(one.submit(kind, [100], [5]))
        await asyncio.sleep(0)
        release.set()
        assert await here == [100]

    run(test, one)
    assert worked_on == [0, 100]
    assert measure(one.measures.text().decode(), "ssnt_queue_length") == 0


def test_hundreds_of_requests_at_once_get_their_own_answers():
    """Random texts, settings and routes, compared with what the library says to each alone."""
    generator = random.Random(3)
    transducer = transducers()["copy"]
    words = ["".join(generator.choice("abcdef") for _ in range(generator.randint(1, 20))) for _ in range(40)]
    outputs = {(word, beam): transducer.transduce([word], beam=beam)[0] for word in words for beam in (1, 4)}
    scores = {word: transducer.score([(word, f"g{word}")])[0] for word in words}
    aligned = {word: transducer.align([(word, f"g{word}")])[0] for word in words}

    async def transduce(client: Any) -> None:
        chosen, beam = generator.choices(words, k=generator.randint(1, 4)), generator.choice((1, 4))
        answer = (await client.post("/v1/transduce", json={"inputs": chosen, "beam": beam})).json()
        for word, one in zip(chosen, answer["results"], strict=True):
            expected = outputs[word, beam]
            assert one["source_symbols"] == list(word)
            assert one["outputs"][0]["text"] == expected.text
            assert one["outputs"][0]["log_prob"] == pytest.approx(expected.log_prob, abs=1e-4)
            assert one["outputs"][0]["alignment"] == list(expected.alignment.positions)

    async def score(client: Any) -> None:
        word = generator.choice(words)
        answer = await client.post("/v1/score", json={"pairs": [{"input": word, "output": f"g{word}"}]})
        assert answer.json()["results"][0]["log_prob"] == pytest.approx(scores[word], abs=1e-4)

    async def align(client: Any) -> None:
        word = generator.choice(words)
        answer = await client.post("/v1/align", json={"pairs": [{"input": word, "output": f"g{word}"}]})
        assert answer.json()["results"][0]["alignment"] == list(aligned[word].path.positions)

    async def test() -> None:
        async with service("copy") as client:
            kinds = [generator.choice((transduce, transduce, score, align)) for _ in range(400)]
            await asyncio.gather(*(kind(client) for kind in kinds))
            text = (await client.get("/metrics")).text
            assert measure(text, "ssnt_batch_size_sum") > 5 * measure(text, "ssnt_batch_size_count")
            assert measure(text, "ssnt_queue_length") == 0

    asyncio.run(test())


def test_a_full_queue_is_503_with_a_hint_when_to_come_back():
    async def test() -> None:
        async with service("copy", limits={"max_queue": 3}) as client:
            answers = await asyncio.gather(
                *(client.post("/v1/transduce", json={"inputs": ["abc", "fed"]}) for _ in range(8))
            )
            statuses = [one.status_code for one in answers]
            assert statuses.count(200) >= 1
            assert statuses.count(503) >= 1
            assert {*statuses} == {200, 503}
            assert all(one.headers["retry-after"] == "1" for one in answers if one.status_code == 503)
            assert (await client.post("/v1/transduce", json={"inputs": ["a"] * 4})).status_code == 503
            assert (await client.post("/v1/transduce", json={"inputs": ["a"] * 3})).status_code == 200

    asyncio.run(test())
