"""Prediction against yoyodyne: 1,600 German nouns with their tags (``inflection/de-N/test.tsv``), one thread each.

Our side searches marginally with beam 8; yoyodyne's hard attention predicts greedily, its soft attention with beam 8.
Both read the file, number it, search and give text; start-up and model loading are left out. Every model is trained
first on the same data for the same few epochs, so that it writes words of sensible lengths, and is kept in
``benchmarks/.cache``: delete that to train anew. yoyodyne predicts by its own trainer and in a plain loop, with batches
of several sizes; the fastest way is found first, and measured again.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import torch
from options import parser, require_data
from peers.peer import Peer
from results import ROOT, Figure, Recorder, more

from ssnt import Transducer, train
from ssnt.config import Config, load_config
from ssnt.data.readers import read_examples

CACHE = ROOT / "benchmarks" / ".cache" / "prediction"
WAYS = [f"{how} {batch}" for how in ("loop", "trainer") for batch in (32, 64, 128)]
BEAM = 8
BARS = {"hard": 5.0, "soft": 3.0}
NAMES = {"hard": "yoyodyne hard attention, greedy", "soft": f"yoyodyne soft attention, beam {BEAM}"}


@dataclass(frozen=True)
class Files:
    """The lowercased data."""

    train: Path
    test: Path

    @classmethod
    def of(cls, folder: Path, place: Path, rows: int | None) -> Files:
        """Writes both splits, the first rows only if a number of them is given."""
        for split in ("train", "test"):
            lines = (folder / f"{split}.tsv").read_text(encoding="utf-8").lower().splitlines(keepends=True)
            (place / f"{split}.tsv").write_text("".join(lines[:rows]), encoding="utf-8")
        return cls(place / "train.tsv", place / "test.tsv")

    def expected(self) -> list[str]:
        """The forms of the test data."""
        return [line.split("\t")[2] for line in self.test.read_text(encoding="utf-8").splitlines()]


@dataclass
class Best:
    """The best rate of one side, how it was reached, and how many outputs were right."""

    rate: float = 0.0
    way: str = ""
    accuracy: float = 0.0

    def take(self, turn: tuple[float, list[str]], way: str, expected: list[str]) -> None:
        """Notes a turn: its seconds and its outputs."""
        seconds, outputs = turn
        if len(outputs) != len(expected):
            raise SystemExit(f"{way}: expected {len(expected)} outputs, got {len(outputs)}")
        if len(expected) / seconds > self.rate:
            self.rate, self.way = len(expected) / seconds, way
        self.accuracy = sum(one == other for one, other in zip(outputs, expected, strict=True)) / len(expected)


def settings(files: Files, cache: Path, epochs: int) -> Config:
    """The preset for inflection: one model for all tags, H=128, batches of 32."""
    return load_config(
        preset="inflection",
        overrides={
            "data": {"train": str(files.train), "cache": str(files.train.parent / "cache")},
            "training": {"max_epochs": epochs},
            "hardware": {"threads": 1},
            "out": str(cache / f"ssnt-{epochs}"),
        },
    )


def our_model(config: Config) -> Transducer:
    """The trained model, from the cache if it is there."""
    out = Path(str(config.out))
    if not (out / "config.yaml").exists():
        start = time.perf_counter()
        train(config, overwrite=True, display=False)
        print(f"  trained: ssnt, {time.perf_counter() - start:.0f} s", flush=True)
    return Transducer.from_pretrained(out)


def our_turn(model: Transducer, config: Config, files: Files) -> tuple[float, list[str]]:
    """Seconds and outputs of one prediction."""
    start = time.perf_counter()
    examples = list(read_examples(str(files.test), config.data))
    found = model.transduce_each(examples, search="marginal", beam=BEAM)
    outputs = [getattr(one, "text", "") for one in found]
    return time.perf_counter() - start, outputs


def compare(files: Files, cache: Path, options: argparse.Namespace, recorder: Recorder, repeats: int) -> None:
    """Trains what is not trained yet, and measures in turns."""
    config = settings(files, cache, options.epochs)
    model, expected = our_model(config), files.expected()
    best = {name: Best() for name in ("ssnt", "hard", "soft")}
    with ExitStack() as stack:
        peers: dict[str, Peer] = {}
        for name in BARS:
            arguments = ("--model", name, "--features", "--train", files.train, "--predict", files.test)
            peers[name] = stack.enter_context(Peer("yoyodyne", "yoyodyne_driver.py", *arguments))
            took = peers[name].ask("fit", options.epochs, cache / f"yoyodyne-{name}-{options.epochs}.pt")["seconds"]
            print(f"  trained: yoyodyne {name}, {took:.0f} s", flush=True)
        our_turn(model, config, files)  # compiles
        for turn in range(repeats + 1):
            best["ssnt"].take(our_turn(model, config, files), "", expected)
            for name, peer in peers.items():
                # the first time in all ways, then in the fastest
                for way in [best[name].way] if turn else WAYS:
                    answer = peer.ask("predict", *way.split(), BEAM if name == "soft" else 1)
                    best[name].take((answer["seconds"], answer["outputs"]), way, expected)
    ours = best["ssnt"]
    for name, bar in BARS.items():
        other = best[name]
        recorder.add(
            more(
                f"{len(expected):,} German nouns, against {name} attention",
                Figure(f"ssnt biSSNT+, marginal, beam {BEAM}", ours.rate, "words/s"),
                Figure(f"{NAMES[name]}, {other.way} a batch", other.rate, "words/s"),
                bar,
                note=f"after {options.epochs} epochs {ours.accuracy:.1%} and {other.accuracy:.1%} are right",
            )
        )


def main() -> None:
    takes = parser(__doc__)
    takes.add_argument("--epochs", type=int, default=3, help="of training, for every model")
    options = takes.parse_args()
    folder = require_data(options, "inflection/de-N")
    torch.set_num_threads(1)
    recorder = Recorder("prediction", quick=options.quick)
    with tempfile.TemporaryDirectory() as place:
        files = Files.of(folder, Path(place), rows=64 if options.quick else None)
        cache = Path(place) if options.quick else CACHE
        compare(files, cache, options, recorder, repeats=0 if options.quick else 4)
    recorder.write()


if __name__ == "__main__":
    main()
