"""Ancestral sampling of outputs, with all alignments summed."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ssnt.arrays import namespace, no_grad, placed
from ssnt.decode.extend import append_symbols, extend
from ssnt.decode.finish import Output, aligned, without_alignments
from ssnt.decode.options import SearchOptions
from ssnt.decode.rows import select as select_rows
from ssnt.decode.scorer import Scorer
from ssnt.dp.checks import require_count
from ssnt.errors import ConfigError
from ssnt.types import EOS_ID, Batch, Hypothesis

if TYPE_CHECKING:
    from torch import Tensor


def sample(
    scorer: Scorer[Any, Any],
    batch: Batch,
    n: int = 1,
    options: SearchOptions | None = None,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    seed: int = 0,
) -> list[list[Hypothesis]]:
    """Draws outputs symbol by symbol, each from its distribution given the symbols before it.

    That distribution is the marginal one: ``p(y_j | y_1..y_{j-1}, x)``, alignments summed out, given that another
    symbol is written at all.

    Args:
        scorer: The model.
        batch: The sources, each with its end symbol.
        n: How many outputs of each source.
        options: Length limits, end, prefix and banned symbols; beams and thresholds do not matter here.
        temperature: Divides the log probabilities: below 1 for likelier outputs.
        top_k: Draws from the ``top_k`` likeliest symbols only.
        seed: Where the randomness starts: the same draws wherever the model computes, up to rounding. The draws of a
            source also depend on the batch that it is drawn in.

    Returns:
        For each source its ``n`` outputs, in the order drawn, with exact probabilities and alignments.
    """
    require_count("n", n)
    if top_k is not None:
        require_count("top_k", top_k)
    if not 0.0 < temperature < math.inf:
        raise ConfigError(f"temperature must be a number above 0, got {temperature!r}")
    options = options or SearchOptions()
    options.require_vocabulary(scorer.vocab_size)
    with no_grad():
        source = scorer.read(batch)
        outputs = _draw(scorer, source, n, options, temperature, top_k, np.random.default_rng(seed))
        items = [item for item in range(len(source.src_lens)) for _ in range(n)]
        hypotheses = aligned(scorer, source, items, outputs, options)
    found = [hypotheses[first : first + n] for first in range(0, len(hypotheses), n)]
    return without_alignments(scorer, source, found)


def _draw(
    scorer: Scorer[Any, Any],
    source: Any,
    n: int,
    options: SearchOptions,
    temperature: float,
    top_k: int | None,
    generator: np.random.Generator,
) -> list[Output]:
    """Draws all outputs in step, row ``b * n + k`` being draw k of source b."""
    xp = namespace(source.src_lens)
    batch, device = len(source.src_lens), source.src_lens.device
    items = xp.arange(batch, device=device).repeat_interleave(n)
    own = xp.arange(n, device=device).expand(batch, n)
    begin = scorer.start(source)
    # Each draw begins with the state of the empty prefix, so take that of its source n times.
    state = select_rows(begin, items)
    log_inflow = source.log_start(n)
    prefixes = xp.empty(batch, n, 0, dtype=xp.int64, device=device)
    longest = xp.tensor([options.longest(length) for length in source.read_lens.tolist()], device=device)
    outputs: dict[int, Output] = {}
    while len(outputs) < batch * n:
        length = prefixes.shape[2]
        extension = extend(scorer, source, state, log_inflow, length, options)
        log_mass = xp.logsumexp(log_inflow, dim=2)
        log_next = extension.log_next.clone()
        log_next[longest <= length] = -math.inf
        log_next[..., EOS_ID] = extension.log_ended
        symbols = _choose(log_next, temperature, top_k, generator)
        _collect(outputs, prefixes, symbols, extension.log_ended, log_mass)
        log_inflow = extension.log_inflow(own, symbols)
        prefixes = append_symbols(prefixes, own, symbols)
        rows = xp.arange(batch * n, device=device)
        state = scorer.advance(source, state, rows, items, symbols.flatten())
    return [outputs[row] for row in range(batch * n)]


def _choose(log_next: Tensor, temperature: float, top_k: int | None, generator: np.random.Generator) -> Tensor:
    """One symbol for each row, ``(B, n)``; the end symbol where nothing is possible."""
    xp = namespace(log_next)
    log_next = log_next / temperature
    if top_k is not None and top_k < log_next.shape[2]:
        best = log_next.topk(top_k, dim=2)
        log_next = xp.full_like(log_next, -math.inf).scatter(2, best.indices, best.values)
    log_total = xp.logsumexp(log_next, dim=2, keepdim=True)
    stuck = log_total[..., 0] == -math.inf
    chances = xp.exp(log_next - xp.where(log_total == -math.inf, 0.0, log_total))
    chances[..., EOS_ID] = xp.where(stuck, 1.0, chances[..., EOS_ID])
    # By numbers that do not depend on where the model computes: the same seed gives the same draws everywhere.
    draws = placed(generator.random(log_next.shape[:2]), log_next.device)[..., None]
    reached = chances.double().cumsum(2)
    # The first symbol up to which there is more than what was drawn; one without probability adds nothing to that.
    return (reached <= draws * reached[..., -1:]).sum(dim=2)


def _collect(
    outputs: dict[int, Output], prefixes: Tensor, symbols: Tensor, log_ended: Tensor, log_mass: Tensor
) -> None:
    """Notes the rows that have just ended; one that ends where it cannot is incomplete."""
    n = symbols.shape[1]
    for b, k in (symbols == EOS_ID).nonzero().tolist():
        if b * n + k not in outputs:
            log_prob, is_complete = log_ended[b, k].item(), bool(log_ended[b, k] > -math.inf)
            log_prob = log_prob if is_complete else log_mass[b, k].item()
            outputs[b * n + k] = Output(tuple(prefixes[b, k].tolist()), log_prob, is_complete)
