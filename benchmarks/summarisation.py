"""Training at the sizes of summarisation: V=30,000, H=256, lengths of the Google set after the paper's filters.

Examples a second and memory, against the same model with a materialised ``(B, J, I, V)`` grid, in batches as large as
8 GB allow, and in smaller ones, if those are faster. One thread each; data, clipping and optimiser are included on
both sides. Lengths are those of real pairs, words are drawn evenly from the vocabulary, so that it has the size that it
is to have. The memory of both sides is that of the batches of the most cells.

With ``--peak MODEL SIZE FILE`` it measures the memory of a training in this process, which is how it calls itself.
"""

from __future__ import annotations

import itertools
import random
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from loops import BareLoop, materialised_loss
from measure import alternately, in_own_process, status_bytes
from options import parser, require_data
from results import Figure, Recorder, more

import ssnt
from ssnt.config import Config, load_config
from ssnt.data.batching import Indices
from ssnt.data.prepared import Prepared, prepare
from ssnt.training import fit
from ssnt.training.datamodule import TrainingData
from ssnt.types import UNK_ID

BATCH = 32
LIMIT_GB = 8.0
MOST_PAIRS = 256  # no larger batch is tried
FEW_PAIRS = 4
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


def cells_of(prepared: Prepared, indices: Indices) -> int:
    """Grid cells of a batch, padding included."""
    return len(indices) * int(prepared.src_lens[indices].max()) * int(prepared.tgt_lens[indices].max())


class LargestFirst(TrainingData):
    """Gives the batches of the most cells first, so that some steps show the most memory of all."""

    def plan(self, epoch: int) -> list[Indices]:
        """The batches of an epoch."""
        return sorted(super().plan(epoch), key=lambda one: cells_of(self.examples(epoch), one), reverse=True)


def peak_gb(train: Path, model: str, size: str) -> float:
    """The most memory that a training holds, in this process, the interpreter and its libraries included.

    Ours is all that ``ssnt train`` does, for some steps, the largest batches first. The other is the batch of the most
    cells, again and again.
    """
    if size == OURS:
        fit.TrainingData = LargestFirst  # type: ignore[misc]
        ssnt.train(settings(train, model, BATCH, max_steps=20), overwrite=True, display=False)
    else:
        loop = BareLoop(settings(train, model, int(size)), loss=materialised_loss)
        largest = max(loop.data.plan(1), key=lambda one: cells_of(loop.prepared, one))
        for _ in range(3):
            loop.step(loop.data.share(1, largest))
    return status_bytes("VmHWM") / 1e9


def measured_peak(train: Path, model: str, size: int | str) -> float:
    """The same in a process of its own."""
    return float(in_own_process(__file__, "--peak", model, str(size), str(train)).splitlines()[-1])


@dataclass(frozen=True)
class Largest:
    """The largest batch within the limit, what it takes, and what one more pair takes: None if that was not tried."""

    size: int
    peak: float
    next_peak: float | None

    def __str__(self) -> str:
        said = f"batch {self.size} takes {self.peak:.1f} GB"
        if self.next_peak is None:
            return f"{said}, and no larger one was tried"
        return f"{said}, batch {self.size + 1} {self.next_peak:.1f} GB, of {LIMIT_GB:g} allowed"


def largest_batch(peak_of: Callable[[int], float], limit: float = LIMIT_GB, most: int = MOST_PAIRS) -> Largest:
    """The largest batch whose memory stays within the limit while that of the next one does not, both measured.

    Raises:
        SystemExit: Not even one pair does.
    """
    peaks = {size: peak_of(size) for size in (FEW_PAIRS, 2 * FEW_PAIRS)}
    slope = (peaks[2 * FEW_PAIRS] - peaks[FEW_PAIRS]) / FEW_PAIRS
    guess = most if slope <= 0 else int((limit - peaks[FEW_PAIRS]) / slope) + FEW_PAIRS
    size = min(most, max(1, guess))

    def peak(of: int) -> float:
        if of not in peaks:
            peaks[of] = peak_of(of)
        return peaks[of]

    while peak(size) > limit:
        size -= 1
        if not size:
            raise SystemExit(f"one pair takes {peaks[1]:.1f} GB, more than {limit:g}")
    while size < most and peak(size + 1) <= limit:
        size += 1
    return Largest(size, peaks[size], peaks.get(size + 1))


def compare(train: Path, timed: Path, model: str, scale: Scale, recorder: Recorder) -> None:
    """Adds the rows of one model."""
    largest = largest_batch(lambda size: measured_peak(train, model, size))
    config = settings(train, model, BATCH)
    vocabulary = prepare(str(train), config.data, None, is_training=True).vocabulary
    pairs = prepare(str(timed), config.data, vocabulary, is_training=False)
    sizes = sorted({min(FEW_PAIRS, largest.size), max(1, largest.size // 2), largest.size})
    loops = {size: BareLoop(settings(train, model, size), pairs, materialised_loss) for size in sizes}
    ours = BareLoop(config, pairs)
    check_same(ours)
    calls = {str(size): (lambda loop=loop: loop.run(len(loop.data.plan(1)))) for size, loop in loops.items()}
    calls[OURS] = lambda: ours.run(len(ours.data.plan(1)))
    rates = {name: len(pairs) / seconds for name, seconds in alternately(calls, scale.repeats, burst=1).items()}
    own = Figure(f"batch {BATCH}", rates.pop(OURS), "examples/s")
    fastest = max(rates, key=lambda name: rates[name])
    other = Figure(f"materialised grid, batch {fastest}", rates[fastest], "examples/s")
    tried = ", ".join(f"{rate:.3g} with batch {name}" for name, rate in rates.items())
    case = f"{model}, V={len(vocabulary.target):,} H=256"
    recorder.add(more(f"training, {case}", own, other, 4, note=f"materialised examples/s: {tried}; {largest}"))
    own = Figure("ssnt train, whole process", measured_peak(train, model, OURS), "GB")
    recorder.add(more(f"peak memory, {case}, batch {BATCH}", own, Figure("allowed", 2.5, "GB"), 1, "at most"))


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
            recorder.write()  # after each: the next takes ten minutes


if __name__ == "__main__":
    main()
