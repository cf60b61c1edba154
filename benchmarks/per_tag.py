"""``ssnt train --per-tag`` of the eight cells of German nouns: two workers against one.

The whole command is timed, as a user sees it: start, data, training of eight models and their evaluation. There are so
many epochs that the start, some seconds of processor time for each worker, is a small part. The time between the first
epoch that ended and the last one is given besides: what the workers reach once all of them train.
"""

from __future__ import annotations

import csv
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from options import parser, require_data
from results import Figure, Recorder, more

EPOCHS = 16  # some 200 s of work for one worker on the machine that this was written on
LEAST_SECONDS = 90.0


@dataclass(frozen=True)
class Run:
    """What one command reached, in seconds and in epochs a second.

    Attributes:
        whole: Seconds of the whole command.
        rate: Epochs a second between the end of the first one and the end of the last one, over all models. At the
            first end the others are about to end theirs, so that one epoch of each worker is left out.
    """

    whole: float
    rate: float


def train(folder: Path, out: Path, workers: int, epochs: int) -> Run:
    """One training of all cells."""
    command = [sys.executable, "-m", "ssnt", "train", "--preset", "inflection", "--per-tag", "--overwrite"]
    command += ["--out", str(out), f"data.train={folder / 'train.tsv'}"]
    if (folder / "dev.tsv").exists():
        command.append(f"data.dev={folder / 'dev.tsv'}")
    command += ["data.lowercase=true", f"training.max_epochs={epochs}", f"hardware.workers={workers}"]
    command += [f"data.cache={out.parent / 'cache'}", "validation.beam=1", "validation.patience=null", "search.beam=8"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    start = time.perf_counter()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    whole = time.perf_counter() - start
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    times = epoch_ends(out)
    return Run(whole, (len(times) - workers) / (max(times) - min(times)))


def epoch_ends(out: Path) -> list[float]:
    """When the epochs of all models ended: a log has seconds since its model's begin, and was written with the last."""
    found: list[float] = []
    for log in out.glob("models/*/training/log.csv"):
        with log.open(encoding="utf-8", newline="") as file:
            seconds = [float(row["seconds"]) for row in csv.DictReader(file)]
        found += [log.stat().st_mtime - seconds[-1] + one for one in seconds]
    if not found:
        raise SystemExit(f"{out}: no model has a log")
    return found


def first_lines(folder: Path, place: Path, count: int) -> Path:
    """A folder with the first lines of the training data only."""
    lines = (folder / "train.tsv").read_text(encoding="utf-8").splitlines(keepends=True)
    place.mkdir()
    (place / "train.tsv").write_text("".join(lines[:count]), encoding="utf-8")
    return place


def main() -> None:
    takes = parser(__doc__)
    takes.add_argument("--epochs", type=int, default=EPOCHS)
    takes.add_argument("--repeats", type=int, default=2)
    options = takes.parse_args()
    folder = require_data(options, "inflection/de-N")
    epochs, repeats = (2, 1) if options.quick else (options.epochs, options.repeats)
    recorder = Recorder("per_tag", quick=options.quick, threads=1)
    runs: dict[int, list[Run]] = {1: [], 2: []}
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        if options.quick:
            folder = first_lines(folder, place / "few", 400)
        for workers in (1, 2) * repeats:
            runs[workers].append(train(folder, place / "models", workers, epochs))
        pairs = epochs * (folder / "train.tsv").read_text(encoding="utf-8").count("\n")
    best = {n: min(run.whole for run in runs[n]) for n in runs}
    rate = {n: max(run.rate for run in runs[n]) for n in runs}
    if best[1] < LEAST_SECONDS and not options.quick:
        print(f"  WARNING: one worker takes {best[1]:.0f} s only, and starting counts for much; raise --epochs")
    names = {n: f"{n} worker{'s' * (n > 1)}" for n in runs}
    two, one = (Figure(names[n], pairs / best[n], "pairs/s") for n in (2, 1))
    note = f"8 models, {epochs} epochs each, start and evaluation included: {best[2]:.0f} s and {best[1]:.0f} s"
    recorder.add(more("ssnt train --per-tag, de-N, whole command", two, one, 1.8, note=note))
    two, one = (Figure(names[n], rate[n], "epochs/s") for n in (2, 1))
    recorder.add(more("ssnt train --per-tag, de-N, from the first epoch's end to the last one's", two, one))
    recorder.write()


if __name__ == "__main__":
    main()
