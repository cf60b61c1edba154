"""Latency measures, against examples worked by hand from the papers' formulas."""

import math
import random

import pytest

from ssnt.errors import DataError
from ssnt.metrics import (
    LatencyScore,
    WordDelays,
    average_lagging,
    average_proportion,
    corpus_latency,
    differentiable_average_lagging,
    latency,
    length_adaptive_average_lagging,
    word_delays,
    word_latency,
)


def wait(k: int, src_len: int, tgt_len: int) -> list[int]:
    """The delays of a writer that stays k symbols behind."""
    return [min(t + k, src_len) for t in range(tgt_len)]


# delays, source length, reference length: AP, AL, LAAL, DAL
TABLE = {
    # g = 1: AP = 1/1, the lag is 1 - 0 everywhere
    "one symbol": ([1], 1, None, 1.0, 1.0, 1.0, 1.0),
    # g = (1, 2, 2), 1/gamma = 2/3, tau = 2. AP = 5/6. AL = (1 + 2 - 2/3) / 2 = 7/6.
    # g' = (1, 2, 8/3), lags 1, 4/3, 4/3: DAL = 11/9
    "target longer than source": ([1, 2, 2], 2, None, 5 / 6, 7 / 6, 7 / 6, 11 / 9),
    # g = (2, 4), 1/gamma = 2, tau = 2. AP = 6/8. AL = (2 + 4 - 2) / 2 = 2. g' = (2, 4), lags 2, 2
    "source longer than target": ([2, 4], 4, None, 0.75, 2.0, 2.0, 2.0),
    # everything after the end: tau = 1 and AL = |x|; g' = (4, 5 1/3, 6 2/3), each lag 4
    "all output after the whole input": ([4, 4, 4], 4, None, 1.0, 4.0, 4.0, 4.0),
    # g = (1, 1), 1/gamma = 3/2, the source is never read to its end: tau = |y|. AP = 2/6.
    # AL = (1 + 1 - 3/2) / 2 = 1/4. g' = (1, 5/2), lags 1, 1
    "source not read to its end": ([1, 1], 3, None, 1 / 3, 0.25, 0.25, 1.0),
    # a writer that waits once: g = (1, 3, 3, 4), gamma = 1, tau = 4. AP = 11/16. AL = (1 + 2 + 1 + 1) / 4 = 5/4.
    # g' = (1, 3, 4, 5), lags 1, 2, 2, 2: time lost is not won back, DAL = 7/4
    "one wait": ([1, 3, 3, 4], 4, None, 11 / 16, 1.25, 1.25, 1.75),
    # nothing read at all: g = (0, 0), lags 0 and -1 by AL, and 0 and 0 by DAL
    "nothing read": ([0, 0], 2, None, 0.0, -0.5, -0.5, 0.0),
    # over-generation: six symbols where the reference has two. By the reference 1/gamma = 2, tau = 6:
    # AL = (1 + 1 + 2 + 2 + 3 + 4 - 2 * 15) / 6 = -17/6. By the output 1/gamma = 2/3: LAAL = (13 - 10) / 6 = 1/2.
    # g' = (1, 5/3, 7/3, 3, 11/3, 13/3): every lag 1
    "output longer than the reference": ([1, 1, 2, 2, 3, 4], 4, 2, 13 / 24, -17 / 6, 0.5, 1.0),
    # under-generation: both pace by the reference, 1/gamma = 1, tau = 2: (2 + 4 - 1) / 2
    "output shorter than the reference": ([2, 4], 4, 4, 0.75, 2.5, 2.5, 2.0),
}


@pytest.mark.parametrize("case", TABLE)
def test_worked_by_hand(case):
    delays, src_len, ref_len, ap, al, laal, dal = TABLE[case]
    assert average_proportion(delays, src_len) == pytest.approx(ap)
    assert average_lagging(delays, src_len, ref_len) == pytest.approx(al)
    assert length_adaptive_average_lagging(delays, src_len, ref_len) == pytest.approx(laal)
    assert differentiable_average_lagging(delays, src_len) == pytest.approx(dal)
    assert latency(delays, src_len, ref_len=ref_len) == LatencyScore(
        average_proportion(delays, src_len),
        average_lagging(delays, src_len, ref_len),
        length_adaptive_average_lagging(delays, src_len, ref_len),
        differentiable_average_lagging(delays, src_len),
    )


def test_wait_3_lags_3():
    score = latency(wait(3, 10, 10), 10)
    assert score.al == 3.0
    assert score.laal == 3.0
    assert score.dal == 3.0
    assert score.ap == pytest.approx((3 + 4 + 5 + 6 + 7 + 8 + 9 + 10 + 10 + 10) / 100)


