"""Exported models run where there is no torch, nor anything else that is heavy."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from exported import export, make

HEAVY = ("torch", "numba", "llvmlite", "lightning", "matplotlib", "onnx", "safetensors", "huggingface_hub", "regex")

SCRIPT = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {heavy!r}:
            raise ImportError(name + " is not to be imported")

sys.meta_path.insert(0, Blocked())
import ssnt.onnx_runtime

model = ssnt.onnx_runtime.load({place!r})
tags = [["V"]] if model.has_tags else None
for search in ("marginal", "path", *(["online"] if model.is_online else [])):
    print(search, [one.text for one in model.transduce(["abc"], tags, search=search, nbest=2, max_length=8)])
print(model.score([("abc", "ab")], tags), model.align([("abc", "ab")], tags)[0].emit.shape)
if model.is_online:
    stream = model.stream(*(tags or []))
    print(stream.push("ab"), stream.push("c"), stream.finish(), stream.state_dict().keys())
    streams = model.streams()
    streams.open("one", [1] if tags else [])
    streams.feed("one", "abc")
    print(streams.step())
    print(model.stream_each([__import__("ssnt").Example("abc")]))
loaded = {{name.partition(".")[0] for name in sys.modules}} & set({heavy!r})
assert not loaded, loaded
from importlib.metadata import packages_distributions
known = packages_distributions()
tops = {{name.partition(".")[0] for name in sys.modules}} - set(sys.stdlib_module_names)
print(*sorted({{one for top in tops for one in known.get(top, [])}}), file=sys.stderr)
print("done")
"""


@pytest.mark.parametrize("kind", ["uniSSNT+", "biSSNT+ with tags, skip", "uni rnnt"])
def test_nothing_heavy_is_imported(tmp_path: Path, kind: str):
    place = export(make(kind), tmp_path / "exported")
    script = SCRIPT.format(heavy=HEAVY, place=str(place))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("done\n")
    # What pip installs for requirements.txt, and nothing else; setuptools is in every environment's start.
    needed = {"numpy", "onnxruntime", "pydantic", "PyYAML"}
    needed |= {"annotated-types", "pydantic_core", "typing_extensions", "typing-inspection"}  # pydantic's own
    assert set(done.stderr.split()) - {"setuptools", "ssnt"} == needed
