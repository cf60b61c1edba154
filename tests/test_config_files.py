"""Settings in YAML files, overrides and presets."""

import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssnt.checkpoint.manifest import Manifest, SubModel, read_manifest, tag_set
from ssnt.config import (
    PRESETS,
    Config,
    DataConfig,
    dump_config,
    load_config,
    load_sweep_config,
    merged,
    parse_overrides,
    parse_settings,
    preset_path,
    read_settings,
    to_yaml,
)
from ssnt.errors import ConfigError
from ssnt.training.run_directory import RunDirectory

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("name", PRESETS)
def test_presets_load(name: str):
    assert load_config(preset=name) == load_config(preset_path(name))


def test_there_is_no_preset_without_a_name():
    assert {path.stem for path in preset_path("inflection").parent.glob("*.yaml")} == set(PRESETS)


def test_presets_are_the_papers():
    inflection, summarisation = load_config(preset="inflection"), load_config(preset="summarisation")
    assert (inflection.model.hidden_size, inflection.model.input_dropout, inflection.model.output_dropout) == (
        128,
        0.5,
        0.5,
    )
    assert (inflection.search.beam, inflection.batch.size, inflection.optimiser.learning_rate) == (30, 32, 0.001)
    assert (summarisation.model.hidden_size, summarisation.model.input_dropout) == (256, 0.2)
    assert (summarisation.search.beam, summarisation.batch.size, summarisation.optimiser.learning_rate) == (
        1,
        32,
        0.001,
    )
    data = summarisation.data
    assert (data.max_source_length, data.max_target_length, data.max_cells) == (50, 25, 500)


def test_every_yaml_in_the_repository_loads():
    # not what a user has written there, such as the model of `make demo`; plans of experiments have tests of their own
    ours = ("src", "docs", "examples", "benchmarks", "configs")
    paths = [path for part in ours for path in (ROOT / part).rglob("*.y*ml")]
    made = {"site-packages", ".cache"}  # environments of peers, and models that were trained to be measured
    paths = [path for path in paths if path.name != "mkdocs.yml" and not made & set(path.parts)]
    assert len(paths) >= len(PRESETS)
    for path in paths:
        (load_sweep_config if "sweep" in read_settings(path) else load_config)(path)


@pytest.mark.parametrize("name", PRESETS)
def test_what_is_dumped_loads_as_the_same(name: str, tmp_path: Path):
    config = load_config(
        preset=name, overrides={"data": {"train": "a b: #c.tsv"}, "optimiser": {"learning_rate": 1e-5}}
    )
    (tmp_path / "a.yaml").write_text(dump_config(config), encoding="utf-8")
    assert load_config(tmp_path / "a.yaml") == config


LOOK_LIKE_OTHERS = ["1e3", "-3E2", "1_0e5", "12e1", "0x1f", "yes", "null", "~", "1.0", "", " a", "=", "<<", "1:30", "#"]


@pytest.mark.parametrize("text", LOOK_LIKE_OTHERS)
def test_text_that_looks_like_something_else_stays_text(text: str, tmp_path: Path):
    config = Config(data=DataConfig(train=text, tag_separator=text or None, source_column=text))
    (tmp_path / "a.yaml").write_text(dump_config(config), encoding="utf-8")
    assert load_config(tmp_path / "a.yaml") == config
    run = RunDirectory(tmp_path / "run")
    run.training.mkdir(parents=True)
    run.write_record(config, {"train": text})
    whole = config.data.model_copy(update={"train": os.path.abspath(text)})  # so that it is found from anywhere
    assert run.read_record() == (config.model_copy(update={"data": whole}), {"train": text})


@pytest.mark.parametrize("tag", [text for text in LOOK_LIKE_OTHERS if text])
def test_tags_that_look_like_something_else_stay_tags(tag: str, tmp_path: Path):
    sub_model = SubModel("models/000", tag_set([tag, "V"]), "0" * 64)
    manifest = Manifest("per-tag", Config(data=DataConfig(train=tag)), {"metrics.json": "0" * 64}, (sub_model,))
    (tmp_path / "config.yaml").write_text(manifest.to_text(), encoding="utf-8")
    assert read_manifest(tmp_path) == manifest


