"""One model for each tag set, in one directory, used like a single one."""

import copy
import os
import shutil
from pathlib import Path

import pytest
import yaml

from model_directories import begin_training, failing, rewritten
from ssnt.checkpoint import load_model, load_per_tag, save_per_tag
from ssnt.decode import Failure
from ssnt.errors import DataError, ModelError, StorageError
from ssnt.evaluation import evaluate_model
from ssnt.files import sha256_of
from ssnt.pipeline import PerTagTransducer, Transducer
from ssnt.types import Example
from transducers import copying_transducer, is_same_model, make_config, make_transducer, make_vocabulary

PST, PRS, NONE = ("PST", "V"), ("3", "PRS", "V"), ()


@pytest.fixture(autouse=True)
def _no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.fixture
def several() -> PerTagTransducer:
    config = make_config(training={"per_tag": True}, embed_size=16, hidden_size=24)
    models = {PST: copying_transducer(), ("V", "PRS", "3"): make_transducer(2, make_vocabulary("abc"))}
    return PerTagTransducer(models, config, {"scores": {}})


@pytest.fixture
def directory(several, tmp_path: Path) -> Path:
    several.save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def is_same(one: Transducer, other: Transducer) -> bool:
    return (
        isinstance(one, PerTagTransducer)
        and isinstance(other, PerTagTransducer)
        and list(one.models) == list(other.models)
        and one.config == other.config
        and all(is_same_model(one.models[tags], other.models[tags]) for tags in one.models)
    )


def test_examples_go_to_the_model_of_their_tags(several):
    examples = [
        Example("ab", "gab", ("V", "PST")),
        Example("ab", "gab", ("V", "PST", "PL")),
        Example("ab", "ab", ("V", "3", "PRS")),
        Example("", "x", ("PST", "V")),
        Example("aZ", "gaZ", ("PST", "V")),
        Example("ab", "x", ()),
    ]
    found = several.transduce_each(examples)
    assert found[0].text == "gab"
    assert found[4].text == "gaZ"
    assert found[2] == several.models[PRS].transduce(["ab"])[0]
    failures = {one.index: str(one.error) for one in found if isinstance(one, Failure)}
    assert failures == {
        1: "there is no model for the tags PL;PST;V; the nearest of the 2 known tag sets is PST;V",
        3: "the source is empty; give at least one symbol",
        5: "there is no model for the tags (none); the nearest of the 2 known tag sets is 3;PRS;V",
    }
    for results in (several.score_each(examples), several.align_each(examples), several.stream_each(examples)):
        assert [one.index for one in results if isinstance(one, Failure)] == [1, 3, 5]
        assert len(results) == 6
    (expected,) = copying_transducer().score([("ab", "gab")])
    assert several.score_each(examples)[0].log_prob == pytest.approx(expected, abs=1e-5)


def test_it_is_used_like_a_single_model(several):
    (found,) = several.transduce(["ab"], [["PST", "V"]], beam=2)
    assert found.text == "gab"
    assert several.score([("ab", "gab")], [PST]) == copying_transducer().score([("ab", "gab")])
    assert several.align([("ab", "gab")], [PST])[0].path == copying_transducer().align([("ab", "gab")])[0].path
    stream = several.stream(["V", "PST"], max_delay=0)
    assert stream.push("ab").committed + stream.finish().committed == "gab"
    assert several.has_tags
    assert several.is_online
    assert "2 x uniSSNT+" in repr(several)


