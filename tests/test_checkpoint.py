"""The model directory: what goes in comes out, whatever is wrong with it is said, and no moment has half of one."""

import json
import os
import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from safetensors.torch import load, save

from model_directories import begin_training, contents, failing, replaced, rewritten
from ssnt.checkpoint import (
    load_model,
    load_per_tag,
    metrics_record,
    read_manifest,
    require_free,
    save_model,
    update_metrics,
)
from ssnt.checkpoint.publish import staged
from ssnt.checkpoint.weights import expected_specs
from ssnt.config import VARIANTS, Config, HardwareConfig, ModelConfig
from ssnt.data.units import train_bpe
from ssnt.data.vocab import SymbolTable, TagTable, Vocabulary
from ssnt.errors import DataError, ModelError, SsntError, StorageError
from ssnt.metrics import Score
from ssnt.nn import SSNT
from ssnt.pipeline import Transducer
from transducers import is_same_model, make_config, make_transducer, make_vocabulary

FILES = ("README.md", "config.yaml", "metrics.json", "model.safetensors", "vocab.json")


def loaded(directory: Path) -> Transducer:
    saved = load_model(directory)
    return Transducer(saved.model, saved.vocabulary, saved.config, saved.metrics)


def with_model_settings(directory: Path, **settings: Any) -> None:
    config = yaml.safe_load((directory / "config.yaml").read_text(encoding="utf-8"))["config"]
    rewritten(directory, config={**config, "model": {**config["model"], **settings}})


@pytest.fixture(autouse=True)
def _no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    make_transducer().save_pretrained(tmp_path / "model")
    return tmp_path / "model"


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("settings", [{}, {"tie_target_embedding": True, "hidden_size": 4}, {"encoder_layers": 2}])
@pytest.mark.parametrize("tags", [(), ("V", "PST")])
def test_what_is_saved_is_loaded(tmp_path, variant, settings, tags):
    fixed = {"bidirectional": variant.startswith("bi"), "transition": "neural" if variant[-1] == "+" else "geometric"}
    transducer = make_transducer(3, make_vocabulary(tags=tags), make_config(**fixed, **settings))
    transducer.save_pretrained(tmp_path / "model")
    again = loaded(tmp_path / "model")
    assert is_same_model(transducer, again)
    assert again.metrics == transducer.metrics
    assert sorted(os.listdir(tmp_path / "model")) == sorted(FILES)
    assert os.listdir(tmp_path) == ["model"]
    given = [["V"]] if tags else None
    assert again.transduce(["abc"], given) == transducer.transduce(["abc"], given)
    tied = settings.get("tie_target_embedding", False)
    assert ("word.tgt_weight" in load((tmp_path / "model" / "model.safetensors").read_bytes())) is not tied
    assert (again.model.word.tgt_weight is again.model.decoder.embedding.weight) is tied


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_weights_keep_their_type(tmp_path, dtype):
    transducer = make_transducer()
    transducer.model.to(dtype)
    transducer.save_pretrained(tmp_path / "model")
    again = loaded(tmp_path / "model")
    assert again.model.word.bias.dtype == dtype
    assert is_same_model(transducer, again)


def test_units_are_kept(tmp_path):
    bpe = train_bpe(["abab abc", "bcab"], 12)
    for unit, name in ((bpe, "bpe"), (make_vocabulary(unit="tokens").target_unit, "tokens")):
        table = SymbolTable.of(["a", "ab", " abc", "</s>"])
        vocabulary = Vocabulary(table, table, TagTable(("x",)), unit, unit, lowercase=True, digits_to_hash=True)
        transducer = make_transducer(vocabulary=vocabulary)
        transducer.save_pretrained(tmp_path / name)
        again = loaded(tmp_path / name)
        assert is_same_model(transducer, again)
        assert again.vocabulary.split_source("Abab abc") == vocabulary.split_source("Abab abc")


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("tags", [0, 3])
@pytest.mark.parametrize("tie", [False, True])
def test_expected_tensors_are_those_of_the_model(variant, tags, tie):
    for layers in (1, 2):
        config = ModelConfig.variant(
            variant,
            src_vocab_size=9,
            tgt_vocab_size=7,
            feature_vocab_size=tags,
            embed_size=5 if tie else 4,
            hidden_size=5,
            feature_size=3,
            encoder_layers=layers,
            decoder_layers=3 - layers,
            transition_hidden_size=None if tie else 8,
            tie_target_embedding=tie,
        )
        state = SSNT(config).state_dict()
        if tie:
            del state["word.tgt_weight"]
        assert {name: one.shape for name, one in expected_specs(config).items()} == {
            name: tuple(tensor.shape) for name, tensor in state.items()
        }
        assert all(
            (one.dtype == "I64") == (name == "transition.length_sums") for name, one in expected_specs(config).items()
        )


