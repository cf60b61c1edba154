"""Tiny random models and full enumeration of their outputs, for tests of the searches."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
import torch

from ssnt.config import VARIANTS, ModelConfig
from ssnt.decode import SearchOptions, make_scorer
from ssnt.decode.marginal import marginal_search
from ssnt.decode.path import path_search
from ssnt.nn import SSNT
from ssnt.types import EOS_ID, PAD_ID, Batch, Grid

from oracles import enumerate_pair

SRC_VOCAB = 6


def random_model(seed: int, variant: str = "uniSSNT+", vocab: int = 4, scale: float = 3.0, **settings) -> SSNT:
    """A float64 model with weights large enough to have opinions."""
    torch.manual_seed(seed)
    config = ModelConfig.variant(
        variant, src_vocab_size=SRC_VOCAB, tgt_vocab_size=vocab, embed_size=4, hidden_size=5, **settings
    )
    model = SSNT(config).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(scale)
    if not variant.endswith("+"):
        model.estimate_transition([4, 3], [3, 3])
    return model


def random_sources(seed: int, lengths: list[int]) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    src = torch.full((len(lengths), max(lengths)), PAD_ID)
    for row, length in zip(src, lengths, strict=True):
        row[: length - 1] = torch.randint(4, SRC_VOCAB, (length - 1,), generator=generator)
        row[length - 1] = EOS_ID
    return Batch(src, torch.tensor(lengths))


def take(batch: Batch, b: int) -> Batch:
    """Source ``b`` alone, without padding."""
    length = int(batch.src_lens[b])
    return Batch(batch.src[b : b + 1, :length], batch.src_lens[b : b + 1])


@dataclass(frozen=True)
class Scored:
    """An output with its exact probabilities."""

    symbols: tuple[int, ...]
    log_prob: float  # summed over alignments
    log_path: float  # of the best alignment
    path: tuple[int, ...]


def grid_of(models: list[SSNT], source: Batch, outputs: list[tuple[int, ...]]) -> list[Grid]:
    """Each model's lattices for one source and many complete outputs."""
    tgt_lens = torch.tensor([len(symbols) + 1 for symbols in outputs])
    tgt = torch.full((len(outputs), int(tgt_lens.max())), PAD_ID)
    for row, symbols in zip(tgt, outputs, strict=True):
        row[: len(symbols) + 1] = torch.tensor([*symbols, EOS_ID])
    n = len(outputs)
    batch = Batch(source.src.expand(n, -1), source.src_lens.expand(n), tgt, tgt_lens)
    with torch.no_grad():
        return [model.grid(batch) for model in models]


def all_outputs(models: list[SSNT], source: Batch, longest: int, end: str = "any") -> list[Scored]:
    """Every complete output of up to ``longest`` symbols, the models averaged in probability; best marginal first."""
    vocab = models[0].config.tgt_vocab_size
    others = [symbol for symbol in range(vocab) if symbol != EOS_ID]
    outputs = [symbols for length in range(longest + 1) for symbols in itertools.product(others, repeat=length)]
    grids = grid_of(models, source, outputs)
    means = [
        (torch.stack([getattr(grid, name) for grid in grids]).logsumexp(0) - math.log(len(grids))).numpy()
        for name in ("log_word", "log_emit", "log_shift")
    ]
    scored = []
    for n, symbols in enumerate(outputs):
        rows, columns = len(symbols) + 1, int(source.src_lens[0])
        truth = enumerate_pair(*(mean[n, :rows, :columns] for mean in means), end)
        best = int(truth.log_scores.argmax())
        scored.append(Scored(symbols, truth.log_total, float(truth.log_scores[best]), truth.alignments[best]))
    return sorted(scored, key=lambda s: -s.log_prob)


__all__ = ["VARIANTS", "Scored", "all_outputs", "grid_of", "random_model", "random_sources", "take"]


def check_searches(model: SSNT, batch: Batch, end: str) -> None:
    """Marginal and path search with a wide beam find what enumeration finds, outputs of up to three symbols."""
    scorer = make_scorer(model)
    options = SearchOptions(beam=200, max_length=3, nbest=5, end=end)
    marginal, paths = marginal_search(scorer, batch, options), path_search(scorer, batch, options)
    for b in range(len(batch.src)):
        truth = all_outputs([model], take(batch, b), 3, end)
        assert [h.symbols for h in marginal[b]] == [t.symbols for t in truth[:5]]
        np.testing.assert_allclose([h.log_prob for h in marginal[b]], [t.log_prob for t in truth[:5]], atol=1e-9)
        best = max(truth, key=lambda t: t.log_path)
        assert (paths[b][0].symbols, paths[b][0].alignment.positions) == (best.symbols, best.path)
        assert abs(paths[b][0].log_prob - best.log_path) <= 1e-9
