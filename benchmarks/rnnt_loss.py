"""The SSNT loss against an RNN-T loss on the CPU (fast_rnnt), forward and backward, one thread, real lengths.

Both go from states and weights to the loss and back. They sum over the same kind of path, where a symbol is written
without moving on in the source, but they are not the same loss: RNN-T moves on by a blank that is one of the symbols,
one softmax deciding over both, has a row of cells more, and ends with a blank at the last source position; SSNT has
moves of their own probability, which are given here, and ends with ``</s>`` at any position.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from options import parser, require_data
from peers.peer import Peer, require_peer
from results import Figure, Recorder, faster
from torch import Tensor

from ssnt import linear_word_grid, ssnt_loss

WIDTH = 128
BATCH = 32
Lengths = list[list[int]]


def spread(lengths: Lengths, count: int) -> Lengths:
    """Some of them from all over the file, whose neighbours are alike."""
    return lengths[:: max(1, len(lengths) // count)][:count]


def character_lengths(path: Path) -> Lengths:
    """Lengths of the pairs of an inflection file, end symbols included."""
    rows = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()]
    return [[len(lemma) + 1, len(form) + 1] for lemma, _, form in rows]


def token_lengths(path: Path, longest: tuple[int, int]) -> Lengths:
    """Lengths of the pairs of sentences of a file that are within limits, end symbols included."""
    rows = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()]
    found = [[len(src.split()) + 1, len(tgt.split()) + 1] for src, tgt in rows]
    return [pair for pair in found if pair[0] <= longest[0] and pair[1] <= longest[1]]


class Problem:
    """Random states, weights and transitions for some lengths."""

    def __init__(self, lengths: Lengths, vocab: int) -> None:
        generator = torch.Generator().manual_seed(0)
        self.lens = [torch.tensor([pair[side] for pair in lengths]) for side in (0, 1)]
        batch, src_size, tgt_size = len(lengths), *(int(lens.max()) for lens in self.lens)

        def normal(*shape: int, scale: float = 1.0) -> Tensor:
            return torch.randn(*shape, generator=generator).mul_(scale).requires_grad_()

        self.inputs = [
            normal(batch, src_size, WIDTH),
            normal(batch, tgt_size, WIDTH),
            normal(vocab, WIDTH, scale=WIDTH**-0.5),
            normal(vocab, WIDTH, scale=WIDTH**-0.5),
            normal(vocab),
        ]
        self.moves = normal(batch, tgt_size, src_size)
        self.targets = torch.randint(vocab, (batch, tgt_size), generator=generator)

    def run(self) -> float:
        """Seconds of one step."""
        for value in (*self.inputs, self.moves):
            value.grad = None
        start = time.perf_counter()
        log_word = linear_word_grid(*self.inputs, self.targets, src_lens=self.lens[0], tgt_lens=self.lens[1])
        log_sigmoid = torch.nn.functional.logsigmoid
        loss = ssnt_loss(log_word, log_sigmoid(self.moves), log_sigmoid(-self.moves), *self.lens, reduction="sum")
        loss.backward()
        return time.perf_counter() - start


@contextmanager
def peer_for(lengths: Lengths, vocab: int) -> Iterator[Peer]:
    """fast_rnnt with a problem of the same size."""
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "lengths.json"
        path.write_text(json.dumps(lengths), encoding="utf-8")
        options = ("--lengths", path, "--vocab", vocab, "--width", WIDTH)
        with Peer("fast_rnnt", "rnnt_driver.py", *options) as peer:
            yield peer


def compare(name: str, lengths: Lengths, vocab: int, recorder: Recorder, repeats: int) -> None:
    """Measures one case, in turns."""
    problem = Problem(lengths, vocab)
    best = dict.fromkeys(("ssnt", "simple", "full"), float("inf"))
    with peer_for(lengths, vocab) as peer:
        for turn in range(repeats + 1):
            for kind in best:
                seconds = min(problem.run() if kind == "ssnt" else peer.ask(kind)["seconds"] for _ in range(3))
                if turn:  # the first one compiles
                    best[kind] = min(best[kind], seconds)
    sizes = "I<={} J<={}".format(*(int(lens.max()) for lens in problem.lens))
    ours = Figure("SSNT, fused", best["ssnt"] * 1e3, "ms")
    notes = {
        "simple": "it adds the two sides within the loss, as ours does",
        "full": "it is given the logits of all cells",
    }
    for kind, note in notes.items():
        case = f"{name}, B={len(lengths)} {sizes} V={vocab:,}, against {kind} RNN-T"
        recorder.add(faster(case, ours, Figure(f"fast_rnnt, {kind}", best[kind] * 1e3, "ms"), note=note))


def main() -> None:
    options = parser(__doc__).parse_args()
    nouns = require_data(options, "inflection/de-N/train.tsv")
    sentences = require_data(options, "summarisation/google/valid.tsv")
    require_peer("fast_rnnt")
    torch.set_num_threads(1)
    recorder = Recorder("rnnt_loss", quick=options.quick)
    repeats = 1 if options.quick else 10
    words = spread(character_lengths(nouns), BATCH)
    compare("German nouns", words, 40, recorder, repeats)
    compare("German nouns", words, 500, recorder, repeats)
    compare("sentences", spread(token_lengths(sentences, (50, 25)), BATCH), 5000, recorder, repeats)
    recorder.write()


if __name__ == "__main__":
    main()
