"""One model for each tag set."""

import math
import os
import random
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from ssnt.config import Config
from ssnt.data.prepared import prepare_examples
from ssnt.data.readers import read_examples
from ssnt.data.references import PooledExample
from ssnt.engines.base import DONE, Job, Report, Tell, failed
from ssnt.errors import ConfigError, DataError, ModelError
from ssnt.evaluation import Evaluation, evaluate_model
from ssnt.files import sha256_of
from ssnt.interrupts import Stop
from ssnt.metrics import Item, Score
from ssnt.pipeline import PerTagTransducer, Transducer
from ssnt.training import per_tag, train
from ssnt.training.display import Display
from ssnt.training.run_directory import RunDirectory
from ssnt.training.tag_sets import _usable
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
        own = {"per_tag": True, "max_epochs": 3, **sections.pop("training", {})}
        hardware = {"workers": 2, **sections.pop("hardware", {})}
        return make_config(data={**data, **sections.pop("data", {})}, training=own, hardware=hardware, **sections)

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
    with pytest.raises(ConfigError, match=r"'training.per_tag' and 'hardware.devices': .*hardware.workers"):
        train(make_tagged(hardware={"devices": 2}), display=False)


@pytest.mark.parametrize(
    ("hardware", "message"),
    [
        (
            {"accelerator": "gpu"},
            "'training.per_tag' and 'hardware.accelerator': .*CPU, got 'gpu'; set .* to cpu",
        ),
        ({"precision": "float16"}, "'training.per_tag' and 'hardware.precision': .*set hardware.precision to bfloat16"),
    ],
)
def test_settings_that_would_be_ignored_are_refused(make_tagged: MakeConfig, hardware: dict[str, str], message: str):
    with pytest.raises(ConfigError, match=message):
        train(make_tagged(hardware=hardware), display=False)


@pytest.mark.parametrize("part", ["train", "dev"])
def test_data_from_standard_input_is_refused_as_without_tag_sets(make_tagged: MakeConfig, part: str):
    messages = []
    for is_per_tag in (True, False):
        with pytest.raises(DataError, match="training and dev data cannot come from standard input") as caught:
            train(make_tagged(data={part: "-"}, training={"per_tag": is_per_tag}), display=False)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]


def add_small_sets(path: str) -> int:
    """Adds tag sets with one usable example or none, if sources have at most 8 letters; gives the line of the first."""
    text = Path(path).read_text()
    rows = ["ab\tx\tONE", "abcabcabcabc\tx\tLONG", "ab\tx\tMIXED", "abcabcabcabc\tx\tMIXED"]
    Path(path).write_text(text + "".join(f"{row}\n" for row in rows))
    return len(text.splitlines()) + 1


def test_tag_sets_with_fewer_than_two_usable_examples_are_left_out_and_told(make_tagged: MakeConfig):
    config = make_tagged(data={"max_source_length": 8})
    path = str(config.data.train)
    line = add_small_sets(path)
    Path(str(config.data.dev)).write_text("ab\tx\tONE\n")
    display = Notes()
    tasks = opened(config, display)
    assert [task.name for task in tasks] == ["ADD;V", "TWICE;V", "UP;V"]
    only = "there is only one example; a model cannot be trained on one"
    assert display.notes[:4] == [
        f"3 of 6 tag sets in {path}: one model for each",
        f"{path}:{line}: the tag set ONE is left out: {only}",
        f"{path}:{line + 1}: the tag set LONG is left out: none of 1 pairs is left after the filters, which took 1 by "
        "data.max_source_length (8); raise these limits",
        f"{path}:{line + 2}: the tag set MIXED is left out: {only} (1 of 2 pairs are used; left out: 1 by "
        "data.max_source_length (8); raise these limits)",
    ]
    assert display.notes[4].endswith("or that are left out, so that there will be no model for them: ONE (1)")


@pytest.mark.parametrize("unit", ["characters", "tokens", "bpe"])
def test_lengths_are_counted_as_training_counts_them(make_tagged: MakeConfig, unit: str):
    data = make_tagged(data={"max_source_length": 3, "source_unit": unit, "bpe_size": 16, "lowercase": True}).data
    examples = list(read_examples(str(data.train), data, needs_tags=True))
    assert _usable(data, examples) == prepare_examples(examples, data, None, is_training=True).report


