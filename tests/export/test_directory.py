"""An exported model: a directory that is written whole or not at all."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch

from exported import export, make
from model_directories import contents
from ssnt.checkpoint import SavedModel
from ssnt.config import ModelConfig
from ssnt.errors import ModelError, StorageError
from ssnt.export import directory as writing
from ssnt.export import export_onnx
from ssnt.nn import build_model
from transducers import make_config, make_vocabulary


def test_the_same_model_gives_the_same_files(tmp_path: Path):
    first, second = (contents(export(make("uniSSNT+ with tags"), tmp_path / name)) for name in ("a", "b"))
    assert first == second
    assert contents(export(make("uniSSNT+ with tags", seed=2), tmp_path / "c")) != first


def test_what_it_says_of_itself(tmp_path: Path):
    about = json.loads((export(make("uniSSNT+ of layers, skip, tied"), tmp_path / "a") / "export.json").read_text())
    assert about["kind"] == "ssnt-onnx"
    assert about["model"] == "uniSSNT+"
    assert about["special"] == {"pad": 0, "begin": 1, "end": 2, "unknown": 3}
    assert about["sizes"]["encoder_layers"] == 2
    assert about["sizes"]["decoder_layers"] == 3
    assert set(about["files"]) == {
        *("encoder.onnx", "encoder_step.onnx", "decoder_step.onnx", "joint.onnx", "decisions.onnx", "vocab.json")
    }


def test_places_of_files_are_no_part_of_it(tmp_path: Path):
    transducer = make("uniSSNT+")
    data = transducer.config.data.model_copy(update={"train": "/home/somebody/secret/train.tsv"})
    transducer.config = transducer.config.model_copy(update={"data": data})
    text = (export(transducer, tmp_path / "a") / "export.json").read_text()
    assert "secret" not in text
    assert "train.tsv" in text


@pytest.mark.parametrize(("unit", "package"), [("characters", None), ("graphemes", "regex"), ("tokens", None)], ids=str)
def test_requirements_are_those_of_the_model(tmp_path: Path, unit: str, package: str | None):
    transducer = make("uniSSNT+")
    transducer.vocabulary = make_vocabulary(unit=unit)
    lines = (export(transducer, tmp_path / "a") / "requirements.txt").read_text().splitlines()
    names = [line.partition(">")[0] for line in lines[1:]]
    assert names == ["numpy", "onnxruntime", "pydantic", "PyYAML", *([package] if package else [])]


def test_nothing_is_left_after_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def fail(*_: Any) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(writing, "card", fail)
    with pytest.raises(StorageError, match=r"No space left on device.*free some space"):
        export(make("uniSSNT"), tmp_path / "a")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("can_exchange", [True, False])
def test_an_export_is_replaced_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, can_exchange: bool):
    if not can_exchange:
        monkeypatch.setattr(writing, "_exchanged", lambda *_: False)
    export(make("uniSSNT+ with tags"), tmp_path / "a")
    for name in (".ssnt-a.new", ".ssnt-a.old"):  # left by one that was killed
        (tmp_path / name).mkdir()
        (tmp_path / name / "export.json").write_text("{}")
    export(make("biSSNT"), tmp_path / "a", overwrite=True)
    assert contents(tmp_path / "a") == contents(export(make("biSSNT"), tmp_path / "b"))
    left = {".ssnt-a.old"} if can_exchange else set()  # it is in nobody's way
    assert {one.name for one in tmp_path.iterdir()} == {"a", "b"} | left


def test_a_failed_replacement_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    before = contents(export(make("uniSSNT+"), tmp_path / "a"))
    monkeypatch.setattr(writing, "_exchanged", lambda *_: False)
    rename = os.rename

    def fail(source: Any, target: Any) -> None:
        if str(source).endswith(".new"):
            raise OSError(13, "Permission denied")
        rename(source, target)

    monkeypatch.setattr(writing.os, "rename", fail)
    with pytest.raises(StorageError, match="what was there before is unchanged"):
        export(make("biSSNT"), tmp_path / "a", overwrite=True)
    assert contents(tmp_path / "a") == before
    assert [one.name for one in tmp_path.iterdir()] == ["a"]


def test_what_is_replaced_is_replaced_whatever_the_disk_says_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    export(make("uniSSNT+"), tmp_path / "a")

    def fail(_: Path) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(writing, "sync", fail)
    export(make("biSSNT"), tmp_path / "a", overwrite=True)
    assert not (tmp_path / "a" / "encoder_step.onnx").exists()
    assert [one.name for one in tmp_path.iterdir()] == ["a"]


def test_a_link_to_an_export_stays_a_link(tmp_path: Path):
    export(make("uniSSNT+"), tmp_path / "a")
    (tmp_path / "link").symlink_to("a")
    export(make("biSSNT"), tmp_path / "link", overwrite=True)
    assert (tmp_path / "link").is_symlink()
    assert not (tmp_path / "a" / "encoder_step.onnx").exists()


@pytest.mark.parametrize(
    "architecture", ["seq2seq", "attention", "adapted-seq2seq", "prefix-attention", "joint-network"]
)
def test_other_kinds_are_refused(tmp_path: Path, architecture: str):
    vocabulary, config = make_vocabulary(), make_config(architecture=architecture)
    torch.manual_seed(0)
    model = build_model(ModelConfig(**config.model.model_dump(), **vocabulary.model_sizes()))
    with pytest.raises(ModelError, match=rf"{architecture}.* cannot be exported; those that can are uniSSNT, .*rnnt"):
        export_onnx(SavedModel(model, vocabulary, config, {}), tmp_path / "a")
    assert list(tmp_path.iterdir()) == []
