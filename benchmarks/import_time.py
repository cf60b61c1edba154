"""Measures what importing ssnt, with its loss and models, adds to `import torch`.

Each import runs in an interpreter of its own. The two are timed alternately, so that a busy spell of the
machine meets both, and the best of each is compared.
"""

import argparse
import subprocess
import sys

# The names are imported when asked for, so ask for them.
STATEMENT = "import torch; from ssnt import SSNT, linear_word_grid, ssnt_loss"
TIMED = "from time import perf_counter as now; start = now(); {statement}; print(now() - start)"


def seconds(statement: str) -> float:
    """Time of the statement in a new interpreter, the interpreter's own start not counted."""
    command = [sys.executable, "-c", TIMED.format(statement=statement)]
    return float(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description="Measures what `import ssnt` adds to `import torch`.")
    parser.add_argument("--repeats", type=int, default=7, help="interpreters started for each (default 7)")
    repeats = parser.parse_args().repeats
    if repeats < 1:
        parser.error(f"--repeats: expected at least 1, got {repeats}")
    seconds(STATEMENT)  # reads the files into the system's cache, and compiles them
    pairs = [(seconds("import torch"), seconds(STATEMENT)) for _ in range(repeats)]
    torch_only, both = (min(times) for times in zip(*pairs, strict=True))
    print(f"import torch        {torch_only:6.3f} s   (best of {repeats})")
    print(f"with ssnt           {both:6.3f} s   (best of {repeats})")
    print(f"difference          {both - torch_only:6.3f} s")


if __name__ == "__main__":
    main()
