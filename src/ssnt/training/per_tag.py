"""One model for each tag set, the paper's setting for inflection: many small trainings side by side.

The data is read once and divided by tag set. Each model is a job of the engine that ``hardware.engine`` names: it is
trained by one process in one thread, ``hardware.workers`` of them at a time. It has a directory of its own in
``out/models``, so that a training that was stopped goes on model by model. A tag set without development examples has
its epoch chosen by training perplexity. A tag set of which fewer than two examples can be used has no model.
"""

from __future__ import annotations

import hashlib
import json
import math
import shlex
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ssnt.checkpoint import metrics_record, read_manifest, save_per_tag
from ssnt.checkpoint.manifest import TagSet, tag_set
from ssnt.checkpoint.save import first_free_number
from ssnt.config import Config
from ssnt.data.formats import resolve_format
from ssnt.data.prepared import regular_files
from ssnt.data.readers import files_of, read_examples
from ssnt.engines import make_engine
from ssnt.engines.base import DONE, STOPPED, Engine, Job, Report
from ssnt.errors import DataError, ModelError, SsntError
from ssnt.evaluation import Evaluation, evaluate_model
from ssnt.files import sha256_of, write_text
from ssnt.interrupts import Stop, StopNow, TrainingInterrupted
from ssnt.pipeline import PerTagTransducer, Transducer
from ssnt.training.answers import AnsweredTransducer, Answers
from ssnt.training.display import Display
from ssnt.training.fit import check_settings, finished_because
from ssnt.training.job import TRAIN, check_hardware
from ssnt.training.run_directory import RunDirectory
from ssnt.training.tag_sets import by_tags, left_out_of, notes_on, shown_tags, some
from ssnt.training.threads import limited_threads
from ssnt.training.validation import FINAL_METRICS
from ssnt.types import Example


@dataclass(frozen=True)
class Task:
    """The training of one tag set's model.

    Attributes:
        tags: The tag set, sorted.
        place: Its directory, relative to that of the whole.
        config: Its settings.
    """

    tags: TagSet
    place: str
    config: Config

    @property
    def name(self) -> str:
        """The tag set as it is shown."""
        return shown_tags(self.tags)


@dataclass
class Outcome:
    """What has become of the trainings.

    Attributes:
        done: Those that are finished.
        failed: Those that are not, with the reasons.
        lasting: Those of the failed ones that fail again however often they are tried.
        left_out: The tag sets that no model can be trained for, with the reasons.
        answers: What the models answer on the development data, by their tag sets.
    """

    done: list[Task] = field(default_factory=list)
    failed: dict[Task, str] = field(default_factory=dict)
    lasting: set[Task] = field(default_factory=set)
    left_out: dict[TagSet, str] = field(default_factory=dict)
    answers: dict[TagSet, Answers] = field(default_factory=dict)


def train_per_tag(config: Config, *, resume: bool, overwrite: bool, display: Display) -> Transducer:
    """Trains one model for each tag set of the training data, and puts them into one directory.

    Raises:
        ConfigError: A setting is missing, or asks for what these small models cannot have, or for an engine that is
            not there.
        DataError: The data cannot be used, or no tag set has two examples.
        ModelError: Some models could not be trained; the others are saved.
        TrainingInterrupted: It was stopped by a signal.
    """
    check_hardware(config.hardware, "the models of training.per_tag")
    hardware = config.hardware
    out = check_settings(config.model_copy(update={"hardware": hardware.model_copy(update={"accelerator": "cpu"})}))
    engine = make_engine(hardware.engine, address=hardware.address, workers=hardware.workers)
    directory = RunDirectory(out)
    directory.check(resume=resume, overwrite=overwrite)
    if not resume:  # what is there goes on with any other engine, and may be finished
        engine.check()
    stop, outcome = Stop(), Outcome()
    with stop.on_signals(), directory.locked():
        try:
            with stop.giving_up_allowed():
                tasks, dev, outcome.left_out = _open(
                    config, directory, resume=resume, overwrite=overwrite, display=display
                )
                outcome.done += [task for task in tasks if _is_finished(task)]
                if len(outcome.done) == len(tasks) and (found := _finished(directory, outcome, display)) is not None:
                    return found
            _train_all(tasks, outcome, engine, out, display, stop)
            with stop.giving_up_allowed():
                return _finish(directory, config, outcome, dev, display)
        except StopNow:
            done = f"{len(outcome.done) or 'no'} {'models are' if len(outcome.done) > 1 else 'model is'} finished"
            message = f"stopped; {done}; go on with: ssnt train --resume --out {shlex.quote(str(out))}"
            display.close()
            display.note(message)
            raise TrainingInterrupted(message) from None


