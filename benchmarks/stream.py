"""Streams: time and memory for each input symbol however long the stream, and many streams against one."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Iterator

import torch
from measure import alternately, status_bytes
from options import parser
from results import Figure, Recorder, more

from ssnt.config import ModelConfig
from ssnt.decode import ModelScorer, StreamOptions, open_streams
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


def endless(scorer: ModelScorer, symbols: int, window: int, recorder: Recorder) -> None:
    """Time and resident memory of an early and of the last window of a long stream."""
    stream, walk = open_streams(scorer, 1, StreamOptions()), random_walk(1)
    seconds, resident, written, longest = [], [], 0, 0
    for _ in range(symbols // window):
        start = time.perf_counter()
        for _ in range(window):
            update = stream.push([next(walk)])[0]
            written += len(update.committed)
            longest = max(longest, len(update.tentative))
        seconds.append((time.perf_counter() - start) / window * 1e6)
        resident.append(status_bytes("VmRSS") / MEGABYTE)
    note = f"{written:,d} of {symbols:,d} committed, at most {longest} waiting"
    last, second = f"last {window:,d} symbols", f"second {window:,d} symbols"
    ours, other = Figure(last, seconds[-1], "us/symbol"), Figure(second, seconds[1], "us/symbol")
    recorder.add(more(f"one stream of {symbols:,d} symbols, time", ours, other, 1.2, "at most", note))
    grown = Figure(f"growth from the {second} to the {last}", resident[-1] - resident[1], "MiB")
    allowed = Figure("allowed", 5e6 / MEGABYTE, "MiB")
    recorder.add(more(f"one stream of {symbols:,d} symbols, memory", grown, allowed, 1, "at most"))


def together(scorer: ModelScorer, repeats: int, recorder: Recorder, steps: int = 40, alone: int = 4) -> None:
    """The throughput of many streams in one batch against some of the same one after the other."""
    walks = [list(itertools.islice(random_walk(seed), steps)) for seed in range(STREAMS)]

    def run(inputs: list[list[int]]) -> None:
        batch = open_streams(scorer, len(inputs), StreamOptions())
        for symbols in zip(*inputs, strict=True):
            batch.push(symbols)

    def run_alone() -> None:
        for walk in walks[:alone]:  # several, for some inputs need more rounds than others
            run([walk])

    best = alternately({"one": run_alone, "all": lambda: run(walks)}, repeats=repeats, burst=2)
    every = Figure(f"{STREAMS} streams together", STREAMS * steps / best["all"], "symbols/s")
    one = Figure("one at a time", alone * steps / best["one"], "symbols/s")
    recorder.add(more(f"{STREAMS} streams", every, one, bar=8))


def main() -> None:
    takes = parser(__doc__)
    takes.add_argument("--symbols", type=int, default=200_000, help="length of the long stream (default 200,000)")
    options = takes.parse_args()
    torch.set_num_threads(1)
    recorder = Recorder("stream", quick=options.quick)
    scorer = make_scorer(steps=100 if options.quick else 300)
    together(scorer, 1 if options.quick else 6, recorder)
    symbols, window = (1500, 500) if options.quick else (options.symbols, WINDOW)
    endless(scorer, symbols, window, recorder)
    recorder.write()


if __name__ == "__main__":
    main()
