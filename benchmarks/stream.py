"""Streams: time and memory for each input symbol however long the stream, and many streams against one.

python benchmarks/stream.py [symbols]     200,000 by default
"""

from __future__ import annotations

import itertools
import random
import sys
import time
from collections.abc import Iterator

import torch
from measure import alternately, conditions, status_bytes

from ssnt.config import ModelConfig
from ssnt.decode.scorer import ModelScorer
from ssnt.decode.stream import StreamOptions, open_streams
from ssnt.nn import SSNT
from ssnt.types import EOS_ID, UNK_ID, Batch

MEGABYTE = 2**20
VOCAB = 40
WINDOW = 10_000
STREAMS = 64


def random_walk(seed: int) -> Iterator[int]:
    """Symbols of which each is next to the one before, round and round the vocabulary."""
    chance, at, size = random.Random(seed), 0, VOCAB - UNK_ID - 1
    while True:
        at = (at + chance.choice((-1, 0, 1))) % size
        yield UNK_ID + 1 + at


def make_scorer(steps: int = 300, batch: int = 32) -> ModelScorer:
    """A model trained for a moment to copy random walks: an untrained one would hardly write anything."""
    torch.manual_seed(0)
    sizes = {"src_vocab_size": VOCAB, "tgt_vocab_size": VOCAB, "embed_size": 64, "hidden_size": 128}
    model = SSNT(ModelConfig.variant("uniSSNT+", **sizes))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    lens = torch.full((batch,), 25)
    for step in range(steps):
        walks = [random_walk(step * batch + row) for row in range(batch)]
        src = torch.tensor([[next(walk) for _ in range(24)] + [EOS_ID] for walk in walks])
        loss = model.loss(Batch(src, lens, src, lens), end="last")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"trained to copy: {loss.item():.2f} nats an output")
    return ModelScorer(model.eval())


def endless(scorer: ModelScorer, symbols: int) -> None:
    """Reports time and resident memory of an early and of the last window of a long stream."""
    stream, walk = open_streams(scorer, 1, StreamOptions()), random_walk(1)
    seconds, resident, written, longest = [], [], 0, 0
    for _ in range(symbols // WINDOW):
        start = time.perf_counter()
        for _ in range(WINDOW):
            update = stream.push([next(walk)])[0]
            written += len(update.committed)
            longest = max(longest, len(update.tentative))
        seconds.append(time.perf_counter() - start)
        resident.append(status_bytes("VmRSS"))
        print(f"  {len(seconds) * WINDOW:7,d} symbols: {seconds[-1] / WINDOW * 1e6:6.0f} us a symbol", flush=True)
    print(f"one stream, {symbols:,d} symbols: {written:,d} committed, at most {longest} waiting")
    print(f"the last {WINDOW:,d} take {seconds[-1] / seconds[1]:.2f}x the time of the second {WINDOW:,d} (bar: 1.2x)")
    print(f"memory grows by {(resident[-1] - resident[1]) / MEGABYTE:.2f} MiB between them (bar: 5 MB)")


def together(scorer: ModelScorer, steps: int = 40, alone: int = 4) -> None:
    """Reports the throughput of many streams in one batch against some of the same one after the other."""
    walks = [list(itertools.islice(random_walk(seed), steps)) for seed in range(STREAMS)]

    def run(inputs: list[list[int]]) -> None:
        batch = open_streams(scorer, len(inputs), StreamOptions())
        for symbols in zip(*inputs, strict=True):
            batch.push(symbols)

    def run_alone() -> None:
        for walk in walks[:alone]:  # several, for some inputs need more rounds than others
            run([walk])

    best = alternately({"one": run_alone, "all": lambda: run(walks)}, repeats=6, burst=2)
    one, every = alone * steps / best["one"], STREAMS * steps / best["all"]
    print(f"  1 stream:  {one:8,.0f} symbols a second")
    print(f" {STREAMS} streams: {every:8,.0f} symbols a second")
    print(f"{STREAMS} streams together reach {every / one:.1f}x the symbols a second of one (bar: 8x)")


def main() -> None:
    torch.set_num_threads(1)
    print(f"# Streams, beam {StreamOptions().beam}, V={VOCAB}, H=128. {conditions()}")
    scorer = make_scorer()
    together(scorer)
    endless(scorer, int(sys.argv[1]) if len(sys.argv) > 1 else 200_000)


if __name__ == "__main__":
    main()