def _open(
    config: Config, directory: RunDirectory, *, resume: bool, overwrite: bool, display: Display
) -> tuple[list[Task], list[Example], dict[TagSet, str]]:
    """Divides the data, and makes sure that the training may write where it is to write.

    Returns:
        The trainings, the development examples, and why tag sets are left out.
    """
    for path in (config.data.train, config.data.dev):
        if path is not None:
            regular_files(path, config.data)
    train = by_tags(read_examples(str(config.data.train), config.data, needs_tags=True))
    dev_examples = [] if config.data.dev is None else list(read_examples(config.data.dev, config.data, needs_tags=True))
    dev = by_tags(dev_examples)
    left_out = left_out_of(config, train)
    if len(left_out) == len(train):
        reasons = "\n".join(some(left_out.values()))
        raise DataError(f"{config.data.train}: there is no tag set that a model can be trained for\n{reasons}")
    hashes = {
        part: _data_hash(path, config)
        for part, path in (("train", config.data.train), ("dev", config.data.dev))
        if path is not None
    }
    if resume:
        directory.check_same(config, hashes)
        directory.complete_model()
    elif overwrite:
        directory.clear()
    # the models of a directory that is to be replaced stay until the new ones are all there
    first = directory.first_model if resume else first_free_number(directory.out)
    directory.write_record(config, hashes, first_model=first)
    for note in notes_on(config, train, dev, left_out):
        display.note(note)
    tasks = []
    for number, tags in enumerate(sorted(train), start=first):
        if tags in left_out:
            continue
        files = {"train": train[tags], "dev": dev.get(tags, [])}
        paths = {part: _write_part(directory, number, part, found) for part, found in files.items() if found}
        place = f"models/{number:03d}"
        tasks.append(Task(tags, place, _own_config(config, directory, place, paths)))
    return tasks, dev_examples, left_out


def _is_finished(task: Task) -> bool:
    RunDirectory(str(task.config.out)).complete_model()
    return finished_because(task.config) is not None


def _data_hash(path: str, config: Config) -> str:
    hashes = [sha256_of(name) for name in files_of(path, config.data)]
    return hashes[0] if len(hashes) == 1 else hashlib.sha256("".join(hashes).encode()).hexdigest()


def _write_part(directory: RunDirectory, number: int, part: str, examples: Sequence[Example]) -> str:
    """Writes the examples of one tag set, without their tags."""
    path = directory.training / "data" / f"{number:03d}.{part}.jsonl"
    rows = [json.dumps({"source": one.source, "target": one.target}, ensure_ascii=False) for one in examples]
    write_text(path, "\n".join(rows) + "\n")
    return str(path)


def _own_config(config: Config, directory: RunDirectory, place: str, paths: Mapping[str, str]) -> Config:
    """The settings of one of the models: its own data, one thread, and everything else as it is."""
    form = resolve_format(config.data)
    data = {
        "train": paths["train"],
        "dev": paths.get("dev"),
        "format": "jsonl",
        "source_column": None,
        "target_column": None,
        "tags_column": None,
        "tag_separator": None,
        "source_unit": form.source_unit,
        "target_unit": form.target_unit,
        "cache": str(_cache(directory)),
    }
    return config.model_copy(
        update={
            "data": config.data.model_copy(update=data),
            "training": config.training.model_copy(update={"per_tag": False}),
            "hardware": config.hardware.of_a_worker(),
            "out": str(directory.out / place),
        }
    )


def _cache(directory: RunDirectory) -> Path:
    """Where the prepared data of all models is kept meanwhile: not in the user's cache, which it would fill."""
    return directory.training / "cache"


def _train_all(
    tasks: Sequence[Task], outcome: Outcome, engine: Engine, whole: str, display: Display, stop: Stop
) -> None:
    """Trains models side by side, until there are none left or somebody wants to stop.

    Those that are done already only answer the questions of the development data.
    """
    total = len(tasks)
    is_asked = [task for task in tasks if task not in outcome.done or task.config.data.dev is not None]
    largest_first = sorted(is_asked, key=_size, reverse=True)  # so that none is left over at the end
    jobs = {Job(task.name, TRAIN, _order(task.config)): task for task in largest_first}

    def tell(job: Job, report: Report) -> None:
        task, state = jobs[job], report.get("state")
        was_done = task in outcome.done
        if state == STOPPED:
            outcome.done += [task] if not was_done and _is_finished(task) else []  # stopped while it answered
            return
        if state == DONE:
            outcome.done += [] if was_done else [task]
            outcome.answers[task.tags] = report.get("answers") or {"outputs": [], "scores": []}
            text = f"{task.name} {report['score']}"
        elif state is not None:
            # the advice in a message is about the training of one model; it is the whole that goes on
            message = str(report["message"]).replace(f"--out {task.config.out}", f"--out {whole}")
            outcome.failed[task] = message
            outcome.done = [one for one in outcome.done if one is not task]
            outcome.lasting |= {task} if report.get("is_lasting") else set()
            text = f"{task.name} failed: {message}"
        else:
            text = f"{task.name} epoch {report['epoch']}  {report['metric']} {report['value']:.4f}"
        display.show_part(f"{len(outcome.done)}/{total} models", text, is_done=state is not None and not was_done)

    engine.run(iter(jobs), tell, stop)