def test_the_same_model_gives_the_same_files(tmp_path):
    for place in ("one", "two"):
        make_transducer().save_pretrained(tmp_path / place / "model")
    for name in FILES:
        assert (tmp_path / "one" / "model" / name).read_bytes() == (tmp_path / "two" / "model" / name).read_bytes()


def test_loading_leaves_random_numbers_alone(directory):
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    load_model(directory)
    assert torch.equal(torch.rand(3), expected)


def test_a_model_directory_has_no_places_of_a_machine(tmp_path):
    settings = {"train": "/home/someone/secret/train.tsv", "dev": "C:\\data\\dev.tsv", "cache": "/tmp/cache"}
    hardware = {"engine": "ray", "address": "someone:6379", "workers": 3}
    sections = {"data": settings, "hardware": hardware, "out": "/home/someone/out"}
    config = Config.model_validate({**make_config().model_dump(), **sections})
    transducer = make_transducer(config=config)
    metrics = metrics_record(
        scores={"dev": [Score("accuracy", 0.5, 8, "accuracy|refs:1", True, 0.2, 0.8)]},
        data={"train": {"file": "/home/someone/secret/train.tsv", "sha256": "ab" * 32, "examples": 12}},
        seed=7,
        command="ssnt train",
    )
    save_model(tmp_path / "model", transducer.model, transducer.vocabulary, config, metrics)
    for name in ("README.md", "config.yaml", "metrics.json"):
        text = (tmp_path / "model" / name).read_text(encoding="utf-8")
        assert "someone" not in text
        assert "C:" not in text
    saved = load_model(tmp_path / "model")
    assert (saved.config.data.train, saved.config.data.dev, saved.config.out) == ("train.tsv", "dev.tsv", None)
    assert saved.metrics["data"]["train"] == {"file": "train.tsv", "sha256": "ab" * 32, "examples": 12}
    assert saved.metrics["seed"] == 7
    assert saved.config.hardware == HardwareConfig()


def test_a_model_from_before_a_setting_moved_loads(directory):
    config = yaml.safe_load((directory / "config.yaml").read_text(encoding="utf-8"))["config"]
    config["training"]["workers"] = 3
    for name in ("engine", "address", "workers"):
        del config["hardware"][name]
    rewritten(directory, config=config)
    assert load_model(directory).config.hardware.workers == 3


def test_the_model_card(tmp_path):
    transducer = make_transducer(vocabulary=make_vocabulary(tags=("V", "PST"), lowercase=True))
    score = Score("accuracy", 0.5, 8, "accuracy|refs:1|v:0", True, 0.25, 0.75)
    metrics = metrics_record(
        scores={"dev": [score], "test": [Score("perplexity", float("inf"), 8, "perplexity|v:0", False)]},
        data={"train": {"file": "a|`b`.tsv", "sha256": "ab" * 32, "examples": 12}},
    )
    save_model(
        tmp_path / "my_model", transducer.model, transducer.vocabulary, transducer.config, metrics, overwrite=False
    )
    card = (tmp_path / "my_model" / "README.md").read_text(encoding="utf-8")
    _, front, body = card.split("---\n", 2)
    assert yaml.safe_load(front)["library_name"] == "ssnt"
    assert "streaming" in yaml.safe_load(front)["tags"]
    for part in (
        "# my\\_model",
        "A uniSSNT+ transducer",
        "Every input comes with a set of tags (2 known).",
        "is lowercased",
        "| dev | accuracy | 0.5000 (0.2500 to 0.7500) | 8 |",
        "| test | perplexity | undefined | 8 |",
        "`accuracy|refs:1|v:0`",
        "| train | ``a\\|`b`.tsv`` | 12 | `" + "ab" * 32 + "` |",
        "ssnt.Transducer.from_pretrained('my_model')",
        "tags=[['V', 'PST']]",
        "ssnt predict my_model input.tsv",
        "ssnt stream my_model",
        "| hidden size | 6 |",
    ):
        assert part in body, part


