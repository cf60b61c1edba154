"""Pictures of alignments, laid out as in the paper's figures: the source runs down, the target to the right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from torch import Tensor

from ssnt.errors import ShapeError
from ssnt.types import Alignment

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_CELL_INCHES = 0.36


def plot_alignment(
    emit: Tensor, source: Sequence[str], target: Sequence[str], path: Alignment | None = None, title: str | None = None
) -> Figure:
    """Draws one pair's emission posteriors as shades, and a path over them.

    Args:
        emit: ``P(a_j = i | x, y)`` of one pair without padding, ``(J, I)``.
        source: The source symbols, ``I`` of them.
        target: The target symbols, ``J`` of them.
        path: An alignment to draw as a line, such as the best one.
        title: A heading.

    Returns:
        A matplotlib figure; save it with ``figure.savefig("alignment.png")`` (or ``.svg``).
    """
    if emit.shape != (len(target), len(source)):
        expected = f"(J, I) = ({len(target)}, {len(source)}), as target and source have"
        raise ShapeError(f"emit must have shape {expected}, got {tuple(emit.shape)}")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(1.2 + _CELL_INCHES * len(target), 1.0 + _CELL_INCHES * len(source)), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.imshow(emit.detach().double().cpu().numpy().T, cmap="Blues", vmin=0.0, vmax=1.0)
    axes.set_xticks(range(len(target)), list(target))
    axes.set_yticks(range(len(source)), list(source))
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    axes.set_xticks([j + 0.5 for j in range(len(target) - 1)], minor=True)
    axes.set_yticks([i + 0.5 for i in range(len(source) - 1)], minor=True)
    axes.grid(which="minor", color="white", linewidth=1.5)
    axes.tick_params(which="minor", length=0)
    axes.spines[:].set_visible(False)
    if path is not None:
        axes.plot(*_corners(path), color="crimson", linewidth=1.6, solid_joinstyle="round")
        axes.plot(range(len(target)), path.positions, "o", color="crimson", markersize=4)
    if title is not None:
        figure.suptitle(title)
    return figure


def _corners(path: Alignment) -> tuple[list[float], list[float]]:
    """The walk of a path: shifts go down before the column is written, emissions go right."""
    across, down = [0.0], [0.0]
    for j, i in enumerate(path.positions):
        across += [j, j]
        down += [down[-1], i]
    return across, down