texts = st.text(st.characters(exclude_categories=["Cs"])) | st.text("a 1\n\x85\u2028'\"#:-")
numbers_as_text = st.from_regex(r"[-+]?[0-9_]+(\.[0-9_]*)?[eE][-+]?[0-9]+", fullmatch=True)
values = texts | numbers_as_text | st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False)


@given(st.dictionaries(texts, values | st.lists(values, max_size=3), max_size=5))
def test_what_is_written_as_yaml_is_read_as_the_same(settings: dict[str, object]):
    assert parse_settings(to_yaml(settings), "x") == settings


def test_a_file_goes_before_the_preset_and_overrides_before_both(tmp_path: Path):
    (tmp_path / "a.yaml").write_text("model: {hidden_size: 7}\ntraining: {seed: 3}\n")
    config = load_config(tmp_path / "a.yaml", preset="inflection", overrides=parse_overrides(["training.seed=4"]))
    assert (config.model.hidden_size, config.model.embed_size, config.training.seed) == (7, 128, 4)


@pytest.mark.parametrize(
    ("override", "section", "name", "value"),
    [
        ("optimiser.learning_rate=1e-3", "optimiser", "learning_rate", 0.001),
        ("optimiser.gradient_clip=", "optimiser", "gradient_clip", None),
        ("optimiser.gradient_clip=null", "optimiser", "gradient_clip", None),
        ("data.train=a=b.tsv", "data", "train", "a=b.tsv"),
        ("data.source_column=lemma", "data", "source_column", "lemma"),
        ("data.source_column=3", "data", "source_column", 3),
        ("data.lowercase=true", "data", "lowercase", True),
        ("data.tag_separator=','", "data", "tag_separator", ","),
        ('data.tag_separator="\\t"', "data", "tag_separator", "\t"),
        ("data.tag_separator=#", "data", "tag_separator", "#"),
        ("data.tag_separator=|", "data", "tag_separator", "|"),
        ("data.tag_separator=,", "data", "tag_separator", ","),
        ("data.tag_separator=:", "data", "tag_separator", ":"),
        ("data.tag_separator=;", "data", "tag_separator", ";"),
        ("data.tag_separator=", "data", "tag_separator", None),
        ("data.tag_separator= ", "data", "tag_separator", " "),
        ("data.tag_separator='", "data", "tag_separator", "'"),
        ("data.tag_separator=''''", "data", "tag_separator", "'"),
        ("data.train=my file #1.tsv", "data", "train", "my file #1.tsv"),
        ("data.train=12e1", "data", "train", "12e1"),
        ("data.train=2016", "data", "train", "2016"),
        ("data.train=yes", "data", "train", "yes"),
        ("data.train=null", "data", "train", None),
        ("data.train=~", "data", "train", None),
        ("data.train=~/a.tsv", "data", "train", "~/a.tsv"),
        ("data.train='null'", "data", "train", "null"),
        ("data.train='a' and 'b'", "data", "train", "'a' and 'b'"),
        ("data.train = a.tsv", "data", "train", "a.tsv"),
        ("data.train=' a.tsv'", "data", "train", " a.tsv"),
        ("data.source_column='3'", "data", "source_column", "3"),
        ("data.source_column=3.0", "data", "source_column", "3.0"),
        ("data.source_column=a: b", "data", "source_column", "a: b"),
        ("data.source_column=~", "data", "source_column", None),
        ("data.format=jsonl", "data", "format", "jsonl"),
        ("data={train: a}", "data", "train", "a"),
    ],
)
def test_overrides_are_read_as_yaml_or_text(override: str, section: str, name: str, value: object):
    config = load_config(overrides=parse_overrides([override]))
    assert getattr(getattr(config, section), name) == value


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ("training.seed=3", "training.seed=4", "setting 'training.seed': given twice, as 3 and as 4; leave one out"),
        ("data.train=", "data.train=b", "setting 'data.train': given twice, as None and as 'b'; leave one out"),
        ("data={train: a, dev: d}", "data.train=b", "setting 'data.train': given twice, as 'a' and as 'b'"),
        ("data.train=a", "data={dev: d, train: b}", "setting 'data.train': given twice, as 'a' and as 'b'"),
        ("data=null", "data.train=a", "setting 'data': given twice, as None and as {'train': 'a'}; leave one out"),
        ("data.train=a", "data=null", "setting 'data': given twice, as {'train': 'a'} and as None; leave one out"),
        ("training=5", "training.seed=3", "setting 'training': given twice, as 5 and as {'seed': 3}; leave one out"),
        ("training.seed=1", "training.seed=true", "setting 'training.seed': given twice, as 1 and as True"),
    ],
)
def test_two_overrides_must_not_disagree(first: str, second: str, message: str):
    with pytest.raises(ConfigError, match=re.escape(message)):
        parse_overrides([first, second])


