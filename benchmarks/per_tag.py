"""``ssnt train --per-tag`` of the eight cells of German nouns: two workers against one.

The whole command is timed, as a user sees it: start, data, training of eight models and their evaluation.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from options import parser, require_data
from results import Figure, Recorder, more

from ssnt.config import Config

# the setting has had two homes
WORKERS = "hardware.workers" if "workers" in type(Config().hardware).model_fields else "training.workers"


def train(folder: Path, out: Path, workers: int, epochs: int) -> float:
    """Seconds of one training of all cells."""
    command = [sys.executable, "-m", "ssnt", "train", "--preset", "inflection", "--per-tag", "--overwrite"]
    command += ["--out", str(out), f"data.train={folder / 'train.tsv'}"]
    if (folder / "dev.tsv").exists():
        command.append(f"data.dev={folder / 'dev.tsv'}")
    command += ["data.lowercase=true", f"training.max_epochs={epochs}", f"{WORKERS}={workers}"]
    command += [f"data.cache={out.parent / 'cache'}", "validation.beam=1", "search.beam=8"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    start = time.perf_counter()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return time.perf_counter() - start


def main() -> None:
    takes = parser(__doc__)
    takes.add_argument("--epochs", type=int, default=12)
    takes.add_argument("--repeats", type=int, default=2)
    options = takes.parse_args()
    folder = require_data(options, "inflection/de-N")
    epochs, repeats = (1, 1) if options.quick else (options.epochs, options.repeats)
    recorder = Recorder("per_tag", quick=options.quick, threads=1)
    best = {1: float("inf"), 2: float("inf")}
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        if options.quick:
            lines = (folder / "train.tsv").read_text(encoding="utf-8").splitlines(keepends=True)
            folder = place / "few"
            folder.mkdir()
            (folder / "train.tsv").write_text("".join(lines[:400]), encoding="utf-8")
        for workers in (1, 2) * repeats:
            best[workers] = min(best[workers], train(folder, place / "models", workers, epochs))
        pairs = epochs * (folder / "train.tsv").read_text(encoding="utf-8").count("\n")
    two, one = (Figure(f"{n} worker{'s' * (n > 1)}", pairs / best[n], "pairs/s") for n in (2, 1))
    note = f"8 models, {epochs} epochs each, start and evaluation included: {best[2]:.0f} s and {best[1]:.0f} s"
    recorder.add(more("ssnt train --per-tag, de-N", two, one, 1.8, note=note))
    recorder.write()


if __name__ == "__main__":
    main()
