"""Tiny transducers: with random weights, and some that have learnt to copy."""

from __future__ import annotations

import copy
import random
from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from ssnt.config import Config, ModelConfig
from ssnt.data.units import make_unit
from ssnt.data.vocab import SymbolTable, TagTable, Vocabulary
from ssnt.nn import SSNT
from ssnt.pipeline import Transducer
from ssnt.types import EOS_ID, UNK_ID, Batch

LETTERS = "abcdef"
SOURCE = "abcdefäéσς #"  # noqa: RUF001
TARGET = "abcdefgxéσς #"  # noqa: RUF001
SMALL = {"embed_size": 4, "hidden_size": 6, "feature_size": 3, "bidirectional": False}


def make_vocabulary(
    source: Sequence[str] = SOURCE,
    target: Sequence[str] = TARGET,
    tags: Sequence[str] = (),
    unit: str = "characters",
    **settings: Any,
) -> Vocabulary:
    return Vocabulary(
        SymbolTable.of(source),
        SymbolTable.of(target),
        TagTable(tuple(tags)) if tags else None,
        make_unit(unit),
        make_unit(unit),
        **settings,
    )


def make_config(search: dict[str, Any] | None = None, training: dict[str, Any] | None = None, **model: Any) -> Config:
    search = {"max_length": 30, "beam": 4, **(search or {})}
    return Config.model_validate({"model": {**SMALL, **model}, "search": search, "training": training or {}})


def make_transducer(seed: int = 1, vocabulary: Vocabulary | None = None, config: Config | None = None) -> Transducer:
    """A transducer with random weights."""
    vocabulary = vocabulary or make_vocabulary()
    config = config or make_config()
    torch.manual_seed(seed)
    model = SSNT(ModelConfig(**config.model.model_dump(), **vocabulary.model_sizes())).eval()
    if config.model.transition == "geometric":
        model.estimate_transition([4, 5], [3, 6])
    return Transducer(model, vocabulary, config, {"scores": {"dev": []}, "data": {}})


@cache
def copying_transducer(unit: str = "characters", tags: tuple[str, ...] = ()) -> Transducer:
    """A transducer that has learnt to write what it reads, with a g before it.

    Unknown symbols it copies as unknown ones. With tags, an x comes after the g if the first tag is given.
    """
    trained = _train(tags)
    return Transducer(trained.model, make_vocabulary(tags=tags, unit=unit), trained.config, trained.metrics)


@cache
def _train(tags: tuple[str, ...]) -> Transducer:
    config = make_config(embed_size=16, hidden_size=24)
    transducer = make_transducer(1, make_vocabulary(tags=tags), config)
    model, vocabulary, generator = transducer.model, transducer.vocabulary, random.Random(1)
    optimiser = torch.optim.Adam(model.parameters(), lr=2e-2)
    model.train()
    for _ in range(150):
        words = [_word(generator) for _ in range(32)]
        given = [generator.randint(0, 1) for _ in words]
        starts = ["gx" if tags and tag else "g" for tag in given]
        targets = [[*start, *word] for start, word in zip(starts, words, strict=True)]
        batch = Batch(
            *_padded([vocabulary.source.numbers(word) for word in words]),
            *_padded([vocabulary.target.numbers(target) for target in targets]),
            torch.tensor([[tag] for tag in given]) if tags else None,
        )
        optimiser.zero_grad()
        model.loss(batch, reduction="token").backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
    model.eval()
    return transducer


def _word(generator: random.Random) -> list[str]:
    word: list[str] = []
    for _ in range(generator.randint(1, 8)):
        word.append(generator.choice([letter for letter in (*LETTERS, "?") if letter not in word[-1:]]))
    return word


def _padded(rows: list[list[int]]) -> tuple[Tensor, Tensor]:
    ended = [torch.tensor([*row, EOS_ID]) for row in rows]
    return pad_sequence(ended, batch_first=True), torch.tensor([len(row) for row in ended])


def is_same_model(one: Transducer, other: Transducer) -> bool:
    """Whether two transducers have the same settings, vocabulary and weights, to the bit."""
    mine, theirs = one.model.state_dict(), other.model.state_dict()
    return (
        one.config == other.config
        and one.vocabulary == other.vocabulary
        and mine.keys() == theirs.keys()
        and all(torch.equal(mine[name], theirs[name]) for name in mine)
    )


__all__ = [
    "LETTERS",
    "UNK_ID",
    "copying_transducer",
    "is_same_model",
    "make_config",
    "make_transducer",
    "make_vocabulary",
]


def shaken(transducer: Transducer, seed: int) -> Transducer:
    """A copy of the model with somewhat other weights."""
    transducer = copy.deepcopy(transducer)
    torch.manual_seed(seed)
    with torch.no_grad():
        for parameter in transducer.model.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    return transducer
