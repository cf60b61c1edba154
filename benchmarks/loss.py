"""The fused word grid and loss against a materialised ``(B, J, I, V)`` log-softmax: time and peak memory.

With ``--memory`` it measures the memory of one case in this process, which is how it calls itself.
"""

from __future__ import annotations

import torch
from measure import alternately, in_own_process, peak_extra_bytes
from options import parser
from results import Figure, Recorder, faster, more
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
        return ssnt_loss(log_word, *self.transitions, *self.lens)

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
    takes = parser(__doc__)
    takes.add_argument("--memory", nargs=2, metavar=("SIZE", "KIND"))
    options = takes.parse_args()
    if options.memory:
        print(memory(*options.memory))
        return
    recorder = Recorder("loss", quick=options.quick)
    problem = Problem(**SIZES["small"])
    difference = abs(problem.fused().item() - problem.materialised().item())
    if difference > 1e-3:
        raise SystemExit(f"the candidates disagree by {difference}")
    a, b = torch.randn(2, 2048, 2048)
    kinds = {kind: (lambda kind=kind: problem.step(kind)) for kind in ("fused", "materialised")}
    best = alternately({**kinds, "mm": lambda: a @ b}, repeats=1 if options.quick else 8)
    rate = 2 * 2048**3 / best.pop("mm") / 1e9
    ours, other = (Figure(kind, best[kind] * 1e3, "ms") for kind in kinds)
    recorder.add(faster("time, B=8 I=30 J=10 H=256 V=30,000", ours, other, bar=4))
    ours, other = Figure("fused", gflops("small") / best["fused"], "GFLOP/s"), Figure("torch.mm 2048", rate, "GFLOP/s")
    recorder.add(more("rate, B=8 I=30 J=10 H=256 V=30,000", ours, other))
    peaks = {kind: int(in_own_process(__file__, "--memory", "small", kind)) / MEGABYTE for kind in kinds}
    ours, other = (Figure(kind, peaks[kind], "MiB") for kind in kinds)
    note = "beyond parameters and gradients"
    recorder.add(faster("memory, B=8 I=30 J=10 H=256 V=30,000", ours, other, bar=8, note=note))
    large = Figure("fused", int(in_own_process(__file__, "--memory", "large", "fused")) / MEGABYTE, "MiB")
    allowed = Figure("allowed", 1500e6 / MEGABYTE, "MiB")
    recorder.add(more("memory, B=32 I=50 J=25 H=256 V=30,000", large, allowed, 1, "at most", note=note))
    recorder.write()


if __name__ == "__main__":
    main()
