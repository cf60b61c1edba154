"""How time and memory of a training step grow with vocabulary, source length, target length and batch.

Time an example is compared with ``a + b * count``, where the count is that of the step's matrix products (``flops.py``)
and the two constants are fitted to all points together. A materialised ``(B, J, I, V)`` grid is measured beside it as
far as it fits. Memory is what a step takes beyond weights and gradients, each point in a process of its own.

With ``--memory KIND V I J B`` it measures one such point in this process, which is how it calls itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from flops import Sizes, total_flops
from loops import materialised_loss
from measure import alternately, in_own_process, peak_extra_bytes
from options import parser
from results import Figure, Recorder, faster, more
from torch import Tensor

from ssnt import SSNT, Batch, ModelConfig

MEGABYTE = 1 << 20
HIDDEN = 256
MOST_CELLS = 150e6  # numbers in a materialised grid that is still tried: some 2 GB with its gradients


@dataclass(frozen=True)
class Point:
    """The sizes of a batch."""

    v: int = 10_000
    i: int = 30
    j: int = 10
    b: int = 16

    def __str__(self) -> str:
        return f"V={self.v:,} I={self.i} J={self.j} B={self.b}"

    @property
    def cells(self) -> int:
        """Numbers in a materialised grid."""
        return self.v * self.i * self.j * self.b

    def flops(self) -> float:
        """The count of the matrix products, for each example."""
        sizes = Sizes(self.b, self.b * self.i, self.b * self.j, self.b * self.i * self.j)
        return total_flops(config_of(self), sizes) / self.b


AXES = {
    "v": ("vocabulary", (1_000, 3_000, 10_000, 30_000, 60_000)),
    "i": ("source length", (10, 20, 30, 60, 120)),
    "j": ("target length", (5, 10, 20, 40)),
    "b": ("batch", (4, 8, 16, 32)),
}
QUICK_AXES = {"v": ("vocabulary", (1_000, 3_000)), "i": ("source length", (10, 20)), "b": ("batch", (4, 8))}


def config_of(point: Point) -> ModelConfig:
    """A uniSSNT+, whose source vocabulary stays the same: it is in no product."""
    return ModelConfig.variant(
        "uniSSNT+", src_vocab_size=1000, tgt_vocab_size=point.v, hidden_size=HIDDEN, embed_size=HIDDEN
    )


def step_of(point: Point, kind: str) -> Callable[[], None]:
    """A forward and a backward pass over random symbols."""
    torch.manual_seed(0)
    model = SSNT(config_of(point)).train()
    src, tgt = torch.randint(4, 1000, (point.b, point.i)), torch.randint(4, point.v, (point.b, point.j))
    batch = Batch(src, torch.full((point.b,), point.i), tgt, torch.full((point.b,), point.j))
    loss: Callable[[SSNT, Batch], Tensor] = SSNT.loss if kind == "fused" else materialised_loss

    def step() -> None:
        for weight in model.parameters():
            weight.grad = None
        loss(model, batch).backward()

    return step


def memory(kind: str, point: Point) -> int:
    """Bytes that a step takes beyond the weights and their gradients."""
    step_of(Point(64, 3, 3, 2), kind)()  # libraries allocate on first use
    gradients = 4 * sum(one.numel() for one in SSNT(config_of(point)).parameters())
    return peak_extra_bytes(step_of(point, kind)) - gradients


@dataclass(frozen=True)
class Line:
    """Seconds ``a + b * count``."""

    a: float
    b: float

    def __call__(self, count: float) -> float:
        return self.a + self.b * count

    def __str__(self) -> str:
        return f"a = {self.a * 1e3:.3g} ms, 1 / b = {1e-9 / self.b:.3g} GFLOP/s"

    @classmethod
    def fit(cls, counts: list[float], seconds: list[float]) -> Line:
        """The line of the least relative errors with ``a`` at least 0."""
        x, y = np.array(counts), np.array(seconds)
        (a, b), *_ = np.linalg.lstsq(np.stack([1 / y, x / y], axis=1), np.ones(len(y)), rcond=None)
        if a < 0:
            a, b = 0.0, (x / y).sum() / ((x / y) ** 2).sum()
        return cls(float(a), float(b))


def time_curves(axes: dict[str, tuple[str, tuple[int, ...]]], repeats: int, recorder: Recorder) -> None:
    """Times against the count of products, and against a materialised grid as far as that fits."""
    base = Point()
    points = {(axis, value): replace(base, **{axis: value}) for axis, (_, values) in axes.items() for value in values}
    seconds: dict[Point, dict[str, float]] = {}
    for point in dict.fromkeys(points.values()):
        kinds = ["fused"] + ["materialised"] * (point.cells <= MOST_CELLS)
        best = alternately({kind: step_of(point, kind) for kind in kinds}, repeats, burst=2)
        seconds[point] = {kind: value / point.b for kind, value in best.items()}
    # the batch changes no count, and only how well products of the same count run
    timed = {point: one["fused"] for point, one in seconds.items() if point.b == base.b}
    fitted = Line.fit([point.flops() for point in timed], list(timed.values()))
    worst = 1.0
    for (axis, value), point in points.items():
        name = axes[axis][0]
        own = Figure("measured", seconds[point]["fused"] * 1e3, "ms/example")
        predicted = Figure("a + b * count", fitted(point.flops()) * 1e3, "ms/example")
        note = f"{point.flops() / 1e9:.3g} GFLOP an example"
        row = more(f"time against {name}: {point}", own, predicted, note=note, series=f"time against {name}", x=value)
        worst = max(worst, row.ratio, 1 / row.ratio) if point in timed else worst
        recorder.add(row)
        if "materialised" in seconds[point]:
            other = Figure("materialised", seconds[point]["materialised"] * 1e3, "ms/example")
            own = Figure("fused", own.value, own.unit)
            case, series = f"time against {name}, materialised: {point}", f"time against {name}, materialised"
            recorder.add(faster(case, own, other, series=series, x=value))
    ours, other = Figure("furthest point", worst, "times the fit"), Figure("the fit", 1.0, "times the fit")
    case = "furthest from the count of products, against V, I and J"
    recorder.add(more(case, ours, other, 1.3, "at most", str(fitted)))


def memory_curves(axes: dict[str, tuple[str, tuple[int, ...]]], recorder: Recorder) -> None:
    """Memory against a materialised grid, which is computed where it would not fit."""
    base = Point()
    for axis, (name, values) in axes.items():
        for value in values:
            point = replace(base, **{axis: value})
            numbers = [str(one) for one in (point.v, point.i, point.j, point.b)]
            ours = Figure("fused", int(in_own_process(__file__, "--memory", "fused", *numbers)) / MEGABYTE, "MiB")
            if point.cells <= MOST_CELLS:
                found = int(in_own_process(__file__, "--memory", "materialised", *numbers)) / MEGABYTE
                other = Figure("materialised", found, "MiB")
            else:
                other = Figure("materialised, computed: two grids", 2 * 4 * point.cells / MEGABYTE, "MiB")
            series = f"memory against {name}"
            recorder.add(faster(f"{series}: {point}", ours, other, series=series, x=value))


def main() -> None:
    takes = parser(__doc__)
    takes.add_argument("--memory", nargs=5, metavar=("KIND", "V", "I", "J", "B"))
    options = takes.parse_args()
    torch.set_num_threads(1)
    if options.memory:
        kind, *numbers = options.memory
        print(memory(kind, Point(*map(int, numbers))))
        return
    recorder = Recorder("cost", quick=options.quick)
    axes = QUICK_AXES if options.quick else AXES
    time_curves(axes, 1 if options.quick else 5, recorder)
    memory_curves({axis: axes[axis] for axis in axes if axis != "j"}, recorder)
    recorder.write()


if __name__ == "__main__":
    main()
