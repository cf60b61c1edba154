"""The plots, as pictures that are the same each time they are drawn."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.reporting.inflection import PAPERS, System
from experiments.reporting.online import Point, label_of
from experiments.reporting.published import inflection_sets, published
from experiments.reporting.summarisation import ROUGE, Rouge
from ssnt.files import atomic_path

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FOLDER = "plots"
_DPI = 130
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#8a6d3b")  # for every eye
_SIGNS = "osD^vP*X"
_STYLES = ("--", "-.", ":", (0, (8, 3)), (0, (1, 4)))  # of lines across the whole picture


def save(figure: Figure, path: Path) -> None:
    """Writes a picture without a date or a program's version in it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_path(path) as partial:
        figure.savefig(partial, format="png", dpi=_DPI, metadata={"Software": None})


def inflection_picture(systems: Sequence[System]) -> Figure | None:
    """A panel a set: every system with its interval, and what was published as lines; None if nothing is complete."""
    shown = [one for one in systems if one.whole]
    if not shown:
        return None
    sets = [name for name in inflection_sets() if any(name in one.whole for one in shown)]
    columns = min(4, len(sets))
    lines = -(-len(sets) // columns)
    figure = _figure(3.1 * columns + 1.6, lines * (0.3 * len(shown) + 1.3) + 0.9)
    axes = figure.subplots(lines, columns, sharey=True, squeeze=False)
    theirs = published()["inflection"]
    for at, panel in enumerate(axes.flat):
        if at >= len(sets):
            panel.set_axis_off()
            continue
        name = sets[at]
        panel.axvline(theirs["table4"][name][PAPERS], color="0.45", linestyle=":", label=f"{PAPERS} in the paper")
        panel.axvline(theirs["best"][name], color="0.45", linestyle="-", label="best published (Table 4)")
        _dots(panel, shown, name)
        panel.set_title(name, fontsize=10)
    figure.legend(
        *axes.flat[0].get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False, fontsize=9
    )
    several = any(found is not None and len(found.seeds) > 1 for one in shown for found in one.sets.values())
    strokes = ": means over seeds with 95 % intervals; strokes are single seeds" if several else " with 95 % intervals"
    figure.suptitle(f"Accuracy, %{strokes}", fontsize=11)
    return figure


def _dots(panel: Axes, systems: Sequence[System], name: str) -> None:
    for place, one in enumerate(systems):
        found = one.sets[name]
        if found is None or found.is_partial:
            continue
        low, high = found.ends
        colour = _COLOURS[place % len(_COLOURS)]
        panel.plot([low, high], [place, place], color=colour, linewidth=1.5)
        panel.plot([found.value], [place], "o", color=colour, markersize=5)
        if len(found.seeds) > 1:
            panel.plot(list(found.seeds.values()), [place] * len(found.seeds), "|", color=colour, markersize=9)
    panel.set_yticks(range(len(systems)), [one.name for one in systems], fontsize=8)
    panel.set_ylim(len(systems) - 0.5, -0.5)
    panel.tick_params(axis="x", labelsize=8)
    panel.locator_params(axis="x", nbins=5)
    panel.grid(axis="x", color="0.9")


def rouge_picture(found: Sequence[Rouge]) -> Figure | None:
    """A panel a score; None if there is nothing to show."""
    shown = [one for one in found if all(score is not None for score in one.scores.values())]
    if not shown:
        return None
    figure = _figure(10, 0.35 * len(shown) + 1.2)
    axes = figure.subplots(1, len(ROUGE), sharey=True, squeeze=False)
    several = len({one.dataset for one in shown}) > 1
    for panel, (metric, label) in zip(axes.flat, ROUGE.items(), strict=True):
        for place, one in enumerate(shown):
            score = one.scores[metric]
            if score is None:
                continue
            low, high = score.ends
            colour = _COLOURS[place % len(_COLOURS)]
            panel.plot([low, high], [place, place], color=colour, linewidth=1.5)
            panel.plot([score.value], [place], "|", color=colour, markersize=10, markeredgewidth=2)
        names = [f"{one.name} ({one.dataset.partition('/')[2]})" if several else one.name for one in shown]
        panel.set_yticks(range(len(shown)), names, fontsize=9)
        panel.set_ylim(len(shown) - 0.5, -0.5)
        panel.set_title(label, fontsize=10)
        panel.grid(axis="x", color="0.9")
    figure.suptitle("ROUGE F1 on test, %, with 95 % intervals", fontsize=11)
    return figure


def online_picture(points: Sequence[Point]) -> Figure | None:
    """Quality against average lagging on one data set; None if nothing streams."""
    streamed = [one for one in points if "al" in one.latency and not one.quality.is_partial]
    if not streamed:
        return None
    figure = _figure(10, 5)
    panel = figure.subplots()
    for place, curve in enumerate(dict.fromkeys(one.curve for one in streamed)):
        some = [one for one in streamed if one.curve == curve]
        name, beside = _told_apart(some)
        xs, ys = [one.latency["al"] for one in some], [one.quality.value for one in some]
        errors = [
            [max(0.0, y - one.quality.ends[0]) for y, one in zip(ys, some, strict=True)],
            [max(0.0, one.quality.ends[1] - y) for y, one in zip(ys, some, strict=True)],
        ]
        colour, sign = _COLOURS[place % len(_COLOURS)], _SIGNS[place % len(_SIGNS)]
        panel.errorbar(xs, ys, errors, label=name, capsize=2, linewidth=1.3, elinewidth=0.7, color=colour, marker=sign)
        for x, y, text in zip(xs, ys, beside, strict=True):
            panel.annotate(text, (x, y), (4, 4), textcoords="offset points", color=colour, fontsize=8)
    ceilings = [one for one in points if not one.latency and not one.quality.is_partial]
    for place, one in enumerate(ceilings):
        style = _STYLES[place % len(_STYLES)]
        panel.axhline(one.quality.value, color="0.4", linestyle=style, label=f"{one.system} (not streamed)")
    panel.set_xlabel("average lagging (AL), source symbols")
    panel.set_ylabel(label_of(points[0].metric) + ", %")
    panel.set_title(f"{points[0].dataset}: 95 % intervals; beside a point the number in the place of …", fontsize=10)
    panel.grid(color="0.9")
    figure.legend(loc="outside right upper", fontsize=8, frameon=False)  # beside the points, which may be anywhere
    return figure


def _told_apart(curve: Sequence[Point]) -> tuple[str, list[str]]:
    """The name of a curve, with the numbers that are the same at all its points, and the others of each point."""
    columns = list(zip(*(one.numbers for one in curve), strict=True))
    differs = [len(set(column)) > 1 for column in columns]
    name, *rest = curve[0].curve.split("…")
    for column, is_different, text in zip(columns, differs, rest, strict=True):
        name += ("…" if is_different else column[0]) + text
    beside = [", ".join(compress(one.numbers, differs)) for one in curve]
    return name, beside


def _figure(width: float, height: float) -> Figure:
    from matplotlib.figure import Figure as NewFigure

    return NewFigure(figsize=(width, height), layout="constrained")
