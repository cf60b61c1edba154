"""Prediction against yoyodyne: 1,600 German nouns with their tags (``inflection/de-N/test.tsv``), one thread each.

Our side searches marginally with beam 8; yoyodyne's hard attention predicts greedily, its soft attention with beam 8.
Both read the file, number it, search and give text; start-up and model loading are left out. Every model is trained
first on the same data for the same few epochs, so that it writes words of sensible lengths, and is kept in
``benchmarks/.cache`` under a name that depends on data, settings and version; delete that to train anew. A search that
does not end by itself is ended by a limit: ours by the length of its source, yoyodyne's, for which all words of the
batch wait, a little after the longest form of the data. yoyodyne predicts by its own trainer and in a plain loop, with
batches of several sizes; the fastest way is found first, and measured again.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import torch
from options import parser, require_data
from peers.peer import Peer, require_peer
from results import ROOT, Figure, Recorder, more

import ssnt
from ssnt import Transducer, train
from ssnt.config import Config, load_config
from ssnt.data.readers import read_examples

CACHE = ROOT / "benchmarks" / ".cache" / "prediction"
WAYS = [f"{how} {batch}" for how in ("loop", "trainer") for batch in (32, 64, 128)]
BEAM = 8
MARGIN = 5  # symbols beyond the longest form that yoyodyne may write, the end symbol included
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
        return _forms(self.test)

    def longest(self) -> int:
        """How long the longest form is."""
        return max(len(form) for path in (self.train, self.test) for form in _forms(path))


def _forms(path: Path) -> list[str]:
    return [line.split("\t")[2] for line in path.read_text(encoding="utf-8").splitlines()]


@dataclass
class Best:
    """The best rate of one side, how it was reached, and how many outputs were right.

    Attributes:
        rate: Words a second.
        way: How: with what batches, in whose loop.
        accuracy: Of the last turn.
        limited: How many batches had a search that only the limit ended, of how many; empty if it does not matter.
    """

    rate: float = 0.0
    way: str = ""
    accuracy: float = 0.0
    limited: str = ""

    def take(self, turn: tuple[float, list[str]], expected: list[str], way: str = "", limited: str = "") -> None:
        """Notes a turn: its seconds and its outputs."""
        seconds, outputs = turn
        if len(outputs) != len(expected):
            raise SystemExit(f"{way}: expected {len(expected)} outputs, got {len(outputs)}")
        if len(expected) / seconds > self.rate:
            self.rate, self.way, self.limited = len(expected) / seconds, way, limited
        self.accuracy = sum(one == other for one, other in zip(outputs, expected, strict=True)) / len(expected)


def cache_name(train_file: Path, about: object) -> str:
    """A few letters that are others if the training data or what is known of the training is another."""
    known = json.dumps(about, sort_keys=True).encode()
    return hashlib.sha256(hashlib.sha256(train_file.read_bytes()).digest() + known).hexdigest()[:10]


def settings(files: Files, cache: Path, epochs: int) -> Config:
    """The preset for inflection: one model for all tags, H=128, batches of 32."""
    config = load_config(
        preset="inflection",
        overrides={
            "data": {"train": str(files.train), "cache": str(files.train.parent / "cache")},
            "training": {"max_epochs": epochs},
            "hardware": {"threads": 1},
        },
    )
    known = config.model_dump(mode="json", exclude={"out": True, "data": {"train", "cache"}})
    name = cache_name(files.train, [ssnt.__version__, known])
    return config.model_copy(update={"out": str(cache / f"ssnt-{epochs}-{name}")})


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


def trained_peer(name: str, files: Files, cache: Path, epochs: int, longest: int) -> Peer:
    """One of yoyodyne's models, from the cache if it is there."""
    arguments = ("--model", name, "--features", "--train", files.train, "--predict", files.test, "--longest", longest)
    peer = Peer("yoyodyne", "yoyodyne_driver.py", *arguments)
    file = f"yoyodyne-{name}-{epochs}-{cache_name(files.train, peer.about)}.pt"
    took = peer.ask("fit", epochs, cache / file)["seconds"]
    print(f"  trained: yoyodyne {name}, {took:.0f} s", flush=True)
    return peer


def compare(files: Files, cache: Path, options: argparse.Namespace, recorder: Recorder, repeats: int) -> None:
    """Trains what is not trained yet, and measures in turns."""
    config = settings(files, cache, options.epochs)
    model, expected = our_model(config), files.expected()
    best = {name: Best() for name in ("ssnt", "hard", "soft")}
    longest = files.longest() + MARGIN
    with ExitStack() as stack:
        peers = {name: stack.enter_context(trained_peer(name, files, cache, options.epochs, longest)) for name in BARS}
        our_turn(model, config, files)  # compiles
        for turn in range(repeats + 1):
            best["ssnt"].take(our_turn(model, config, files), expected)
            for name, peer in peers.items():
                # the first time in all ways, then in the fastest
                for way in [best[name].way] if turn else WAYS:
                    answer = peer.ask("predict", *way.split(), BEAM if name == "soft" else 1)
                    limited = f"{answer['endless']} of {answer['batches']}"
                    best[name].take((answer["seconds"], answer["outputs"]), expected, way, limited)
    ours = best["ssnt"]
    for name, bar in BARS.items():
        other = best[name]
        right = f"after {options.epochs} epochs {ours.accuracy:.1%} and {other.accuracy:.1%} are right"
        ended = f"in {other.limited} of yoyodyne's batches only the limit of {longest} symbols ends a word"
        recorder.add(
            more(
                f"{len(expected):,} German nouns, against {name} attention",
                Figure(f"ssnt biSSNT+, marginal, beam {BEAM}", ours.rate, "words/s"),
                Figure(f"{NAMES[name]}, {other.way} a batch", other.rate, "words/s"),
                bar,
                note=f"{right}; {ended}",
            )
        )


def main() -> None:
    takes = parser(__doc__)
    takes.add_argument("--epochs", type=int, default=3, help="of training, for every model")
    options = takes.parse_args()
    folder = require_data(options, "inflection/de-N")
    require_peer("yoyodyne")
    torch.set_num_threads(1)
    recorder = Recorder("prediction", quick=options.quick)
    with tempfile.TemporaryDirectory() as place:
        files = Files.of(folder, Path(place), rows=64 if options.quick else None)
        cache = Path(place) if options.quick else CACHE
        compare(files, cache, options, recorder, repeats=0 if options.quick else 4)
    recorder.write()


if __name__ == "__main__":
    main()
