"""One trial as a job of an engine: trains and measures a model, or measures models that others have trained."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from experiments.answers import KEPT, answers_of, packed
from experiments.datasets import Parts, load, of_type, pairs_if_fewer
from experiments.ensembles import measured_together
from experiments.outcomes import outcome_of
from experiments.plan import Trial, asker_of, known_types, tags_of, types_of
from ssnt.config import Config
from ssnt.engines.base import DONE, Report
from ssnt.errors import ModelError
from ssnt.evaluation import LATENCY, Evaluation, evaluate_model, scoring_unit
from ssnt.files import write_text
from ssnt.interrupts import Stop
from ssnt.nn.precision import cpu_lacks
from ssnt.pipeline import PerTagTransducer, StreamSettings, Transducer
from ssnt.pipeline.loading import join_models
from ssnt.training.fit import finished_because, train_one
from ssnt.training.job import WAIT, ReportingDisplay
from ssnt.training.run_directory import RunDirectory
from ssnt.training.threads import limited_threads, thread_count
from ssnt.types import Example

RUN = "experiments.trial:run_trial"
"""The name of :func:`run_trial`, for a :class:`~ssnt.engines.base.Job`."""

MODELS, DATA, THREADS = "models", "data", "threads"
"""Where a work directory has the models, the parts of the data that they are trained on, and how many threads each
training has had."""


def model_directory(work: Path, key: str) -> Path:
    """Where a work directory has the model of a trial."""
    return work / MODELS / key


def has_model(work: Path, key: str) -> bool:
    """Whether a work directory has the finished model of a trial."""
    return RunDirectory(str(model_directory(work, key))).has_model


def run_trial(order: dict[str, Any], tell: Callable[[Report], None], stop: Stop) -> Report:
    """Does a trial, or goes on with it.

    Args:
        order: ``trial``: its fields; ``work``: the work directory; ``threads``: how many it has; ``answers``: what its
            members have answered, if it is an ensemble of that; ``retrained``: how many of these are of another
            training than the member's row; ``is_model_only``: whether nothing but its model is wanted.
        tell: Told of every validation.
        stop: A request to save and stop.

    Returns:
        The last report: ``row`` has what the trial itself knows of its row, ``record`` the scores and outcomes,
        ``answers`` what is kept of its answers, if that is asked for; none of these if only the model was wanted.
    """
    trial = Trial.of(order["trial"])
    work = Path(order["work"])
    parts = load(trial.dataset)
    if trial.of_answers:
        return measured_together(trial, order["answers"], parts, order["retrained"])
    threads = order["threads"]
    with limited_threads(threads):
        if trial.members:
            transducer = _joined(trial, work)
            precision, used, epochs, seconds = None, [1], 0, 0.0
        else:
            config = _with_data(trial, parts, work, threads)
            resume = RunDirectory(str(config.out)).has_run
            used = _threads_used(work / THREADS / trial.key, config, resume=resume)
            display = ReportingDisplay(tell)
            transducer = train_one(config, resume=resume, overwrite=False, display=display, stop=stop, wait=WAIT)
            precision = transducer.config.hardware.precision
            epochs, seconds = _effort(Path(str(config.out)))
            if order["is_model_only"]:
                return {"state": DONE}
        with stop.giving_up_allowed():
            report = _measured(trial, transducer, parts, epochs, seconds)
        if precision is not None:
            for part in report.keys() & {"record", "answers"}:
                report[part]["precision"] = precision
            if used != [1]:
                report["record"]["threads"] = used
        return report


def _measured(trial: Trial, transducer: Transducer, parts: Parts, epochs: int, seconds: float) -> Report:
    """Measures a model on dev and, if that may be looked at, on test."""
    by_type = trial.dataset in known_types()
    record: dict[str, Any] = {"scores": {}, "outcomes": {}}
    if (pairs := pairs_if_fewer(trial.dataset, parts)) is not None:
        record["pairs"] = pairs
    answers: dict[str, Any] = {}
    values: dict[str, float] = {}
    for part, whole in trial.asked(parts).items():
        found = _evaluated(trial, transducer, of_type(whole, trial.tags))
        record["scores"][part] = [one.to_record() for one in found.scores]
        record["outcomes"][part] = outcome_of(found, trial.metrics, whole, by_type=by_type)
        values[part] = found.scores[0].value
        if trial.keeps_answers:
            answers[part] = packed(answers_of(found))
    if trial.has_test:
        record["outcomes"]["dev"].pop("items", None)  # comparisons of sentences are on test, and there are many of dev
    row = {"dev": values["dev"], "test": values.get("test"), "epochs": epochs, "seconds": seconds, "data": parts.sha256}
    report = {"state": DONE, "row": row, "record": record}
    if trial.keeps_answers:
        report["answers"] = {"data": parts.sha256, **_asked_as(transducer, parts), "accuracy": values, **answers}
    return report


def _asked_as(transducer: Transducer, parts: Parts) -> dict[str, Any]:
    """What makes two examples one question, and two outputs the same."""
    vocabulary = transducer.vocabulary_for(parts.dev[0].tags)
    normalisation = {"lowercase": vocabulary.lowercase, "digits_to_hash": vocabulary.digits_to_hash}
    return {"normalisation": normalisation, "unit": scoring_unit(vocabulary)}


def _evaluated(trial: Trial, transducer: Transducer, examples: Sequence[Example]) -> Evaluation:
    """Measures outputs of the search; or, with settings of streams, what streams have written, and how late."""
    if trial.stream is None:
        nbest = KEPT if trial.keeps_answers else 1
        return evaluate_model(transducer, examples, trial.metrics, resamples=0, nbest=nbest, **trial.search)
    stream = StreamSettings(**trial.stream)  # type: ignore[typeddict-item]
    metrics = [*trial.metrics, LATENCY]
    return evaluate_model(transducer, examples, metrics, resamples=0, stream=stream, is_streamed=True)


def _joined(trial: Trial, work: Path) -> Transducer:
    """The models that a trial measures, as one: of a system with a model for each tag set, those of a seed are one."""
    models: list[Transducer] = []
    per_tag: dict[tuple[str, ...], dict[tuple[str, ...], Transducer]] = {}
    for key in trial.members:
        one = Transducer.from_pretrained(model_directory(work, key))
        tags = "" if trial.tags else tags_of(key, trial.dataset)  # a trial about one tag set has models of it alone
        if tags:
            per_tag.setdefault(asker_of(key), {})[tuple(tags.split(";"))] = one
        else:
            models.append(one)
    for own in per_tag.values():
        if len(own) < len(types_of(trial.dataset)):
            raise ModelError(f"{trial.key}: expected a model for each tag set, got {len(own)}; others have no answer")
        models.append(PerTagTransducer(own, next(iter(own.values())).config))
    return join_models(models)


def _with_data(trial: Trial, parts: Parts, work: Path, threads: int) -> Config:
    """The settings of the training, with the files that it reads and the directory that it writes."""
    folder = work / DATA / trial.dataset / (trial.tags or "all")
    paths = {}
    for part in ("train", "dev"):
        path = folder / f"{part}-{parts.sha256}.jsonl"
        if not path.exists():
            _write(path, of_type(getattr(parts, part), trial.tags))
        paths[part] = str(path)
    config = trial.config()
    hardware = config.hardware.of_a_worker().model_copy(update={"threads": threads})
    if hardware.precision == "bfloat16" and cpu_lacks(torch.bfloat16):
        # bfloat16 is for speed alone: where a CPU has it not, the same trial is trained in float32
        hardware = hardware.model_copy(update={"precision": "float32"})
    update = {**paths, "format": "jsonl", "cache": str(work / "cache")}
    return config.model_copy(
        update={
            "data": config.data.model_copy(update=update),
            "hardware": hardware,
            "out": str(model_directory(work, trial.key)),
        }
    )


def _threads_used(place: Path, config: Config, *, resume: bool) -> list[int]:
    """How many threads a training has had, each number once, in order: it may go on with others than it began with."""
    before: list[int] = []
    if resume and place.exists():
        before = [int(one) for one in place.read_text(encoding="utf-8").split()]
    elif resume:  # begun by an older version of this: what it had last
        before = [thread_count(RunDirectory(str(config.out)).read_record()[0])]
    if before and finished_because(config) is not None:  # it is measured now, not trained
        return before
    used = list(dict.fromkeys([*before, thread_count(config)]))
    place.parent.mkdir(parents=True, exist_ok=True)
    write_text(place, " ".join(map(str, used)) + "\n")
    return used


def _write(path: Path, examples: Sequence[Example]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = []
    for one in examples:
        tags = {"tags": list(one.tags)} if one.tags else {}
        rows.append(json.dumps({"source": one.source, "target": one.target, **tags}, ensure_ascii=False))
    write_text(path, "\n".join(rows) + "\n")


def _effort(out: Path) -> tuple[int, float]:
    """How many epochs a training has had, and seconds."""
    with RunDirectory(str(out)).log.open(encoding="utf-8", newline="") as lines:
        last = list(csv.DictReader(lines))[-1]
    return int(last["epoch"]), float(last["seconds"])
