"""What comes back from a transducer."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, TypeVar

from ssnt.arrays import plain
from ssnt.decode import Failure, PairAlignment
from ssnt.errors import DataError
from ssnt.pipeline.inputs import Numbers, failure
from ssnt.pipeline.picture import alignment_svg, printable
from ssnt.types import Hypothesis

if TYPE_CHECKING:
    from torch import Tensor

ResultT = TypeVar("ResultT")


@dataclass(frozen=True)
class Transduction(Hypothesis):
    """One output as text, with its probability and the alignment that wrote it.

    Attributes:
        emit: Emission posteriors ``(J, I)``, where the search gives them.
        text: The output.
        source_symbols: The input's symbols, without the end symbol.
        target_symbols: The output's symbols, without the end symbol; unknown ones may have been copied from the source.
        alternatives: The other outputs that were asked for by ``nbest``, best first.
        unknown: How many symbols of the input the model does not know.
        unknown_tags: How many of its tags the model does not know; they were left out.
    """

    emit: Tensor | None = field(default=None, repr=False, compare=False)
    text: str = ""
    source_symbols: tuple[str, ...] = field(default=(), repr=False)
    target_symbols: tuple[str, ...] = field(default=(), repr=False)
    alternatives: tuple[Transduction, ...] = field(default=(), repr=False)
    unknown: int = 0
    unknown_tags: int = 0

    @property
    def probability(self) -> float:
        """``exp(log_prob)``."""
        return math.exp(self.log_prob)

    def alignment_svg(self) -> str:
        """A small picture of the alignment; empty if the output is too long for one."""
        return alignment_svg(self.source_symbols, self.target_symbols, self.alignment.positions, self.emit)

    def _repr_html_(self) -> str:
        return _html(self.text, self.log_prob, self.alignment_svg())


@dataclass(frozen=True)
class PairScore:
    """How probable an output is.

    Attributes:
        log_prob: ``log p(y|x)``, summed over all alignments; minus infinity if it is impossible.
        tokens: How many symbols were predicted, the end symbol counted.
        unknown: How many of them the model does not know.
        unknown_source: How many source symbols it does not know.
        unknown_tags: How many tags it does not know; they were left out.
    """

    log_prob: float
    tokens: int
    unknown: int = 0
    unknown_source: int = 0
    unknown_tags: int = 0


@dataclass(frozen=True)
class Streamed:
    """What a stream has written for a whole input, and when.

    Attributes:
        text: The output.
        symbols: Its symbols, without the end symbol.
        delays: For each symbol, and for the end symbol if it was written, how many source symbols had been read when it
            was committed; the source's end symbol counts.
        src_len: The source's length, its end symbol counted.
        is_complete: Whether the output ended in its end symbol.
    """

    text: str
    symbols: tuple[str, ...]
    delays: tuple[int, ...]
    src_len: int
    is_complete: bool


@dataclass(frozen=True)
class AlignedPair(PairAlignment):
    """How a pair aligns, with its symbols; positions include the end symbols.

    Attributes:
        emit: Emission posteriors ``P(a_j = i | x, y)``, ``(J, I)``.
        source_symbols: The source, without the end symbol.
        target_symbols: The target, without the end symbol.
        unknown: How many symbols of both the model does not know.
        unknown_tags: How many tags it does not know; they were left out.
    """

    emit: Tensor = field(repr=False, compare=False)
    source_symbols: tuple[str, ...]
    target_symbols: tuple[str, ...]
    unknown: int = 0
    unknown_tags: int = 0

    def alignment_svg(self) -> str:
        """A small picture of the alignment; empty if the pair is too long for one."""
        return alignment_svg(self.source_symbols, self.target_symbols, self.path.positions, self.emit)

    def _repr_html_(self) -> str:
        return _html("", self.log_prob, self.alignment_svg())


def transduction(hypothesis: Hypothesis, one: Numbers, symbols: Sequence[str], text: str) -> Transduction:
    """An output of a search as text."""
    known = {each.name: getattr(hypothesis, each.name) for each in fields(hypothesis)}
    return Transduction(
        **{**known, "emit": None if hypothesis.emit is None else plain(hypothesis.emit.cpu())},
        text=text,
        source_symbols=one.source,
        target_symbols=tuple(symbols),
        unknown=one.unknown,
        unknown_tags=one.unknown_tags,
    )


def all_good(name: str, results: Sequence[ResultT | Failure]) -> list[ResultT]:
    """The results, if there is no failure among them.

    Raises:
        DataError: There is one; the message says where.
    """
    good: list[ResultT] = []
    for result in results:
        if isinstance(result, Failure):
            raise DataError(f"{name}[{result.index}]: {result.error}")
        good.append(result)
    return good


def in_order(
    failures: Sequence[Failure | None], found: Iterable[tuple[int, ResultT | DataError]]
) -> list[ResultT | Failure]:
    """Puts results into the places where there is no failure."""
    results: list[ResultT | Failure | None] = list(failures)
    for index, result in found:
        results[index] = failure(index, result) if isinstance(result, DataError) else result
    return [result for result in results if result is not None]


def _html(text: str, log_prob: float, svg: str) -> str:
    heading = f"<b><bdi>{printable(text)}</bdi></b> " if text else ""
    chance = f"<span style='opacity:0.7'>p = {math.exp(log_prob):.3g}</span>"
    picture = f"<div style='overflow-x:auto'>{svg}</div>" if svg else ""
    return f"<div>{heading}{chance}{picture}</div>"
