"""The programs in examples/ run and say what they should."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"

RunExample = Callable[..., str]


@pytest.fixture
def run_example(tmp_path: Path) -> RunExample:
    """Runs an example in an empty directory and returns what it prints."""

    def run(name: str, *arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, EXAMPLES / name, *arguments],
            cwd=tmp_path,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def losses(printed: str) -> list[float]:
    return [float(value) for value in re.findall(r"nats for each target symbol ([\d.]+)", printed)]


def test_every_example_has_a_test():
    here = Path(__file__).read_text(encoding="utf-8")
    for example in EXAMPLES.glob("*.py"):
        assert f'"{example.name}"' in here, example.name


def test_loss_in_your_own_model(run_example: RunExample):
    first, *_, last = losses(run_example("loss_in_your_own_model.py", "--steps", "60"))
    assert last < 0.5 * first


def test_own_encoder(run_example: RunExample):
    printed = run_example("own_encoder.py", "--steps", "200")
    first, *_, last = losses(printed)
    assert last < 0.2 * first
    answer = re.search(r"\] -> (\[.*\]), expected (\[.*\])$", printed, re.MULTILINE)
    assert answer is not None
    assert answer[1] == answer[2]
    streamed = [number for part in re.findall(r"wrote \[(.*)\]", printed) for number in part.split(", ") if number]
    assert f"[{', '.join(streamed)}]" == answer[2]


def test_own_encoder_steps_as_it_reads():
    import importlib.util

    import torch

    spec = importlib.util.spec_from_file_location("own_encoder", EXAMPLES / "own_encoder.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["own_encoder"] = module  # dataclasses look for their module
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules["own_encoder"]
    encoder = module.ConvolutionEncoder(9, 5)
    src = torch.randint(9, (2, 6))
    state, states = encoder.initial_state(2), []
    for i in range(6):
        output, state = encoder.step(src[:, i], state)
        states.append(output)
    torch.testing.assert_close(torch.stack(states, dim=1), encoder(src, torch.tensor([6, 4])))


@pytest.mark.parametrize("kind", ["uniSSNT+", "uniSSNT", "uniSSNT+ with tags", "uni rnnt"])
def test_onnx_streaming(run_example: RunExample, tmp_path: Path, kind: str):
    """It writes what a stream of the library does that writes while emitting is at least as probable as not."""
    from exported import export, make

    transducer = make(kind)
    place = export(transducer, tmp_path / "exported")
    tags = ["PST", "V"] if transducer.has_tags else []
    for word in ("abcäda", "f", "eeebbΩa"):
        stream = transducer.stream(*([tags] if tags else []), emit_threshold=0.5, copy_unknown=False)
        expected = [stream.push(letter).committed for letter in word]
        expected = [*expected, stream.finish().committed]
        lines = run_example("onnx_streaming.py", str(place), word, *tags).splitlines()
        assert "".join(line[4:] for line in lines) == "".join(expected)
        assert [line[:4].strip() for line in lines] == [*word, "end"]


def test_onnx_streaming_needs_little():
    text = (EXAMPLES / "onnx_streaming.py").read_text(encoding="utf-8")
    imported = set(re.findall(r"^(?:import|from) (\w+)", text, re.MULTILINE))
    assert imported == {"json", "sys", "pathlib", "numpy", "onnxruntime"}
    assert len(text.splitlines()) <= 70


@pytest.mark.slow
def test_streaming(run_example: RunExample):
    printed = run_example("streaming.py", "--epochs", "2", "--word", "spielen")
    assert printed.count("spielen, ") == 2
    for run in printed.split("spielen, ")[1:]:
        lines = run.splitlines()[1:]
        assert [line.split()[0] for line in lines[:8]] == [*"spielen", "end"]
        committed = [re.sub(r"\(.*\)$", "", line[6:]).strip() for line in lines[:7]]
        final = lines[7].split()[1] if len(lines[7].split("log p")[0].split()) > 1 else ""
        for earlier, later in zip(committed, [*committed[1:], final], strict=True):
            assert later.startswith(earlier), "what was committed was taken back"