def test_data_in_which_no_tag_set_has_two_examples_is_refused(make_tagged: MakeConfig):
    config = make_tagged()
    path = str(config.data.train)
    Path(path).write_text("".join(f"ab\tx\tV;{number}\n" for number in range(7)))
    with pytest.raises(DataError) as caught:
        train(config, display=False)
    lines = str(caught.value).splitlines()
    assert lines[0] == f"{path}: there is no tag set that a model can be trained for"
    assert lines[1].startswith(f"{path}:1: the tag set 0;V is left out: there is only one example")
    assert lines[6:] == ["tag sets that are left out besides: 2"]
    assert not RunDirectory(str(config.out)).has_run


def failing(tasks: Sequence[per_tag.Task], config: Config, *lasting: bool) -> str:
    outcome = per_tag.Outcome(
        failed={task: f"reason {number}" for number, task in enumerate(tasks[: len(lasting)])},
        lasting={task for task, lasts in zip(tasks, lasting, strict=False) if lasts},
    )
    with pytest.raises(ModelError) as caught:
        per_tag._finish(RunDirectory(str(config.out)), config, outcome, [], Notes())
    return str(caught.value)


def test_going_on_is_proposed_only_where_it_can_help(make_tagged: MakeConfig):
    config = make_tagged()
    tasks = opened(config, Notes())
    none = f"{config.out}: no model could be trained"
    again = f"again: ssnt train --resume --out {config.out}"
    assert failing(tasks, config, True) == f"{none}\nADD;V: reason 0"
    assert failing(tasks, config, False) == f"{none}; to try these {again}\nADD;V: reason 0"
    assert failing(tasks, config, True, False) == (
        f"{none}; to try those that do not fail because of their data {again}\nADD;V: reason 0\nTWICE;V: reason 1"
    )


class Scripted:
    """An engine that does nothing, and reports what it was made with."""

    workers = 1

    def __init__(self, reports: Callable[[Job], Report]) -> None:
        self._reports = reports
        self.jobs: list[Job] = []

    def run(self, jobs: Iterator[Job], tell: Tell, stop: Stop) -> None:
        for job in jobs:
            self.jobs.append(job)
            tell(job, self._reports(job))


def trained(config: Config, tasks: Sequence[per_tag.Task], engine: Scripted, display: Display | None = None):
    outcome = per_tag.Outcome()
    per_tag._train_all(tasks, outcome, engine, str(config.out), display or Notes(), Stop())
    return outcome


def test_failures_speak_of_the_whole_and_say_whether_they_last(make_tagged: MakeConfig):
    config = make_tagged()
    tasks = opened(config, Notes())

    def fail(job: Job) -> Report:
        out = job.order["config"]["out"]
        return failed(f"diverged: ssnt train --resume --out {out} a=1", is_lasting=out.endswith("000"))

    outcome = trained(config, tasks, Scripted(fail))
    assert outcome.failed == dict.fromkeys(tasks, f"diverged: ssnt train --resume --out {config.out} a=1")
    assert outcome.lasting == {tasks[0]}


def test_the_largest_is_trained_first_and_all_have_the_same_settings_on_any_engine(make_tagged: MakeConfig):
    orders = []
    for hardware in ({}, {"engine": "ray", "address": "there:1", "workers": 7}):
        config = make_tagged(hardware=hardware)
        display, engine = Notes(), Scripted(lambda _: {"state": DONE, "score": "dev accuracy 1.0000"})
        trained(config, opened(config, Notes()), engine, display)
        assert [job.name for job in engine.jobs] == ["UP;V", "TWICE;V", "ADD;V"]
        assert display.parts[0] == "1/3 models UP;V dev accuracy 1.0000"
        orders.append([job.order for job in engine.jobs])
    assert orders[0] == orders[1]


def test_a_model_whose_process_was_stopped_by_somebody_else_is_not_forgotten(make_tagged: MakeConfig):
    config = make_tagged()
    tasks = opened(config, Notes())
    outcome = trained(config, tasks, Scripted(lambda _: {"state": "stopped"}))
    assert outcome.failed == dict.fromkeys(tasks, "its process was stopped from outside")


def test_one_model_needs_no_engine(make_tagged: MakeConfig):
    with pytest.raises(ConfigError, match=r"'hardware.engine': 'ray' is for the many models"):
        train(make_tagged(training={"per_tag": False}, hardware={"engine": "ray"}), display=False)


