"""One model for each tag set, the paper's setting for inflection: many small trainings side by side.

The data is read once and divided by tag set. Each model is trained by one process in one thread, ``training.workers``
of them at a time, and has a directory of its own in ``out/models``, so that a training that was stopped goes on model
by model. A tag set without development examples has its epoch chosen by training perplexity.
"""

from __future__ import annotations

import hashlib
import json
import queue
import shutil
import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ssnt.checkpoint import metrics_record, save_per_tag
from ssnt.checkpoint.manifest import TagSet, tag_set
from ssnt.config import Config
from ssnt.data.formats import resolve_format
from ssnt.data.readers import files_of, read_examples
from ssnt.errors import ConfigError, ModelError, SsntError
from ssnt.evaluation import evaluate_model
from ssnt.files import sha256_of, write_text
from ssnt.pipeline import PerTagTransducer, Transducer
from ssnt.training.display import Display
from ssnt.training.fit import check_settings, finished_because
from ssnt.training.interrupts import Stop, StopNow, TrainingInterrupted
from ssnt.training.run_directory import RunDirectory
from ssnt.training.threads import cores, limited_threads
from ssnt.training.validation import FINAL_METRICS
from ssnt.training.worker import Report, Worker
from ssnt.types import Example

_SHOWN = 5
_POLL = 0.1  # seconds between looks at whether somebody wants to stop


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
    """

    done: list[Task] = field(default_factory=list)
    failed: dict[Task, str] = field(default_factory=dict)


def train_per_tag(config: Config, *, resume: bool, overwrite: bool, display: Display) -> Transducer:
    """Trains one model for each tag set of the training data, and puts them into one directory.

    Raises:
        ModelError: Some models could not be trained; the others are saved.
        TrainingInterrupted: It was stopped by a signal.
    """
    out = check_settings(config)
    if config.hardware.devices * config.hardware.nodes > 1:
        raise ConfigError(
            "settings 'training.per_tag' and 'hardware.devices': each of these models is trained by one process; set "
            "hardware.devices and hardware.nodes to 1, and training.workers to the number of models trained at a time"
        )
    directory = RunDirectory(out)
    directory.check(resume=resume, overwrite=overwrite)
    stop, outcome = Stop(), Outcome()
    with stop.on_signals(), directory.locked():
        try:
            with stop.giving_up_allowed():
                tasks, dev = _open(config, directory, resume=resume, overwrite=overwrite, display=display)
                outcome.done += [task for task in tasks if _is_finished(task)]
            left = [task for task in tasks if task not in outcome.done]
            if left:
                _train_all(left, outcome, config, display, stop)
            with stop.giving_up_allowed():
                return _finish(directory, config, outcome, dev, display, is_new=bool(left))
        except StopNow:
            done = f"{len(outcome.done)} models are finished" if outcome.done else "no model is finished"
            message = f"stopped; {done}; go on with: ssnt train --resume --out {out}"
            display.close()
            display.note(message)
            raise TrainingInterrupted(message) from None


def _open(
    config: Config, directory: RunDirectory, *, resume: bool, overwrite: bool, display: Display
) -> tuple[list[Task], list[Example]]:
    """Divides the data, and makes sure that the training may write where it is to write."""
    train = _by_tags(read_examples(str(config.data.train), config.data, needs_tags=True))
    dev_examples = [] if config.data.dev is None else list(read_examples(config.data.dev, config.data, needs_tags=True))
    dev = _by_tags(dev_examples)
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
    directory.write_record(config, hashes)
    for note in _notes(config, train, dev):
        display.note(note)
    tasks = []
    for number, tags in enumerate(sorted(train)):
        files = {"train": train[tags], "dev": dev.get(tags, [])}
        paths = {part: _write_part(directory, number, part, found) for part, found in files.items() if found}
        place = f"models/{number:03d}"
        tasks.append(Task(tags, place, _own_config(config, directory, place, paths)))
    return tasks, dev_examples


def _is_finished(task: Task) -> bool:
    RunDirectory(str(task.config.out)).complete_model()
    return finished_because(task.config) is not None


def _by_tags(examples: Iterable[Example]) -> dict[TagSet, list[Example]]:
    found: dict[TagSet, list[Example]] = {}
    for example in examples:
        found.setdefault(tag_set(example.tags), []).append(example)
    return found


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
            "training": config.training.model_copy(update={"per_tag": False, "workers": None}),
            "hardware": config.hardware.model_copy(update={"accelerator": "cpu", "threads": 1}),
            "out": str(directory.out / place),
        }
    )


def _cache(directory: RunDirectory) -> Path:
    """Where the prepared data of all models is kept meanwhile: not in the user's cache, which it would fill."""
    return directory.training / "cache"


