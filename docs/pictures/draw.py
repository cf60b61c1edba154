"""Draws the pictures of docs/concepts.md from an invented lattice, with the library's own plots.

    python docs/pictures/draw.py [DIRECTORY]

The probabilities are invented so that the pictures stay the same; everything computed from them is exact.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from ssnt import Alignment, AlignmentDistribution
from ssnt.decode.align import find_segments
from ssnt.plots import plot_alignment, plot_path, save_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SOURCE = [*"zocken", "</s>"]
TARGET = [*"gezockt", "</s>"]
WRITTEN_AT = (0, 0, 0, 1, 2, 3, 6, 6)
"""Where the drawn path writes each letter: ``ge`` before anything is copied, ``t`` when the word has ended."""

_POSSIBLE = "0.8"
_TEXT = "0.25"
_PATH = "crimson"


def main() -> None:
    """Draws all pictures into a directory, by default the one of this file."""
    directory = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    for name, figure in (("lattice", lattice()), ("cell", cell()), ("segments", segments())):
        save_figure(figure, directory / f"{name}.svg")


def lattice() -> Figure:
    """All moves of the grid, and one path through it."""
    figure = plot_path(Alignment(WRITTEN_AT, 0.0), SOURCE, TARGET)
    (axes,) = figure.axes
    style = {"arrowstyle": "-|>", "color": _POSSIBLE, "linewidth": 0.8, "mutation_scale": 6, "shrinkA": 2, "shrinkB": 3}
    for j in range(len(TARGET)):
        for i in range(len(SOURCE)):
            for end in ((j + 1, i), (j, i + 1)):
                if end[0] < len(TARGET) and end[1] < len(SOURCE):
                    axes.annotate("", end, (j, i), arrowprops=style, zorder=0)
    return figure


def cell() -> Figure:
    """What flows into a cell of the grid, and what out of it."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.6, 3.4), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.set_xlim(-1.25, 1.45)
    axes.set_ylim(1.35, -1.35)
    axes.set_axis_off()
    centre = (0.0, 0.0)
    moves = (
        ((-1.0, 0.0), centre, "emit · word", (-0.5, -0.12), _TEXT),
        ((0.0, -1.0), centre, "shift", (0.12, -0.5), _TEXT),
        (centre, (1.0, 0.0), "emit · word", (0.5, -0.12), _PATH),
        (centre, (0.0, 1.0), "shift", (0.12, 0.5), _PATH),
    )
    for begin, end, label, place, colour in moves:
        style = {"arrowstyle": "-|>", "color": colour, "linewidth": 1.6, "mutation_scale": 13, "shrinkA": 9}
        axes.annotate("", end, begin, arrowprops={**style, "shrinkB": 9})
        axes.text(*place, label, color=colour, ha="center" if place[1] == -0.12 else "left", va="center")
    for (across, down), label, side in (
        ((-1.0, 0.0), "(i, j-1)", -1),
        ((0.0, -1.0), "(i-1, j)", 1),
        (centre, "(i, j)", 0),
        ((1.0, 0.0), "(i, j+1)", -1),
        ((0.0, 1.0), "(i+1, j)", 1),
    ):
        axes.plot(across, down, "o", color="black", markersize=6)
        offset = {-1: (0.0, 0.17), 0: (-0.2, 0.17), 1: (-0.26, 0.0)}[side]
        axes.text(across + offset[0], down + offset[1], label, ha="center", va="center", family="monospace", size=9)
    return figure


def invented() -> AlignmentDistribution:
    """A distribution over the alignments of one pair: letters are copied, mostly where they are read."""
    tgt_size, src_size = len(TARGET), len(SOURCE)
    word = torch.full((tgt_size, src_size), 0.02)
    emit = torch.full((tgt_size, src_size), 0.05)
    for j, i in enumerate(WRITTEN_AT):
        word[j, i], emit[j, i] = 0.9, 0.9
    word[5, 4], emit[5, 3], emit[5, 4] = 0.9, 0.55, 0.9  # it may wait with k until it has read e
    logs = (word.log()[None], emit.log()[None], (1 - emit).log()[None])
    return AlignmentDistribution(*logs, torch.tensor([src_size]), torch.tensor([tgt_size]))


def segments() -> Figure:
    """Posteriors and best path of the invented distribution, with a frame around each segment."""
    from matplotlib.patches import Rectangle

    distribution = invented()
    emit = distribution.posteriors().emit[0]
    path = distribution.viterbi()[0]
    figure = plot_alignment(emit, SOURCE, TARGET, path)
    (axes,) = figure.axes
    for segment in find_segments(emit, path.positions):
        if segment.is_deletion:
            continue
        corner = (segment.tgt_start - 0.47, segment.src_start - 0.47)
        size = (segment.tgt_end - segment.tgt_start - 0.06, segment.src_end - segment.src_start - 0.06)
        axes.add_patch(Rectangle(corner, *size, fill=False, edgecolor="darkorange", linewidth=2.2, zorder=3))
    return figure


if __name__ == "__main__":
    main()
