"""Training at the sizes of summarisation: V=30,000, H=256, lengths of the Google set after the paper's filters.

Examples a second and memory, against the same model with a materialised ``(B, J, I, V)`` grid, in batches as large as
8 GB allow. One thread each; data, clipping and optimiser are included on both sides. Lengths are those of real pairs,
words are drawn evenly from the vocabulary, so that it has the size that it is to have.

With ``--peak MODEL SIZE FILE`` it measures the memory of a training in this process, which is how it calls itself.
"""

from __future__ import annotations

import itertools
import random
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from loops import BareLoop, materialised_loss
from measure import alternately, in_own_process, status_bytes
from options import parser, require_data
from results import Figure, Recorder, more

import ssnt
from ssnt.config import Config, load_config
from ssnt.data.prepared import prepare
from ssnt.types import UNK_ID

BATCH = 32
LIMIT_GB = 8.0
MODELS = {"uniSSNT+": False, "biSSNT+": True}
OURS = "ours"


@dataclass(frozen=True)
class Scale:
    """How much is measured.

    Attributes:
        vocab: Symbols of each side.
        pairs: Pairs from which the vocabulary is made.
        timed: Pairs that are trained on for the time.
        repeats: How often.
    """

    vocab: int = 30_000
    pairs: int = 6_000
    timed: int = 320
    repeats: int = 3


QUICK = Scale(vocab=2_000, pairs=600, timed=64, repeats=1)


def real_lengths(path: Path, count: int) -> list[tuple[int, int]]:
    """The lengths of some pairs of the set that the paper's filters leave."""
    limits = load_config(preset="summarisation").data
    most = limits.max_source_length or 0, limits.max_target_length or 0, limits.max_cells or 0
    with path.open(encoding="utf-8") as file:
        found = [tuple(len(side.split()) for side in line.rstrip("\n").split("\t")) for line in file]
    left = [(i, j) for i, j in found if i <= most[0] and j <= most[1] and i * j <= most[2]]
    print(f"  {len(left):,} of {len(found):,} pairs are left by the filters")
    return random.Random(1).sample(left, count)  # the set is in order of length