def test_new_metrics_can_be_written(directory):
    before = loaded(directory)
    card = (directory / "README.md").read_text(encoding="utf-8")
    metrics = metrics_record(scores={"test": [Score("accuracy", 0.25, 4, "accuracy", True)]})
    update_metrics(directory, metrics)
    assert is_same_model(before, loaded(directory))
    assert load_model(directory).metrics == metrics
    assert "0.2500" in (directory / "README.md").read_text(encoding="utf-8")
    assert sorted(os.listdir(directory)) == sorted(FILES)
    edited = card.replace("<!-- Generated by ssnt", "<!-- Mine") + "My own words.\n"
    (directory / "README.md").write_text(edited, encoding="utf-8")
    update_metrics(directory, {})
    assert (directory / "README.md").read_text(encoding="utf-8") == edited


def test_an_existing_directory_is_refused(directory, tmp_path):
    other = make_transducer(2)
    with pytest.raises(StorageError, match=r"model: exists and is not empty; choose another directory, .*--overwrite"):
        other.save_pretrained(directory)
    assert is_same_model(loaded(directory), make_transducer(1))
    other.save_pretrained(directory, overwrite=True)
    assert is_same_model(loaded(directory), other)
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="file: is not a directory"):
        other.save_pretrained(tmp_path / "file")
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "README.md").write_text("mine", encoding="utf-8")
    with pytest.raises(StorageError, match=r"holds other files \(README.md\) and no model"):
        other.save_pretrained(tmp_path / "project", overwrite=True)
    assert (tmp_path / "project" / "README.md").read_text(encoding="utf-8") == "mine"
    (tmp_path / "empty").mkdir()
    other.save_pretrained(tmp_path / "empty")
    assert is_same_model(loaded(tmp_path / "empty"), other)


def test_what_training_keeps_stays(tmp_path):
    kept = tmp_path / "model" / "training" / "last.ckpt"
    kept.parent.mkdir(parents=True)
    kept.write_text("x", encoding="utf-8")
    require_free(tmp_path / "model")
    for seed in (1, 2):
        make_transducer(seed).save_pretrained(tmp_path / "model", overwrite=seed == 2)
        assert is_same_model(loaded(tmp_path / "model"), make_transducer(seed))
        assert kept.read_text(encoding="utf-8") == "x"
        assert sorted(os.listdir(tmp_path / "model")) == sorted((*FILES, "training"))
    (tmp_path / "model" / "notes.txt").write_text("mine", encoding="utf-8")
    begin_training(tmp_path / "begun")
    (tmp_path / "begun" / "notes.txt").write_text("mine", encoding="utf-8")
    make_transducer(3).save_pretrained(tmp_path / "begun", overwrite=True)
    make_transducer(3).save_pretrained(tmp_path / "model", overwrite=True)
    assert (tmp_path / "model" / "notes.txt").read_text(encoding="utf-8") == "mine"


@pytest.mark.parametrize(
    "files",
    [
        {"README.md": "mine", "config.yaml": "format_version: 3\n", "models/net.py": "import torch"},
        {"vocab.json": "{}"},
        {"model.safetensors": "x", "metrics.json": "{}"},
        {".pending/config.yaml": "a: 1"},
        {"training/config.yaml": "kind: of a project", "notes.txt": "x"},
        {"models/000/config.yaml": "a: 1"},
    ],
)
def test_files_of_others_are_not_taken_for_a_model(tmp_path, files):
    project = tmp_path / "project"
    for name, text in files.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text, encoding="utf-8")
    before = contents(project)
    names = sorted({name.split("/")[0] for name in files} - {"training"})
    with pytest.raises(StorageError) as caught:
        make_transducer().save_pretrained(project, overwrite=True)
    assert f"project: holds other files ({', '.join(names)}) and no model" in str(caught.value)
    assert "choose another directory" in str(caught.value)
    assert contents(project) == before


@pytest.mark.parametrize("name", ["config.yaml", "vocab.json", "models/000/net.py", ".pending/config.yaml"])
def test_files_of_others_in_the_place_of_a_model_are_not_replaced(tmp_path, name):
    begin_training(tmp_path / "out")
    (tmp_path / "out" / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / "out" / name).write_text("mine", encoding="utf-8")
    before = contents(tmp_path / "out")
    shown = re.escape(name.removesuffix("/net.py").removesuffix("/config.yaml"))
    with pytest.raises(
        StorageError, match=rf"files there that ssnt has not written \({shown}\); move them elsewhere, or"
    ):
        make_transducer().save_pretrained(tmp_path / "out", overwrite=True)
    assert contents(tmp_path / "out") == before


