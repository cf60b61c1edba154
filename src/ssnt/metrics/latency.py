"""How far an output lags behind its input, from the delays recorded when it was written.

Throughout, ``|x|`` is the source length, ``|y|`` the output length and ``g(t)``, the delay of output symbol
``t = 1..|y|``, the number of source symbols that had been read when it was written. Delays never fall and are at most
``|x|``. Either all of ``|x|``, ``|y|`` and ``g`` count the end symbols or none does; as a transducer may write after
reading the source's end symbol, counting it in the source is the safe choice.

An empty output has no delays to average: its four measures are NaN. :func:`corpus_latency` leaves such sentences out of
its means, and says how many there were.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from ssnt.errors import DataError

Unit = Literal["symbol", "word"]

SEPARATORS = (" ", "</s>")
"""Symbols that belong to no word: the space, and the end symbol."""


@dataclass(frozen=True)
class LatencyScore:
    """The four measures of one sentence, or their means over a corpus.

    Attributes:
        ap: Average Proportion, between 0 and 1.
        al: Average Lagging, in units of the source.
        laal: Length-Adaptive Average Lagging, in units of the source.
        dal: Differentiable Average Lagging, in units of the source.
        unit: What was counted: symbols or words.
        sentences: How many sentences the measures are the mean of.
        empty: How many more had an empty output, and so no measures.
    """

    ap: float
    al: float
    laal: float
    dal: float
    unit: Unit = "symbol"
    sentences: int = 1
    empty: int = 0


@dataclass(frozen=True)
class WordDelays:
    """Delays of words, counted in words.

    Attributes:
        delays: For each target word how many source words had been read, in part or whole, when it was finished.
        src_len: The number of source words.
    """

    delays: tuple[int, ...]
    src_len: int


def average_proportion(delays: Sequence[float], src_len: int) -> float:
    """Average Proportion: the mean share of the source that had been read.

    ``AP = 1 / (|x| |y|) * sum_t g(t)``

    "Can neural machine translation do simultaneous translation?" (Cho and Esipova, 2016).

    Raises:
        DataError: A delay is out of order or range, or the source is empty.
    """
    _check(delays, src_len)
    return sum(delays) / (src_len * len(delays)) if delays else math.nan


def average_lagging(delays: Sequence[float], src_len: int, ref_len: int | None = None) -> float:
    """Average Lagging: by how many source symbols the output trails an ideal writer that never waits.

    ``AL = 1 / tau * sum_{t = 1..tau} (g(t) - (t - 1) / gamma)`` with ``gamma = |y| / |x|`` and ``tau`` the first ``t``
    with ``g(t) = |x|``: what follows is written at no further delay and does not count. If the output ended before the
    whole source was read, ``tau = |y|``.

    "STACL: Simultaneous translation with implicit anticipation and controllable latency using prefix-to-prefix
    framework" (Ma et al., 2019). With ``ref_len``, ``gamma = ref_len / |x|``, the variant with the reference's length
    that was adopted for speech; outputs that are longer than the reference then look too fast, even negative.

    Args:
        delays: ``g(1..|y|)``.
        src_len: ``|x|``.
        ref_len: Length of the reference, to pace the ideal writer by it rather than by the output.

    Raises:
        DataError: A delay is out of order or range, or a length is not positive.
    """
    _check(delays, src_len)
    return _lagging(delays, src_len, len(delays) if ref_len is None else _checked_ref_len(ref_len))


def length_adaptive_average_lagging(delays: Sequence[float], src_len: int, ref_len: int | None = None) -> float:
    """Length-Adaptive Average Lagging: Average Lagging that does not reward outputs longer than the reference.

    As :func:`average_lagging`, with ``gamma = max(|y|, ref_len) / |x|``. Without a reference it equals Average Lagging.

    "Over-Generation Cannot Be Rewarded: Length-Adaptive Average Lagging for Simultaneous Speech Translation" (Papi et
    al., 2022); also "CUNI-KIT System for Simultaneous Speech Translation Task at IWSLT 2022" (Polák et al., 2022).

    Args:
        delays: ``g(1..|y|)``.
        src_len: ``|x|``.
        ref_len: Length of the reference.

    Raises:
        DataError: A delay is out of order or range, or a length is not positive.
    """
    _check(delays, src_len)
    return _lagging(delays, src_len, max(len(delays), 0 if ref_len is None else _checked_ref_len(ref_len)))


def differentiable_average_lagging(delays: Sequence[float], src_len: int) -> float:
    """Differentiable Average Lagging: Average Lagging over the whole output, where writing takes time too.

    ``DAL = 1 / |y| * sum_t (g'(t) - (t - 1) / gamma)`` with ``gamma = |y| / |x|``, ``g'(1) = g(1)`` and
    ``g'(t) = max(g(t), g'(t - 1) + 1 / gamma)``: each symbol comes at least ``1 / gamma`` after the one before, so that
    time once lost is never won back and no cut at ``tau`` is needed.

    "Thinking Slow about Latency Evaluation for Simultaneous Machine Translation" (Cherry and Foster, 2019); "Monotonic
    Infinite Lookback Attention for Simultaneous Machine Translation" (Arivazhagan et al., 2019).

    Raises:
        DataError: A delay is out of order or range, or the source is empty.
    """
    _check(delays, src_len)
    if not delays:
        return math.nan
    pace = src_len / len(delays)  # 1 / gamma
    # The lag is carried on rather than g' itself: g'(t) - (t - 1) / gamma = max(g(t) - (t - 1) / gamma, lag before),
    # which is exact where adding up 1 / gamma would round.
    lag, total = -math.inf, 0.0
    for t, delay in enumerate(delays):
        lag = max(delay - t * pace, lag)
        total += lag
    return total / len(delays)


def latency(
    delays: Sequence[float], src_len: int, *, ref_len: int | None = None, unit: Unit = "symbol"
) -> LatencyScore:
    """All four measures of one sentence.

    Args:
        delays: For each output symbol how many source symbols had been read when it was written.
        src_len: Source length.
        ref_len: Length of the reference output, where there is one; only AL and LAAL look at it.
        unit: What delays and lengths count; it is only noted in the score.

    Returns:
        The score; of an empty output NaN, with ``sentences=0`` and ``empty=1``.

    Raises:
        DataError: A delay is out of order or range, or a length is not positive.
    """
    return LatencyScore(
        average_proportion(delays, src_len),
        average_lagging(delays, src_len, ref_len),
        length_adaptive_average_lagging(delays, src_len, ref_len),
        differentiable_average_lagging(delays, src_len),
        unit=unit,
        sentences=1 if delays else 0,
        empty=0 if delays else 1,
    )


def word_latency(
    delays: Sequence[int],
    source: Sequence[str],
    target: Sequence[str],
    *,
    reference: Sequence[str] | None = None,
    separators: Collection[str] = SEPARATORS,
) -> LatencyScore:
    """All four measures of one sentence, counted in words; see :func:`word_delays`.

    Args:
        delays: For each output symbol how many source symbols had been read when it was written.
        source: The source symbols.
        target: The output symbols, one a delay.
        reference: The symbols of the reference output, where there is one.
        separators: Symbols that belong to no word.

    Raises:
        DataError: A delay is out of order or range, or the source has no word.
    """
    words = word_delays(delays, source, target, separators=separators)
    if not words.src_len:
        raise DataError("source must have at least one word, got separators only; latency in words has no meaning here")
    ref_len = None if reference is None else len(_word_spans(reference, separators))
    return latency(words.delays, words.src_len, ref_len=ref_len, unit="word")


def word_delays(
    delays: Sequence[int],
    source: Sequence[str],
    target: Sequence[str],
    *,
    separators: Collection[str] = SEPARATORS,
) -> WordDelays:
    """Turns delays of symbols, counted in symbols, into delays of words, counted in words.

    Words are the maximal runs of symbols that are not separators; separators in a row, or at either end, make no empty
    words. A target word was written when its last symbol was. A source word counts as read from its first symbol on, so
    that a part of a word is never free. Hence, of ``"ab c"``, 1 or 2 or 3 symbols are one word and 4 symbols are two.

    Args:
        delays: For each target symbol how many source symbols had been read when it was written.
        source: The source symbols; with the end symbol, if its reading was counted in the delays.
        target: The target symbols, one a delay; with the end symbol, if it has a delay.
        separators: Symbols that belong to no word.

    Raises:
        DataError: There is not one delay a target symbol, or a delay is out of order or range.
    """
    if len(delays) != len(target):
        raise DataError(f"delays must hold one delay for each of the {len(target)} target symbols, got {len(delays)}")
    _check(delays, len(source))
    src_words = _word_spans(source, separators)
    begun = [0] * (len(source) + 1)  # begun[d]: words of which the first d symbols hold something
    for start, _ in src_words:
        begun[start + 1] += 1
    for d in range(len(source)):
        begun[d + 1] += begun[d]
    written = tuple(begun[delays[end - 1]] for _, end in _word_spans(target, separators))
    return WordDelays(written, len(src_words))


def corpus_latency(scores: Iterable[LatencyScore]) -> LatencyScore:
    """Means over sentences, each sentence counting the same; those with an empty output are left out and counted.

    Corpora can be pooled in the same way: a score counts as often as it has sentences.

    Raises:
        DataError: There are no scores, or they count different units.
    """
    scores = list(scores)
    if not scores:
        raise DataError("scores must hold at least one sentence, got none")
    units = {score.unit for score in scores}
    if len(units) > 1:
        raise DataError(f"scores must all count the same unit, got {' and '.join(sorted(units))}")
    sentences = sum(score.sentences for score in scores)

    def mean(name: str) -> float:
        total = math.fsum(getattr(score, name) * score.sentences for score in scores if score.sentences)
        return total / sentences if sentences else math.nan

    return LatencyScore(
        mean("ap"),
        mean("al"),
        mean("laal"),
        mean("dal"),
        unit=scores[0].unit,
        sentences=sentences,
        empty=sum(score.empty for score in scores),
    )


def _lagging(delays: Sequence[float], src_len: int, tgt_len: int) -> float:
    """The mean lag behind a writer that spreads ``tgt_len`` symbols evenly over the source, up to ``tau``."""
    total = 0.0
    for t, delay in enumerate(delays):
        total += delay - t * src_len / tgt_len
        if delay == src_len:
            return total / (t + 1)
    return total / len(delays) if delays else math.nan


def _check(delays: Sequence[float], src_len: int) -> None:
    if src_len < 1:
        raise DataError(f"src_len must be at least 1, got {src_len}")
    before: float = 0
    for t, delay in enumerate(delays):
        if not 0 <= delay <= src_len:
            raise DataError(
                f"delays[{t}] must be between 0 and the source length, {src_len}, got {delay}; "
                "if the source's end symbol was read, the source length counts it"
            )
        if delay < before:
            raise DataError(f"delays[{t}] must be at least the delay before it, {before}, got {delay}")
        before = delay


def _checked_ref_len(ref_len: int) -> int:
    if ref_len < 1:
        raise DataError(f"ref_len must be at least 1, got {ref_len}; give None if there is no reference")
    return ref_len


def _word_spans(symbols: Sequence[str], separators: Collection[str]) -> list[tuple[int, int]]:
    """Begin and end of each word, half open."""
    spans: list[tuple[int, int]] = []
    start: int | None = None
    for t, symbol in enumerate(symbols):
        if symbol in separators:
            if start is not None:
                spans.append((start, t))
            start = None
        elif start is None:
            start = t
    if start is not None:
        spans.append((start, len(symbols)))
    return spans
