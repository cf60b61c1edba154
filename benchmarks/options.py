"""What every benchmark takes from the command line, and where the data sets are."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import NoReturn

from results import ROOT


def parser(description: str | None) -> argparse.ArgumentParser:
    """A parser with the options that all benchmarks have."""
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = Path(os.environ.get("SSNT_DATA") or ROOT.parent / "shared" / "data")
    made.add_argument("--data", type=Path, default=default, help="folder of the data sets (default: $SSNT_DATA)")
    made.add_argument("--quick", action="store_true", help="try the code, not the speed: small, and not reported")
    return made


def require_data(options: argparse.Namespace, name: str) -> Path:
    """A file or folder of the data sets; ends the benchmark, and says so, if it is not there."""
    path: Path = options.data / name
    if not path.exists():
        skip(f"needs {path}, which does not exist; name its folder with --data or $SSNT_DATA")
    return path


def skip(why: str) -> NoReturn:
    """Ends the benchmark, and says why, as one that has nothing to measure with, not as one that has failed."""
    print(f"# skipped: {Path(sys.argv[0]).name} {why}", flush=True)
    raise SystemExit(0)
