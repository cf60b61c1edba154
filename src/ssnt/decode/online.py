"""Online search over whole sources: what a stream would write, with its probability and alignment."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

from ssnt.arrays import namespace, no_grad
from ssnt.decode.options import SearchOptions
from ssnt.decode.progress import first_progress, outputs, read_on
from ssnt.decode.rounds import Rules
from ssnt.decode.scorer import HearingT, SourceT, StateT, StreamingScorer, require_alignment
from ssnt.decode.stream_options import Merge
from ssnt.errors import ConfigError
from ssnt.types import Batch, Hypothesis


@no_grad()
def online_search(
    scorer: StreamingScorer[SourceT, StateT, HearingT],
    batch: Batch,
    options: SearchOptions | None = None,
    *,
    merge: Merge = "sum",
    max_emissions: int = 8,
) -> list[list[Hypothesis]]:
    """Searches from the first source symbol to the last, and looks at each but once.

    With a narrow beam or a ``beam_threshold`` ``log_prob`` is a lower bound of ``log p(y|x)``, and the path, which is
    followed for itself, may then be likelier than the sum of what was kept.

    Nothing is committed on the way, so that the outputs have their whole best paths. A stream with the same beam that
    commits by agreement alone writes the same.

    Args:
        scorer: A model with a unidirectional encoder.
        batch: The sources, each with its end symbol; targets are not looked at.
        options: The settings that all searches share.
        merge: Whether a prefix has the summed probability of its alignments (``log_prob`` is then ``log p(y|x)``, of
            the alignments that the beam has seen), or that of the best one.
        max_emissions: How many symbols may be written at one source symbol, the end symbol not counted.

    Returns:
        For each source up to ``nbest`` outputs, best first. One that is not complete, if none could end within the
        limits; none, if all are less probable than ``min_log_prob``.

    Raises:
        ModelError: The model has to see the whole source.
    """
    require_alignment(scorer, "online search", example="uniSSNT+")
    options = options or SearchOptions()
    rules = _rules(options, merge, max_emissions, scorer.vocab_size)
    xp = namespace(batch.src)
    lens = batch.src_lens.tolist()
    progress = first_progress(scorer, len(lens), rules, batch.features)
    longest = xp.tensor([options.longest(length) for length in lens], device=batch.src.device)
    progress = replace(progress, prefixes=replace(progress.prefixes, longest=longest))
    found: list[list[Hypothesis]] = [[] for _ in lens]
    left = sorted(range(len(lens)), key=lambda item: -lens[item])  # those that end soonest stand last
    progress = progress.chosen(xp.tensor(left, device=batch.src.device))
    for position in range(max(lens)):
        symbols = batch.src[left, position]
        stay = sum(lens[item] > position + 1 for item in left)
        if stay < len(left):
            ending = progress.chosen(xp.arange(stay, len(left), device=batch.src.device))
            ended = read_on(scorer, rules, ending, symbols[stay:], is_last=True)
            for item, hypotheses in zip(left[stay:], outputs(rules, ending, ended), strict=True):
                found[item] = _ranked(hypotheses, options)
            progress = progress.chosen(xp.arange(stay, device=batch.src.device))
            left, symbols = left[:stay], symbols[:stay]
        if left:
            progress = read_on(scorer, rules, progress, symbols)
    return found


def _rules(options: SearchOptions, merge: Merge, max_emissions: int, vocab_size: int) -> Rules:
    """Checks the arguments, and gives what a step must know of them."""
    if merge not in get_args(Merge):
        raise ConfigError(f"merge must be one of {', '.join(map(repr, get_args(Merge)))}, got {merge!r}")
    if max_emissions < 1:
        raise ConfigError(f"max_emissions must be at least 1, got {max_emissions}")
    options.require_vocabulary(vocab_size)
    return Rules(
        beam=options.beam,
        is_max=merge == "max",
        max_emissions=max_emissions,
        end=options.end,
        prefix=options.prefix,
        banned=options.banned,
        beam_threshold=options.beam_threshold,
        min_log_prob=options.min_log_prob,
        emit_threshold=None,
    )


def _ranked(hypotheses: list[Hypothesis], options: SearchOptions) -> list[Hypothesis]:
    scored = [
        replace(one, score=options.score(one.log_prob, max(1, len(one.delays))))
        for one in hypotheses
        if one.log_prob >= options.min_log_prob
    ]
    return sorted(scored, key=lambda one: -one.score)[: options.nbest]
