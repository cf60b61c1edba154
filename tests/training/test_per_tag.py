"""One model for each tag set: how the data is divided, what is refused, and what is told. Nothing is trained."""

import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from ssnt.config import Config
from ssnt.data.prepared import prepare_examples
from ssnt.data.readers import read_examples
from ssnt.data.references import PooledExample
from ssnt.engines.base import DONE, Job, Report, Tell, failed
from ssnt.errors import ConfigError, DataError, ModelError
from ssnt.evaluation import Evaluation
from ssnt.interrupts import Stop
from ssnt.metrics import Item, Score
from ssnt.pipeline import Transducer
from ssnt.training import per_tag, train
from ssnt.training.display import Display
from ssnt.training.run_directory import RunDirectory
from ssnt.training.tag_sets import _usable
from tagged import Notes
from trainings import MakeConfig

from conftest import require


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
    with pytest.raises(
        ConfigError, match=r"'hardware.devices': each of the models of training.per_tag is trained by one"
    ):
        train(make_tagged(hardware={"devices": 2}), display=False)


@pytest.mark.parametrize(
    ("hardware", "message"),
    [
        (
            {"accelerator": "gpu"},
            r"'hardware.accelerator': the models of training.per_tag .*CPU, got 'gpu'; set it to cpu",
        ),
        (
            {"precision": "float16"},
            r"'hardware.precision': the models of training.per_tag .*set it to (bfloat16 or )?float32$",
        ),
    ],
)
def test_settings_that_would_be_ignored_are_refused(make_tagged: MakeConfig, hardware: dict[str, str], message: str):
    with pytest.raises(ConfigError, match=message):
        train(make_tagged(hardware=hardware), display=False)


def test_what_the_cpu_lacks_is_refused_before_anything_is_trained_also_beside_a_gpu(make_tagged, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("ssnt.training.fit.cpu_lacks", lambda _: True)
    with pytest.raises(ConfigError, match="this CPU has no instructions for bfloat16"):
        train(make_tagged(hardware={"precision": "bfloat16"}), display=False)


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


def test_a_cluster_that_cannot_be_reached_leaves_nothing_in_the_way(make_tagged: MakeConfig):
    require("ray", "the engine on Ray")
    config = make_tagged(hardware={"engine": "ray", "address": "127.0.0.1:1", "workers": 1})
    with pytest.raises(ConfigError, match=r"'127.0.0.1:1' cannot be reached"):
        train(config, display=False)
    assert not Path(str(config.out)).exists()


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