def _order(config: Config) -> dict[str, Any]:
    return {"config": config.model_dump(), "has_answers": config.data.dev is not None}


def _size(task: Task) -> int:
    return Path(str(task.config.data.train)).stat().st_size


def _finished(directory: RunDirectory, outcome: Outcome, display: Display) -> Transducer | None:
    """The directory of all models, if it is there already."""
    try:
        found = Transducer.from_pretrained(directory.out) if directory.has_model else None
        listed = {one.tags: one.directory for one in read_manifest(directory.out).models} if found else {}
    except SsntError:  # it is from before some of its models were trained further
        return None
    if listed != {task.tags: task.place for task in outcome.done}:  # those of a training before this one
        return None
    display.note(f"{directory.out}: all {len(outcome.done)} models are finished already; nothing to do")
    return found


def _finish(
    directory: RunDirectory, config: Config, outcome: Outcome, dev: Sequence[Example], display: Display
) -> Transducer:
    """Measures the models together and makes one directory of them."""
    done = sorted(outcome.done, key=lambda task: task.tags)
    if not done:
        raise ModelError(f"{directory.out}: no model could be trained{_advice(outcome, directory)}")
    models = {task.tags: Transducer.from_pretrained(directory.out / task.place) for task in done}
    transducer = PerTagTransducer(models, config)
    evaluation = None
    if dev:
        names = list(dict.fromkeys([config.validation.metric, *FINAL_METRICS]))
        with limited_threads(config.hardware.threads or 1):
            evaluation = evaluate_model(AnsweredTransducer(models, config, outcome.answers), dev, names)
    files = {"train": config.data.train, "dev": config.data.dev}
    hashes = {part: _data_hash(path, config) for part, path in files.items() if path is not None}
    transducer.metrics = metrics_record(
        scores={} if evaluation is None else {"dev": evaluation.scores},
        data={part: {"file": files[part], "sha256": found} for part, found in hashes.items()},
        seed=config.training.seed,
        training={
            "models": len(done),
            "failed": {task.name: why for task, why in outcome.failed.items()},
            "left_out": {shown_tags(tags): why for tags, why in outcome.left_out.items()},
        },
    )
    save_per_tag(directory.out, {task.tags: task.place for task in done}, config, transducer.metrics, overwrite=True)
    shutil.rmtree(_cache(directory), ignore_errors=True)
    display.close()
    for note in [] if evaluation is None else _results(evaluation, models):
        display.note(note)
    if outcome.failed:
        raise ModelError(
            f"{len(outcome.failed)} of {len(outcome.failed) + len(done)} models could not be trained; the others are "
            f"in {directory.out}{_advice(outcome, directory)}"
        )
    display.note(f"{len(done)} models are in {directory.out}")
    return transducer


def _results(evaluation: Evaluation, models: Mapping[TagSet, Transducer]) -> list[str]:
    """The scores, and why the perplexity is infinite if it is."""
    impossible = Counter[bool]()  # by whether there is a model
    for item, question in zip(evaluation.items, evaluation.questions, strict=True):
        if item.nll is not None and math.isinf(item.nll):
            impossible[tag_set(question.tags) in models] += len(question.indices)
    reasons = [f"{impossible[False]} have tag sets without a model"] if impossible[False] else []
    reasons += [f"{impossible[True]} are impossible for their models"] if impossible[True] else []
    total = sum(len(question.indices) for question in evaluation.questions)
    why = f"; of {total} examples, {' and '.join(reasons)}"
    return [f"dev {one}" + (why if one.name == "perplexity" and reasons else "") for one in evaluation.scores]


def _advice(outcome: Outcome, directory: RunDirectory) -> str:
    """The end of a message about failures: how to try again, if that can help, and the reasons."""
    again = ""
    if len(outcome.failed) > len(outcome.lasting):
        which = "these" if not outcome.lasting else "those that do not fail because of their data"
        again = f"; to try {which} again: ssnt train --resume --out {directory.out}"
    failed = sorted(outcome.failed.items(), key=lambda one: one[0].tags)
    return "\n".join([again, *(f"{task.name}: {why}" for task, why in failed)])
