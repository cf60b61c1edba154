from pathlib import Path

import pytest

from ssnt.errors import ConfigError, DataError
from ssnt.training import MAY_CHANGE, run_config
from ssnt.training.run_directory import RunDirectory, _flat
from trainings import MakeConfig

HASHES = {"train": "a" * 64, "dev": "b" * 64}


@pytest.fixture
def directory(tmp_path: Path) -> RunDirectory:
    return RunDirectory(tmp_path / "out")


@pytest.fixture
def started(directory: RunDirectory, make_config: MakeConfig) -> RunDirectory:
    directory.write_record(make_config(), HASHES)
    return directory


def finish(directory: RunDirectory) -> None:
    (directory.out / "config.yaml").write_text("format_version: 1")


def test_a_new_or_empty_directory_is_free(directory: RunDirectory):
    directory.check(resume=False, overwrite=False)
    directory.out.mkdir()
    directory.check(resume=False, overwrite=False)
    directory.check(resume=False, overwrite=True)


def test_a_training_that_was_killed_before_it_wrote_anything_does_not_count(directory: RunDirectory):
    with directory.locked():
        (directory.training / ".config.yaml.x.partial").touch()
    directory.check(resume=False, overwrite=False)
    with pytest.raises(ConfigError, match=r"out: there is no training to go on with; leave out --resume"):
        directory.check(resume=True, overwrite=False)


def test_an_unfinished_training_is_not_replaced_unless_asked(started: RunDirectory):
    with pytest.raises(ConfigError, match=r"out: holds an unfinished training already; .*--resume.*--overwrite"):
        started.check(resume=False, overwrite=False)
    started.check(resume=True, overwrite=False)
    started.check(resume=False, overwrite=True)


def test_a_model_is_not_replaced_unless_asked(started: RunDirectory):
    finish(started)
    with pytest.raises(ConfigError, match=r"out: holds a trained model already; .*--resume.*--overwrite"):
        started.check(resume=False, overwrite=False)


def test_a_model_without_its_training_cannot_go_on(directory: RunDirectory):
    directory.out.mkdir()
    finish(directory)
    with pytest.raises(ConfigError, match=r"holds a finished model, but its training/ is gone"):
        directory.check(resume=True, overwrite=False)


@pytest.mark.parametrize("overwrite", [False, True])
def test_other_peoples_files_are_never_replaced(directory: RunDirectory, overwrite: bool):
    directory.out.mkdir()
    (directory.out / "thesis.tex").touch()
    with pytest.raises(ConfigError, match=r"holds other files \(thesis.tex\) and no model; choose another directory"):
        directory.check(resume=False, overwrite=overwrite)


def test_a_file_is_no_directory(directory: RunDirectory):
    directory.out.touch()
    with pytest.raises(ConfigError, match=r"out: is a file; choose another directory"):
        directory.check(resume=False, overwrite=True)


def test_resume_and_overwrite_exclude_each_other(started: RunDirectory):
    with pytest.raises(ConfigError, match="give one of them"):
        started.check(resume=True, overwrite=True)


def test_clearing_takes_the_model_and_the_training_and_nothing_else(started: RunDirectory):
    finish(started)
    for name in ("notes.txt", "model.safetensors", "training/last.ckpt", "training/epoch-001.safetensors"):
        (started.out / name).touch()
    (started.out / "models" / "000").mkdir(parents=True)
    started.clear()
    assert [one.name for one in started.out.rglob("*") if one.name != "training"] == ["notes.txt"]


def test_tidying_takes_half_written_files_and_weights_that_nobody_needs(started: RunDirectory):
    for name in (".last.ckpt.x1.partial", "epoch-001.safetensors", "epoch-002.safetensors", "last.ckpt"):
        (started.training / name).touch()
    started.tidy({"epoch-002.safetensors"})
    assert {one.name for one in started.training.iterdir()} == {"config.yaml", "epoch-002.safetensors", "last.ckpt"}


def test_the_settings_of_a_run_come_back_wherever_it_is_now(started: RunDirectory, make_config: MakeConfig, tmp_path):
    assert run_config(started.out) == make_config()
    moved = tmp_path / "moved"
    started.out.rename(moved)
    assert run_config(moved) == make_config(out=str(moved))


def test_there_must_be_a_run_to_have_its_settings(tmp_path: Path):
    with pytest.raises(ConfigError, match="there is no training to go on with"):
        run_config(tmp_path)


def test_a_run_of_a_newer_version_and_what_is_none_are_told(started: RunDirectory):
    text = started.record.read_text()
    started.record.write_text(text.replace("format_version: 1", "format_version: 9"))
    with pytest.raises(ConfigError, match=r"config.yaml: was written by a newer ssnt \(format_version 9"):
        run_config(started.out)
    started.record.write_text("format_version: 1\nconfig: 5\n")
    with pytest.raises(ConfigError, match=r"config.yaml: is not the record of a training"):
        run_config(started.out)


def test_settings_that_matter_must_be_the_same_and_all_that_differ_are_named(
    started: RunDirectory, make_config: MakeConfig
):
    changed = make_config(model={"hidden_size": 24}, training={"seed": 7}, batch={"size": 8})
    with pytest.raises(ConfigError) as caught:
        started.check_same(changed, HASHES)
    text = str(caught.value)
    assert "model.hidden_size (was 16, is 24)" in text
    assert "training.seed (was 1, is 7)" in text
    assert "batch.size (was 16, is 8)" in text
    assert "max_epochs" not in text


def test_how_long_and_where_a_training_goes_on_may_change(started: RunDirectory, make_config: MakeConfig):
    changed = make_config(
        training={"max_epochs": 99, "max_steps": 5, "checkpoint_minutes": 1.0},
        validation={"patience": 3},
        hardware={"threads": 2},
        optimiser={"learning_rate": 0.1},
        data={"train": "elsewhere.tsv"},
    )
    started.check_same(changed, HASHES)


def test_every_setting_that_may_change_exists(make_config: MakeConfig):
    assert set(_flat(make_config().model_dump())) >= MAY_CHANGE


@pytest.mark.parametrize("part", ["train", "dev"])
def test_changed_data_is_refused(started: RunDirectory, make_config: MakeConfig, part: str):
    with pytest.raises(DataError, match=rf"{part}.tsv: the {part} data is not what the training in .*out was started"):
        started.check_same(make_config(), {**HASHES, part: "c" * 64})


def test_only_one_process_trains_in_a_directory(directory: RunDirectory):
    with directory.locked(), pytest.raises(ConfigError, match=r"out: another process is training"), directory.locked():
        pass
    with directory.locked():
        pass