def test_two_overrides_may_agree_or_be_of_one_section():
    given = parse_overrides(["training.seed=3", "training.seed=3", "data={train: a}", "data.dev=d"])
    assert given == {"training": {"seed": 3}, "data": {"train": "a", "dev": "d"}}


@pytest.mark.parametrize(
    ("override", "complaint"),
    [
        ("training.max_epohs=5", "unknown setting 'training.max_epohs' (got 5): did you mean 'training.max_epochs'?"),
        ("hidden_size=5", "unknown setting 'hidden_size' (got 5): did you mean 'model.hidden_size'?"),
        ("trianing.seed=5", "unknown setting 'trianing.seed' (got 5): did you mean 'training.seed'?"),
        ("training.max_epochs=five", "setting 'training.max_epochs': expected a valid integer, got 'five'"),
        ("training", "'training': expected section.setting=value, such as training.max_epochs=5"),
        ("=5", "'=5': expected section.setting=value, such as training.max_epochs=5"),
        ("training.seed=[1", "'training.seed=[1':1: not valid YAML"),
        ("data.tag_seperator=,", "unknown setting 'data.tag_seperator' (got ','): did you mean 'data.tag_separator'?"),
        ("data.source_column=-1", "setting 'data.source_column': expected a value greater than 0, got -1"),
        ('data.train="\\q"', "not valid YAML: found unknown escape character 'q'"),
        ("search.search=online", "setting 'search.search': expected 'marginal' or 'path' for a bidirectional model"),
        (
            "search.search=marginl",
            "setting 'search.search': expected 'marginal', 'path' or 'online', got 'marginl'; did you mean 'marginal'?",
        ),
        ("out=' '", "setting 'out': expected the name of a directory, got ' '"),
    ],
)
def test_a_wrong_override_is_explained(override: str, complaint: str):
    with pytest.raises(ConfigError) as caught:
        load_config(overrides=parse_overrides([override]))
    assert complaint in str(caught.value)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"training:\n  max_epohs: 3\n", "a.yaml: unknown setting 'training.max_epohs' (got 3): did you mean"),
        (b"training: 3\n", "a.yaml: setting 'training': expected"),
        (b"a: [1\n", "a.yaml:2: not valid YAML"),
        (b"- 1\n", "a.yaml: expected settings, one 'name: value' a line, got list"),
        (b"out: x\nout: y\n", "a.yaml:2: not valid YAML: setting 'out' is given twice; leave one out"),
        (b"out: x\n\xff\n", "a.yaml:2: not valid UTF-8"),
        (b"? [a]\n: b\n", "a.yaml: not valid YAML"),
        (b"out: !!int ''\n", "a.yaml: not valid YAML"),
        (b"out: !!python/object/apply:os.system ['true']\n", "a.yaml:1: not valid YAML: could not determine"),
    ],
)
def test_a_wrong_file_is_explained(tmp_path: Path, content: bytes, complaint: str):
    (tmp_path / "a.yaml").write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        load_config(tmp_path / "a.yaml")
    assert complaint in str(caught.value)


def test_missing_files_and_presets_are_named(tmp_path: Path):
    with pytest.raises(ConfigError, match=r"none\.yaml: there is no such file"):
        load_config(tmp_path / "none.yaml")
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        load_config(tmp_path)
    with pytest.raises(ConfigError, match="unknown preset 'inflexion': did you mean 'inflection'"):
        load_config(preset="inflexion")


def test_merging_keeps_what_is_not_changed():
    assert merged({"a": {"b": 1, "c": 2}, "d": 3}, {"a": {"b": 4}}) == {"a": {"b": 4, "c": 2}, "d": 3}
    assert parse_settings("", "x") == {}
    assert Config() == load_config()
