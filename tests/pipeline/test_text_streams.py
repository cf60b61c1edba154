"""Many text streams as one batch must write what each of them would write alone."""

import random

import pytest

from ssnt.errors import DataError, ModelError
from transducers import copying_transducer, make_config, make_transducer, make_vocabulary

WORDS = ["abca", "b", "cabbagecab", "", "aécb", "ccc", "abcabcabcabcabc", "zz"]


def run_alone(transducer, pieces, tags=None, **settings):
    stream = transducer.stream(tags, **settings)
    updates = [stream.push(piece) for piece in pieces]
    return updates, stream.finish(), stream


def pieces_of(word: str, generator: random.Random) -> list[str]:
    cut = generator.randint(0, len(word))
    return [word[:cut], word[cut:]]


@pytest.mark.parametrize("settings", [{}, {"max_delay": 1}, {"emit_threshold": 0.5}, {"beam": 3, "merge": "max"}])
@pytest.mark.parametrize("seed", [1, 2])
def test_streams_that_come_and_go_write_what_each_would_alone(settings, seed):
    generator = random.Random(seed)
    transducer = make_transducer(seed)
    streams = transducer.streams(**settings)
    todo = [(word, pieces_of(word, generator)) for word in WORDS * 3]
    live: dict[int, tuple[list[str], int]] = {}  # its pieces, and how many were fed
    got: dict[int, list] = {}
    pieces_by_stream: dict[int, list[str]] = {}
    asked: set[int] = set()
    while todo or live:
        if todo and generator.random() < 0.6:
            key = len(got)
            streams.open(key)
            live[key] = (todo.pop()[1], 0)
            got[key], pieces_by_stream[key] = [], live[key][0]
        for key in [key for key in live if key not in asked and generator.random() < 0.5]:
            pieces, fed = live[key]
            if fed == len(pieces):
                streams.end(key)
            else:
                streams.feed(key, pieces[fed])
            live[key] = (pieces, fed + 1)
            asked.add(key)
        for answer in streams.step():
            got[answer.stream].append(answer)
            asked.remove(answer.stream)
            if answer.is_end:
                del live[answer.stream]
    assert len(streams) == 0
    for key, answers in got.items():
        updates, end, stream = run_alone(transducer, pieces_by_stream[key], **settings)
        assert [answer.update for answer in answers[:-1]] == updates
        assert answers[-1].update == end
        assert answers[-1].is_end
        assert answers[-1].unknown == stream.unknown
        if stream.log_prob is None:
            assert answers[-1].outputs == ()
        else:
            assert answers[-1].outputs[0].hypothesis.log_prob == pytest.approx(stream.log_prob, abs=1e-5)


def test_a_long_text_keeps_nobody_waiting():
    streams = make_transducer().streams()
    long, short = "long", "short"
    streams.open(long)
    streams.open(short)
    streams.feed(long, "abc" * 50)
    streams.feed(short, "ab")  # of which one letter is certain
    assert [answer.stream for answer in streams.step()] == [short]
    assert not streams.is_idle
    for _ in range(148):
        streams.step()
    assert streams.is_idle


def test_outputs_at_the_end_are_whole_texts_after_what_was_committed():
    transducer = copying_transducer()
    streams = transducer.streams(beam=4)
    key = "one"
    streams.open(key)
    streams.feed(key, "abcab")  # of which the last letter waits for what may combine with it
    (first,) = [answer for _ in range(9) for answer in streams.step()]
    streams.end(key)
    (last,) = [answer for _ in range(9) for answer in streams.step()]
    assert first.update.committed + last.outputs[0].text == "gabcab"
    assert first.update.committed + last.update.committed == "gabcab"
    assert all(answer.text for answer in last.outputs)
    assert len(last.outputs) > 1
    assert first.source + last.source == tuple("abcab")
    assert first.numbers + last.numbers == tuple(transducer.vocabulary.source.numbers("abcab"))


def test_tags_go_with_their_stream():
    transducer = copying_transducer(tags=("up", "down"))
    streams = transducer.streams()
    keys = {"up": 1, "down": 2}
    for tag, key in keys.items():
        streams.open(key, transducer.stream_tags([tag]))
        streams.feed(key, "abc")
        streams.end(key)
    answers = {answer.stream: answer for _ in range(6) for answer in streams.step()}
    for tag, key in keys.items():
        (_, end, _) = run_alone(transducer, ["abc"], [tag])
        assert answers[key].update.committed.endswith(end.committed)


def test_a_stream_can_be_closed_in_the_middle():
    streams = make_transducer().streams()
    one, two = "one", "two"
    streams.open(one)
    streams.open(two)
    streams.feed(one, "abcabc")
    streams.feed(two, "abcabc")
    streams.step()
    streams.close(one)
    streams.close(one)
    answers = [answer.stream for _ in range(6) for answer in streams.step()]
    assert answers == [two]
    streams.close(two)
    streams.open(two)  # a new one of the same name begins anew
    streams.feed(two, "ab")
    assert [answer.update.read for answer in streams.step()] == [1]
    streams.close(two)
    assert streams.is_idle
    assert streams.step() == []


def test_mistakes_are_named():
    streams = make_transducer().streams()
    key = "one"
    streams.open(key)
    with pytest.raises(DataError, match="text must be a string"):
        streams.feed(key, 3)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="'one' already"):
        streams.open(key)
    with pytest.raises(DataError, match="no stream 99"):
        streams.feed(99, "a")
    streams.end(key)
    with pytest.raises(ModelError, match="finished already"):
        streams.feed(key, "a")
    offline = make_transducer(config=make_config(bidirectional=True), vocabulary=make_vocabulary())
    with pytest.raises(ModelError, match="stream"):
        offline.streams()
