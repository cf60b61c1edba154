"""Measures what importing ssnt, with its loss and models, adds to `import torch`.

Each import runs in an interpreter of its own. The two are timed alternately, so that a busy spell of the
machine meets both, and the best of each is compared.
"""

import subprocess
import sys

from options import parser
from results import Figure, Recorder, more

# The names are imported when asked for, so ask for them.
STATEMENT = "import torch; from ssnt import SSNT, linear_word_grid, ssnt_loss"
TIMED = "from time import perf_counter as now; start = now(); {statement}; print(now() - start)"


def seconds(statement: str) -> float:
    """Time of the statement in a new interpreter, the interpreter's own start not counted."""
    command = [sys.executable, "-c", TIMED.format(statement=statement)]
    return float(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)


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
    recorder.write()


if __name__ == "__main__":
    main()
