"""Path search: the paper's Algorithm 1 and its beam, for the best output together with its alignment.

Column j of the grid holds prefixes of j symbols. Each cell (i, j) keeps the ``k`` most probable prefixes whose last
symbol was written at source position i, each with its best path. A prefix has one decoder state however many cells hold
it, since that state does not depend on the alignment. Paths that bring the same prefix to the same cell have the same
future, so only the best of them goes on.

The end symbol takes no place in a cell: every prefix of a column may end at every position that it reaches, and the
outputs that have ended compete with each other only. Probabilities never rise as an output grows, so an unfinished
prefix that is no better than the last of the n best outputs is dropped, and a search is over when none is left.

Axes: ``B`` items still searched, ``N`` prefixes of an item (padded), ``I`` source, ``V`` vocabulary, ``K`` beam, ``P``
pairs of a prefix and a position.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ssnt.arrays import namespace, no_grad
from ssnt.decode.options import SearchOptions
from ssnt.decode.path_choice import Chosen, Limits, best_of_both, choose, force
from ssnt.decode.scorer import Columns, Scorer, require_alignment
from ssnt.types import EOS_ID, PAD_ID, Alignment, Batch, Hypothesis

if TYPE_CHECKING:
    from torch import Tensor

NO_NODE = -1


def path_search(scorer: Scorer[Any, Any], batch: Batch, options: SearchOptions | None = None) -> list[list[Hypothesis]]:
    """Finds the most probable outputs with their paths, by ``log p(y, a | x)``.

    Args:
        scorer: The model.
        batch: The sources, each with its end symbol; targets are not looked at.
        options: Settings; ``beam`` is the number of prefixes a cell, 1 for the paper's greedy search.

    Returns:
        For each item at most ``nbest`` different outputs, best first, each with its best path. If none of an item's
        outputs ended within the limits, its best unfinished ones, with ``is_complete=False``.

    Raises:
        ConfigError: A forced or banned symbol is not in the vocabulary.
        ModelError: The model has no alignment.
    """
    require_alignment(scorer, "path search")
    options = options or SearchOptions()
    options.require_vocabulary(scorer.vocab_size)
    with no_grad():
        search = _PathSearch(scorer, batch, options)
        length = 0
        while len(search.items):
            search.step(length)
            length += 1
        return search.results()


@dataclass(frozen=True)
class _Ending:
    """One result, not yet written out; ``position`` is that of the end symbol, None if it was not reached."""

    node: int
    log_prob: float
    position: int | None


@dataclass(frozen=True)
class _Held:
    """What each prefix has at each position, minus infinity for nothing.

    Attributes:
        log_probs: Probability of the prefix and its best path, ``(B, N, I)``.
        nodes: The end of that path in the history, ``(B, N, I)``.
    """

    log_probs: Tensor
    nodes: Tensor

    @classmethod
    def empty_prefix(cls, src: Tensor) -> _Held:
        """The empty prefix, which stands at the first position of each of the sources ``(B, I)``."""
        # Whatever the model computes in: many small numbers are added up.
        xp = namespace(src)
        log_probs = xp.full_like(src, -math.inf, dtype=xp.float64)
        log_probs[:, 0] = 0.0
        return cls(log_probs[:, None], xp.full_like(src, NO_NODE, dtype=xp.int64)[:, None])

    def endings(self, b: int, count: int) -> list[_Ending]:
        """The ``count`` best prefixes of item ``b`` as they are, unfinished."""
        log_probs, positions = self.log_probs[b].max(dim=1)  # (N,)
        nodes = self.nodes[b].gather(1, positions[:, None])[:, 0]
        best = namespace(log_probs).sort(log_probs, dim=0, descending=True, stable=True).indices[:count]
        pairs = zip(nodes[best].tolist(), log_probs[best].tolist(), strict=True)
        return [_Ending(node, log_prob, None) for node, log_prob in pairs if log_prob > -math.inf]


@dataclass(frozen=True)
class _Finished:
    """The best outputs that have ended, best first; minus infinity where there are fewer than ``nbest``.

    Attributes:
        scores: What they are ranked by, ``(B, nbest)``.
        log_probs: ``(B, nbest)``.
        nodes: The path up to the end symbol, ``(B, nbest)``.
        positions: Where the end symbol was written, ``(B, nbest)``.
    """

    scores: Tensor
    log_probs: Tensor
    nodes: Tensor
    positions: Tensor

    @classmethod
    def none(cls, src: Tensor, count: int) -> _Finished:
        """Nothing yet, for sources ``(B, I)``."""
        xp = namespace(src)
        nothing = xp.full((len(src), count), -math.inf, dtype=xp.float64, device=src.device)
        no_nodes = xp.full_like(nothing, NO_NODE, dtype=xp.int64)
        return cls(nothing, nothing, no_nodes, no_nodes)

    def endings(self, b: int) -> list[_Ending]:
        """Those of item ``b``."""
        parts = (self.nodes[b].tolist(), self.log_probs[b].tolist(), self.positions[b].tolist())
        return [_Ending(*ending) for ending in zip(*parts, strict=True) if ending[1] > -math.inf]

    def join(self, other: _Finished, count: int) -> _Finished:
        """Returns the ``count`` best of both; of equals, those of ``self``."""
        return _Finished(*best_of_both(self, other, count))

    def select(self, items: Tensor) -> _Finished:
        """Returns those of ``items``."""
        return _Finished(*(values[items] for values in vars(self).values()))


class _History:
    """Every kept hypothesis as a node: its last symbol, where that was written, and the node before."""

    def __init__(self) -> None:
        self._size = 0
        self._columns: list[Tensor] = []  # (3, n) each: parents, symbols, positions

    def add(self, parents: Tensor, symbols: Tensor, positions: Tensor) -> Tensor:
        """Adds nodes ``(n,)`` and returns their numbers."""
        xp = namespace(parents)
        first, self._size = self._size, self._size + len(parents)
        self._columns.append(xp.stack([parents, symbols, positions]))
        return xp.arange(first, self._size, device=parents.device)

    def write_out(self, endings: list[_Ending], options: SearchOptions) -> list[Hypothesis]:
        """Follows each ending back to the empty prefix."""
        if len(self._columns) > 1:
            self._columns = [namespace(self._columns[0]).cat(self._columns, dim=1)]
        table = self._columns[0].cpu().numpy() if self._columns else None
        return [_hypothesis(table, ending, options) for ending in endings]


def _hypothesis(table: Any, ending: _Ending, options: SearchOptions) -> Hypothesis:
    symbols: list[int] = []
    positions: list[int] = [] if ending.position is None else [ending.position]
    node = ending.node
    while node != NO_NODE:
        node, symbol, position = table[:, node].tolist()
        symbols.append(symbol)
        positions.append(position)
    positions.reverse()
    return Hypothesis(
        symbols=tuple(reversed(symbols)),
        log_prob=ending.log_prob,
        score=options.score(ending.log_prob, max(1, len(positions))),
        alignment=Alignment(tuple(positions), ending.log_prob),
        delays=tuple(position + 1 for position in positions),
        is_complete=ending.position is not None,
    )


class _PathSearch:
    """The search of a batch, column by column.

    Attributes:
        items: Which items of the batch are still searched, ``(B,)``.
    """

    def __init__(self, scorer: Scorer[Any, Any], batch: Batch, options: SearchOptions) -> None:
        self._scorer, self._options = scorer, options
        self._source = scorer.read(batch)
        self._state = scorer.start(self._source)
        xp = self._xp = namespace(batch.src)
        device = batch.src.device
        self.items = xp.arange(len(batch.src), device=device)
        longest = [options.longest(length) for length in batch.src_lens.tolist()]
        self._longest = xp.tensor(longest, device=device)
        # A log probability times this is the best score that an unfinished output could still get.
        best_weights = [options.score(1.0, length + 1) for length in longest]
        self._best_weights = xp.tensor(best_weights, dtype=xp.float64, device=device)
        self._blocked = xp.zeros(scorer.vocab_size, dtype=xp.bool, device=device)
        self._blocked[[EOS_ID, *options.banned]] = True
        self._held = _Held.empty_prefix(batch.src)
        self._finished = _Finished.none(batch.src, options.nbest)
        self._history = _History()
        self._endings: list[list[_Ending]] = [[] for _ in longest]

    def results(self) -> list[list[Hypothesis]]:
        """Writes out what was found."""
        return [self._history.write_out(endings, self._options) for endings in self._endings]

    def step(self, length: int) -> None:
        """Goes from the prefixes of ``length`` symbols to those with one more, and ends what can end."""
        options = self._options
        columns = self._scorer.columns(self._source, self._state)
        arriving = _arrive(self._held, columns.log_shift)
        log_writing = arriving.log_probs + columns.log_emit  # (B, N, I)
        if length >= len(options.prefix):
            ended = self._end(columns, _Held(log_writing, arriving.nodes), length + 1)
            self._finished = self._finished.join(ended, options.nbest)
        above = self._finished.scores[:, -1] / self._best_weights
        limits = Limits(above, options.min_log_prob, options.beam_threshold)
        log_writing = self._xp.where((length < self._longest)[:, None, None], log_writing, -math.inf)
        if length < len(options.prefix):
            chosen = force(columns, log_writing, options.prefix[length])
        else:
            chosen = choose(columns, log_writing, limits, self._blocked, options.beam)
        keep = limits.admit(chosen.log_probs, best=chosen.log_probs.amax(dim=(1, 2)))
        alive = keep.flatten(1).any(dim=1)
        self._note_results(done=~alive)
        survivors = alive.nonzero()[:, 0]
        if len(survivors):
            self._grow(chosen, keep, arriving.nodes, survivors)
        self.items = self.items[survivors]

    def _end(self, columns: Columns, writing: _Held, length: int) -> _Finished:
        """Ends every prefix where that is most probable; ``length`` counts the end symbol."""
        batch, count, src_size = writing.log_probs.shape
        xp, device = self._xp, writing.log_probs.device
        prefixes = xp.arange(count, device=device).expand(batch, -1)
        # One symbol only, so all pairs of prefix and position are affordable.
        log_ends = columns.log_word(prefixes, xp.full_like(prefixes, EOS_ID)) + writing.log_probs  # (B, N, I)
        if self._options.end == "last":
            is_last = xp.arange(src_size, device=device) == self._source.src_lens[:, None, None] - 1
            log_ends = xp.where(is_last, log_ends, -math.inf)
        log_probs, positions = log_ends.max(dim=2)  # (B, N)
        log_probs = xp.where(log_probs >= self._options.min_log_prob, log_probs, -math.inf)
        nodes = writing.nodes.gather(2, positions[..., None])[..., 0]
        return _Finished(log_probs * self._options.score(1.0, length), log_probs, nodes, positions)

    def _note_results(self, done: Tensor) -> None:
        """Notes the results of the items that have nothing left to continue."""
        for b in done.nonzero()[:, 0].tolist():
            endings = self._finished.endings(b) or self._held.endings(b, self._options.nbest)
            self._endings[int(self.items[b])] = endings

    def _grow(self, chosen: Chosen, keep: Tensor, nodes: Tensor, survivors: Tensor) -> None:
        """Makes the kept continuations of the ``survivors`` the next column: one prefix for all cells that hold it."""
        xp = self._xp
        batch, count, src_size = nodes.shape
        vocab_size = self._scorer.vocab_size
        owners, positions, _ = keep.nonzero(as_tuple=True)  # (H,) each, one for each kept hypothesis
        log_probs, parents, symbols = chosen.log_probs[keep], chosen.prefixes[keep], chosen.symbols[keep]
        keys = (owners * count + parents) * vocab_size + symbols
        grown, of_hypothesis = xp.unique(keys, return_inverse=True)  # sorted, hence item by item
        rows = grown // vocab_size
        new_numbers = xp.zeros(batch, dtype=xp.int64, device=keys.device)  # the survivors, numbered from zero
        new_numbers[survivors] = xp.arange(len(survivors), device=keys.device)
        new_owners = new_numbers[rows // count]
        counts = xp.bincount(new_owners)
        places = xp.arange(len(grown), device=keys.device) - (counts.cumsum(0) - counts)[new_owners]

        shape = (len(survivors), int(counts.max()))
        at = (new_numbers[owners], places[of_hypothesis], positions)
        held_log_probs = log_probs.new_full((*shape, src_size), -math.inf)
        held_log_probs[at] = log_probs
        held_nodes = nodes.new_full((*shape, src_size), NO_NODE)
        held_nodes[at] = self._history.add(nodes[owners, parents, positions], symbols, positions)
        self._held = _Held(held_log_probs, held_nodes)
        # Places that an item does not need hold some prefix of its own, which is nowhere in the grid.
        state_rows = (survivors * count)[:, None].repeat(1, shape[1])
        state_rows[new_owners, places] = rows
        state_symbols = xp.full_like(state_rows, PAD_ID)
        state_symbols[new_owners, places] = grown % vocab_size
        self._advance(survivors, state_rows, state_symbols)

    def _advance(self, survivors: Tensor, rows: Tensor, symbols: Tensor) -> None:
        """Leaves the other items behind and takes the decoder to the new prefixes, rows and symbols ``(B, N)``."""
        if len(survivors) < len(self.items):
            self._source = self._source.select(survivors)
            self._finished = self._finished.select(survivors)
            self._longest, self._best_weights = self._longest[survivors], self._best_weights[survivors]
        owners = self._xp.arange(len(survivors), device=rows.device)[:, None].expand_as(rows)
        flat = (rows.flatten(), owners.flatten(), symbols.flatten())
        self._state = self._scorer.advance(self._source, self._state, *flat)


def _arrive(held: _Held, log_shift: Tensor) -> _Held:
    """The best way for each prefix to reach each position, before the decision there: by shifting, or it is there."""
    xp = namespace(log_shift)
    ways = [(held.log_probs[..., 0], held.nodes[..., 0])]
    here = zip(held.log_probs.unbind(2)[1:], held.nodes.unbind(2)[1:], log_shift.unbind(2)[:-1], strict=True)
    for log_prob, node, log_shift_before in here:
        log_shifted = ways[-1][0] + log_shift_before
        ways.append((xp.maximum(log_prob, log_shifted), xp.where(log_prob >= log_shifted, node, ways[-1][1])))
    log_probs, nodes = zip(*ways, strict=True)
    return _Held(xp.stack(log_probs, dim=2), xp.stack(nodes, dim=2))
