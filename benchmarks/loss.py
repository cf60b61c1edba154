"""The fused word grid and loss against a materialised ``(B, J, I, V)`` log-softmax: time and peak memory.

Run it as it is. With arguments it measures the memory of one case in this process, which is how it calls itself.
"""

from __future__ import annotations

import sys

import torch
from measure import alternately, conditions, in_own_process, peak_extra_bytes
from torch import Tensor

from ssnt import linear_word_grid, ssnt_loss

MEGABYTE = 1 << 20


class Problem:
    """Random states, weights and transitions of one size."""

    def __init__(self, batch: int, src_size: int, tgt_size: int, width: int, vocab: int) -> None:
        generator = torch.Generator().manual_seed(0)

        def normal(*shape: int, scale: float = 1.0) -> Tensor:
            return torch.randn(*shape, generator=generator).mul_(scale).requires_grad_()

        self.inputs = [
            normal(batch, src_size, width),
            normal(batch, tgt_size, width),
            normal(vocab, width, scale=width**-0.5),
            normal(vocab, width, scale=width**-0.5),
            normal(vocab),
        ]
        logits = torch.randn(batch, tgt_size, src_size, generator=generator)
        self.transitions = torch.nn.functional.logsigmoid(logits), torch.nn.functional.logsigmoid(-logits)
        self.targets = torch.randint(vocab, (batch, tgt_size), generator=generator)
        self.lens = torch.full((batch,), src_size), torch.full((batch,), tgt_size)

    def fused(self) -> Tensor:
        log_word = linear_word_grid(*self.inputs, self.targets)
        return ssnt_loss(log_word, *self.transitions, *self.lens)

    def materialised(self) -> Tensor:
        src_states, tgt_states, src_weight, tgt_weight, bias = self.inputs
        logits = (src_states @ src_weight.T)[:, None] + (tgt_states @ tgt_weight.T + bias)[:, :, None]
        index = self.targets[:, :, None, None].expand(-1, -1, src_states.shape[1], 1)
        log_word = logits.log_softmax(-1).gather(-1, index)[..., 0]
        return ssnt_loss(log_word, *self.transitions, *self.lens, backend="scan")

    def step(self, kind: str) -> None:
        for value in self.inputs:
            value.grad = None
        getattr(self, kind)().backward()


SIZES = {
    "small": {"batch": 8, "src_size": 30, "tgt_size": 10, "width": 256, "vocab": 30_000},
    "large": {"batch": 32, "src_size": 50, "tgt_size": 25, "width": 256, "vocab": 30_000},
}


def memory(size: str, kind: str) -> int:
    """Peak extra memory of one step beyond parameters and their gradients, in bytes."""
    warm_up = Problem(2, 3, 3, 8, 64)
    warm_up.step(kind)  # libraries allocate on first use, and that is not the step's
    problem = Problem(**SIZES[size])
    gradients = sum(value.numel() * value.element_size() for value in problem.inputs)
    return peak_extra_bytes(lambda: problem.step(kind)) - gradients


def gflops(size: str) -> float:
    """Floating-point operations of a step's matrix products, if nothing is computed twice, in 10^9."""
    s = SIZES[size]
    projections = 3 * 2 * s["batch"] * (s["src_size"] + s["tgt_size"]) * s["width"] * s["vocab"]
    grid = 3 * 2 * s["batch"] * s["src_size"] * s["tgt_size"] * s["vocab"]
    return (projections + grid) / 1e9


def main() -> None:
    if len(sys.argv) == 3:
        print(memory(*sys.argv[1:]))
        return
    print(f"# Word grid and loss, forward and backward. {conditions()}")
    problem = Problem(**SIZES["small"])
    difference = abs(problem.fused().item() - problem.materialised().item())
    if difference > 1e-3:
        raise SystemExit(f"the candidates disagree by {difference}")
    a, b = torch.randn(2, 2048, 2048)
    kinds = {kind: (lambda kind=kind: problem.step(kind)) for kind in ("fused", "materialised")}
    best = alternately({**kinds, "mm": lambda: a @ b}, repeats=8)
    rate = 2 * 2048**3 / best.pop("mm") / 1e9
    for kind, seconds in best.items():
        print(f"B=8 I=30 J=10 H=256 V=30,000  {kind:12s} {seconds * 1e3:8.1f} ms")
    print(f"fused is {best['materialised'] / best['fused']:.2f}x faster (bar: 4x)")
    print(f"fused: {gflops('small') / best['fused']:.0f} GFLOP/s; a 2048 x 2048 product: {rate:.0f} GFLOP/s")
    peaks = {kind: int(in_own_process(__file__, "small", kind)) for kind in best}
    for kind, peak in peaks.items():
        print(f"B=8 I=30 J=10 H=256 V=30,000  {kind:12s} {peak / MEGABYTE:8.0f} MiB beyond parameters and gradients")
    print(f"fused needs 1/{peaks['materialised'] / peaks['fused']:.1f} of the memory (bar: 1/8)")
    large = int(in_own_process(__file__, "large", "fused"))
    print(f"B=32 I=50 J=25 H=256 V=30,000 fused        {large / MEGABYTE:8.0f} MiB (bar: 1.5 GB)")


if __name__ == "__main__":
    main()
