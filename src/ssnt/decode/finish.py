"""From the outputs of a search to hypotheses with their alignments."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ssnt.arrays import namespace, padded_rows
from ssnt.decode.options import SearchOptions
from ssnt.decode.scorer import Scorer, Source
from ssnt.dp import AlignmentDistribution
from ssnt.types import EOS_ID, Alignment, End, Grid, Hypothesis


@dataclass(frozen=True)
class Output:
    """An output without its alignment.

    Attributes:
        symbols: Without the end symbol.
        log_prob: ``log p(y|x)``, or that of the prefix if it is not complete.
        is_complete: Whether the end symbol was written.
    """

    symbols: tuple[int, ...]
    log_prob: float
    is_complete: bool

    @property
    def length(self) -> int:
        """The number of symbols that were written, the end symbol counted."""
        return len(self.symbols) + self.is_complete


def aligned(
    scorer: Scorer[Any, Any], source: Source, items: list[int], outputs: list[Output], options: SearchOptions
) -> list[Hypothesis]:
    """Gives each output, of source ``items[n]``, its exact probability, best path and posteriors."""
    hypotheses: list[Hypothesis | None] = [None] * len(outputs)
    # What did not end may stop anywhere, whatever the option says of ends.
    for is_complete, end in ((True, options.end), (False, "any")):
        chosen = [n for n, o in enumerate(outputs) if o.is_complete == is_complete and o.length > 0]
        for n, hypothesis in zip(chosen, _align(scorer, source, items, outputs, chosen, end, options), strict=True):
            hypotheses[n] = hypothesis
    return [h if h is not None else _empty(o, options) for h, o in zip(hypotheses, outputs, strict=True)]


def _empty(output: Output, options: SearchOptions) -> Hypothesis:
    """An output of which not even the end symbol was written."""
    alignment = Alignment((), 0.0)
    return Hypothesis((), output.log_prob, options.score(output.log_prob, 1), alignment, (), is_complete=False)


def _align(
    scorer: Scorer[Any, Any],
    source: Source,
    items: list[int],
    outputs: list[Output],
    chosen: list[int],
    end: End,
    options: SearchOptions,
) -> list[Hypothesis]:
    if not chosen:
        return []
    xp, device = namespace(source.src_lens), source.src_lens.device
    written = [[*outputs[n].symbols, EOS_ID][: outputs[n].length] for n in chosen]
    tgt_lens = xp.tensor([len(symbols) for symbols in written], device=device)
    tgt = padded_rows(written, device)
    own = source.select(xp.tensor([items[n] for n in chosen], device=device))
    return hypotheses_of(scorer.grid(own, tgt, tgt_lens), [outputs[n] for n in chosen], end, options)


def hypotheses_of(grid: Grid, outputs: list[Output], end: End, options: SearchOptions) -> list[Hypothesis]:
    """Gives outputs their exact probabilities, best paths and posteriors, from their lattices."""
    distribution = AlignmentDistribution.of(grid, end=end)
    log_probs, paths = distribution.log_partition().tolist(), distribution.viterbi()
    emit = distribution.posteriors().emit
    return [
        Hypothesis(
            output.symbols,
            log_prob,
            options.score(log_prob, output.length),
            path,
            tuple(position + 1 for position in path.positions),
            output.is_complete,
            emit[row, : output.length, :src_len],
        )
        for row, (output, log_prob, path, src_len) in enumerate(
            zip(outputs, log_probs, paths, grid.src_lens.tolist(), strict=True)
        )
    ]


def without_alignments(
    scorer: Scorer[Any, Any], source: Source, found: list[list[Hypothesis]]
) -> list[list[Hypothesis]]:
    """The hypotheses of a model without an alignment have none: the whole source is read before all that is written."""
    if scorer.has_alignment:
        return found
    return [
        [
            replace(
                one,
                alignment=Alignment((), one.log_prob),
                delays=(length,) * (len(one.symbols) + one.is_complete),
                emit=None,
            )
            for one in hypotheses
        ]
        for hypotheses, length in zip(found, source.read_lens.tolist(), strict=True)
    ]
