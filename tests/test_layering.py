"""Imports inside the package go one way, from the entry points down to the types."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = "ssnt"

# From the bottom up. A part is a module or a subpackage directly in the package; it may import the layers
# below it and, as long as no cycle arises, the other parts of its own layer. Parts need not exist yet.
LAYERS = (
    {"__about__", "arrays", "denormals", "errors", "files", "huge_pages", "interrupts", "lazy", "types"},
    {"config", "data", "dp", "engines", "metrics", "symbols"},
    {
        "_numba_emission",
        "_numba_words",
        "decode",
        "emission_grid",
        "factored_side",
        "factored_softmax",
        "loss",
        "nn",
        "plots",
        "report",
        "small_softmax",
        "word_grid",
    },
    {"checkpoint", "evaluation", "onnx_runtime", "pipeline"},
    {"export", "training"},
    {"sweeps"},
    {"serve"},
    {"cli"},
    {"__main__"},
)
RANK = {part: rank for rank, layer in enumerate(LAYERS) for part in layer}

# Stricter than the layers: all that a part may import of the package besides itself.
ONLY = {"arrays": set[str](), "dp": {"arrays", "errors", "lazy", "types"}}
# Stricter than the layers: what a part may not import of the package.
NEVER = {"nn": {"data"}}
# Other packages that a part itself may not import, at any place in its files.
NO_THIRD_PARTY = {"metrics": {"torch"}}
# Parts that only the named ones may import.
PRIVATE = {"cli": {"__main__"}, "serve": {"cli"}}

FACADE = "__init__"


def part_of(path: Path, root: Path) -> str:
    """The part that a file belongs to; `__init__` for the package's own."""
    return path.relative_to(root).with_suffix("").parts[0]


def imported(path: Path, root: Path) -> Iterator[tuple[int, str]]:
    """Line and full name of everything a file imports, in whatever scope, relative names resolved."""
    here = (PACKAGE, *path.relative_to(root).parent.parts)
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), filename=str(path))):
        if isinstance(node, ast.Import):
            for name in node.names:
                yield node.lineno, name.name
        elif isinstance(node, ast.ImportFrom):
            base = here[: len(here) - node.level + 1] if node.level else ()
            stem = ".".join((*base, *filter(None, [node.module])))
            for name in node.names:
                yield node.lineno, f"{stem}.{name.name}"


def objection(part: str, name: str, root: Path) -> str | None:
    """Why `part` may not import `name`, or None if it may."""
    package, _, rest = name.partition(".")
    if package != PACKAGE:
        return f"{part} must not import {package}" if package in NO_THIRD_PARTY.get(part, ()) else None
    target = rest.partition(".")[0]
    exists = (root / target).is_dir() or (root / f"{target}.py").exists()
    if not target or (target not in RANK and not exists):
        return f"{part} imports the package itself ({name}): import from the module that defines it"
    if target not in RANK:
        return f"{target} has no layer: add it to LAYERS"
    if target == part:
        return None
    if target in PRIVATE and part not in PRIVATE[target]:
        return f"nothing may import {target}, {part} does"
    if part == FACADE:
        return None
    if RANK[target] > RANK[part]:
        return f"{part} is below {target} and must not import it"
    if part in ONLY and target not in ONLY[part]:
        return f"{part} may import only {', '.join(sorted(ONLY[part]))}, not {target}"
    if target in NEVER.get(part, ()):
        return f"{part} must never import {target}"
    return None


def cycles(edges: dict[str, set[str]]) -> list[str]:
    """One sentence on the parts that import each other in a circle, if there are any."""
    left = {part: set(targets) - {part} for part, targets in edges.items()}
    while free := [part for part, targets in left.items() if not targets & left.keys()]:
        for part in free:
            del left[part]
    return [f"these import each other in a circle: {', '.join(sorted(left))}"] if left else []


