"""What every lattice backend takes and gives back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from ssnt.errors import BackendError
from ssnt.types import End, Grid, Posteriors

if TYPE_CHECKING:
    import torch
    from torch import Tensor


@dataclass(frozen=True)
class Solution:
    """The result of one forward-backward over a batch of lattices.

    The gradient of ``nll`` with respect to ``log_word`` and to ``log_emit`` is ``-emit``, and with
    respect to ``log_shift`` it is ``-shift``: nothing else is needed for training.

    Attributes:
        nll: Negative log-likelihood of each pair, ``(B,)``, in the dtype of the grid. ``+inf`` where
            no path has any probability; NaN where a valid cell holds NaN or ``+inf``, or where
            lengths are out of range.
        emit: Emission posteriors ``(B, J, I)`` in the dtype of the grid, or None if not asked for.
        shift: Shift posteriors ``(B, J, I)`` in the dtype of the grid, or None if not asked for.
    """

    nll: Tensor
    emit: Tensor | None = None
    shift: Tensor | None = None


def posteriors_of(solution: Solution) -> Posteriors:
    """The posteriors of a solution that was asked for them."""
    if solution.emit is None or solution.shift is None:
        raise BackendError("solution: expected posteriors, got None; solve with want_posteriors=True")
    return Posteriors(solution.emit, solution.shift)


class Backend(Protocol):
    """An implementation of the lattice recursion.

    A backend gets a validated :class:`~ssnt.types.Grid`: three grids of one shape, dtype (float32 or
    float64) and device, lengths as int64 on that device. It must

    * read no cell beyond a pair's lengths, and write zeros there;
    * recurse in float64 (float32 where the device has no float64), whatever the input's dtype;
    * be exact to rounding in ``nll``, and in posteriors to rounding or 2^-60, whichever is larger;
    * take true minus infinity anywhere; give ``nll = +inf`` and zero posteriors where no path exists;
    * give ``nll = NaN`` for a pair with NaN or ``+inf`` in *any* valid cell, used or not, or with a
      length outside ``1..size``: never a finite number.
    """

    name: str

    def unavailable(self, device: torch.device) -> str | None:
        """Says why the backend cannot run on ``device``, or None if it can."""
        ...

    def solve(self, grid: Grid, end: End, want_posteriors: bool) -> Solution:
        """Runs the recursion; posteriors are computed only if asked for."""
        ...
