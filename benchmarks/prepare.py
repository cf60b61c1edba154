"""Preparing a million pairs shaped like Gigaword: time and memory, then a second start; and batches made from them.

Run it as it is. With arguments, a file and a cache, it is one start of a process, which is how it calls itself. The
file is made anew each time: words of Zipf-like frequencies, 31 a source and 8 a target on average.
"""

from __future__ import annotations

import gzip
import shutil
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from measure import alternately, conditions, in_own_process, status_bytes

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


def write_pairs(path: Path) -> None:
    """Writes a TSV file."""
    generator = np.random.default_rng(1)
    names = words(generator)
    weight = np.cumsum(1.0 / (np.arange(TYPES) + 2.7))
    weight /= weight[-1]
    with path.open("w", encoding="utf-8") as file:
        for _ in range(PAIRS // 10_000):
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


def time_batches(prepared: Prepared, config: Config) -> None:
    """Prints what a plan of an epoch and a batch of it cost."""
    src_lens, tgt_lens = prepared.src_lens, prepared.tgt_lens

    def plan(bucket: int) -> list[np.ndarray]:
        batch = config.batch.model_copy(update={"bucket": bucket})
        return plan_batches(src_lens, tgt_lens, batch, seed=1, epoch=0)

    best = alternately({"plan": lambda: plan(config.batch.bucket)}, repeats=2, burst=1)
    print(f"plan of an epoch: {best['plan']:.2f} s")
    cells = int((src_lens * tgt_lens).sum())
    for bucket in (1, config.batch.bucket):
        batches = plan(bucket)
        grid = sum(len(one) * int(src_lens[one].max()) * int(tgt_lens[one].max()) for one in batches)
        print(f"grid cells with padding, buckets of {bucket:2d}: {grid / cells:.2f} times those of the pairs")
    some = plan(config.batch.bucket)[:1000]
    for one in some:
        collate(prepared, one)  # brings their pages into memory
    best = alternately({"collate": lambda: [collate(prepared, one) for one in some]}, repeats=5, burst=1)
    each = best["collate"] / len(some)
    print(f"a batch of {config.batch.size}: {each * 1e6:.0f} us, {each / 0.03:.2%} of a step of 30 ms (bar: 5%)")


def main() -> None:
    if len(sys.argv) == 3:
        start(*sys.argv[1:])
        return
    repeats = 3
    print(f"# Preparing {PAIRS:,} pairs with the preset summarisation. {conditions()}")
    with tempfile.TemporaryDirectory() as name:
        path, cache = Path(name, "pairs.tsv"), str(Path(name, "cache"))
        write_pairs(path)
        print(f"the file: {path.stat().st_size / MEGABYTE:.0f} MiB")
        report(
            "first start ", [one_start(path, Path(name, f"cache-{number}")) for number in range(repeats)], "60 s, 1 GB"
        )
        one_start(path, Path(cache))
        report("second start", [one_start(path, Path(cache)) for _ in range(repeats)], "3 s")
        with path.open("rb") as plain, gzip.open(f"{path}.gz", "wb", compresslevel=1) as packed:
            shutil.copyfileobj(plain, packed)
        report("first start, packed with gzip", [one_start(Path(f"{path}.gz"), Path(name, "cache-gz"))], "none")
        config = settings(cache)
        time_batches(prepare(str(path), config.data, None, is_training=True), config)


def one_start(path: Path, cache: Path) -> list[str]:
    """Seconds, seconds of the processor, bytes and findings of one process."""
    return in_own_process(__file__, str(path), str(cache)).split(" ", 3)


def report(what: str, starts: list[list[str]], bar: str) -> None:
    """Prints the best times and the highest memory of some starts."""
    seconds, busy = (min(float(one[place]) for one in starts) for place in (0, 1))
    peak = max(float(one[2]) for one in starts)
    print(
        f"{what}: {seconds:.2f} s ({busy:.2f} s of the processor, imports included), "
        f"{peak / MEGABYTE:.0f} MiB resident at most (bar: {bar}); {starts[0][3]}",
        flush=True,
    )


if __name__ == "__main__":
    main()
