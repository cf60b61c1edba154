"""One training step, H=128, German dative plurals: its rate of floating-point operations, its parts, Lightning's cost.

The rate is that of the step's matrix products (``flops.py``) by the whole step's time, data and optimiser included, and
is compared with a product of two large matrices in the same thread. Each part is timed alone, over the same batches, on
models of its own; what the whole takes beyond the parts is named too. Lightning is what ``ssnt train`` takes beyond a
bare loop over the same module.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from flops import Sizes, step_flops
from loops import BareLoop, dative_plurals, inflection_settings, with_lightning
from measure import Seconds, alternately
from numpy.typing import NDArray
from options import parser, require_data
from results import Figure, Recorder, more
from torch import Tensor

from ssnt import SSNT, Batch
from ssnt.config import Config
from ssnt.data.prepared import Prepared
from ssnt.loss import ssnt_loss
from ssnt.training.datamodule import Share

MM = 2048
Call = Callable[[], object]
PASSES = (
    *("encoder embedding", "decoder embedding", "encoder LSTM", "decoder LSTM", "source dropout", "target dropout"),
    *("word grid", "transition", "lattice"),
)


def rate(train: Path, recorder: Recorder, repeats: int) -> None:
    """The rate of the step at batch 128, and where its time goes."""
    loop = BareLoop(inflection_settings(train, 128))
    plan = loop.data.plan(1)
    shares = [loop.data.share(1, indices) for indices in plan]
    a, b = torch.randn(2, MM, MM)
    calls: dict[str, Call] = {"step": lambda: loop.run(len(plan)), "mm": lambda: a @ b, **part_calls(loop, shares)}
    best = alternately(calls, repeats, burst=1)
    mm = Figure(f"torch.mm {MM}", 2 * MM**3 / best.pop("mm") / 1e9, "GFLOP/s")
    each = {name: seconds / len(plan) * 1e3 for name, seconds in best.items()}  # ms a step
    step = Figure("step", each.pop("step"), "ms")
    for padding, bar in ((False, 0.5), (True, None)):
        counts = step_flops(loop.model.config, Sizes.of((share.batch for share in shares), padding=padding))
        giga = {name: count / len(plan) / 1e9 for name, count in counts.items()}
        ours = Figure("training step", sum(giga.values()) / step.value * 1e3, "GFLOP/s")
        note = "GFLOP a step: " + ", ".join(f"{name} {count:.3f}" for name, count in giga.items())
        recorder.add(more(f"rate, batch 128, padding {'' if padding else 'not '}counted", ours, mm, bar, note=note))
    for name, value in shown_parts(each, step.value).items():
        recorder.add(more(f"part, batch 128: {name}", Figure(name, value, "ms"), step))


def shown_parts(each: dict[str, float], step: float) -> dict[str, float]:
    """Milliseconds by part: backward passes are what both passes take beyond the forward one, and so on."""
    shown: dict[str, float] = {}
    for name in PASSES:
        shown[f"{name}, forward"] = each.pop(f"{name}, forward")
        shown[f"{name}, backward"] = each.pop(f"{name}, both") - shown[f"{name}, forward"]
    for one in ("forward", "backward"):  # the embeddings were within
        shown[f"encoder LSTM, {one}"] -= shown[f"encoder embedding, {one}"]
        shown[f"decoder LSTM, {one}"] -= shown[f"decoder embedding, {one}"]
    shown |= each
    shown["what the parts alone do not show"] = step - sum(shown.values())
    return shown


def part_calls(loop: BareLoop, shares: list[Share]) -> dict[str, Call]:
    """The parts of a step, each over all batches: what goes in is computed before.

    They have models of their own, so that the loop's model learns by its own steps only: one that keeps its weights,
    for the passes, and one that learns. Gradients are taken away before each pass, as the step does, and not added up.
    """
    model, learner = (BareLoop(loop.config, loop.prepared) for _ in range(2))
    found = pass_calls(model.model, [share.batch for share in shares])
    found["data"] = lambda: [loop.data.share(1, indices) for indices in loop.data.plan(1)]
    found |= gradient_calls(learner, shares)
    found["seed and step size"] = lambda: [learner.module.on_train_batch_start(share, 0) for share in shares]
    return found


def pass_calls(model: SSNT, batches: list[Batch]) -> dict[str, Call]:
    """Forward passes of the parts of a model, and both passes."""
    states = [(_leaf(model.encode(batch).states), _leaf(model.decoder(batch.tgt))) for batch in batches]
    grids = [[_leaf(one) for one in (g.log_word, g.log_emit, g.log_shift)] for g in map(model.grid, batches)]
    everything = list(zip(batches, states, grids, strict=True))

    def decisions(src: Tensor, tgt: Tensor) -> Tensor:
        found = model.transition.log_grid(src, tgt)
        return found.log_emit + found.log_shift

    # what each part makes of a batch, its states and its grids, and what it has gradients for
    parts: dict[str, Callable[[Batch, Any, Any], Tensor]] = {
        "encoder embedding": lambda batch, _, __: model.encoder.dropout(model.encoder.embedding(batch.src)),
        "decoder embedding": lambda batch, _, __: model.decoder.dropout(model.decoder.embedding(batch.tgt)),
        "encoder LSTM": lambda batch, _, __: model.encode(batch).states,
        "decoder LSTM": lambda batch, _, __: model.decoder(batch.tgt),
        "source dropout": lambda _, states, __: model.output_dropout(states[0]),
        "target dropout": lambda _, states, __: model.output_dropout(states[1]),
        "word grid": lambda batch, states, _: model.word.log_grid(*states, batch.tgt, batch.src_lens, batch.tgt_lens),
        "transition": lambda _, states, __: decisions(*states),
        "lattice": lambda batch, _, grids: ssnt_loss(*grids, batch.src_lens, batch.tgt_lens, reduction="sum"),
    }

    def both(part: Callable[[Batch, Any, Any], Tensor]) -> Seconds:
        taken = 0.0
        for batch, state, grid in everything:
            for one in (*model.parameters(), *state, *grid):
                one.grad = None
            start = time.perf_counter()
            found = part(batch, state, grid)
            found.backward(torch.ones_like(found))
            taken += time.perf_counter() - start
        return Seconds(taken)

    found: dict[str, Call] = {}
    for name, part in parts.items():
        found[f"{name}, forward"] = lambda part=part: [part(*batch) for batch in everything]
        found[f"{name}, both"] = lambda part=part: both(part)
    return found


def gradient_calls(loop: BareLoop, shares: list[Share]) -> dict[str, Call]:
    """What a step does with gradients: each time with those of a batch as the backward pass leaves them."""
    weights = list(loop.model.parameters())
    gradients: list[list[Tensor | None]] = []
    for share in shares:
        loop.optimiser.zero_grad()
        loop.module.training_step(share).backward()
        gradients.append([weight.grad for weight in weights])

    def timed(is_clipped: bool, call: Call) -> Seconds:
        taken = 0.0
        for batch in gradients:
            for weight, gradient in zip(weights, batch, strict=True):
                weight.grad = None if gradient is None else gradient.clone()
            if is_clipped:
                loop.module.configure_gradient_clipping(loop.optimiser)
            start = time.perf_counter()
            call()
            taken += time.perf_counter() - start
        return Seconds(taken)

    return {
        "clipping": lambda: timed(False, lambda: loop.module.configure_gradient_clipping(loop.optimiser)),
        "optimiser": lambda: timed(True, loop.optimiser.step),
    }


def _leaf(tensor: Tensor) -> Tensor:
    return tensor.detach().requires_grad_()


# -------------------------------------------------------------------------------------------------------- Lightning


def bare(config: Config, prepared: Prepared, steps: int) -> NDArray[np.float64]:
    """Seconds of each of the same steps, the same way, without Lightning."""
    loop = BareLoop(config, prepared)
    times = []
    for index, share in zip(range(steps), loop.shares(), strict=False):
        times.append(time.perf_counter())
        loop.step(share, index)
    return np.diff([*times, time.perf_counter()])


def lightning_overhead(train: Path, recorder: Recorder, repeats: int) -> None:
    """What Lightning adds to a step at batch 32; the best time of each step counts, as others disturb some of them."""
    first = BareLoop(inflection_settings(train, 32))
    steps = len(first.data.plan(1)) - 1  # the last of an epoch writes a checkpoint
    config = inflection_settings(train, 32, max_steps=steps)
    times: dict[str, list[NDArray[np.float64]]] = {"bare": [], "lightning": []}
    for _ in range(repeats):
        times["bare"].append(bare(config, first.prepared, steps))
        times["lightning"].append(with_lightning(config, first.prepared, steps))
    best = {name: float(np.min(runs, axis=0).sum()) for name, runs in times.items()}
    ours, other = (
        Figure(name, best[key] / steps * 1e3, "ms/step")
        for name, key in (("ssnt train, Lightning included", "lightning"), ("bare loop", "bare"))
    )
    note = f"Lightning adds {(ours.value / other.value - 1):.1%}"
    recorder.add(more("Lightning, batch 32", ours, other, 1.1, "at most", note))


def main() -> None:
    options = parser(__doc__).parse_args()
    folder = require_data(options, "inflection/de-N")
    torch.set_num_threads(1)
    recorder = Recorder("step", quick=options.quick)
    with tempfile.TemporaryDirectory() as place:
        train = dative_plurals(folder, Path(place))
        rate(train, recorder, repeats=1 if options.quick else 10)
        lightning_overhead(train, recorder, repeats=1 if options.quick else 8)
    recorder.write()


if __name__ == "__main__":
    main()