def write_pairs(path: Path, lengths: list[tuple[int, int]], vocab: int) -> None:
    """Writes pairs of these lengths; each word of a side comes up before any does again."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = ["".join(word) for word in itertools.islice(itertools.product(letters, repeat=4), vocab - UNK_ID - 1)]

    def drawn(seed: int) -> Iterator[str]:
        chance = random.Random(seed)
        while True:
            yield from chance.sample(words, len(words))

    sources, targets = drawn(1), drawn(2)
    with path.open("w", encoding="utf-8") as file:
        for pair in lengths:
            sides = [itertools.islice(side, size) for side, size in zip((sources, targets), pair, strict=True)]
            file.write("\t".join(" ".join(side) for side in sides) + "\n")


def settings(train: Path, model: str, batch_size: int, **training: object) -> Config:
    """The preset, over these words."""
    return load_config(
        preset="summarisation",
        overrides={
            "data": {"train": str(train), "cache": str(train.parent / "cache"), "min_count": 1},
            "batch": {"size": batch_size},
            "model": {"bidirectional": MODELS[model]},
            "training": {"max_epochs": 1000, **training},
            "hardware": {"threads": 1},
            "out": str(train.parent / "model"),
        },
    )


def peak_gb(train: Path, model: str, size: str) -> float:
    """The most memory that a training holds, in this process, the interpreter and its libraries included.

    Ours is all that ``ssnt train`` does, for some steps. The other is the batch of the most cells, again and again.
    """
    if size == OURS:
        ssnt.train(settings(train, model, BATCH, max_steps=20), overwrite=True, display=False)
    else:
        loop = BareLoop(settings(train, model, int(size)), loss=materialised_loss)
        lens = loop.prepared.src_lens, loop.prepared.tgt_lens
        largest = max(loop.data.plan(1), key=lambda one: len(one) * int(lens[0][one].max()) * int(lens[1][one].max()))
        for _ in range(3):
            loop.step(loop.data.share(largest))
    return status_bytes("VmHWM") / 1e9


def measured_peak(train: Path, model: str, size: int | str) -> float:
    """The same in a process of its own."""
    return float(in_own_process(__file__, "--peak", model, str(size), str(train)).splitlines()[-1])


def largest_batch(train: Path, model: str, limit: float = LIMIT_GB) -> tuple[int, float]:
    """The largest batch whose training stays within the limit, with a materialised grid, and what it takes."""
    few, many = 4, 8
    peaks = {size: measured_peak(train, model, size) for size in (few, many)}
    slope = (peaks[many] - peaks[few]) / (many - few)
    size = min(256, max(1, int((limit - peaks[few]) / slope) + few))
    while (peak := measured_peak(train, model, size)) > limit and size > 1:
        size -= 1
    return size, peak


def compare(train: Path, timed: Path, model: str, scale: Scale, recorder: Recorder) -> None:
    """Adds the rows of one model."""
    size, peak = largest_batch(train, model)
    config = settings(train, model, BATCH)
    vocabulary = prepare(str(train), config.data, None, is_training=True).vocabulary
    pairs = prepare(str(timed), config.data, vocabulary, is_training=False)
    loops = {
        "ours": BareLoop(config, pairs),
        "materialised": BareLoop(settings(train, model, size), pairs, materialised_loss),
    }
    check_same(loops["ours"])
    calls = {name: (lambda loop=loop: loop.run(len(loop.data.plan(1)))) for name, loop in loops.items()}
    best = alternately(calls, scale.repeats, burst=1)
    sizes = f"{model}, V={len(vocabulary.target):,} H=256"
    ours = Figure(f"batch {BATCH}", len(pairs) / best["ours"], "examples/s")
    other = Figure(f"materialised grid, batch {size}", len(pairs) / best["materialised"], "examples/s")
    note = f"the other takes {peak:.1f} GB, and one more pair a batch would take more than {LIMIT_GB:g}"
    recorder.add(more(f"training, {sizes}", ours, other, 4, note=note))
    own = Figure("ssnt train, whole process", measured_peak(train, model, OURS), "GB")
    recorder.add(more(f"peak memory, {sizes}, batch {BATCH}", own, Figure("allowed", 2.5, "GB"), 1, "at most"))


def check_same(loop: BareLoop) -> None:
    """Both losses are the same number."""
    loop.model.eval()
    batch = next(loop.shares()).batch
    with torch.no_grad():
        values = loop.model.loss(batch, reduction="sum").item(), materialised_loss(loop.model, batch).item()
    loop.model.train()
    if abs(values[0] - values[1]) > 1e-4 * abs(values[0]):
        raise SystemExit(f"the candidates disagree: {values}")


def main() -> None:
    takes = parser(__doc__)
    takes.add_argument("--peak", nargs=3, metavar=("MODEL", "SIZE", "FILE"))
    options = takes.parse_args()
    torch.set_num_threads(1)
    if options.peak:
        model, size, file = options.peak
        print(peak_gb(Path(file), model, size))
        return
    lengths_of = require_data(options, "summarisation/google/train.tsv")
    scale = QUICK if options.quick else Scale()
    recorder = Recorder("summarisation", quick=options.quick)
    with tempfile.TemporaryDirectory() as place:
        train, timed = Path(place, "train.tsv"), Path(place, "timed.tsv")
        lengths = real_lengths(lengths_of, scale.pairs)
        write_pairs(train, lengths, scale.vocab)
        write_pairs(timed, lengths[: scale.timed], scale.vocab)
        for model in MODELS:
            compare(train, timed, model, scale, recorder)
    recorder.write()


if __name__ == "__main__":
    main()
