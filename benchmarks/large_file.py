"""``ssnt predict`` of a large file: lines a second and peak memory, at 10,000 and at 100,000 lines, in turns.

Lines are German nouns, again and again; the model is trained on them for a moment. Each run is a process of its own, of
which the most resident memory is what the system says when it has ended. The best time of several runs counts, and the
highest memory.
"""

from __future__ import annotations

import itertools
import os
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from loops import dative_plurals, inflection_settings
from options import parser, require_data
from results import Figure, Recorder, more

import ssnt

MEGABYTE = 1 << 20


@dataclass(frozen=True)
class Run:
    """What one process took."""

    seconds: float
    peak: float  # MiB


def predict(model: Path, lines: Path) -> Run:
    """Runs the command, from a file to a file."""
    command = [sys.executable, "-m", "ssnt", "predict", str(model), str(lines), "--beam", "8"]
    out = lines.with_suffix(".out")
    out.unlink(missing_ok=True)
    command += ["--out", str(out)]
    start = time.perf_counter()
    child = os.posix_spawn(sys.executable, command, os.environ | {"OMP_NUM_THREADS": "1"})
    _, status, usage = os.wait4(child, 0)
    if status:
        raise SystemExit(f"{' '.join(command)}: exit code {os.waitstatus_to_exitcode(status)}")
    return Run(time.perf_counter() - start, usage.ru_maxrss * 1024 / MEGABYTE)


def write_lines(words: list[str], count: int, path: Path) -> Path:
    """A file of so many lines."""
    with path.open("w", encoding="utf-8") as file:
        file.writelines(f"{word}\n" for word in itertools.islice(itertools.cycle(words), count))
    return path


def main() -> None:
    options = parser(__doc__).parse_args()
    folder = require_data(options, "inflection/de-N")
    few, many = (500, 2_000) if options.quick else (10_000, 100_000)
    repeats = 1 if options.quick else 3
    recorder = Recorder("large_file", quick=options.quick, threads=1)
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        train = dative_plurals(folder, place)
        config = inflection_settings(train, 32, max_epochs=1 if options.quick else 10)
        ssnt.train(config, display=False)
        words = [line.split("\t")[0] for line in train.read_text(encoding="utf-8").splitlines()]
        files = {n: write_lines(words, n, place / f"{n}.txt") for n in (few, many)}
        runs: dict[int, list[Run]] = {n: [] for n in files}
        for n in (few, many) * repeats:
            runs[n].append(predict(Path(str(config.out)), files[n]))
    names = {n: f"{n:,} lines" for n in runs}
    large, small = (Figure(names[n], n / min(run.seconds for run in runs[n]), "lines/s") for n in (many, few))
    note = f"start of the process included; best of {repeats}"
    recorder.add(more("ssnt predict, beam 8, rate", large, small, note=note))
    large, small = (Figure(names[n], max(run.peak for run in runs[n]), "MiB") for n in (many, few))
    recorder.add(more("ssnt predict, beam 8, peak memory", large, small, 1.1, "at most"))
    recorder.write()


if __name__ == "__main__":
    main()