@pytest.mark.parametrize("k", range(1, 8))
@pytest.mark.parametrize("length", [8, 20])
def test_wait_k_lags_k(k, length):
    score = latency(wait(k, length, length), length)
    assert (score.al, score.dal) == (k, k)


def test_dal_follows_its_recursion():
    rng = random.Random(1)
    for _ in range(100):
        src_len, tgt_len = rng.randint(1, 9), rng.randint(1, 9)
        delays = sorted(rng.randint(0, src_len) for _ in range(tgt_len))
        pace = src_len / tgt_len
        late = [float(delays[0])]
        for delay in delays[1:]:
            late.append(max(delay, late[-1] + pace))
        expected = sum(g - t * pace for t, g in enumerate(late)) / tgt_len
        assert differentiable_average_lagging(delays, src_len) == pytest.approx(expected)


def test_an_empty_output_has_no_measures():
    score = latency([], 4, ref_len=3)
    assert all(math.isnan(value) for value in (score.ap, score.al, score.laal, score.dal))
    assert (score.sentences, score.empty) == (0, 1)


@pytest.mark.parametrize(
    ("delays", "src_len", "ref_len", "message"),
    [
        ([1, 2, 5], 4, None, r"delays\[2\] must be between 0 and the source length, 4, got 5; if the source's end"),
        ([-1], 4, None, r"delays\[0\] must be between 0 and the source length, 4, got -1"),
        ([1, math.nan], 4, None, r"delays\[1\] must be between 0 and the source length, 4, got nan"),
        ([3, 2], 4, None, r"delays\[1\] must be at least the delay before it, 3, got 2"),
        ([], 0, None, "src_len must be at least 1, got 0"),
        ([1], 1, 0, "ref_len must be at least 1, got 0; give None"),
    ],
)
def test_bad_records_are_refused(delays, src_len, ref_len, message):
    with pytest.raises(DataError, match=message) as caught:
        latency(delays, src_len, ref_len=ref_len)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    ("source", "target", "delays", "expected"),
    [
        ("ab c", "x yz", [1, 3, 4, 4], WordDelays((1, 2), 2)),
        ("ab c", "xy", [1, 3], WordDelays((1,), 2)),  # the separator begins no word
        (" ab  c ", " x  y ", [1, 2, 3, 4, 6, 7], WordDelays((1, 2), 2)),  # no empty words
        ("abc", "x", [0], WordDelays((0,), 1)),
        ("abc", "", [], WordDelays((), 1)),
        ("abc", "  ", [1, 1], WordDelays((), 1)),
        ("   ", "x", [3], WordDelays((0,), 0)),
    ],
)
def test_words(source, target, delays, expected):
    assert word_delays(delays, source, target) == expected


def test_end_symbols_belong_to_no_word():
    source, target = [*"ab c", "</s>"], [*"x y", "</s>"]
    assert word_delays([1, 2, 5, 5], source, target) == WordDelays((1, 2), 2)


def test_latency_in_words():
    score = word_latency([1, 3, 4, 4], "ab c", "x yz", reference="one two three")
    assert score == latency([1, 2], 2, ref_len=3, unit="word")
    assert score.unit == "word"
    # one word read of two, and both target words written then: AL = (1 + 1 - 1) / 2
    assert word_latency([2, 2, 2], ["ab", " ", "c"], ["x", "|", "y"], separators={"|", " "}).al == 0.5


def test_words_must_match_their_delays():
    with pytest.raises(DataError, match="delays must hold one delay for each of the 2 target symbols, got 1"):
        word_delays([1], "ab", "xy")
    with pytest.raises(DataError, match=r"delays\[0\] must be between 0 and the source length, 2, got 3"):
        word_delays([3], "ab", "x")
    with pytest.raises(DataError, match="source must have at least one word"):
        word_latency([1], " ", "x")


def test_a_corpus_is_the_mean_of_its_sentences():
    scores = [latency([1, 2], 2), latency([4, 4, 4], 4), latency([], 3)]
    corpus = corpus_latency(scores)
    assert corpus.ap == pytest.approx((0.75 + 1.0) / 2)
    assert corpus.al == pytest.approx((1.0 + 4.0) / 2)
    assert corpus.laal == pytest.approx(2.5)
    assert corpus.dal == pytest.approx(2.5)
    assert (corpus.sentences, corpus.empty, corpus.unit) == (2, 1, "symbol")
    more = latency([1], 1)
    assert corpus_latency([corpus, more]) == corpus_latency([*scores, more])


def test_a_corpus_of_nothing():
    nothing = corpus_latency([latency([], 3)])
    assert math.isnan(nothing.al)
    assert (nothing.sentences, nothing.empty) == (0, 1)
    with pytest.raises(DataError, match="at least one sentence"):
        corpus_latency([])
    with pytest.raises(DataError, match="same unit, got symbol and word"):
        corpus_latency([latency([1], 1), latency([1], 1, unit="word")])
