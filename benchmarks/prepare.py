"""Preparing a million pairs shaped like Gigaword: time and memory, then a second start; and batches made from them.

With ``--start``, a file and a cache, it is one start of a process, which is how it calls itself. The file is
made anew each time: words of Zipf-like frequencies, 31 a source and 8 a target on average.
"""

from __future__ import annotations

import gzip
import shutil
import tempfile
import time
from pathlib import Path

import numpy as np
from measure import alternately, in_own_process, status_bytes
from options import parser
from results import Figure, Recorder, more

from ssnt.config import Config, load_config
from ssnt.data.batching import collate, plan_batches
from ssnt.data.prepared import Prepared, prepare

PAIRS = 1_000_000
TYPES = 100_000
MEGABYTE = 1 << 20


def words(generator: np.random.Generator) -> np.ndarray:
    """Made-up words; frequent ones are short, some begin with a capital, some are numbers."""
    letters = np.array(list("etaoinshrdlucmfwypvbgkjqxz"))
    found: dict[str, None] = {}
    while len(found) < TYPES:
        length = 1 + min(int(generator.gamma(2.0, 0.5 + np.log10(len(found) + 1) * 0.6)), 20)
        word = "".join(generator.choice(letters, length))
        kind = generator.random()
        found[str(generator.integers(10**6)) if kind < 0.02 else word.capitalize() if kind < 0.2 else word] = None
    return np.array(list(found), dtype=object)


def write_pairs(path: Path, pairs: int) -> None:
    """Writes a TSV file."""
    generator = np.random.default_rng(1)
    names = words(generator)
    weight = np.cumsum(1.0 / (np.arange(TYPES) + 2.7))
    weight /= weight[-1]
    with path.open("w", encoding="utf-8") as file:
        for _ in range(pairs // 10_000):
            src_lens = np.clip(generator.normal(31, 9, 10_000).round(), 5, 100).astype(int)
            tgt_lens = np.clip(generator.normal(8, 2.5, 10_000).round(), 2, 30).astype(int)
            ends = np.cumsum(np.stack((src_lens, tgt_lens), axis=1).ravel())
            chosen = names[np.searchsorted(weight, generator.random(ends[-1]))].tolist()
            begin = 0
            for number, end in enumerate(ends.tolist()):
                file.write(" ".join(chosen[begin:end]) + ("\n" if number % 2 else "\t"))
                begin = end


def settings(cache: str) -> Config:
    """The preset, with a cache that is the benchmark's own."""
    return load_config(preset="summarisation", overrides={"data": {"cache": cache}})


def start(path: str, cache: str) -> None:
    """One start: prints its seconds, its memory and what it found."""
    begin = time.perf_counter()
    prepared = prepare(path, settings(cache).data, None, is_training=True)
    seconds = time.perf_counter() - begin
    table = prepared.vocabulary
    print(
        seconds,
        time.process_time(),
        status_bytes("VmHWM"),
        f"{len(prepared):,} pairs of {prepared.src_lens.mean() - 1:.1f} and {prepared.tgt_lens.mean() - 1:.1f} words "
        f"left by the filters, {len(table.source):,} and {len(table.target):,} symbols",
    )


def time_batches(prepared: Prepared, config: Config, recorder: Recorder) -> None:
    """What a plan of an epoch and a batch of it cost."""
    src_lens, tgt_lens = prepared.src_lens, prepared.tgt_lens

    def plan(bucket: int) -> list[np.ndarray]:
        batch = config.batch.model_copy(update={"bucket": bucket})
        return plan_batches(src_lens, tgt_lens, batch, seed=1, epoch=0)

    bucket = config.batch.bucket
    grids = {
        size: sum(len(one) * int(src_lens[one].max()) * int(tgt_lens[one].max()) for one in plan(size)) / 1e6
        for size in (1, bucket)
    }
    ours, other = (Figure(f"buckets of {size}", grids[size], "million cells") for size in (bucket, 1))
    recorder.add(more("grid cells of an epoch, padding included", ours, other))
    some = plan(bucket)[:1000]
    for one in some:
        collate(prepared, one)  # brings their pages into memory
    calls = {"plan": lambda: plan(bucket), "collate": lambda: [collate(prepared, one) for one in some]}
    best = alternately(calls, repeats=5, burst=1)
    ours = Figure(f"a batch of {config.batch.size}", best["collate"] / len(some) * 1e3, "ms")
    note = f"allowed is 5% of a step of 30 ms; the plan of an epoch takes {best['plan']:.2f} s"
    recorder.add(more("making a batch", ours, Figure("allowed", 1.5, "ms"), 1, "at most", note))


def main() -> None:
    takes = parser(__doc__)
    takes.add_argument("--start", nargs=2, metavar=("FILE", "CACHE"))
    options = takes.parse_args()
    if options.start:
        start(*options.start)
        return
    pairs, repeats = (20_000, 1) if options.quick else (PAIRS, 3)
    recorder = Recorder("prepare", quick=options.quick)
    with tempfile.TemporaryDirectory() as name:
        path, cache = Path(name, "pairs.tsv"), str(Path(name, "cache"))
        write_pairs(path, pairs)
        print(f"  the file: {path.stat().st_size / MEGABYTE:.0f} MiB")
        what = f"{pairs:,} pairs, first start"
        starts = [one_start(path, Path(name, f"cache-{number}")) for number in range(repeats)]
        report(recorder, what, starts, seconds=60, memory=1000)
        one_start(path, Path(cache))
        starts = [one_start(path, Path(cache)) for _ in range(repeats)]
        report(recorder, f"{pairs:,} pairs, second start", starts, seconds=3)
        with path.open("rb") as plain, gzip.open(f"{path}.gz", "wb", compresslevel=1) as packed:
            shutil.copyfileobj(plain, packed)
        report(recorder, f"{what}, packed with gzip", [one_start(Path(f"{path}.gz"), Path(name, "cache-gz"))])
        config = settings(cache)
        time_batches(prepare(str(path), config.data, None, is_training=True), config, recorder)
    recorder.write()


def one_start(path: Path, cache: Path) -> list[str]:
    """Seconds, seconds of the processor, bytes and findings of one process."""
    return in_own_process(__file__, "--start", str(path), str(cache)).split(" ", 3)


def report(
    recorder: Recorder, what: str, starts: list[list[str]], seconds: float | None = None, memory: float | None = None
) -> None:
    """The best time and the highest memory of some starts, against what is allowed, or against the processor's time."""
    best, busy = (min(float(one[place]) for one in starts) for place in (0, 1))
    peak = max(float(one[2]) for one in starts) / 1e6
    note = f"{busy:.1f} s of the processor, imports included; {peak:.0f} MB resident at most; {starts[0][3]}"
    if seconds is None:
        other, bar = Figure("of the processor, imports included", busy, "s"), None
    else:
        other, bar = Figure("allowed", seconds, "s"), 1.0
    recorder.add(more(f"{what}, time", Figure("prepare", best, "s"), other, bar, "at most", note))
    if memory is not None:
        recorder.add(
            more(f"{what}, memory", Figure("prepare", peak, "MB"), Figure("allowed", memory, "MB"), 1, "at most")
        )


if __name__ == "__main__":
    main()
