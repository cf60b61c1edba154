"""The lines of a long file, a chunk at a time: here, or as jobs of an engine, with the same outputs.

A chunk is answered by itself, so that its outputs depend neither on what was done before nor on who does it. A worker
keeps the model that it has loaded from one job to the next.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

from ssnt.__about__ import __version__
from ssnt.checkpoint.folder import CONFIG
from ssnt.data.lines import Problem
from ssnt.decode import Failure
from ssnt.decode.run import SearchName
from ssnt.engines.base import DONE, STOPPED, Job, Report, failed
from ssnt.errors import ModelError, SsntError
from ssnt.files import sha256_of
from ssnt.interrupts import Stop, StopNow
from ssnt.pipeline.loading import load_models
from ssnt.pipeline.prediction_lines import PredictionLines
from ssnt.pipeline.transducer import Transducer
from ssnt.types import Example

FUNCTION = "ssnt.pipeline.bulk:predict_job"


@dataclass(frozen=True)
class BulkSettings:
    """What the outputs depend on, besides the inputs.

    Attributes:
        models: The model's directory, or those of an ensemble. Workers on other machines find the same paths.
        sha256: What :func:`model_sha256` says of each.
        device: Where the model runs.
        path: The file that the inputs are read from, for messages.
        search: The search; None: the model's.
        beam: Its beam; None: the model's.
        nbest: How many outputs each input has.
        batch_size: How many inputs are worked on together.
        form: How outputs are written: ``text``, ``tsv`` or ``jsonl``.
        align: Whether alignments are written too.
    """

    models: tuple[str, ...]
    sha256: tuple[str, ...]
    device: str
    path: str
    search: SearchName | None = None
    beam: int | None = None
    nbest: int = 1
    batch_size: int = 256
    form: str = "text"
    align: bool = False


@dataclass(frozen=True)
class Answer:
    """What has become of a chunk.

    Attributes:
        text: The lines of output.
        lines: How many lines of input there were.
        problems: Those that could not be used, in order.
        unknown: How many had symbols that the model does not know.
        unknown_tags: How many had tags that it does not know.
    """

    text: str
    lines: int
    problems: tuple[Problem, ...] = ()
    unknown: int = 0
    unknown_tags: int = 0


def model_sha256(directory: str | Path) -> str:
    """The SHA-256 of a model's ``config.yaml``, which has those of its other files."""
    return sha256_of(Path(directory) / CONFIG)


def answer_chunk(transducer: Transducer, chunk: Sequence[Example | Problem], settings: BulkSettings) -> Answer:
    """Answers some lines, with an empty output for each that cannot be used.

    Raises:
        ModelError: The model cannot search in this way, or has no alignments to write.
    """
    if settings.align and not transducer.has_alignment:
        if len(settings.models) > 1:
            raise ModelError("alignments: an ensemble has none; leave --align out, or use a single model")
        raise ModelError(
            f"alignments: {transducer.config.model.name!r} has none; leave --align out, or train a model that has "
            "them, such as biSSNT+ (ssnt train --model biSSNT+)"
        )
    found = iter(
        transducer.transduce_each(
            [one for one in chunk if isinstance(one, Example)],
            search=settings.search,
            beam=settings.beam,
            nbest=settings.nbest,
            batch_size=settings.batch_size,
        )
    )
    lines = PredictionLines(settings.form, with_alignment=settings.align)
    texts: list[str] = []
    problems: list[Problem] = []
    unknown = unknown_tags = 0
    for one in chunk:
        output = one if isinstance(one, Problem) else next(found)
        if isinstance(output, Failure):
            output = Problem(settings.path, one.line, str(output.error))
        if isinstance(output, Problem):
            problems.append(output)
            example = one if isinstance(one, Example) else Example("", line=one.line)
            texts.append(lines.of_failure(example, output.message))
        else:
            texts.append(lines.of(cast(Example, one), (output, *output.alternatives)))
            unknown += bool(output.unknown)
            unknown_tags += bool(output.unknown_tags)
    return Answer("".join(texts), len(chunk), tuple(problems), unknown, unknown_tags)


def versions() -> dict[str, str]:
    """What computes here, by name: another version may write another last digit."""
    import torch

    return {"ssnt": __version__, "torch": str(torch.__version__)}


def make_job(name: str, chunk: Sequence[Example | Problem], settings: BulkSettings) -> Job:
    """A chunk as a job for an engine."""
    lines: list[list[Any]] = [
        [one.line, one.source, list(one.tags)] if isinstance(one, Example) else _problem_to_list(one) for one in chunk
    ]
    return Job(name, FUNCTION, {"settings": asdict(settings), "lines": lines, "versions": versions()})


def predict_job(order: dict[str, Any], tell: Callable[[Report], None], stop: Stop) -> Report:  # noqa: ARG001
    """Does the job that :func:`make_job` has made; a chunk that is not finished when asked to stop is given up."""
    import torch

    if order["versions"] != versions():
        return failed(
            f"the worker has {_named(versions())}, and the run was started with {_named(order['versions'])}; install "
            "the same on all machines",
            is_lasting=True,
        )
    torch.set_num_threads(1)  # there is a worker for each core, and threads may change the last digit of a number
    settings = BulkSettings(**order["settings"])
    chunk = [_read_line(line) for line in order["lines"]]
    try:
        with stop.giving_up_allowed():
            transducer = _loaded(tuple(settings.models), tuple(settings.sha256), settings.device)
            answer = answer_chunk(transducer, chunk, settings)
    except StopNow:
        return {"state": STOPPED}
    except SsntError as error:
        return failed(str(error), is_lasting=True)
    return {"state": DONE, **asdict(answer), "problems": [_problem_to_list(one) for one in answer.problems]}


def read_answer(report: Report) -> Answer:
    """The answer that a job has reported."""
    problems = tuple(Problem(*one) for one in report["problems"])
    return Answer(report["text"], report["lines"], problems, report["unknown"], report["unknown_tags"])


def _named(found: dict[str, str]) -> str:
    return " and ".join(f"{name} {version}" for name, version in found.items())


def _read_line(line: list[Any]) -> Example | Problem:
    if isinstance(line[0], str):
        return Problem(*line)
    number, source, tags = line
    return Example(source, None, tuple(tags), number)


def _problem_to_list(problem: Problem) -> list[Any]:
    return [problem.path, problem.line, problem.message]


@lru_cache(maxsize=1)
def _loaded(directories: tuple[str, ...], sha256: tuple[str, ...], device: str) -> Transducer:
    """Loads a model once, and refuses one that is not what it was when the work began.

    Raises:
        ModelError: There is no such model here, or it is another one.
    """
    for one in directories:
        if not Path(one).is_dir():
            raise ModelError(
                f"{one}: there is no such model directory where the worker is; put it into a place that all machines "
                "see under the same path"
            )
    transducer = load_models(directories, device)
    for one, expected in zip(directories, sha256, strict=True):
        if model_sha256(one) != expected:
            raise ModelError(f"{one}: is not the model that the run was started with; was it replaced meanwhile?")
    return transducer
