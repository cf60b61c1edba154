"""One model for each tag set."""

import random
import signal
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from ssnt.config import Config
from ssnt.errors import ConfigError, DataError, ModelError
from ssnt.pipeline import PerTagTransducer, Transducer
from ssnt.training import per_tag, train
from ssnt.training.display import Display
from ssnt.training.run_directory import RunDirectory
from ssnt.training.worker import Worker
from trainings import MakeConfig, start, words

PATIENCE = 240

RULES = {"UP": str.upper, "TWICE": lambda word: word + word, "ADD": lambda word: word + "n"}


def write_tagged(path: Path, counts: Mapping[str, int], seed: int) -> str:
    """Words with forms by their tags, of which the order differs from line to line."""
    generator = random.Random(seed)
    rows = []
    for tag, count in counts.items():
        for word in words(count, seed, "abc"):
            tags = ["V", tag]
            generator.shuffle(tags)
            rows.append(f"{word}\t{RULES.get(tag, str)(word)}\t{';'.join(tags)}\n")
    generator.shuffle(rows)
    path.write_text("".join(rows), encoding="utf-8")
    return str(path)


@pytest.fixture
def make_tagged(make_config: MakeConfig, tmp_path: Path) -> MakeConfig:
    data = {
        "train": write_tagged(tmp_path / "tagged.tsv", {"UP": 60, "TWICE": 40, "ADD": 20}, seed=1),
        "dev": write_tagged(tmp_path / "tagged-dev.tsv", {"UP": 10, "TWICE": 10, "ODD": 3}, seed=2),
        "tags_column": 3,
    }

    def make(**sections: Mapping[str, object]) -> Config:
        own = {"per_tag": True, "workers": 2, "max_epochs": 3, **sections.pop("training", {})}
        return make_config(data={**data, **sections.pop("data", {})}, training=own, **sections)

    return make


class Notes(Display):
    def __init__(self) -> None:
        self.notes: list[str] = []
        self.parts: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)

    def show_part(self, overall: str, text: str, *, is_done: bool) -> None:
        if is_done:
            self.parts.append(f"{overall} {text}")


def opened(config: Config, display: Display) -> list[per_tag.Task]:
    directory = RunDirectory(str(config.out))
    return per_tag._open(config, directory, resume=False, overwrite=False, display=display)[0]


def test_data_is_divided_by_tag_sets_whatever_the_order_of_their_tags(make_tagged: MakeConfig):
    config = make_tagged(model={"hidden_size": 24})
    display = Notes()
    tasks = opened(config, display)
    assert [task.tags for task in tasks] == [("ADD", "V"), ("TWICE", "V"), ("UP", "V")]
    assert [task.place for task in tasks] == ["models/000", "models/001", "models/002"]
    lines = [len(Path(str(task.config.data.train)).read_text().splitlines()) for task in tasks]
    assert lines == [20, 40, 60]
    assert [task.config.data.dev is None for task in tasks] == [True, False, False]
    for task in tasks:
        own = task.config
        assert (own.model.hidden_size, own.hardware.threads, own.training.per_tag) == (24, 1, False)
        assert own.out == f"{config.out}/{task.place}"


def test_tag_sets_that_are_only_in_one_file_are_told(make_tagged: MakeConfig):
    display = Notes()
    opened(make_tagged(), display)
    text = "\n".join(display.notes)
    assert "3 tag sets in " in text
    assert "tagged-dev.tsv: 3 examples have tag sets that the training data does not have" in text
    assert "no model for them: ODD;V (3)" in text
    assert "tag sets without development examples, whose epochs are chosen by training perplexity: 1 (ADD;V)" in text


def test_data_without_tags_is_refused(make_tagged: MakeConfig):
    with pytest.raises(DataError, match="tags are needed, and the file has no column of tags"):
        train(make_tagged(data={"tags_column": None}), display=False)


def test_each_model_has_one_process(make_tagged: MakeConfig):
    with pytest.raises(ConfigError, match=r"'training.per_tag' and 'hardware.devices': .*training.workers"):
        train(make_tagged(hardware={"devices": 2}), display=False)


@pytest.mark.slow
def test_models_are_trained_side_by_side_and_a_failure_hurts_none_but_itself(make_tagged: MakeConfig, tmp_path: Path):
    path = Path(write_tagged(tmp_path / "odd.tsv", {"UP": 60, "TWICE": 40}, seed=1))
    path.write_text(path.read_text() + "abcabcabcabc\tx\tV;LONG\n")
    config = make_tagged(
        data={"train": str(path), "max_source_length": 8},
        training={"max_epochs": 12},
        model={"hidden_size": 32, "input_dropout": 0.0},
        optimiser={"learning_rate": 0.02},
        batch={"size": 8},
    )
    with pytest.raises(ModelError) as caught:
        train(config, display=False)
    text = str(caught.value)
    assert "1 of 3 models could not be trained; the others are in" in text
    assert f"ssnt train --resume --out {config.out}" in text
    assert "LONG;V: " in text
    assert "1 by data.max_source_length (8)" in text
    found = Transducer.from_pretrained(str(config.out))
    assert isinstance(found, PerTagTransducer)
    assert sorted(found.models) == [("TWICE", "V"), ("UP", "V")]
    assert found.transduce(["ab"], tags=[["V", "UP"]])[0].text == "AB"
    assert found.metrics["training"]["models"] == 2
    assert "LONG;V" in found.metrics["training"]["failed"]
    assert {score["name"] for score in found.metrics["scores"]["dev"]} == {"accuracy", "edit_distance", "perplexity"}


@pytest.mark.slow
def test_a_stopped_training_goes_on_and_finished_models_are_not_trained_again(make_tagged: MakeConfig, tmp_path: Path):
    config = make_tagged(training={"max_epochs": 40}, validation={"patience": None})
    process = start(config, tmp_path, "--display")
    deadline = time.monotonic() + PATIENCE
    while not (Path(str(config.out)) / "models/000/training/last.ckpt").exists():
        assert time.monotonic() < deadline, process.kill()
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    last = errors.strip().splitlines()[-1]
    assert last.startswith("ssnt: stopped; ")
    assert last.endswith(f"models are finished; go on with: ssnt train --resume --out {config.out}") or (
        "no model is finished" in last
    )
    process = start(config, tmp_path, "--resume", "--display")
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, errors
    assert "3 models are in" in errors
    times = {path: path.stat().st_mtime_ns for path in Path(str(config.out)).rglob("*.safetensors")}
    display = Notes()
    per_tag.train_per_tag(config, resume=True, overwrite=False, display=display)
    assert display.notes[-1].endswith("all 3 models are finished already; nothing to do")
    assert times == {path: path.stat().st_mtime_ns for path in Path(str(config.out)).rglob("*.safetensors")}


@pytest.mark.slow
def test_a_worker_that_dies_is_replaced(make_tagged: MakeConfig):
    tasks = opened(make_tagged(training={"max_epochs": 1}), Notes())
    worker = Worker()
    try:
        worker.kill()
        worker._process.wait()
        assert worker.run(tasks[0].config, lambda _: None)["state"] == "done"

        def kill(_: object) -> None:
            worker.kill()

        longer = tasks[1].config.model_copy(
            update={"training": tasks[1].config.training.model_copy(update={"max_epochs": 9})}
        )
        assert worker.run(longer, kill) == {"state": "failed", "message": "its process was killed by signal 9"}
        assert worker.run(tasks[2].config, lambda _: None)["state"] == "done"
    finally:
        worker.close()
