"""A tiny task that a tiny model learns in seconds: letters become capitals, and some of them are doubled."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ssnt.config import Config, dump_config, merged

MakeConfig = Callable[..., Config]

DOUBLED = "aeh"

RUN = """
import sys
from ssnt.config import load_config
from ssnt.errors import SsntError
from ssnt.training import train
try:
    train(load_config(sys.argv[1]), resume="--resume" in sys.argv, display=None if "--display" in sys.argv else False)
except SsntError as error:
    print(error, file=sys.stderr)
    sys.exit(2)
except KeyboardInterrupt as stop:
    sys.exit(130)
"""
"""A program that trains, as another process."""


def answer(word: str) -> str:
    return "".join(letter.upper() * (2 if letter in DOUBLED else 1) for letter in word)


def words(count: int, seed: int, letters: str = "abcdefgh") -> Iterator[str]:
    generator = random.Random(seed)
    for _ in range(count):
        yield "".join(generator.choice(letters) for _ in range(generator.randint(2, 6)))


def write_pairs(path: Path, count: int, seed: int, letters: str = "abcdefgh") -> str:
    path.write_text("".join(f"{word}\t{answer(word)}\n" for word in words(count, seed, letters)), encoding="utf-8")
    return str(path)


def tiny_config(place: Path, **sections: Mapping[str, Any] | str) -> Config:
    """Settings of a run on the tiny task; keyword arguments are sections with what differs."""
    data = {
        "train": write_pairs(place / "train.tsv", 120, seed=1),
        "dev": write_pairs(place / "dev.tsv", 20, seed=2),
        "cache": str(place / "cache"),
    }
    base: dict[str, Any] = {
        "data": data,
        "batch": {"size": 16, "bucket": 4},
        "model": {"embed_size": 8, "hidden_size": 16, "bidirectional": False, "input_dropout": 0.2},
        "optimiser": {"learning_rate": 0.01},
        "training": {"max_epochs": 2},
        "validation": {"beam": 1},
        "search": {"beam": 2},
        "hardware": {"accelerator": "cpu"},
        "out": str(place / "out"),
    }
    return Config.model_validate(merged(base, sections))


def start(
    config: Config, place: Path, *options: str, environment: Mapping[str, str] | None = None
) -> subprocess.Popen[str]:
    """Trains in another process, whose standard error can be read."""
    settings = place / f"{Path(str(config.out)).name}.yaml"
    settings.write_text(dump_config(config), encoding="utf-8")
    return subprocess.Popen(
        [sys.executable, "-c", RUN, str(settings), *options],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", **(environment or {})},
    )