def test_why_a_perplexity_is_infinite_is_said():
    def asked(tag: str, *places: int) -> PooledExample:
        return PooledExample(source="a", references=("b",), tags=(tag,), line=1, indices=places)

    def scored(nll: float) -> Item:
        return Item(("a",), (("b",),), "a", ("b",), nll=nll, tokens=1)

    scores = [Score(name, math.inf, 4, name, False) for name in ("edit_distance", "perplexity")]
    questions = [asked("SEEN", 0), asked("ODD", 1, 2), asked("SEEN", 3)]
    models: dict[tuple[str, ...], Transducer] = {("SEEN",): None}  # type: ignore[dict-item]

    def told(*nlls: float) -> list[str]:
        return per_tag._results(Evaluation(scores, [], list(map(scored, nlls)), questions), models)

    plain = ["dev edit_distance inf (n=4)", "dev perplexity inf (n=4)"]
    assert told(1.0, 1.0, 1.0) == plain
    assert told(1.0, math.inf, 1.0) == [plain[0], f"{plain[1]}; of 4 examples, 2 have tag sets without a model"]
    assert told(math.inf, math.inf, 1.0)[1].endswith(
        "of 4 examples, 2 have tag sets without a model and 1 are impossible for their models"
    )


@pytest.mark.slow
def test_models_are_trained_side_by_side_without_those_that_cannot_be(make_tagged: MakeConfig, tmp_path: Path):
    path = Path(write_tagged(tmp_path / "odd.tsv", {"UP": 60, "TWICE": 40}, seed=1))
    path.write_text(path.read_text() + "abcabcabcabc\tx\tV;LONG\n")
    config = make_tagged(
        data={"train": str(path), "max_source_length": 8},
        training={"max_epochs": 12},
        model={"hidden_size": 32, "input_dropout": 0.0},
        optimiser={"learning_rate": 0.02},
        batch={"size": 8},
    )
    display = Notes()
    per_tag.train_per_tag(config, resume=False, overwrite=False, display=display)
    assert display.notes[-2].endswith("; of 23 examples, 3 have tag sets without a model")
    assert display.notes[-1] == f"2 models are in {config.out}"
    found = Transducer.from_pretrained(str(config.out))
    assert isinstance(found, PerTagTransducer)
    assert sorted(found.models) == [("TWICE", "V"), ("UP", "V")]
    assert found.transduce(["ab"], tags=[["V", "UP"]])[0].text == "AB"
    assert found.metrics["training"]["models"] == 2
    assert found.metrics["training"]["failed"] == {}
    assert list(found.metrics["training"]["left_out"]) == ["LONG;V"]
    assert found.metrics["training"]["left_out"]["LONG;V"].startswith(f"{path}:101: the tag set LONG;V is left out: ")
    kept = {score["name"]: score for score in found.metrics["scores"]["dev"]}
    assert kept.keys() == {"accuracy", "edit_distance", "perplexity"}
    dev = list(read_examples(str(config.data.dev), config.data, needs_tags=True))
    for score in evaluate_model(found, dev, list(kept)).scores:  # asked again, all in one process
        assert kept[score.name]["signature"] == score.signature
        assert kept[score.name]["value"] == (pytest.approx(score.value) if math.isfinite(score.value) else None)


@pytest.mark.slow
def test_one_failure_hurts_none_but_itself(make_tagged: MakeConfig):
    config = make_tagged(training={"max_epochs": 1})
    broken = Path(str(config.out)) / "models/000"

    class Breaking(Notes):
        def note(self, text: str) -> None:
            """Puts a file in the place of a model's directory, before training starts."""
            super().note(text)
            broken.parent.mkdir(parents=True, exist_ok=True)
            broken.touch()

    with pytest.raises(ModelError) as caught:
        per_tag.train_per_tag(config, resume=False, overwrite=False, display=Breaking())
    text = str(caught.value)
    assert text.startswith(
        f"1 of 3 models could not be trained; the others are in {config.out}; to try these again: ssnt train --resume "
        f"--out {config.out}\nADD;V: {broken}: "
    )
    found = Transducer.from_pretrained(str(config.out))
    assert isinstance(found, PerTagTransducer)
    assert sorted(found.models) == [("TWICE", "V"), ("UP", "V")]
    assert list(found.metrics["training"]["failed"]) == ["ADD;V"]