def test_mistakes(several):
    with pytest.raises(DataError, match="tags: the model was trained with tags: give"):
        several.transduce(["ab"])
    with pytest.raises(DataError, match="tags: the model was trained with tags: give"):
        several.stream()
    with pytest.raises(DataError, match=r"texts\[0\]: there is no model for the tags PST; the nearest .* is PST;V"):
        several.transduce(["ab"], [["PST"]])
    with pytest.raises(DataError, match="there is no model for the tags PST"):
        several.stream(["PST"])
    for name in ("model", "vocabulary"):
        with pytest.raises(ModelError, match=rf"one {name} for each tag set: choose one of .models"):
            getattr(several, name)
        assert not hasattr(several, name)
    assert is_same(copy.deepcopy(several), several)
    with pytest.raises(ModelError, match="expected one for each tag set, got 0"):
        PerTagTransducer({}, several.config)
    with pytest.raises(ModelError, match="got 2 for 1 tag sets"):
        PerTagTransducer({PST: several.models[PST], ("V", "PST"): several.models[PST]}, several.config)


def test_it_can_be_saved_and_loaded(several, directory):
    again = Transducer.from_pretrained(directory)
    assert is_same(several, again)
    assert sorted(os.listdir(directory)) == ["README.md", "config.yaml", "metrics.json", "models"]
    assert sorted(os.listdir(directory / "models")) == ["000", "001"]
    card = (directory / "README.md").read_text(encoding="utf-8")
    assert "2 uniSSNT+ transducers, one for each tag set" in card
    assert "`PST;V`" in card
    assert is_same_model(
        Transducer.from_pretrained(directory / "models" / "001"), again.models[PST]
    )  # each is a model by itself
    with pytest.raises(ModelError, match="holds 2 models, one for each tag set"):
        load_model(directory)
    with pytest.raises(StorageError, match="exists and is not empty"):
        several.save_pretrained(directory)


def test_it_can_take_the_place_of_others(several, directory):
    one = make_transducer(4)
    one.save_pretrained(directory, overwrite=True)
    assert is_same_model(Transducer.from_pretrained(directory), one)
    assert not (directory / "models").exists()
    several.save_pretrained(directory, overwrite=True)
    assert is_same(Transducer.from_pretrained(directory), several)
    assert not (directory / "model.safetensors").exists()
    assert not (directory / "vocab.json").exists()
    fewer = PerTagTransducer({NONE: one}, several.config)
    fewer.save_pretrained(directory, overwrite=True)
    assert is_same(Transducer.from_pretrained(directory), fewer)
    assert sorted(os.listdir(directory / "models")) == ["002"]


def test_a_save_that_fails_leaves_the_old_or_the_new(several, tmp_path, monkeypatch):
    def fail() -> None:
        raise OSError(28, "No space left on device")

    old, outcomes = PerTagTransducer({NONE: make_transducer(5)}, several.config), []
    old.save_pretrained(tmp_path / "old")
    for number in range(100):
        place = tmp_path / str(number)
        shutil.copytree(tmp_path / "old", place)
        with monkeypatch.context() as patch:
            failing(number, fail, patch)
            try:
                several.save_pretrained(place, overwrite=True)
                break
            except StorageError:
                pass
        found = Transducer.from_pretrained(place)
        outcomes.append(is_same(found, several))
        assert outcomes[-1] or is_same(found, old)
        several.save_pretrained(place, overwrite=True)
        assert is_same(Transducer.from_pretrained(place), several)
        assert not [name for name in os.listdir(place) if name.startswith(".")]
        shutil.rmtree(place)
    assert outcomes == sorted(outcomes)
    assert {True, False} == set(outcomes)


def test_training_puts_it_together(tmp_path, several):
    place = tmp_path / "out"
    begin_training(place)
    for number, model in enumerate(several.models.values()):
        model.save_pretrained(place / "models" / f"{number:03d}")
    with pytest.raises(ModelError, match="unfinished training"):
        load_per_tag(place)
    index = {tags: f"models/{number:03d}" for number, tags in enumerate(several.models)}
    save_per_tag(place, index, several.config, {"scores": {}})
    assert is_same(Transducer.from_pretrained(place), several)
    assert (place / "training").is_dir()
    with pytest.raises(StorageError, match="exists and is not empty"):
        save_per_tag(place, index, several.config, {})
    with pytest.raises(ModelError, match=r"models/009: there is no such model directory"):
        save_per_tag(place, {PST: "models/009"}, several.config, {}, overwrite=True)
    with pytest.raises(ModelError, match="expected at least one tag set"):
        save_per_tag(place, {}, several.config, {}, overwrite=True)
    both = {("V", "PST"): "models/000", ("PST", "V"): "models/001"}
    with pytest.raises(ModelError, match="expected each tag set once, got PST;V again"):
        save_per_tag(place, both, several.config, {}, overwrite=True)
    assert is_same(Transducer.from_pretrained(place), several)


