"""A tiny task that a tiny model learns in seconds: letters become capitals, and some of them are doubled."""

from __future__ import annotations

import csv
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from ssnt.config import Config, dump_config, merged
from ssnt.files import sha256_of
from ssnt.interrupts import Stop
from ssnt.training import TrainingInterrupted
from ssnt.training.checkpoints import read_checkpoint
from ssnt.training.display import Display, Moment
from ssnt.training.fit import train_one
from ssnt.training.progress import Progress
from ssnt.training.run_directory import RunDirectory

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


NURSERY = """
import os, sys
import torch
from ssnt import SSNT, Batch, ModelConfig
from ssnt.config import load_config
from ssnt.training.fit import train

# what is compiled is loaded with the first loss
pair, lens = torch.full((1, 2), 4), torch.tensor([2])
SSNT(ModelConfig.variant("uniSSNT+", src_vocab_size=9, tgt_vocab_size=9)).loss(Batch(pair, lens, pair, lens)).backward()
if sys.platform == "linux":
    assert len(os.listdir("/proc/self/task")) == 1, "threads would be missing in the children"

def die_in_a_rename(die_at, when):
    count = 0

    def dying(rename):
        def call(*arguments, **options):
            nonlocal count
            count += 1
            if count == die_at and when == "before":
                os._exit(9)
            rename(*arguments, **options)
            if count == die_at:
                os._exit(9)
        return call

    os.replace, os.rename = dying(os.replace), dying(os.rename)

for line in sys.stdin:
    settings, resume, die_at, when = line.split()
    child = os.fork()
    if not child:
        die_in_a_rename(int(die_at), when)
        code = 1
        try:
            train(load_config(settings), resume=resume == "resume", display=False)
            code = 0
        finally:
            os._exit(code)
    print(child, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
"""A program that has imported and loaded everything, and has children that train: a new process in no time."""


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


class Nursery:
    """Trains in processes that need not import anything first; they have the order of sets that the seed says."""

    def __init__(self, hash_seed: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", NURSERY],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": str(hash_seed)},
        )

    def start(self, settings: Path, *, resume: bool, die_at: int = 0, when: str = "before") -> int:
        """Starts a training; gives the number of its process.

        Args:
            settings: The file of its settings.
            resume: Whether it goes on.
            die_at: It dies when it puts a file into its place for the so-manyth time; 0: it does not.
            when: Whether it dies ``before`` or ``after`` that.
        """
        self._process.stdin.write(f"{settings} {'resume' if resume else 'new'} {die_at} {when}\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def wait(self) -> int:
        """Waits for the end of a training; gives its exit code."""
        return int(self._process.stdout.readline())

    def close(self) -> None:
        self._process.communicate()


def rows(config: Config) -> list[dict[str, str]]:
    with RunDirectory(str(config.out)).log.open(newline="") as file:
        return list(csv.DictReader(file))


def weights(config: Config) -> str:
    return sha256_of(Path(str(config.out)) / "model.safetensors")


def files_of(place: Path) -> dict[str, bytes]:
    """All files in a directory but those that trainings go on from, by their names."""
    found = (path for path in place.rglob("*") if path.is_file())
    names = {path.relative_to(place): path for path in found}
    return {str(name): path.read_bytes() for name, path in names.items() if "training" not in name.parts}


def progress_of(config: Config) -> Progress:
    return Progress.from_state(read_checkpoint(RunDirectory(str(config.out)).last)["progress"])


class StopAt(Display):
    """Wants to stop after some step, or during the validation of some epoch."""

    interval = 0.0

    def __init__(self, step: int = -1, validation: int = -1) -> None:
        self.stop = Stop()
        self._step, self._validation = step, validation
        self._steps = 0
        self.notes: list[str] = []

    def show(self, moment: Moment) -> None:
        self._steps += not moment.is_validating
        if self._steps == self._step or (moment.is_validating and moment.epoch == self._validation):
            self.stop.request()

    def note(self, text: str) -> None:
        self.notes.append(text)


def interrupt(config: Config, *, resume: bool = False, **where: int) -> StopAt:
    display = StopAt(**where)
    with pytest.raises(TrainingInterrupted):
        train_one(config, resume=resume, overwrite=False, display=display, stop=display.stop)
    return display


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