def all_weights(config: Config) -> dict[str, str]:
    places = Path(str(config.out)).glob("models/*/model.safetensors")
    return {place.parent.name: sha256_of(place) for place in places}


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
    count = len(all_weights(config))
    assert count < 3
    done = ["no model is", "1 model is", "2 models are"][count]
    last = errors.strip().splitlines()[-1]
    assert last == f"ssnt: stopped; {done} finished; go on with: ssnt train --resume --out {config.out}"
    process = start(config, tmp_path, "--resume", "--display")
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, errors
    assert "3 models are in" in errors
    times = {path: path.stat().st_mtime_ns for path in Path(str(config.out)).rglob("*.safetensors")}
    display = Notes()
    per_tag.train_per_tag(config, resume=True, overwrite=False, display=display)
    assert display.notes[-1].endswith("all 3 models are finished already; nothing to do")
    assert times == {path: path.stat().st_mtime_ns for path in Path(str(config.out)).rglob("*.safetensors")}
    whole = config.model_copy(update={"out": str(tmp_path / "whole")})
    per_tag.train_per_tag(whole, resume=False, overwrite=False, display=Notes())
    assert sorted(all_weights(whole)) == ["000", "001", "002"]
    assert all_weights(config) == all_weights(whole)


def ray_workers() -> list[int]:
    """The processes of this one's Ray cluster that have jobs."""
    parents, names = {}, {}
    for place in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(place.name)] = int((place / "stat").read_text().rpartition(")")[2].split()[1])
            names[int(place.name)] = (place / "cmdline").read_bytes()
        except OSError:  # it has ended
            continue

    def is_ours(process: int) -> bool:
        return process == os.getpid() or (process in parents and is_ours(parents[process]))

    return [process for process, name in names.items() if name.startswith(b"ray::LocalWorker") and is_ours(process)]


class KillsOne(Notes):
    """Kills a Ray worker when the first model is finished."""

    def show_part(self, overall: str, text: str, *, is_done: bool) -> None:
        super().show_part(overall, text, is_done=is_done)
        if overall.startswith("1/") and is_done:
            os.kill(ray_workers()[0], signal.SIGKILL)


def files_of_models(place: Path) -> dict[str, str]:
    models = (path for path in place.rglob("*") if path.is_file() and "training" not in path.parts)
    return {str(path.relative_to(place)): sha256_of(path) for path in models if path.parent != place}


@pytest.mark.slow
@pytest.mark.xdist_group("ray")
def test_ray_gives_the_same_files_and_loses_nothing_when_a_worker_is_killed(
    ray_cluster: None, make_tagged: MakeConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    found = {}
    for engine, display in (("local", Notes()), ("ray", KillsOne())):
        config = make_tagged(
            training={"max_epochs": 8}, hardware={"engine": engine}, validation={"patience": None}
        ).model_copy(update={"out": "out"})
        (tmp_path / engine).mkdir()
        monkeypatch.chdir(tmp_path / engine)
        per_tag.train_per_tag(config, resume=False, overwrite=False, display=display)
        assert display.notes[-1] == "3 models are in out"
        found[engine] = files_of_models(tmp_path / engine / "out")
    assert sum(name.endswith("model.safetensors") for name in found["local"]) == 3
    assert found["local"] == found["ray"]


@pytest.mark.slow
def test_the_old_models_stay_until_there_are_new_ones(make_tagged: MakeConfig, monkeypatch):
    config, other = (make_tagged(training={"max_epochs": 1, "seed": seed}) for seed in (1, 5))
    out = Path(str(config.out))
    train(config, display=False)
    assert sorted(one.name for one in (out / "models").iterdir()) == ["000", "001", "002"]

    def fail(*_, **__) -> None:
        raise OSError("full")

    with monkeypatch.context() as patch:
        patch.setattr(per_tag, "save_per_tag", fail)
        for resume in (False, True):  # all its models are finished, and there are as many as before
            with pytest.raises(OSError, match="full"):
                train(other, resume=resume, overwrite=not resume, display=False)
            assert Transducer.from_pretrained(out).config.training.seed == 1
    train(other, resume=True, display=False)
    found = Transducer.from_pretrained(out)
    assert isinstance(found, PerTagTransducer)
    assert {one.config.training.seed for one in found.models.values()} == {5}
    assert sorted(one.name for one in (out / "models").iterdir()) == ["003", "004", "005"]
    display = Notes()
    per_tag.train_per_tag(other, resume=True, overwrite=False, display=display)
    assert display.notes[-1].endswith("all 3 models are finished already; nothing to do")
