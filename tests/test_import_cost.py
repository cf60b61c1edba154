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
    extra = packages_after("import ssnt; ssnt.ssnt_loss; ssnt.linear_word_grid") - packages_after("import torch")
    assert "ssnt" in extra
    assert not extra & HEAVY


def test_models_and_searches_bring_only_the_settings_library():
    extra = packages_after("import ssnt; ssnt.SSNT; ssnt.decode") - packages_after("import torch")
    assert not extra & (HEAVY - {"pydantic"})


def test_metrics_do_not_bring_torch():
    script = "import sys, ssnt, ssnt.metrics; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "False"


def test_searches_do_not_bring_torch():
    # Only models of torch do, and who has no such model need not have torch: see tests/arrays/test_without_torch.py.
    extra = packages_after("import ssnt.arrays, ssnt.decode, ssnt.dp; ssnt.dp.AlignmentDistribution")
    assert not extra & {"torch", *HEAVY}


def test_every_public_name_exists():
    import ssnt

    for name in ssnt.__all__:
        assert getattr(ssnt, name) is not None
    assert set(ssnt.__all__) <= set(dir(ssnt))
