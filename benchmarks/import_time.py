"""Measures what importing ssnt, with its loss and models, adds to `import torch`, and how soon `ssnt --help` answers.

Each import runs in an interpreter of its own. The two of a comparison are timed alternately, so that a busy spell of
the machine meets both, and the best of each is compared. The whole process is timed for `--help`, which is what the
one who types it waits for, beside one that loads torch and does nothing.
"""

import subprocess
import sys
from time import perf_counter

from options import parser
from results import Figure, Recorder, faster, more

# The names are imported when asked for, so ask for them.
STATEMENT = "import torch; from ssnt import SSNT, linear_word_grid, ssnt_loss"
TIMED = "from time import perf_counter as now; start = now(); {statement}; print(now() - start)"


def seconds(statement: str) -> float:
    """Time of the statement in a new interpreter, the interpreter's own start not counted."""
    command = [sys.executable, "-c", TIMED.format(statement=statement)]
    return float(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)


def seconds_of_process(*arguments: str) -> float:
    """Time from the start to the end of a new interpreter."""
    start = perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
    return perf_counter() - start


def main() -> None:
    takes = parser(__doc__)
    takes.add_argument("--repeats", type=int, default=7, help="interpreters started for each (default 7)")
    options = takes.parse_args()
    if options.repeats < 1:
        takes.error(f"--repeats: expected at least 1, got {options.repeats}")
    recorder = Recorder("import_time", quick=options.quick)
    seconds(STATEMENT)  # reads the files into the system's cache, and compiles them
    repeats = 2 if options.quick else options.repeats
    pairs = [(seconds("import torch"), seconds(STATEMENT)) for _ in range(repeats)]
    torch_only, both = (min(times) for times in zip(*pairs, strict=True))
    ours, other = Figure("torch and ssnt", both, "s"), Figure("torch", torch_only, "s")
    note = f"importing ssnt adds {both - torch_only:.3f} s"
    recorder.add(more("importing model and loss", ours, other, note=note))
    pairs = [
        (seconds_of_process("-m", "ssnt", "--help"), seconds_of_process("-c", "import torch")) for _ in range(repeats)
    ]
    answered, torch_loaded = (min(times) for times in zip(*pairs, strict=True))
    ours, other = Figure("ssnt --help", answered, "s"), Figure("a process that loads torch", torch_loaded, "s")
    recorder.add(faster("answering --help", ours, other, bar=3))
    recorder.write()


if __name__ == "__main__":
    main()
