"""`import ssnt` is cheap: what is heavy comes in when used. The time is in benchmarks/import_time.py."""

import json
import subprocess
import sys

HEAVY = {"lightning", "llvmlite", "matplotlib", "numba", "pydantic", "triton"}


def packages_after(statement: str) -> set[str]:
    """The top-level packages loaded in a new interpreter that ran the statement."""
    code = f"{statement}; import json, sys; print(json.dumps([name.partition('.')[0] for name in sys.modules]))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return set(json.loads(run.stdout))


def test_import_brings_nothing_heavy():
    # torch may bring some of these by itself, depending on its build: that is not ours to answer for.
    extra = packages_after("import ssnt") - packages_after("import torch")
    assert "ssnt" in extra
    assert not extra & HEAVY