def test_a_card_that_somebody_has_edited_stays_when_the_model_is_replaced(directory):
    (directory / "README.md").write_text("My own words.\n", encoding="utf-8")
    make_transducer(2).save_pretrained(directory, overwrite=True)
    assert is_same_model(loaded(directory), make_transducer(2))
    assert (directory / "README.md").read_text(encoding="utf-8") == "My own words.\n"
    assert sorted(os.listdir(directory)) == sorted(FILES)


@pytest.mark.parametrize("state", ["nothing", "model"])
def test_what_another_process_is_writing_is_left_alone(tmp_path, state):
    place = tmp_path / "model"
    prepared(place, state)
    home = tmp_path if state == "nothing" else place
    with staged(place) as stage:
        assert stage.parent == home
        (stage / "file").touch()
        make_transducer(2).save_pretrained(place, overwrite=True)
        make_transducer(3).save_pretrained(place, overwrite=True)
        assert os.listdir(stage) == ["file"]
        (stage / "file").unlink()
        make_transducer(4).save_pretrained(tmp_path / "four")
        for one in (tmp_path / "four").iterdir():
            one.rename(stage / one.name)
        (tmp_path / "four").rmdir()
        if state == "nothing":
            shutil.rmtree(place)
    assert is_same_model(loaded(place), make_transducer(4))
    assert os.listdir(tmp_path) == ["model"]
    assert sorted(os.listdir(place)) == sorted(FILES)


def test_what_killed_processes_have_left_is_removed(tmp_path):
    left = [".ssnt-model.abcd_123.partial", ".ssnt-model.x.abcd_123.partial", ".ssnt-other.abcd_123.partial"]
    for name in left:
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.safetensors").touch()
    make_transducer().save_pretrained(tmp_path / "model")
    assert sorted(os.listdir(tmp_path)) == [*left[1:], "model"]
    long = "m" * 250
    make_transducer().save_pretrained(tmp_path / long)
    assert is_same_model(loaded(tmp_path / long), make_transducer())


