"""Results of benchmarks: rows that compare two figures, and the CSV files that keep them with machine and commit.

A benchmark makes a `Recorder`, gives it rows as it finds them, and ends with ``recorder.write()``::

    recorder = Recorder("loss")
    recorder.add(faster("B=8 V=30,000", Figure("fused", 0.1, "s"), Figure("materialised", 0.9, "s"), bar=4))
    recorder.write()
"""

from __future__ import annotations

import csv
import datetime
import io
import math
import os
import platform
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal

from ssnt.files import write_text

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
SPARE_LOAD = 0.5  # how far the load may be above the number of cores: others wait sometimes, but not all the time
_DIRTY = "-dirty"
Sense = Literal["at least", "at most"]


@dataclass(frozen=True)
class Figure:
    """One side of a comparison: what was measured, how much, and of what."""

    name: str
    value: float
    unit: str

    def __str__(self) -> str:
        return f"{self.name} {number(self.value)} {self.unit}".rstrip()


@dataclass(frozen=True)
class Row:
    """One comparison.

    Attributes:
        case: What was measured, such as the sizes; unique within a benchmark.
        ours: The figure of this project.
        other: What it is compared with.
        ratio: Of the two figures; `more` and `faster` say which way round.
        bar: What the ratio has to reach, None if nothing is asked of it.
        sense: Whether the bar is the least or the most that is allowed.
        note: A sentence for the reader.
        series: The curve that this is a point of, such as "time against V"; empty if it is of none.
        x: The point's place on that curve.
    """

    case: str
    ours: Figure
    other: Figure
    ratio: float
    bar: float | None = None
    sense: Sense = "at least"
    note: str = ""
    series: str = ""
    x: float | None = None

    @property
    def passed(self) -> bool | None:
        """Whether the bar is reached; None without one."""
        if self.bar is None:
            return None
        return self.ratio >= self.bar if self.sense == "at least" else self.ratio <= self.bar

    def __str__(self) -> str:
        verdict = {True: "reached", False: "NOT REACHED", None: ""}[self.passed]
        bar = "" if self.bar is None else f" (bar: {self.sense} {self.bar:g}, {verdict})"
        note = f"; {self.note}" if self.note else ""
        return f"{self.case}: {self.ours} / {self.other} -> {number(self.ratio)}{bar}{note}"


def more(
    case: str,
    ours: Figure,
    other: Figure,
    bar: float | None = None,
    sense: Sense = "at least",
    note: str = "",
    series: str = "",
    x: float | None = None,
) -> Row:
    """A row whose ratio is ours by the other's: for rates (at least a bar) and for costs (at most a bar)."""
    return Row(case, ours, other, ours.value / other.value, bar, sense, note, series, x)


def faster(
    case: str,
    ours: Figure,
    other: Figure,
    bar: float | None = None,
    note: str = "",
    series: str = "",
    x: float | None = None,
) -> Row:
    """A row whose ratio is the other's by ours: for times and sizes of which ours is to be the smaller."""
    return Row(case, ours, other, other.value / ours.value, bar, "at least", note, series, x)


def number(value: float) -> str:
    """Three digits that matter, without an exponent."""
    if not math.isfinite(value):
        return str(value)
    if abs(value) >= 100:
        return f"{value:,.0f}"
    digits = f"{value:#.3g}"
    return digits.rstrip(".") if "e" not in digits else f"{value:.2e}"


# ------------------------------------------------------------------------------------------------------- conditions


@dataclass(frozen=True)
class Conditions:
    """Where and on what a measurement was made; ``load`` is the average of the minute before it."""

    machine: str
    cores: int
    memory_gb: float
    load: float
    threads: int
    python: str
    torch: str
    commit: str
    date: str

    @property
    def doubts(self) -> str:
        """Why figures that were measured so should be measured again; empty if nothing speaks against them."""
        found = []
        if self.commit.endswith(_DIRTY):
            found.append("the code had changes that are in no commit")
        if self.load > self.cores + SPARE_LOAD:
            found.append(f"the load was {self.load:g} on {self.cores} cores")
        return ", and ".join(found)

    def __str__(self) -> str:
        return (
            f"{self.machine}, {self.cores} cores, {self.memory_gb:g} GB, load {self.load:g}; {self.threads} "
            f"thread{'s' * (self.threads != 1)}; Python {self.python}, torch {self.torch}, commit {self.commit}"
        )


def conditions(threads: int | None = None) -> Conditions:
    """The conditions now; threads are torch's if they are not said."""
    try:
        torch_version = version("torch")
    except PackageNotFoundError:
        torch_version = "none"
    return Conditions(
        machine=_processor(),
        cores=os.cpu_count() or 1,
        memory_gb=round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
        load=round(os.getloadavg()[0], 2),
        threads=_threads() if threads is None else threads,
        python=platform.python_version(),
        torch=torch_version,
        commit=_commit(),
        date=datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d"),
    )


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _threads() -> int:
    if "torch" in sys.modules:
        return int(sys.modules["torch"].get_num_threads())
    return int(os.environ.get("OMP_NUM_THREADS") or os.cpu_count() or 1)


