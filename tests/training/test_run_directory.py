from pathlib import Path

import pytest

from model_directories import begin_training, contents
from ssnt.config import flattened
from ssnt.errors import ConfigError, DataError
from ssnt.training import MAY_CHANGE, run_config
from ssnt.training.run_directory import RunDirectory
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
    (directory.out / "config.yaml").write_text("format_version: 1\nssnt_version: 0.1\nkind: model\n")


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


def test_clearing_takes_the_training_and_leaves_the_model_and_what_is_not_ours(started: RunDirectory):
    kept = ["config.yaml", "model.safetensors", "notes.txt", "README.md", "models/net.py"]
    (started.out / "models").mkdir()
    for name in (*kept[1:], "training/last.ckpt", "training/epoch-001.safetensors"):
        (started.out / name).touch()
    begin_training(started.out / "models" / "000")
    started.clear()
    assert not (started.out / "models" / "000").exists()
    finish(started)
    started.clear()
    assert sorted(contents(started.out)) == sorted(kept)


def test_clearing_that_is_interrupted_leaves_a_training_at_its_beginning(started: RunDirectory, monkeypatch):
    for name in ("last.ckpt", "epoch-001.safetensors", "log.csv"):
        (started.training / name).touch()
    unlink, left = Path.unlink, 2

    def dying(path: Path, *, missing_ok: bool = False) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise KeyboardInterrupt
        unlink(path, missing_ok=missing_ok)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", dying)
        with pytest.raises(KeyboardInterrupt):
            started.clear()
    assert not started.last.exists()
    started.check(resume=True, overwrite=False)
    started.check(resume=False, overwrite=True)
    started.clear()
    assert contents(started.out) == {}


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (["README.md"], r"holds other files \(README.md\) and no model; choose another directory"),
        (["README.md", "config.yaml", "models/net.py"], r"other files \(README.md, config.yaml, models\) and no model"),
        (["training/data.tsv"], r"other files \(training\) and no model; choose another directory"),
        (["training/config.yaml"], r"other files \(training\) and no model; choose another directory"),
        (["models/000/config.yaml"], r"other files \(models\) and no model; choose another directory"),
        (list("abcdefg"), r"other files \(a, b, c, d, e and 2 others\) and no model"),
    ],
)
@pytest.mark.parametrize("overwrite", [False, True])
def test_a_project_is_not_taken_for_a_model(directory: RunDirectory, names: list[str], told: str, overwrite: bool):
    for name in names:
        (directory.out / name).parent.mkdir(parents=True, exist_ok=True)
        (directory.out / name).write_text("format_version: 1")
    with pytest.raises(ConfigError, match=told):
        directory.check(resume=False, overwrite=overwrite)


@pytest.mark.parametrize("how", [{"resume": True, "overwrite": False}, {"resume": False, "overwrite": True}])
def test_files_of_others_in_the_place_of_a_model_are_named(started: RunDirectory, how: dict[str, bool]):
    (started.out / "config.yaml").write_text("a: 1")
    with pytest.raises(ConfigError, match=r"has not written \(config.yaml\); move them elsewhere, or choose another"):
        started.check(**how)


def test_the_training_of_others_beside_a_model_is_named(directory: RunDirectory):
    directory.training.mkdir(parents=True)
    (directory.training / "corpus.tsv").touch()
    finish(directory)
    with pytest.raises(ConfigError, match=r"that ssnt has not written \(training\); move them elsewhere"):
        directory.check(resume=False, overwrite=True)


def test_a_training_that_does_not_begin_leaves_nothing(directory: RunDirectory, make_config: MakeConfig):
    with directory.locked():
        assert directory.training.is_dir()
    assert not directory.out.exists()
    directory.out.mkdir()
    with directory.locked():
        pass
    assert list(directory.out.iterdir()) == []
    with directory.locked():
        directory.write_record(make_config(), HASHES)
    assert sorted(contents(directory.out)) == ["training/config.yaml", "training/lock"]


def test_a_lock_that_was_removed_meanwhile_is_taken_anew(directory: RunDirectory):
    with directory.locked():
        (directory.training / "lock").unlink()
        with directory.locked(), pytest.raises(ConfigError, match="another process is training"), directory.locked():
            pass


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


def test_a_run_from_before_a_setting_moved_goes_on(started: RunDirectory, make_config: MakeConfig):
    text = started.record.read_text()
    started.record.write_text(text.replace("  training:\n", "  training:\n    workers: 3\n"))
    assert run_config(started.out).hardware.workers == 3
    started.check_same(make_config(), HASHES)


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
    assert set(flattened(make_config().model_dump())) >= MAY_CHANGE


@pytest.mark.parametrize("part", ["train", "dev"])
def test_changed_data_is_refused(started: RunDirectory, make_config: MakeConfig, part: str):
    with pytest.raises(DataError, match=rf"{part}.tsv: the {part} data is not what the training in .*out was started"):
        started.check_same(make_config(), {**HASHES, part: "c" * 64})


def test_only_one_process_trains_in_a_directory(directory: RunDirectory):
    with directory.locked(), pytest.raises(ConfigError, match=r"out: another process is training"), directory.locked():
        pass
    with directory.locked():
        pass