def violations(root: Path) -> list[str]:
    """All that is wrong with the imports of the package whose files are in `root`."""
    found: list[str] = []
    edges: dict[str, set[str]] = {}
    for path in sorted(root.rglob("*.py")):
        where, part = path.relative_to(root), part_of(path, root)
        if "utils" in where.with_suffix("").parts:
            found.append(f"{where}: a helper lives beside its user, not in utils")
        if part not in RANK and part != FACADE:
            found.append(f"{where}: {part} has no layer: add it to LAYERS")
            continue
        for line, name in imported(path, root):
            if reason := objection(part, name, root):
                found.append(f"{where}:{line}: {reason}")
            elif name.startswith(f"{PACKAGE}.") and part != FACADE:
                edges.setdefault(part, set()).add(name.split(".")[1])
    return found + cycles(edges)


def test_the_package_keeps_its_layers():
    root = Path(__file__).parents[1] / "src" / PACKAGE
    assert any(root.rglob("*.py")), f"no package in {root}"
    assert violations(root) == []


def plant(root: Path, files: dict[str, str]) -> Path:
    """Writes a small package tree."""
    for name, text in {"__init__.py": "", **files}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root


def test_a_good_tree_passes(tmp_path: Path):
    files = {
        "__init__.py": "from ssnt.loss import f\nfrom .nn.model import M\n",
        "__main__.py": "from ssnt.cli import main\n",
        "cli/__init__.py": "from ssnt.training import fit\n",
        "dp/__init__.py": "import torch\nfrom . import scan\nfrom .scan import solve\nimport ssnt.dp.scan\n",
        "dp/scan.py": "from ssnt.errors import ShapeError\nfrom ..types import Grid\n",
        "errors.py": "import sys\n",
        "loss.py": "from ssnt import dp\nfrom .dp import solve\n",
        "metrics/rouge.py": "from torchless import x\n",
        "nn/model.py": "from ssnt.loss import f\nfrom ..word_grid import g\nfrom .encoder import E\n",
    }
    assert violations(plant(tmp_path, files)) == []


@pytest.mark.parametrize(
    ("file", "text", "complaint"),
    [
        ("types.py", "import ssnt.dp", "types.py:1: types is below dp and must not import it"),
        ("loss.py", "\nfrom .training import fit", "loss.py:2: loss is below training and must not import it"),
        ("data/vocab.py", "from ..nn import M", "data/vocab.py:1: data is below nn and must not import it"),
        (
            "dp/scan.py",
            "from ssnt.config import C",
            "dp/scan.py:1: dp may import only arrays, errors, lazy, types, not config",
        ),
        ("nn/model.py", "from ssnt import data", "nn/model.py:1: nn must never import data"),
        (
            "nn/model.py",
            "def f():\n    from ...ssnt.data.vocab import V\n    from ..data.vocab import V",
            "nn/model.py:3: nn must never import data",
        ),
        ("metrics/edit.py", "import torch.nn", "metrics/edit.py:1: metrics must not import torch"),
        ("metrics/edit.py", "from torch import nn", "metrics/edit.py:1: metrics must not import torch"),
        ("serve/app.py", "import ssnt.cli", "serve/app.py:1: nothing may import cli, serve does"),
        (
            "sweeps/web.py",
            "from ssnt.serve import app",
            "sweeps/web.py:1: nothing may import serve, sweeps does",
        ),
        ("__init__.py", "from .cli import main", "__init__.py:1: nothing may import cli, __init__ does"),
        ("nn/model.py", "from ssnt import ssnt_loss", "nn/model.py:1: nn imports the package itself"),
        ("nn/model.py", "import ssnt", "nn/model.py:1: nn imports the package itself"),
        ("helpers.py", "", "helpers.py: helpers has no layer"),
        ("nn/utils.py", "", "nn/utils.py: a helper lives beside its user"),
        ("nn/utils/masks.py", "", "nn/utils/masks.py: a helper lives beside its user"),
    ],
)
def test_a_planted_violation_is_caught(tmp_path: Path, file: str, text: str, complaint: str):
    found = violations(plant(tmp_path, {file: text}))
    assert any(line.startswith(complaint) for line in found), found


def test_a_circle_is_caught(tmp_path: Path):
    files = {
        "decode/path.py": "from ssnt.nn import M",
        "loss.py": "from ssnt.dp import solve",
        "nn/model.py": "from ssnt.decode import path",
    }
    assert violations(plant(tmp_path, files)) == ["these import each other in a circle: decode, nn"]
