"""Numbers below the normal range: zero while a model is trained, and what they were before and after."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from ssnt.denormals import denormals_are_zero, without_denormals
from ssnt.training import train
from ssnt.training.module import TrainingModule
from trainings import tiny_config

needs_flushing = pytest.mark.skipif(not torch.set_flush_denormal(False), reason="this CPU cannot flush denormals")


@needs_flushing
@pytest.mark.parametrize("before", [False, True])
def test_they_are_zero_inside_and_as_before_outside(before: bool):
    torch.set_flush_denormal(before)
    try:
        with without_denormals():
            inside = denormals_are_zero()
        after = denormals_are_zero()
    finally:
        torch.set_flush_denormal(False)
    assert (inside, after) == (True, before)


@needs_flushing
def test_threads_of_its_own_inherit_it():
    """A sum of denormals that several threads compute is zero; of threads that were there before, it need not be."""
    code = (
        "import torch; from ssnt.denormals import without_denormals\n"
        "with without_denormals():\n"
        "    torch.set_num_threads(2)\n"
        "    print(bool((torch.full((1 << 20,), 2.0**-140) * 1.0).any()))\n"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "False\n"


@needs_flushing
def test_training_takes_them_for_zero(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    seen: list[bool] = []
    step = TrainingModule.training_step

    def noted(self: TrainingModule, share):
        seen.append(denormals_are_zero())
        return step(self, share)

    monkeypatch.setattr(TrainingModule, "training_step", noted)
    train(tiny_config(tmp_path), display=False)
    assert seen
    assert all(seen)
    assert not denormals_are_zero()


@needs_flushing
def test_a_model_that_is_asked_keeps_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    seen: list[bool] = []
    transducer = train(tiny_config(tmp_path), display=False)
    encode = type(transducer.model).encode

    def noted(self: Any, batch: Any) -> Any:
        seen.append(denormals_are_zero())
        return encode(self, batch)

    monkeypatch.setattr(type(transducer.model), "encode", noted)
    transducer.transduce(["abc"])
    transducer.score([("abc", "ABC")])
    assert seen == [False, False]


def test_the_cpu_is_asked_wherever_tensors_are_made():
    torch.set_default_device("meta")
    try:
        with without_denormals():
            inside = denormals_are_zero()
    finally:
        torch.set_default_device(None)
    assert inside or not torch.set_flush_denormal(False)
    assert not denormals_are_zero()
