"""``ssnt export``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from commands import Run
from ssnt.checkpoint import load_model
from ssnt.checkpoint.save import save_models

from conftest import require

require("onnx", "ssnt export")
require("onnxruntime", "ssnt export")


def test_a_model_is_written(run: Run, place: Path):
    done = run("export", "model", "--onnx", "exported")
    assert done.code == 0, done.err
    assert done.err == "uniSSNT+ is written to exported\n"
    files = {one.name: one.stat().st_size for one in Path("exported").iterdir()}
    assert set(files) == {
        *("encoder.onnx", "encoder_step.onnx", "decoder_step.onnx", "joint.onnx", "decisions.onnx"),
        *("vocab.json", "export.json", "requirements.txt", "README.md"),
    }
    for name, size in files.items():
        assert f"{name} " in done.out
        assert f"{size:,}" in done.out
    assert Path("exported/vocab.json").read_bytes() == Path("model/vocab.json").read_bytes()


def test_int8_is_smaller(run: Run, place: Path):
    assert run("export", "model", "--onnx", "whole").code == 0
    assert run("export", "model", "--onnx", "small", "--int8").code == 0
    sizes = [Path(name, "decoder_step.onnx").stat().st_size for name in ("whole", "small")]
    assert sizes[1] < 0.6 * sizes[0]
    assert json.loads(Path("small/export.json").read_text())["precision"] == "int8"


def test_what_is_there_is_not_replaced_by_accident(run: Run, place: Path):
    assert run("export", "model", "--onnx", "exported").code == 0
    before = Path("exported/export.json").read_bytes()
    done = run("export", "tagged", "--onnx", "exported")
    assert done.code == 2
    assert done.err.startswith("ssnt: error: ")
    assert done.err.endswith(
        "exported: exists and is not empty; choose another directory, or say that it may be overwritten (--overwrite)\n"
    )
    assert Path("exported/export.json").read_bytes() == before
    assert run("export", "tagged", "--onnx", "exported", "--overwrite").code == 0
    assert json.loads(Path("exported/export.json").read_text())["has_tags"]
    assert Path("exported/features.onnx").exists()


def test_somebody_elses_files_are_never_replaced(run: Run, place: Path):
    done = run("export", "model", "--onnx", "tagged", "--overwrite")
    assert done.code == 2
    assert "holds other files (README.md, config.yaml" in done.err
    assert run("export", "model", "--onnx", "exported").code == 0
    Path("exported/notes.txt").write_text("mine")
    done = run("export", "model", "--onnx", "exported", "--overwrite")
    assert done.code == 2
    assert "holds files beside the exported model (notes.txt), which would be lost with it" in done.err
    assert Path("exported/notes.txt").read_text() == "mine"
    done = run("export", "model", "--onnx", "words.txt")
    assert done.code == 2
    assert "words.txt: is not a directory" in done.err


def test_one_model_for_each_tag_set_is_refused(run: Run, place: Path):
    saved = load_model("model")
    save_models("several", {("N",): saved, ("V",): saved}, saved.config, saved.metrics)
    done = run("export", "several", "--onnx", "exported")
    assert done.code == 2
    assert "several: holds 2 models, one for each tag set, which are exported one by one" in done.err
    assert not Path("exported").exists()
    assert run("export", "several/models/001", "--onnx", "exported").code == 0


def test_mistakes(run: Run, place: Path):
    done = run("export", "model")
    assert done.code == 2
    assert "--onnx" in done.err
    done = run("export", "nothing", "--onnx", "exported")
    assert done.code == 2
    assert "nothing" in done.err
    assert not Path("exported").exists()


def test_missing_packages_are_named(run: Run, place: Path, monkeypatch: pytest.MonkeyPatch):
    import importlib.util

    whole = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == "onnx" else whole(name, *rest))
    done = run("export", "model", "--onnx", "exported")
    assert done.code == 2
    assert done.err == "ssnt: error: ssnt export needs onnx, which is not installed; run pip install 'ssnt[export]'\n"
