"""An exported model that is damaged, incomplete, from the future, or none: one clear sentence."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest

from exported import export, make
from ssnt.errors import ModelError
from ssnt.export.graphs import build_graphs
from ssnt.onnx_runtime import load, read_export
from ssnt.onnx_runtime.manifest import _checksum


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return export(make("uniSSNT+ with tags"), tmp_path / "exported")


def rewritten(place: Path, **changes: Any) -> None:
    """Changes keys of export.json, and makes the checksum fit."""
    path = place / "export.json"
    content = {**json.loads(path.read_text(encoding="utf-8")), **changes}
    content["checksum"] = _checksum(content)
    path.write_text(json.dumps(content), encoding="utf-8")


def replaced(place: Path, name: str, content: bytes) -> None:
    """Puts other content into a file, and makes its SHA-256 fit."""
    (place / name).write_bytes(content)
    files = json.loads((place / "export.json").read_text(encoding="utf-8"))["files"]
    rewritten(place, files={**files, name: hashlib.sha256(content).hexdigest()})


FILES = ("encoder.onnx", "encoder_step.onnx", "decoder_step.onnx", "joint.onnx", "decisions.onnx", "features.onnx")


@pytest.mark.parametrize("name", [*FILES, "vocab.json", "export.json"])
def test_missing(place: Path, name: str):
    (place / name).unlink()
    expected = "there is no export.json in it" if name == "export.json" else rf"{name}: is missing; copy the whole"
    with pytest.raises(ModelError, match=expected):
        load(place)


@pytest.mark.parametrize("name", [*FILES, "vocab.json"])
@pytest.mark.parametrize("damage", ["cut", "empty", "one byte"])
def test_damaged(place: Path, name: str, damage: str):
    old = (place / name).read_bytes()
    changed = {"cut": old[:-1], "empty": b"", "one byte": old[:99] + b"\0" + old[100:]}
    (place / name).write_bytes(changed[damage])
    with pytest.raises(ModelError, match=rf"{name}: was cut short or changed since it was written .*SHA-256"):
        load(place)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is not valid JSON"),
        (b"{", "is not valid JSON"),
        (b"\xff", "is not valid JSON"),
        (b"[" * 100_000, "is not valid JSON: nested too deeply"),
        (b"[]", "is not the export.json of an exported model: kind is not 'ssnt-onnx'"),
        (b"{}", "is not the export.json of an exported model"),
        (b'{"kind": "ssnt-onnx"}', "format_version: expected a number of at least 1, got None"),
        (b'{"kind": "ssnt-onnx", "format_version": true}', "format_version: expected a number"),
        (b'{"kind": "ssnt-onnx", "format_version": 1}', "was changed since it was written"),
    ],
)
def test_no_manifest(place: Path, content: bytes, message: str):
    (place / "export.json").write_bytes(content)
    with pytest.raises(ModelError, match=message):
        load(place)


def test_newer(place: Path):
    rewritten(place, format_version=2, ssnt_version="9.9", something="else")
    message = (
        r"written by a newer ssnt \(9\.9, format_version 2; .*reads up to 1\); upgrade: pip install --upgrade ssnt"
    )
    with pytest.raises(ModelError, match=message):
        load(place)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"precision": "int4"}, "precision: expected float32 or int8"),
        ({"is_online": False}, "files: expected a SHA-256 of each of"),
        ({"is_online": "no"}, "is_online: expected true or false, got 'no'"),
        ({"has_tags": 1}, "has_tags: expected true or false, got 1"),
        ({"files": {}}, "files: expected a SHA-256 of each of"),
        ({"sizes": {}}, "export.json: "),
        ({"sizes": []}, "export.json: "),
        ({"config": {"model": {"hidden_size": "many"}}}, "export.json: "),
        ({"config": {"new": 1}}, "export.json: .*new"),
        ({"more": 1}, "was changed since it was written"),
    ],
    ids=lambda one: str(one)[:30],
)
def test_manifest_of_other_things(place: Path, changes: dict[str, Any], message: str):
    rewritten(place, **changes)
    with pytest.raises(ModelError, match=message):
        load(place)


def test_changed_by_hand(place: Path):
    path = place / "export.json"
    path.write_text(path.read_text().replace('"precision": "float32"', '"precision": "int8"'))
    with pytest.raises(ModelError, match="was changed since it was written"):
        load(place)


def test_layout_of_the_manifest_does_not_matter(place: Path):
    path = place / "export.json"
    path.write_text(json.dumps(json.loads(path.read_text()), indent=None))
    assert load(place).has_tags


def test_a_graph_of_something_else(place: Path, tmp_path: Path):
    replaced(place, "encoder.onnx", b"not a graph")
    with pytest.raises(ModelError, match=r"encoder\.onnx: cannot be run by ONNX Runtime: "):
        load(place)
    other = build_graphs(make("uniSSNT+").model)["encoder.onnx"].SerializeToString()
    replaced(place, "encoder.onnx", other)
    with pytest.raises(ModelError, match=r"encoder\.onnx: expected a graph from symbols, lengths, condition to logits"):
        load(place)


@pytest.mark.parametrize("name", ["condition", "transition", "hidden", "encoder_layers", "decoder_layers"])
def test_graphs_of_other_sizes(place: Path, name: str):
    sizes = json.loads((place / "export.json").read_text())["sizes"]
    rewritten(place, sizes={**sizes, name: sizes[name] + 1})
    with pytest.raises(ModelError, match=r"\.onnx: \w+: expected the last sizes to be .*, as export\.json says, got"):
        load(place)


def test_weights_in_other_files_are_not_read(place: Path, monkeypatch: pytest.MonkeyPatch):
    graph = build_graphs(make("uniSSNT+ with tags").model)["decisions.onnx"]
    weight = graph.graph.initializer[0]
    (place / "weight.bin").write_bytes(weight.raw_data)
    for key, value in (("location", "weight.bin"), ("length", str(len(weight.raw_data)))):
        entry = weight.external_data.add()
        entry.key, entry.value = key, value
    weight.ClearField("raw_data")
    weight.data_location = 1  # elsewhere
    replaced(place, "decisions.onnx", graph.SerializeToString())
    monkeypatch.chdir(place)
    with pytest.raises(ModelError, match=r"decisions\.onnx: refers to data in another file"):
        load(place)


@pytest.mark.parametrize("content", [b"{}", b"[]", b'{"format_version": 1}', b'{"format_version": 99}', b"3"])
def test_a_vocabulary_of_something_else(place: Path, content: bytes):
    replaced(place, "vocab.json", content)
    with pytest.raises(ModelError, match=r"vocab\.json: "):
        load(place)


def test_a_vocabulary_of_another_model(place: Path):
    content = json.loads((place / "vocab.json").read_text())
    content["source"]["symbols"].pop()
    replaced(place, "vocab.json", json.dumps(content).encode())
    with pytest.raises(ModelError, match=r"vocab\.json: does not fit the sizes in export\.json"):
        load(place)


def test_no_directory(place: Path, tmp_path: Path):
    with pytest.raises(ModelError, match="there is no such directory that ssnt export has written"):
        load(tmp_path / "nothing")
    with pytest.raises(ModelError, match="is a file; expected a directory"):
        load(place / "export.json")
    make("uniSSNT+").save_pretrained(tmp_path / "model")
    with pytest.raises(ModelError, match=r"it is a model directory: write one with ssnt export .*model --onnx DIR"):
        load(tmp_path / "model")


def test_a_pipe_is_not_read(place: Path):
    (place / "vocab.json").unlink()
    os.mkfifo(place / "vocab.json")
    with pytest.raises(ModelError, match="is not a regular file"):
        load(place)


def test_what_it_says_of_itself(place: Path):
    manifest = read_export(place)
    assert manifest.sizes.tags == 4
    assert manifest.is_online
    assert manifest.has_tags
    assert manifest.precision == "float32"
