"""Writes docs/benchmarks.md and its pictures from the results of the benchmarks.

python benchmarks/report.py            writes them
python benchmarks/report.py --check    writes nothing, and exits with 1 if the page is out of date
python benchmarks/report.py --quick    from what --quick left, into benchmarks/results/quick
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

from results import RESULTS, ROOT, Figure, Result, Row, number, read_results

from ssnt.files import write_text

DOCS = ROOT / "docs"
PICTURES = "pictures/benchmarks"
_NOTE = "<!-- Written by benchmarks/report.py from benchmarks/results: measure again, or change it, and run it. -->\n"
_INTRO = """# Benchmarks

Every row compares two figures; the ratio is what counts, the figures are those of one machine. Where two programs are
timed against each other, both were in one run and took turns, and the best of several turns counts. Memory is that of
processes of their own. A figure that is called *allowed* or *computed*, or is a fit, was not measured: there one side
was. A bar is what the project asks of a ratio. Lengths are those of real data: German nouns (`inflection/de-N`, dative
plurals, lowercased) and sentence compressions (`summarisation/google`, after the paper's filters).

`make bench` installs the peers, measures everything and writes this page; `make bench BENCH_ARGS=--quick` tries the
code in some minutes, and what it finds is not kept.

Leave the machine idle meanwhile: the load that is given below is that of the minute before, other benchmarks of the
same run included. A benchmark whose data is missing says so and is left out; `$SSNT_DATA` names the folder that has it.
The figures are in `benchmarks/results/*.csv`, with machine and commit in every row. What was measured on a busy
machine, or with code that is in no commit, is marked as doubtful.
"""


@dataclass(frozen=True)
class Section:
    """How a benchmark is told of."""

    title: str
    text: str


SECTIONS = {
    "training": Section(
        "Training against yoyodyne",
        "Examples a second of a whole training loop, data loading included: characters, H=128, embeddings of 128, "
        "batch 32, one thread each, the same pairs. All turns of a side have the same batches, and the best time of "
        "each step counts.",
    ),
    "step": Section(
        "The training step",
        "The rate of a step's matrix products, counted by formula (LSTMs, word grid and transition, forward and "
        "backward; nothing for what is not a matrix product, nor for a product with the zero state before the first "
        "symbol), by the time of the whole step, against that of one large product in the same thread. Then each part "
        "by itself, as a fraction of the step; and what Lightning adds to a bare loop over the same module.",
    ),
    "summarisation": Section(
        "Summarisation: large vocabularies",
        "Training with 30,000 words against the same model with a materialised `(B, J, I, V)` grid, in the largest "
        "batches that fit in 8 GB and in smaller ones, of which the fastest count; one thread each, data and optimiser "
        "included. Memory is that of the whole process, on both sides with the batches of the most cells.",
    ),
    "cost": Section(
        "How cost grows",
        "Time and memory of a forward and backward pass against vocabulary, source length, target length and batch, "
        "around V=10,000, I=30, J=10, B=16, H=256. Time is compared with `a + b * count`, the count being that of the "
        "matrix products and the constants being fitted to all points; and with a materialised grid where that fits. "
        "Memory is beyond weights and gradients.",
    ),
    "loss": Section(
        "Word grid and loss",
        "The fused word grid and loss against a log-softmax over a materialised `(B, J, I, V)` grid, forward and "
        "backward.",
    ),
    "rnnt_loss": Section("Loss against an RNN-T loss", "The lattice against an RNN-T loss that runs on a CPU."),
    "lattice": Section(
        "The lattice",
        "The compiled forward-backward over given grids against recursions in torch with autograd, one thread each.",
    ),
    "decode": Section(
        "Search",
        "Marginal search against training and against the paper's path search on a trained model; and greedy path "
        "search with a large vocabulary against all pairwise word distributions.",
    ),
    "prediction": Section(
        "Prediction against yoyodyne",
        "Words a second on German nouns, model loading left out, one thread each. yoyodyne's search ends for all words "
        "of a batch at the same time, at the latest a little after the longest form of the data.",
    ),
    "large_file": Section(
        "Large files", "`ssnt predict` over files of different sizes: the rate, and memory that must not grow."
    ),
    "stream": Section(
        "Streams", "Time and memory for each input symbol of an endless stream, and many streams at a time."
    ),
    "denormals": Section(
        "Numbers below the normal range",
        "Training a model that is sure of what it writes, and searches of it, with such numbers taken for zero and "
        "with them kept, one thread.",
    ),
    "export": Section(
        "Exported models",
        "The quickstart's model on ONNX Runtime and NumPy against the same on PyTorch, one thread each: letters of the "
        "sample's test set through streams, its words through searches, a process from its start to its first output; "
        "and what weights in 8 bits cost.",
    ),
    "serve": Section(
        "The service",
        "`ssnt serve` with the quickstart's model, one thread; clients and server share the machine's cores. Clients "
        "ask the next question when the last one is answered; a request has one word of the sample, and streams push "
        "one symbol at a time. The same server with and without batching take turns; so do streams with and without a "
        "client beside them that sends and does not read. Every answer is compared with what the library says.",
    ),
    "per_tag": Section(
        "Many small models",
        "`ssnt train --per-tag`: two single-threaded workers against one, by the whole command, start and evaluation "
        "included; and by the time between the first epoch that ended and the last one.",
    ),
    "prepare": Section(
        "Preparing data", "A million pairs shaped like Gigaword: the first start, the second one, and batches."
    ),
    "import_time": Section(
        "Starting", "What importing ssnt adds to importing torch, and how soon `ssnt --help` answers."
    ),
}


def load(folder: Path) -> dict[str, list[Result]]:
    """The results of a folder by benchmark, in the order of the page."""
    found = {path.stem: read_results(path) for path in sorted(folder.glob("*.csv"))}
    return {name: found[name] for name in [*SECTIONS, *sorted(found.keys() - SECTIONS.keys())] if found.get(name)}


# ------------------------------------------------------------------------------------------------------------- page


def page(results: dict[str, list[Result]]) -> str:
    """The text of the page."""
    parts = [_NOTE, _INTRO]
    if not results:
        parts.append("Nothing has been measured yet.\n")
    bars = [(name, one) for name, rows in results.items() for one in rows if one.row.bar is not None]
    if bars:
        lines = [f"| {_title(name)} | {one.row.case} | {_ratio(one.row)} | {_verdict(one)} |" for name, one in bars]
        parts.append("## Bars\n\n| benchmark | case | ratio | bar |\n|---|---|---:|---|\n" + "\n".join(lines) + "\n")
    parts += [_section(name, rows) for name, rows in results.items()]
    return "\n".join(parts)


def _title(name: str) -> str:
    return SECTIONS[name].title if name in SECTIONS else name


def _section(name: str, results: list[Result]) -> str:
    text = SECTIONS[name].text if name in SECTIONS else ""
    lines = [f"## {_title(name)}\n", text, ""]
    lines += [f"![{title}]({PICTURES}/{file})\n" for title, file in pictures_of(name, results)]
    lines += ["| case | ours | other | ratio | bar |", "|---|---|---|---:|---|"]
    for row in (one.row for one in results):
        lines.append(f"| {row.case} | {_figure(row.ours)} | {_figure(row.other)} | {_ratio(row)} | {_bar(row)} |")
    notes = [f"- {one.row.case}: {one.row.note}" for one in results if one.row.note]
    if notes:
        lines += ["", *notes]
    for where in dict.fromkeys(one.conditions for one in results):
        lines += ["", f"<small>{where.date}: {where}</small>"]
        if where.doubts:
            lines += ["", f"**Doubtful, to be measured again:** {where.doubts}."]
    return "\n".join(lines) + "\n"


def _figure(figure: Figure) -> str:
    return f"{figure.name}: {number(figure.value)} {figure.unit}".rstrip()


def _ratio(row: Row) -> str:
    return number(row.ratio)


def _bar(row: Row) -> str:
    if row.bar is None:
        return ""
    return f"{row.sense} {row.bar:g}, {'reached' if row.passed else '**not reached**'}"


def _verdict(result: Result) -> str:
    return _bar(result.row) + (", but doubtful" if result.conditions.doubts else "")


# --------------------------------------------------------------------------------------------------------- pictures


def curves_of(results: list[Result]) -> dict[str, dict[str, list[tuple[float, float]]]]:
    """The curves of a benchmark: by what they show, by whose they are, points in order."""
    found: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for row in (one.row for one in results):
        if not row.series or row.x is None:
            continue
        title = row.series.partition(",")[0]
        sides = (row.ours, row.other) if row.series == title else (row.other,)
        for figure in sides:
            points = found.setdefault(f"{title} ({figure.unit})", {}).setdefault(figure.name, [])
            points.append((row.x, figure.value))
    return {title: {name: sorted(points) for name, points in lines.items()} for title, lines in found.items()}


def pictures_of(name: str, results: list[Result]) -> list[tuple[str, str]]:
    """Titles and files of a benchmark's pictures."""
    titles = [title.partition(" (")[0] for title in curves_of(results)]
    return [(title, f"{name}-{title.replace(' ', '-')}.png") for title in titles]


def draw(name: str, results: list[Result], folder: Path) -> None:
    """Draws the curves of a benchmark."""
    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib import pyplot as plt
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    folder.mkdir(parents=True, exist_ok=True)
    plain = FuncFormatter(lambda value, _: f"{value:,.10g}")
    for (title, lines), (_, file) in zip(curves_of(results).items(), pictures_of(name, results), strict=True):
        what, _, axis = title.partition(" against ")
        axis, _, unit = axis.partition(" (")
        figure, axes = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
        for (whose, points), style in zip(lines.items(), ("o-", "s--", "^:", "d-."), strict=False):
            axes.plot(*zip(*points, strict=True), style, label=whose)
        axes.set(xscale="log", yscale="log", xlabel=axis, ylabel=f"{what}, {unit.rstrip(')')}")
        axes.set_xticks(sorted({x for points in lines.values() for x, _ in points}), minor=False)
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(plain)
        axes.yaxis.set_major_formatter(plain)
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_minor_locator(NullLocator())
        axes.grid(alpha=0.3)
        axes.legend(frameon=False)
        figure.savefig(folder / file, dpi=120, metadata={"Software": None})
        plt.close(figure)


def main() -> None:
    takes = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    takes.add_argument("--check", action="store_true")
    takes.add_argument("--quick", action="store_true")
    options = takes.parse_args()
    source, out = (RESULTS / "quick", RESULTS / "quick") if options.quick else (RESULTS, DOCS)
    results = load(source)
    path, text = out / "benchmarks.md", page(results)
    if options.check:
        is_stale = not path.exists() or path.read_text(encoding="utf-8") != text
        print(f"{path.relative_to(ROOT)} is {'out' if is_stale else 'up to'} {'of ' * is_stale}date")
        raise SystemExit(int(is_stale))
    write_text(path, text)
    for name, rows in results.items():
        draw(name, rows, out / PICTURES)
    drawn = {file for name, rows in results.items() for _, file in pictures_of(name, rows)}
    for old in (out / PICTURES).glob("*.png"):
        if old.name not in drawn:
            old.unlink()
    print(f"written: {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
