"""What the README shows, runs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_python_blocks_run_in_order():
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 5
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), names)
    assert names["src_states"].grad.isfinite().all()


def test_make_targets_named_exist():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for document in ("README.md", "CONTRIBUTING.md"):
        targets = re.findall(r"(?:`|^)make ([a-z]+)\b", (ROOT / document).read_text(encoding="utf-8"), re.MULTILINE)
        assert len(targets) >= 2
        for target in targets:
            assert re.search(rf"^{target}:", makefile, re.MULTILINE), f"{document}: make {target}"


def test_demo_runs_and_draws(tmp_path):
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / "demo.py", "--epochs", "2", "--out", tmp_path],
        check=True,
        capture_output=True,
        text=True,
    )
    assert "zocken" in done.stdout
    assert (tmp_path / "alignment.png").read_bytes().startswith(b"\x89PNG")


def test_demo_holds_out_what_it_says():
    sys.path.insert(0, str(ROOT / "examples"))
    try:
        import demo
    finally:
        sys.path.pop(0)
    assert not set(demo.STEMS) & set(demo.HELD_OUT)
    assert len(set(demo.STEMS)) == len(demo.STEMS)
