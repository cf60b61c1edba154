"""Computes RNN-T losses with fast_rnnt, on command; runs in fast_rnnt's own environment (``install.py`` makes it).

Reads one command a line from standard input and answers each with one line of JSON: ``simple`` or ``full``, each
forward and backward once, down to states and weights. ``simple`` adds the two sides' logits within the loss, so that
the normaliser is a matrix product; ``full`` is given the logits of every cell.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from importlib.metadata import version
from pathlib import Path

import torch
from torch import Tensor

# isort: split
import fast_rnnt  # finds torch's libraries only after torch


class Problem:
    """Random states and weights, and lengths from a file: ``[[source, target], ...]``."""

    def __init__(self, lengths: list[list[int]], width: int, vocab: int) -> None:
        generator = torch.Generator().manual_seed(0)
        frames, symbols = (max(pair[side] for pair in lengths) for side in (0, 1))
        batch = len(lengths)

        def normal(*shape: int, scale: float = 1.0) -> Tensor:
            return torch.randn(*shape, generator=generator).mul_(scale).requires_grad_()

        self.inputs = [
            normal(batch, frames, width),
            normal(batch, symbols + 1, width),
            normal(vocab, width, scale=width**-0.5),
            normal(vocab, width, scale=width**-0.5),
            normal(vocab),
        ]
        self.targets = torch.randint(1, vocab, (batch, symbols), generator=generator)  # 0 is the blank
        self.boundary = torch.tensor([[0, 0, tgt, src] for src, tgt in lengths])

    def run(self, kind: str) -> dict[str, float]:
        for value in self.inputs:
            value.grad = None
        start = time.perf_counter()
        src, tgt, src_weight, tgt_weight, bias = self.inputs
        am, lm = src @ src_weight.T, tgt @ tgt_weight.T + bias
        if kind == "simple":
            loss = fast_rnnt.rnnt_loss_simple(lm, am, self.targets, 0, self.boundary, reduction="sum")
        else:
            loss = fast_rnnt.rnnt_loss(am[:, :, None] + lm[:, None], self.targets, 0, self.boundary, reduction="sum")
        loss.backward()
        return {"seconds": time.perf_counter() - start, "loss": loss.item()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lengths", type=Path, required=True, help="a JSON file")
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--vocab", type=int, required=True)
    options = parser.parse_args()
    torch.set_num_threads(1)
    problem = Problem(json.loads(options.lengths.read_text(encoding="utf-8")), options.width, options.vocab)
    print(json.dumps({"version": version("fast_rnnt")}), flush=True)
    for line in sys.stdin:
        print(json.dumps(problem.run(line.strip())), flush=True)


if __name__ == "__main__":
    main()