def test_damage_is_noticed(directory):
    shutil.rmtree(directory / "models" / "001")
    with pytest.raises(ModelError, match=r"models/001/config.yaml: is missing"):
        Transducer.from_pretrained(directory)


def test_a_model_that_was_exchanged_is_noticed(directory):
    make_transducer(9).save_pretrained(directory / "models" / "000", overwrite=True)
    with pytest.raises(ModelError, match=r"models/000/config.yaml: was changed since it was written"):
        Transducer.from_pretrained(directory)


def test_a_description_of_a_model_that_is_too_large(directory):
    with (directory / "models" / "001" / "config.yaml").open("ab") as file:
        file.truncate(1 << 40)  # a file with a hole: no disk is that large, and no memory
    with pytest.raises(ModelError, match=r"models/001/config.yaml: has more than the 4194304 bytes"):
        Transducer.from_pretrained(directory)


@pytest.mark.parametrize(
    "name", ["../model", "models/../../x", "/etc", "models/000/../../..", "models/", "models/00a", "models/000\n", 3]
)
def test_no_way_out_of_the_directory(directory, name):
    models = yaml.safe_load((directory / "config.yaml").read_text(encoding="utf-8"))["models"]
    rewritten(directory, models={name: models["models/000"]})
    with pytest.raises(ModelError, match=r"models: expected names such as models/000, which stay inside"):
        Transducer.from_pretrained(directory)


def test_a_link_to_a_model_elsewhere(directory, tmp_path):
    shutil.move(directory / "models" / "000", tmp_path / "elsewhere")
    (directory / "models" / "000").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ModelError, match="is a link out of the model directory"):
        Transducer.from_pretrained(directory)


@pytest.mark.parametrize(
    "changed",
    [
        {},
        [],
        {"models/000": []},
        {"models/000": {"tags": "V", "sha256": "0" * 64}},
        {"models/000": {"tags": [1], "sha256": "0" * 64}},
        {"models/000": {"tags": ["V"], "sha256": "0"}},
        {f"models/00{number}": {"tags": ["V"], "sha256": "0" * 64} for number in (0, 1)},
    ],
)
def test_an_index_that_is_none(directory, changed):
    rewritten(directory, models=changed)
    with pytest.raises(ModelError, match=r"config.yaml: models: "):
        Transducer.from_pretrained(directory)


def test_a_model_of_many_models_inside(directory, several):
    several.save_pretrained(directory / "models" / "000", overwrite=True)
    models = yaml.safe_load((directory / "config.yaml").read_text(encoding="utf-8"))["models"]
    models["models/000"]["sha256"] = sha256_of(directory / "models" / "000" / "config.yaml")
    rewritten(directory, models=models)
    with pytest.raises(ModelError, match="expected a single model, got one for each tag set"):
        Transducer.from_pretrained(directory)


def test_it_can_be_evaluated(several):
    examples = [Example("ab", "gab", ("V", "PST")), Example("c", "?", PRS), Example("ab", "gab", ("ADJ",))]
    found = evaluate_model(several, examples, ["accuracy", "macro_accuracy", "latency"], resamples=0)
    assert [score.name for score in found.scores] == ["accuracy", "macro_accuracy", "ap", "al", "laal", "dal"]
    assert found.scores[0].value == pytest.approx(1 / 3)
    assert [item.group for item in found.items] == ["PST;V", "3;PRS;V", "ADJ"]
    assert [one.index for one in found.failures] == [2]