def _commit() -> str:
    """The commit, marked if code has changed since; results and pages change by measuring, and do not count."""
    head = _git("rev-parse", "--short=10", "HEAD")
    if not head:
        return "unknown"
    changed = _git("status", "--porcelain", "--", ".", ":!benchmarks/results", ":!docs", ":!*.md")
    return head + _DIRTY if changed else head


def _git(*arguments: str) -> str:
    try:
        done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


# ------------------------------------------------------------------------------------------------------------ files

_ROW_FIELDS = (
    *("case", "ours", "ours_value", "ours_unit", "other", "other_value", "other_unit"),
    *("ratio", "sense", "bar", "note", "series", "x"),
)
_CONDITION_FIELDS = ("machine", "cores", "memory_gb", "load", "threads", "python", "torch", "commit", "date")
_DOUBTS = "doubts"  # for who reads the file alone: it follows from the rest, and is not read back


class Recorder:
    """Collects the rows of one benchmark, shows each as it comes, and writes them.

    Args:
        benchmark: Its name, which is that of the file.
        quick: The settings are those that try the code and not the speed: rows go where no report looks.
        threads: How many threads each side has; torch's if not said.
    """

    def __init__(self, benchmark: str, *, quick: bool = False, threads: int | None = None) -> None:
        self.path = (RESULTS / "quick" if quick else RESULTS) / f"{benchmark}.csv"
        self.conditions = conditions(threads)
        self.rows: list[Row] = []
        print(f"# {benchmark}: {self.conditions}", flush=True)
        self._warn()

    def add(self, row: Row) -> Row:
        """Keeps a row, and prints it."""
        if any(other.case == row.case for other in self.rows):
            raise ValueError(f"{self.path.stem}: two rows have the case {row.case!r}; say what tells them apart")
        self.rows.append(row)
        print(f"  {row}", flush=True)
        return row

    def write(self, *, keep: bool = False) -> None:
        """Writes the rows.

        Args:
            keep: Rows of the file whose cases were not measured now stay; otherwise the file has these rows only.
        """
        write_rows(self.path, self.rows, self.conditions, keep=keep)
        print(f"  written: {self.path.relative_to(ROOT)}", flush=True)
        self._warn()

    def _warn(self) -> None:
        if self.conditions.doubts:
            print(f"  WARNING, measure again: {self.conditions.doubts}", flush=True)


@dataclass(frozen=True)
class Result:
    """A row with the conditions under which it was measured."""

    row: Row
    conditions: Conditions


def write_rows(path: Path, rows: Iterable[Row], where: Conditions, *, keep: bool = False) -> None:
    """Writes rows with their conditions, whole or not at all; see `Recorder.write`."""
    results = [Result(row, where) for row in rows]
    if keep and path.exists():
        new = {result.row.case: result for result in results}
        old = read_results(path)
        results = [new.pop(result.row.case, result) for result in old] + list(new.values())
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    fields = (*_CONDITION_FIELDS, _DOUBTS)
    writer.writerow(_ROW_FIELDS + fields)
    for result in results:
        writer.writerow(_cells(result.row) + [getattr(result.conditions, name) for name in fields])
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, text.getvalue())


def read_results(path: Path) -> list[Result]:
    """Reads what `write_rows` wrote."""
    with path.open(encoding="utf-8", newline="") as file:
        return [_result(cells) for cells in csv.DictReader(file)]


def _cells(row: Row) -> list[object]:
    figures = [part for one in (row.ours, row.other) for part in (one.name, f"{one.value:.6g}", one.unit)]
    bar = "" if row.bar is None else f"{row.bar:g}"
    place = "" if row.x is None else f"{row.x:g}"
    return [row.case, *figures, f"{row.ratio:.4g}", row.sense, bar, row.note, row.series, place]


def _result(cells: dict[str, str]) -> Result:
    ours, other = (
        Figure(cells[side], float(cells[f"{side}_value"]), cells[f"{side}_unit"]) for side in ("ours", "other")
    )
    row = Row(
        cells["case"],
        ours,
        other,
        float(cells["ratio"]),
        float(cells["bar"]) if cells["bar"] else None,
        "at most" if cells["sense"] == "at most" else "at least",
        cells["note"],
        cells["series"],
        float(cells["x"]) if cells["x"] else None,
    )
    where = Conditions(
        machine=cells["machine"],
        cores=int(cells["cores"]),
        memory_gb=float(cells["memory_gb"]),
        load=float(cells["load"]),
        threads=int(cells["threads"]),
        python=cells["python"],
        torch=cells["torch"],
        commit=cells["commit"],
        date=cells["date"],
    )
    return Result(row, where)
