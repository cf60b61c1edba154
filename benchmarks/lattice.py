"""The Numba lattice against torch recursions with autograd, one thread each, forward and backward.

Two torch recursions are timed, and the faster one is what counts: the library's own diagonal scan, and a row at a time
with ``logcumsumexp``.
"""

from __future__ import annotations

import torch
from measure import alternately, conditions
from torch import Tensor

from ssnt import ssnt_loss
from ssnt.dp.diagonals import Moves
from ssnt.dp.scan import log_arrivals, log_total
from ssnt.types import Grid


def make_grids(batch: int, tgt_size: int, src_size: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    word = torch.empty(batch, tgt_size, src_size).exponential_(generator=generator).mul_(-2)
    logits = torch.randn(word.shape, generator=generator)
    grids = [word, torch.nn.functional.logsigmoid(logits), torch.nn.functional.logsigmoid(-logits)]
    return [grid.requires_grad_() for grid in grids]


def diagonals_with_autograd(grids: list[Tensor], src_lens: Tensor, tgt_lens: Tensor) -> Tensor:
    weights = Moves.log_weights(Grid(*grids, src_lens, tgt_lens), "any")
    return -log_total(weights, log_arrivals(weights)).mean()


def rows_with_autograd(grids: list[Tensor]) -> Tensor:
    """Row by row; full lengths only, and only where no shift has probability zero."""
    log_word, log_emit, log_shift = grids
    log_waits = torch.nn.functional.pad(log_shift[:, :, :-1], (1, 0)).cumsum(dim=2)
    log_alpha = log_waits[:, 0] + log_emit[:, 0] + log_word[:, 0]
    for j in range(1, log_word.shape[1]):
        log_arrive = torch.logcumsumexp(log_alpha - log_waits[:, j], dim=1) + log_waits[:, j]
        log_alpha = log_arrive + log_emit[:, j] + log_word[:, j]
    return -torch.logsumexp(log_alpha, dim=1).mean()


def compare(batch: int, tgt_size: int, src_size: int, repeats: int, torch_too: bool = True) -> dict[str, float]:
    grids = make_grids(batch, tgt_size, src_size)
    lens = torch.full((batch,), src_size), torch.full((batch,), tgt_size)
    losses = {"numba": lambda: ssnt_loss(*grids, *lens, backend="numba")}
    if torch_too:
        losses["diagonals"] = lambda: diagonals_with_autograd(grids, *lens)
        losses["rows"] = lambda: rows_with_autograd(grids)
    values = [loss().item() for loss in losses.values()]
    if max(values) - min(values) > 1e-4 * max(values):
        raise SystemExit(f"the candidates disagree: {values}")
    steps = {name: lambda loss=loss: torch.autograd.grad(loss(), grids) for name, loss in losses.items()}
    return alternately(steps, repeats)


def main() -> None:
    torch.set_num_threads(1)
    print(f"# Lattice, forward and backward, one thread. {conditions()}")
    small = compare(32, 25, 50, repeats=20)
    cells = 32 * 25 * 50
    for name, seconds in small.items():
        print(f"B=32 I=50 J=25   {name:10s} {seconds * 1e3:8.3f} ms  {seconds / cells * 1e9:7.2f} ns/cell")
    fastest_torch = min(small["diagonals"], small["rows"])
    print(f"numba against the faster torch recursion with autograd: {fastest_torch / small['numba']:.1f}x (bar: 6x)")

    per_cell = {}
    for batch, tgt_size, src_size in ((32, 25, 50), (4, 200, 400), (32, 25, 50), (4, 200, 400)):
        seconds = compare(batch, tgt_size, src_size, repeats=12, torch_too=False)["numba"]
        key = (tgt_size, src_size)
        per_cell[key] = min(per_cell.get(key, float("inf")), seconds / (batch * tgt_size * src_size))
    for (tgt_size, src_size), seconds in per_cell.items():
        print(f"I={src_size} J={tgt_size}: {seconds * 1e9:.2f} ns/cell, {1e-6 / seconds:.0f} million cells a second")
    print(
        f"time per cell, I=400 J=200 against I=50 J=25: {per_cell[200, 400] / per_cell[25, 50]:.2f} (bar: at most 1.3)"
    )


if __name__ == "__main__":
    main()