def test_a_link_to_a_directory_is_written_through(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    make_transducer().save_pretrained(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert is_same_model(loaded(tmp_path / "real"), make_transducer())


def test_permissions_are_those_of_new_directories(tmp_path):
    (tmp_path / "other").mkdir()
    make_transducer().save_pretrained(tmp_path / "model")
    assert (tmp_path / "model").stat().st_mode == (tmp_path / "other").stat().st_mode


class TestMistakes:
    @pytest.mark.parametrize("name", ["config.yaml", "metrics.json", "model.safetensors", "vocab.json"])
    def test_a_missing_file(self, directory, name):
        (directory / name).unlink()
        with pytest.raises(ModelError, match=rf"model/{name}: is missing.*copy the whole model directory again"):
            load_model(directory)

    def test_no_directory(self, tmp_path):
        with pytest.raises(ModelError, match="none: there is no such model directory"):
            load_model(tmp_path / "none")
        (tmp_path / "file").touch()
        with pytest.raises(ModelError, match="file: is a file; expected a model directory"):
            load_model(tmp_path / "file")
        with pytest.raises(ModelError, match=r"is not a model directory: there is no config.yaml in it"):
            load_model(tmp_path)

    def test_an_unfinished_training(self, tmp_path):
        (tmp_path / "model" / "training").mkdir(parents=True)
        (tmp_path / "model" / "models").mkdir()
        with pytest.raises(ModelError, match=r"model: is not a model directory: there is no config.yaml in it"):
            load_model(tmp_path / "model")  # nothing has been written that one could go on with
        begin_training(tmp_path / "model")
        with pytest.raises(
            ModelError, match=r"unfinished training \(training/\) but no model yet; .*ssnt train --resume"
        ):
            load_model(tmp_path / "model")

    def test_a_newer_version(self, directory):
        content = yaml.safe_load((directory / "config.yaml").read_text(encoding="utf-8"))
        content |= {"format_version": 99, "ssnt_version": "7.5", "something": "new"}
        (directory / "config.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
        with pytest.raises(
            ModelError, match=r"written by a newer ssnt \(7.5, format_version 99; .*pip install --upgrade"
        ):
            load_model(directory)

    @pytest.mark.parametrize("version", [0, -1, True, None, "1", 1.0, [1]])
    def test_no_version(self, directory, version):
        rewritten(directory, format_version=version)
        with pytest.raises(ModelError, match="format_version: expected a number of at least 1"):
            load_model(directory)

    def test_another_kind_of_yaml(self, directory):
        (directory / "config.yaml").write_text("model:\n  hidden_size: 3\n", encoding="utf-8")
        with pytest.raises(ModelError, match=r"is not the config.yaml of a model directory"):
            load_model(directory)

    def test_a_changed_setting(self, directory):
        path = directory / "config.yaml"
        path.write_text(path.read_text(encoding="utf-8").replace("beam: 4", "beam: 5"), encoding="utf-8")
        with pytest.raises(
            ModelError, match=r"config.yaml: was changed since .*checksum.*load the model and give them"
        ):
            load_model(directory)

    def test_comments_and_layout_may_change(self, directory):
        path = directory / "config.yaml"
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
        path.write_text("# mine\n" + json.dumps(content, indent=1), encoding="utf-8")
        assert is_same_model(loaded(directory), make_transducer())

    @pytest.mark.parametrize("name", ["metrics.json", "model.safetensors", "vocab.json"])
    def test_a_file_of_another_model(self, directory, tmp_path, name):
        other = make_transducer(2, make_vocabulary("abc"), make_config(embed_size=9))
        other.metrics = {"x": 1}
        other.save_pretrained(tmp_path / "other")
        shutil.copy(tmp_path / "other" / name, directory / name)
        with pytest.raises(ModelError, match=rf"{name}: (was cut short or changed|does not fit config.yaml)"):
            load_model(directory)

    def test_a_wrong_kind_of_directory(self, directory):
        with pytest.raises(ModelError, match="holds a single model, not one for each tag set"):
            load_per_tag(directory)

    @pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
    def test_weights_that_are_no_numbers(self, directory, value):
        tensors = load((directory / "model.safetensors").read_bytes())
        tensors["word.bias"][3] = value
        replaced(directory, "model.safetensors", save(tensors))
        with pytest.raises(ModelError, match=r"model.safetensors: word.bias holds NaN or infinite weights"):
            load_model(directory)

    def test_weights_that_cannot_be_saved(self, tmp_path):
        transducer = make_transducer()
        with torch.no_grad():
            transducer.model.word.bias[0] = float("nan")
        with pytest.raises(ModelError, match=r"cannot be saved: word.bias holds NaN"):
            transducer.save_pretrained(tmp_path / "model")
        transducer = make_transducer(config=make_config(transition="geometric"))
        transducer.model.transition.length_sums.zero_()
        with pytest.raises(ModelError, match="expected the sums of the training pairs' lengths"):
            transducer.save_pretrained(tmp_path / "model")
        assert os.listdir(tmp_path) == []

    def test_a_model_that_its_settings_do_not_describe(self, tmp_path):
        transducer = make_transducer()
        transducer.model.encoder.extra = torch.nn.Linear(1, 1)
        with pytest.raises(ModelError, match=r"settings do not describe all of it: 'encoder.extra.bias' is not a part"):
            transducer.save_pretrained(tmp_path / "model")
        transducer = make_transducer()
        with pytest.raises(ModelError, match="its own differ: embed_size, hidden_size"):
            save_model(
                tmp_path / "model",
                transducer.model,
                transducer.vocabulary,
                make_config(embed_size=5, hidden_size=7),
                {},
            )

    def test_metrics_that_json_cannot_hold(self, tmp_path):
        transducer = make_transducer()
        for metrics in ({"x": float("nan")}, {"x": {1, 2}}, {"x": transducer}):
            with pytest.raises(DataError, match="metrics: expected strings, finite numbers"):
                save_model(tmp_path / "m", transducer.model, transducer.vocabulary, transducer.config, metrics)
        assert os.listdir(tmp_path) == []


class TestHostileDirectories:
    """The checksums are right, and the content is not."""

    @pytest.mark.parametrize(
        "settings",
        [
            {"hidden_size": 10**9},
            {"embed_size": 10**9},
            {"hidden_size": 10**30},
            {"encoder_layers": 10**9},
            {"decoder_layers": 10**12},
            {"transition_hidden_size": 10**9},
            {"encoder_layers": 2},
            {"transition": "geometric"},
            {"bidirectional": True},
        ],
    )
    def test_sizes_that_the_weights_do_not_have(self, directory, settings):
        with_model_settings(directory, **settings)
        with pytest.raises(ModelError, match=r"model.safetensors: (does not fit|has [0-9]+ tensors, too few)"):
            load_model(directory)

    def test_settings_that_do_not_exist(self, directory):
        with_model_settings(directory, hidden_sizes=3)
        with pytest.raises(ModelError, match=r"config.yaml: config: unknown setting 'model.hidden_sizes'"):
            load_model(directory)

    @pytest.mark.parametrize(
        "changes",
        [
            {"kind": "other"},
            {"kind": ["model"]},
            {"config": []},
            {"files": None},
            {"files": {"vocab.json": "x"}},
            {"files": {"../vocab.json": "0" * 64, "model.safetensors": "0" * 64, "metrics.json": "0" * 64}},
            {"files": {"vocab.json": 3, "model.safetensors": "0" * 64, "metrics.json": "0" * 64}},
            {"more": 1},
            {"models": {"models/000": {"tags": [], "sha256": "0" * 64}}},
            {"checksum": 4},
        ],
    )
    def test_other_keys(self, directory, changes):
        rewritten(directory, **changes)
        if "checksum" in changes:
            path = directory / "config.yaml"
            path.write_text(path.read_text(encoding="utf-8").replace("checksum: ", "checksum: x"), encoding="utf-8")
        with pytest.raises(ModelError, match=r"config.yaml: "):
            load_model(directory)

    @pytest.mark.parametrize(
        "text",
        [
            "format_version: 1\n? [a]\n: 1\n",
            "format_version: !!int ''\n",
            "format_version: !!python/object/apply:os.getcwd []\n",
            "a: &a [1, 1]\nb: [*a, *a]\nformat_version: 1\n",
            "[" * 5000,
            "- " * 5000 + "a",
            "format_version: 2024-99-99\n",
            "\x00",
            "- 1\n",
            "",
            "format_version: 1\nformat_version: 1\n",
            "{",
            "a: !!bool maybe\n",
        ],
    )
    def test_yaml_that_is_not_ours(self, directory, text):
        (directory / "config.yaml").write_text(text, encoding="utf-8")
        with pytest.raises(ModelError, match=r"config.yaml"):
            load_model(directory)

    def test_yaml_that_is_not_text(self, directory):
        (directory / "config.yaml").write_bytes(b"\xff\xfe")
        with pytest.raises(ModelError, match=r"config.yaml: is not valid UTF-8"):
            load_model(directory)

    @pytest.mark.parametrize(
        "edit",
        [
            lambda vocab: [vocab],
            lambda vocab: {**vocab, "source": None},
            lambda vocab: {**vocab, "source": {"unit": {"unit": "characters"}, "symbols": "abc"}},
            lambda vocab: {**vocab, "source": {"unit": {"unit": "characters"}, "symbols": [1, None]}},
            lambda vocab: {**vocab, "source": {"unit": {"unit": ["characters"]}, "symbols": ["a"]}},
            lambda vocab: {**vocab, "source": {"unit": {"unit": "bpe", "tokenizer": 4}, "symbols": ["a"]}},
            lambda vocab: {**vocab, "source": {"unit": "characters", "symbols": ["a", "a"]}},
            lambda vocab: {**vocab, "tags": {}},
            lambda vocab: {**vocab, "tags": [["V"]]},
            lambda vocab: {**vocab, "tags": []},
            lambda vocab: {**vocab, "special": []},
            lambda vocab: {**vocab, "is_shared": 1},
            lambda vocab: {**vocab, "lowercase": "yes"},
            lambda vocab: {**vocab, "format_version": 9},
            lambda vocab: {**vocab, "format_version": "1"},
            lambda vocab: {key: value for key, value in vocab.items() if key != "target"},
        ],
    )
    def test_a_vocabulary_that_is_none(self, directory, edit: Callable[[Any], Any]):
        vocab = json.loads((directory / "vocab.json").read_text(encoding="utf-8"))
        replaced(directory, "vocab.json", json.dumps(edit(vocab)).encode())
        with pytest.raises(ModelError, match=r"vocab.json: "):
            load_model(directory)

    @pytest.mark.parametrize("name", ["vocab.json", "metrics.json"])
    @pytest.mark.parametrize("content", [b"", b"{", b"\xff", b"[" * 100_000, b"9" * 5000, b"[]", b'"a"'])
    def test_json_that_is_none(self, directory, name, content):
        replaced(directory, name, content)
        with pytest.raises(ModelError, match=rf"{name}: "):
            load_model(directory)

    @pytest.mark.parametrize(
        "content",
        [
            b"",
            b"\x01",
            (10**18).to_bytes(8, "little") + b"{}",
            (2**20 + 1).to_bytes(8, "little") + b" " * (2**20 + 1),
            (2).to_bytes(8, "little") + b"{}",
            (2).to_bytes(8, "little") + b"[]",
            (4).to_bytes(8, "little") + b'{"a"',
            (9).to_bytes(8, "little") + b'{"a": {}}',
        ],
    )
    def test_weights_that_are_none(self, directory, content):
        replaced(directory, "model.safetensors", content)
        with pytest.raises(ModelError, match=r"model.safetensors: "):
            load_model(directory)

    @pytest.mark.parametrize(
        "edit",
        [
            lambda header: header["word.bias"].update(data_offsets=[0, 10**15]),
            lambda header: header["word.bias"].update(data_offsets=[-5, 3]),
            lambda header: header["word.bias"].update(data_offsets=[0]),
            lambda header: header["word.bias"].update(dtype="F64"),
            lambda header: header["word.bias"].update(dtype="I32"),
            lambda header: header["word.bias"].update(dtype=None),
            lambda header: header["word.bias"].update(shape=[-1]),
            lambda header: header["word.bias"].update(shape=["17"]),
            lambda header: header["word.bias"].update(shape=None),
            lambda header: header.update({"../x": header["word.bias"]}),
            lambda header: header.pop("word.bias"),
        ],
    )
    def test_a_header_that_lies(self, directory, edit):
        content = (directory / "model.safetensors").read_bytes()
        size = int.from_bytes(content[:8], "little")
        header = json.loads(content[8 : 8 + size])
        edit(header)
        text = json.dumps(header).encode()
        replaced(directory, "model.safetensors", len(text).to_bytes(8, "little") + text + content[8 + size :])
        with pytest.raises(ModelError, match=r"model.safetensors: "):
            load_model(directory)

    @pytest.mark.parametrize("name", ["config.yaml", "metrics.json", "model.safetensors", "vocab.json"])
    def test_a_link_to_elsewhere(self, directory, tmp_path, name):
        shutil.move(directory / name, tmp_path / name)
        (directory / name).symlink_to(tmp_path / name)
        with pytest.raises(ModelError, match=rf"{name}: is a link out of the model directory"):
            load_model(directory)

    def test_a_link_inside_is_followed(self, directory):
        (directory / "weights.bin").write_bytes((directory / "model.safetensors").read_bytes())
        (directory / "model.safetensors").unlink()
        (directory / "model.safetensors").symlink_to("weights.bin")
        assert is_same_model(loaded(directory), make_transducer())

    def test_links_of_the_hub_cache_are_followed(self, directory, tmp_path):
        snapshot = tmp_path / "models--a--b" / "snapshots" / "123"
        blobs = tmp_path / "models--a--b" / "blobs"
        snapshot.mkdir(parents=True)
        blobs.mkdir()
        for name in FILES:
            shutil.move(directory / name, blobs / f"blob-{name}")
            (snapshot / name).symlink_to(Path("..") / ".." / "blobs" / f"blob-{name}")
        assert is_same_model(loaded(snapshot), make_transducer())
        (snapshot / "vocab.json").unlink()
        (snapshot / "vocab.json").symlink_to(tmp_path / "model")
        with pytest.raises(ModelError, match=r"vocab.json: is a link out of the model directory"):
            load_model(snapshot)

    def test_a_pipe_is_not_waited_for(self, directory):
        (directory / "vocab.json").unlink()
        os.mkfifo(directory / "vocab.json")
        with pytest.raises(ModelError, match=r"vocab.json: is not a regular file"):
            load_model(directory)

    def test_a_directory_in_the_place_of_a_file(self, directory):
        (directory / "vocab.json").unlink()
        (directory / "vocab.json").mkdir()
        with pytest.raises(ModelError, match=r"vocab.json: is not a regular file"):
            load_model(directory)

    def test_a_link_that_leads_nowhere(self, directory):
        (directory / "vocab.json").unlink()
        (directory / "vocab.json").symlink_to("vocab.json")
        with pytest.raises(ModelError, match=r"vocab.json: "):
            load_model(directory)


@pytest.mark.parametrize("name", ["config.yaml", "metrics.json", "model.safetensors", "vocab.json"])
def test_any_damage_is_noticed(directory, name):
    original, generator = loaded(directory), random.Random(4)
    content = (directory / name).read_bytes()
    harmless, messages = 0, []
    for _ in range(40):
        damaged, place = bytearray(content), generator.randrange(len(content))
        kind = generator.choice(["flip", "cut", "insert", "delete"])
        if kind == "flip":
            damaged[place] ^= 1 << generator.randrange(8)
        elif kind == "cut":
            del damaged[place:]
        elif kind == "insert":
            damaged.insert(place, generator.randrange(256))
        else:
            del damaged[place]
        (directory / name).write_bytes(damaged)
        try:
            again = loaded(directory)
        except ModelError as error:
            messages.append(str(error))
        else:
            harmless += 1
            assert is_same_model(original, again)
            assert again.metrics == original.metrics
    assert all(str(directory / name) in message for message in messages)
    assert harmless == 0 or name == "config.yaml"  # where a comment may change
    (directory / name).write_bytes(content)
    assert is_same_model(original, loaded(directory))


def prepared(place: Path, state: str) -> Transducer | None:
    """A directory in some state, and the model that is in it."""
    if state == "model":
        make_transducer(1).save_pretrained(place)
        return make_transducer(1)
    if state == "training":
        begin_training(place)
    return None


def check_old_or_new(place: Path, old: Transducer | None, new: Transducer) -> bool:
    """Whether it is the new one; it has to be one of them."""
    try:
        found = loaded(place)
    except ModelError as error:
        is_nothing = "no such model directory" in str(error) or "unfinished training" in str(error)
        if old is None and is_nothing:
            return False
        raise
    if old is not None and is_same_model(found, old):
        return False
    assert is_same_model(found, new)
    return True


@pytest.mark.parametrize("state", ["nothing", "training", "model"])
def test_a_save_that_fails_leaves_the_old_or_the_new(tmp_path, monkeypatch, state):
    def fail() -> None:
        raise OSError(28, "No space left on device")

    new, outcomes, messages = make_transducer(2), [], []
    for number in range(100):
        place = tmp_path / str(number) / "model"
        old = prepared(place, state)
        with monkeypatch.context() as patch:
            done = failing(number, fail, patch)
            try:
                new.save_pretrained(place, overwrite=True)
            except StorageError as error:
                messages.append(str(error))
            else:
                assert len(done) <= number
                break
        outcomes.append(check_old_or_new(place, old, new))
        if not outcomes[-1]:  # then nothing is left of the attempt
            left = {"nothing": [], "training": ["training"], "model": list(FILES)}[state]
            assert sorted(os.listdir(place)) == sorted(left) if place.exists() else not left
            assert not [name for name in os.listdir(place.parent) if name != "model"]
        new.save_pretrained(place, overwrite=True)
        assert check_old_or_new(place, None, new)
        assert not [name for name in os.listdir(place) if name.startswith(".")]
    assert len(outcomes) >= 6
    assert all("No space left on device" in message for message in messages)
    assert outcomes == sorted(outcomes)  # once it is the new one, it stays so
    assert outcomes[-1] is (state != "nothing")


@pytest.mark.parametrize("state", ["nothing", "training", "model"])
def test_a_save_that_is_killed_leaves_the_old_or_the_new(tmp_path, monkeypatch, state):
    new, outcomes = make_transducer(2), []
    for number in range(100):
        place = tmp_path / str(number) / "model"
        old = prepared(place, state)
        child = os.fork()
        if not child:  # killed without a chance to tidy up
            failing(number, lambda: os._exit(9), monkeypatch)
            try:
                new.save_pretrained(place, overwrite=True)
            finally:
                os._exit(0)
        if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0:
            break
        outcomes.append(check_old_or_new(place, old, new))
        new.save_pretrained(place, overwrite=True)
        assert check_old_or_new(place, None, new)
        assert not [name for name in os.listdir(place) if name.startswith(".")]
        assert os.listdir(place.parent) == ["model"]
    assert len(outcomes) >= 6
    assert outcomes == sorted(outcomes)
    assert check_old_or_new(tmp_path / str(len(outcomes)) / "model", None, new)


def test_a_full_disk_is_said(tmp_path, monkeypatch):
    def full(path: Path, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(StorageError, match=r"could not be written \(No space left on device\).*free some space"):
        make_transducer().save_pretrained(tmp_path / "model")
    assert os.listdir(tmp_path) == []


def test_a_place_that_may_not_be_written_to(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="could not be written"):
        make_transducer().save_pretrained(tmp_path / "file" / "model")


def test_a_manifest_can_be_read_by_itself(directory):
    manifest = read_manifest(directory)
    assert (manifest.kind, manifest.models) == ("model", ())
    assert manifest.config == make_config()
    assert set(manifest.files) == {"model.safetensors", "vocab.json", "metrics.json"}


def test_every_error_is_ours():
    assert issubclass(ModelError, SsntError)
    assert issubclass(StorageError, SsntError)
