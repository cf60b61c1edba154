"""The Numba lattice against torch recursions with autograd, one thread each, forward and backward.

Two torch recursions are timed, and the faster one is what counts: the library's own diagonal scan, and a row at a time
with ``logcumsumexp``.
"""

from __future__ import annotations

import torch
from measure import alternately
from options import parser
from results import Figure, Recorder, faster, more
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
    options = parser(__doc__).parse_args()
    torch.set_num_threads(1)
    recorder = Recorder("lattice", quick=options.quick)
    repeats = 2 if options.quick else 20
    small = {name: seconds * 1e3 for name, seconds in compare(32, 25, 50, repeats).items()}
    others = {"diagonals": "diagonal scan with autograd", "rows": "rows with autograd"}
    fastest = min(others, key=small.__getitem__)
    for name, title in others.items():
        ours, other = Figure("Numba lattice", small["numba"], "ms"), Figure(title, small[name], "ms")
        bar = 6 if name == fastest else None
        recorder.add(faster(f"B=32 I=50 J=25, against {title}", ours, other, bar))

    per_cell: dict[int, float] = {}
    for batch, tgt_size, src_size in ((32, 25, 50), (4, 200, 400)) * 2:
        seconds = compare(batch, tgt_size, src_size, max(2, repeats // 2), torch_too=False)["numba"]
        nanoseconds = seconds / (batch * tgt_size * src_size) * 1e9
        per_cell[src_size] = min(per_cell.get(src_size, nanoseconds), nanoseconds)
    large, small_one = Figure("I=400 J=200", per_cell[400], "ns/cell"), Figure("I=50 J=25", per_cell[50], "ns/cell")
    recorder.add(more("time per cell of a large grid", large, small_one, 1.3, "at most"))
    recorder.write()


if __name__ == "__main__":
    main()
