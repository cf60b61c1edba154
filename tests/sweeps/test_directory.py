"""The directory of a sweep: what may be in it, and what may change when a sweep goes on."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ssnt.config import SweepRunConfig, flattened
from ssnt.errors import ConfigError, DataError
from ssnt.sweeps.directory import MAY_CHANGE, SweepDirectory, sweep_config
from ssnt.sweeps.result import Trial
from ssnt.training.run_directory import RunDirectory
from sweeping import MakeSweep

HASHES = {"train": "1", "dev": "2"}


@pytest.fixture
def directory(make_sweep: MakeSweep) -> SweepDirectory:
    """A directory with the record of a sweep."""
    found = SweepDirectory(str(make_sweep().out))
    found.write_record(make_sweep(), HASHES)
    return found


def test_every_setting_that_may_change_exists(make_sweep: MakeSweep):
    assert set(flattened(make_sweep().model_dump())) >= MAY_CHANGE


def test_the_settings_of_a_sweep_are_read_back(directory: SweepDirectory, make_sweep: MakeSweep, tmp_path: Path):
    assert sweep_config(directory.out) == make_sweep()
    directory.out.rename(tmp_path / "elsewhere")
    assert sweep_config(tmp_path / "elsewhere").out == str(tmp_path / "elsewhere")


def test_a_sweep_goes_on_in_another_precision_where_a_cpu_lacks_one(directory: SweepDirectory, make_sweep: MakeSweep):
    def in_precision(name: str) -> SweepRunConfig:
        config = make_sweep()
        return config.model_copy(update={"hardware": config.hardware.model_copy(update={"precision": name})})

    directory.check_same(in_precision("bfloat16"), HASHES)
    with pytest.raises(ConfigError, match=r"hardware\.precision \(was 'float32', is 'float64'\)"):
        directory.check_same(in_precision("float64"), HASHES)


@pytest.mark.parametrize(
    ("resume", "overwrite", "complaint"),
    [
        (False, False, "sweep: holds a sweep already; go on with it (--resume, resume=True), replace it (--overwrite"),
        (True, True, "--resume goes on with what is there and --overwrite replaces it; give one of them"),
    ],
)
def test_where_a_sweep_is_nothing_happens_unasked(
    directory: SweepDirectory, resume: bool, overwrite: bool, complaint: str
):
    with pytest.raises(ConfigError) as caught:
        directory.check(resume=resume, overwrite=overwrite)
    assert complaint in str(caught.value)


def test_other_files_are_left_alone(tmp_path: Path):
    place = SweepDirectory(tmp_path / "x")
    with pytest.raises(ConfigError, match="x: there is no sweep to go on with; leave out --resume"):
        place.check(resume=True, overwrite=False)
    place.out.mkdir()
    place.check(resume=False, overwrite=False)
    place.record.write_text("sweep: {}\n")  # the user's own settings
    for overwrite in (False, True):
        with pytest.raises(ConfigError, match=r"exists, and holds other files \(sweep.yaml\) and no sweep"):
            place.check(resume=False, overwrite=overwrite)
    (tmp_path / "y").write_text("")
    with pytest.raises(ConfigError, match="y: is a file; choose another directory for the sweep"):
        SweepDirectory(tmp_path / "y").check(resume=False, overwrite=False)


@pytest.mark.parametrize(
    "name",
    [
        "best/notes.txt",
        "trials/notes.txt",
        "trials/mine/x",
        "trials/0001/x",
        "trials/0001/training/x",
        "trials",
        "best",
    ],
)
def test_what_somebody_has_put_into_a_sweep_is_not_deleted(directory: SweepDirectory, name: str):
    path = directory.out / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("mine")
    shown = "trials/mine" if name == "trials/mine/x" else name
    with pytest.raises(ConfigError, match=rf"deleted that ssnt has not written \({shown}\); move them elsewhere"):
        directory.check(resume=False, overwrite=True)
    directory.check(resume=True, overwrite=False)


def test_clearing_deletes_a_sweep_and_nothing_else(directory: SweepDirectory):
    (directory.out / "notes.txt").write_text("mine")
    (directory.out / "study.db.backup").write_text("mine")
    directory.trial(1).mkdir(parents=True)
    for ending in ("", "-journal", "-wal", "-shm"):
        (directory.out / f"study.db{ending}").write_text("")
    directory.check(resume=False, overwrite=True)
    directory.clear()
    assert sorted(one.name for one in directory.out.iterdir()) == ["notes.txt", "study.db.backup"]


def pruned(directory: SweepDirectory, make_sweep: MakeSweep) -> tuple[RunDirectory, Callable[..., None]]:
    """The run of a trial that was given up, with files of somebody else's, and how to delete its model."""
    run = RunDirectory(directory.trial(1))
    run.write_record(make_sweep(), HASHES)
    for name in ("training/last.ckpt", "training/epoch-001.safetensors", "training/log.csv", "training/my.txt", "my"):
        (run.out / name).write_text("x")
    return run, partial(directory.thin, [Trial(1, "pruned", {})], "perplexity", 1)


def test_only_what_ssnt_has_written_is_deleted_of_a_trial(directory: SweepDirectory, make_sweep: MakeSweep):
    run, thin = pruned(directory, make_sweep)
    thin()
    left = {str(one.relative_to(run.out)) for one in run.out.rglob("*") if one.is_file()}
    assert left == {"my", "training/my.txt", "training/config.yaml", "training/log.csv"}


def test_a_trial_whose_process_may_still_write_is_left_alone(directory: SweepDirectory, make_sweep: MakeSweep):
    run, thin = pruned(directory, make_sweep)
    thin(under_way={1})
    assert run.last.exists()
    with run.locked():  # by a process that a killed sweep has left behind
        thin()
        assert run.last.exists()
    thin()
    assert not run.last.exists()


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"training": {"max_epochs": 3}}, r"training.max_epochs \(was 2, is 3\)"),
        ({"sweep": {"seed": 2}}, r"sweep.seed \(was 1, is 2\)"),
        ({"sweep": {"space": {"model.hidden_size": [4]}}}, r"sweep.space.model.hidden_size \(was \[4, 8\], is \[4\]\)"),
        ({"sweep": {"keep": 3}}, None),
        ({"hardware": {"workers": 3}}, None),
    ],
)
def test_what_trials_have_in_common_may_not_change(
    directory: SweepDirectory, make_sweep: MakeSweep, changes: dict[str, Any], complaint: str | None
):
    config = make_sweep()
    config = config.model_copy(
        update={name: getattr(config, name).model_copy(update=section) for name, section in changes.items()}
    )
    if complaint is None:
        directory.check_same(config, HASHES)
        return
    with pytest.raises(ConfigError, match=f"the sweep cannot go on with other settings .* {complaint}"):
        directory.check_same(config, HASHES)


def test_data_may_not_change(directory: SweepDirectory, make_sweep: MakeSweep):
    with pytest.raises(DataError, match=r"dev.tsv: the dev data is not what the sweep in .* was started with"):
        directory.check_same(make_sweep(), {**HASHES, "dev": "3"})


def test_a_record_from_the_future_is_told(directory: SweepDirectory):
    text = directory.record.read_text()
    directory.record.write_text(text.replace("format_version: 1", "format_version: 9"))
    with pytest.raises(ConfigError, match="was written by a newer ssnt"):
        directory.read_record()