def _notes(
    config: Config, train: Mapping[TagSet, Sequence[Example]], dev: Mapping[TagSet, Sequence[Example]]
) -> list[str]:
    """What the user should know before training starts."""
    notes = [f"{len(train)} tag sets in {config.data.train}: one model for each"]
    unseen = Counter({tags: len(found) for tags, found in dev.items() if tags not in train})
    if unseen:
        shown = ", ".join(f"{shown_tags(tags)} ({count})" for tags, count in unseen.most_common(_SHOWN))
        more = ", ..." if len(unseen) > _SHOWN else ""
        notes.append(
            f"{config.data.dev}: {unseen.total()} examples have tag sets that the training data does not have, so that "
            f"there will be no model for them: {shown}{more}"
        )
    if without := [tags for tags in train if tags not in dev]:
        shown = ", ".join(map(shown_tags, without[:_SHOWN])) + (", ..." if len(without) > _SHOWN else "")
        notes.append(
            f"tag sets without development examples, whose epochs are chosen by training perplexity: {len(without)} "
            f"({shown})"
        )
    return notes


def shown_tags(tags: TagSet) -> str:
    """A tag set as it is shown."""
    return ";".join(tags) if tags else "(no tags)"


def _train_all(tasks: Sequence[Task], outcome: Outcome, config: Config, display: Display, stop: Stop) -> None:
    """Trains models side by side, until there are none left or somebody wants to stop."""
    left: queue.SimpleQueue[Task] = queue.SimpleQueue()
    for task in sorted(tasks, key=_size, reverse=True):  # the largest first, so that none is left over at the end
        left.put(task)
    total = len(tasks) + len(outcome.done)
    workers = [Worker() for _ in range(min(config.training.workers or cores(), len(tasks)))]
    guard = threading.Lock()

    def tell(task: Task, report: Report) -> None:
        with guard:
            state = report.get("state")
            if state == "done":
                outcome.done.append(task)
                text = f"{task.name} {report['score']}"
            elif state == "failed":
                outcome.failed[task] = str(report["message"])
                text = f"{task.name} failed: {report['message']}"
            elif "epoch" in report:
                value = "" if report["value"] is None else f"  {report['metric']} {report['value']:.4f}"
                text = f"{task.name} epoch {report['epoch']}{value}"
            else:
                return
            display.show_part(f"{len(outcome.done)}/{total} models", text, is_done=state is not None)

    def work(worker: Worker) -> None:
        while not stop.is_requested:
            try:
                task = left.get_nowait()
            except queue.Empty:
                return
            tell(task, worker.run(task.config, lambda report, task=task: tell(task, report)))  # type: ignore[misc]

    threads = [threading.Thread(target=work, args=(worker,), daemon=True) for worker in workers]
    try:
        for thread in threads:
            thread.start()
        is_told = False
        while any(thread.is_alive() for thread in threads):
            for thread in threads:
                thread.join(_POLL / len(threads))
            if stop.is_requested and not is_told:
                is_told = True
                for worker in workers:
                    worker.stop()
    except BaseException:
        for worker in workers:
            worker.kill()
        raise
    finally:
        for worker in workers:
            worker.close()


def _size(task: Task) -> int:
    return Path(str(task.config.data.train)).stat().st_size


def _finish(
    directory: RunDirectory, config: Config, outcome: Outcome, dev: Sequence[Example], display: Display, *, is_new: bool
) -> Transducer:
    """Measures the models together and makes one directory of them."""
    if not is_new and directory.has_model and not outcome.failed:
        try:
            found = Transducer.from_pretrained(directory.out)
        except SsntError:  # it is from before some of its models were trained further
            pass
        else:
            display.note(f"{directory.out}: all {len(outcome.done)} models are finished already; nothing to do")
            return found
    done = sorted(outcome.done, key=lambda task: task.tags)
    if not done:
        raise ModelError(f"{directory.out}: no model could be trained:\n{_failures(outcome)}")
    models = {task.tags: Transducer.from_pretrained(directory.out / task.place) for task in done}
    transducer = PerTagTransducer(models, config)
    scores = []
    if dev:
        names = list(dict.fromkeys([config.validation.metric, *FINAL_METRICS]))
        with limited_threads(config.hardware.threads or 1):
            scores = evaluate_model(transducer, dev, names).scores
    files = {"train": config.data.train, "dev": config.data.dev}
    hashes = {part: _data_hash(path, config) for part, path in files.items() if path is not None}
    transducer.metrics = metrics_record(
        scores={"dev": scores} if scores else {},
        data={part: {"file": files[part], "sha256": found} for part, found in hashes.items()},
        seed=config.training.seed,
        training={"models": len(done), "failed": {task.name: why for task, why in outcome.failed.items()}},
    )
    save_per_tag(directory.out, {task.tags: task.place for task in done}, config, transducer.metrics, overwrite=True)
    shutil.rmtree(_cache(directory), ignore_errors=True)
    display.close()
    for score in scores:
        display.note(f"dev {score}")
    if outcome.failed:
        raise ModelError(
            f"{len(outcome.failed)} of {len(outcome.failed) + len(done)} models could not be trained; the others are "
            f"in {directory.out}; to try these again: ssnt train --resume --out {directory.out}\n{_failures(outcome)}"
        )
    display.note(f"{len(done)} models are in {directory.out}")
    return transducer


def _failures(outcome: Outcome) -> str:
    return "\n".join(f"{task.name}: {why}" for task, why in sorted(outcome.failed.items(), key=lambda one: one[0].tags))
