"""What ``ssnt predict`` does once it knows what is wanted."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TextIO

from ssnt.cli.chunk_run import Account, ChunkReader, run_here, run_on
from ssnt.cli.data_options import data_settings
from ssnt.cli.errors import tell
from ssnt.cli.inputs import Inputs, UnknownTags
from ssnt.cli.models import load_transducer
from ssnt.cli.output import counted, results
from ssnt.cli.progress_bar import ProgressBar, make_bar
from ssnt.cli.resumable_output import Done, Journal, Place, ResumableOutput, check_settings
from ssnt.errors import ConfigError
from ssnt.interrupts import Stop, StopNow

if TYPE_CHECKING:
    from ssnt.config import DataConfig
    from ssnt.data.lines import Problem
    from ssnt.decode.run import SearchName
    from ssnt.engines.base import Engine
    from ssnt.pipeline import Transducer
    from ssnt.pipeline.bulk import Answer, BulkSettings
    from ssnt.types import Example

CHUNK_BATCHES = 4
"""So many batches are read together, so that inputs of about the same length can share one."""

_STDIN = _STDOUT = "-"
_THREADS = "the number of threads"
_VERB = "predict"


@dataclass(frozen=True)
class Request:
    """What is to be predicted and how; the options of ``ssnt predict``, by name."""

    model: str
    file: str
    search: SearchName | None
    beam: int | None
    nbest: int
    form: str
    align: bool
    batch_size: int
    input_format: str | None
    source_column: str | None
    tags_column: str | None
    tags: str | None
    device: str
    engine: str | None
    address: str | None
    workers: int | None


class Target:
    """Where outputs go, and whether they are made so that a broken run can go on.

    Args:
        out: The file; None or ``-`` for standard output.
        file: What the inputs are read from.
        resume: Whether an earlier run is to go on.
        overwrite: Whether what it has left is to be thrown away.

    Attributes:
        out: The file; None for standard output.
        place: Where it is made, if the run could go on; otherwise the file is written whole or not at all.
        begun: The journal of the run that goes on.
        is_done: Whether there is nothing to go on with, as the file is there.

    Raises:
        ConfigError: No run could go on; or there is an unfinished one, and nobody has said what to do with it.
    """

    def __init__(self, out: str | None, file: str, *, resume: bool, overwrite: bool) -> None:
        self.out = None if out == _STDOUT else out
        self.place: Place | None = None
        self.begun: Journal | None = None
        self.is_done = False
        if self.out is None:
            if resume or overwrite:
                raise ConfigError("--resume and --overwrite are about the file that --out names; give --out")
            return
        place = Place(self.out)
        if resume and (file == _STDIN or not _can_be_read_again(file)):
            what = "standard input" if file == _STDIN else file
            raise ConfigError(f"--resume: {what} cannot be read again from its beginning; put the input into a file")
        if resume and place.is_special:
            raise ConfigError(f"--resume: {self.out} is a device or a pipe, which keeps nothing; leave out --resume")
        if place.is_special:
            return
        self.begun = place.check(resume=resume, overwrite=overwrite)
        if resume and self.begun is None:
            self._note_nothing_to_go_on_with(place)
        if file != _STDIN and _can_be_read_again(file):
            self.place = place
        elif overwrite:
            place.remove()

    def _note_nothing_to_go_on_with(self, place: Place) -> None:
        self.is_done = place.is_whole
        if self.is_done:
            place.remove()  # a journal alone, of a run that was killed when it had just finished
            tell(
                f"{self.out}: is there and no unfinished run is: it is complete, or was never begun by such a run; "
                "nothing is done (to make it anew, leave out --resume)",
                "note",
            )
        else:
            tell(f"{self.out}: there is no unfinished run to go on with; a new one begins", "note")

    def how_to_go_on(self, kept: str) -> str:
        """What to do after an interruption.

        Args:
            kept: What is kept of this run and those before; empty: nothing new.
        """
        if not kept and self.begun is None:
            return "no lines are done yet; start the same command again"
        given = [one for one in sys.argv[1:] if one not in ("--resume", "--overwrite")]
        if _VERB in given:
            given.insert(given.index(_VERB) + 1, "--resume")
        return f"{kept or 'what was done before is kept'}; go on with: {shlex.join(['ssnt', *given])}"


def _can_be_read_again(file: str) -> bool:
    return os.path.isfile(file) or not os.path.exists(file)  # parallel text is named without what its files end in


class Prediction:
    """A run of ``ssnt predict``.

    Args:
        request: What is wanted.
        target: Where the outputs go.

    Raises:
        SsntError: It cannot be done.
    """

    def __init__(self, request: Request, target: Target) -> None:
        self._request, self._target = request, target
        self._engine = _engine(request)
        transducer = load_transducer(request.model, request.device)
        self._transducer = transducer
        self._settings = _bulk_settings(request)
        self._answer([])  # a search that the model cannot do is refused before anything is written
        data = data_settings(
            transducer.config.data,
            format_=request.input_format,
            source_column=request.source_column,
            tags_column=request.tags_column,
            needs_target=False,
        )
        self._journal = self._journal_settings(transducer, data)
        if target.place is not None and target.begun is not None:
            check_settings(target.place, target.begun.settings, self._journal)
        self._bar = _bar(request.file, data, target.out)
        self._inputs = Inputs(
            request.file,
            data,
            needs_target=False,
            has_tags=transducer.has_tags,
            tags=request.tags,
            watch=self._bar.watch if self._bar.is_shown else None,
        )
        self._unknown_tags = UnknownTags(transducer, data)
        self._kept = ""

    def run(self) -> int:
        """Predicts, and returns the exit code.

        Raises:
            KeyboardInterrupt: A signal; it says what is kept.
        """
        # without a journal, and in this process, there is nothing to be saved
        is_careful = self._target.place is not None or self._engine is not None
        stop = Stop()
        try:
            with stop.on_signals() if is_careful else nullcontext():
                account = self._predict(stop)
        except StopNow:
            raise KeyboardInterrupt(self._kept) from None
        except Exception as error:
            if self._kept and not isinstance(error, ConfigError):
                tell(self._target.how_to_go_on(self._kept), "note")
            raise
        if account.unknown:
            tell(f"{counted(account.unknown, 'input')} with symbols that the model does not know", "warning")
        self._unknown_tags.see(self._inputs.tags or ())
        self._unknown_tags.tell(account.unknown_tags)
        return self._inputs.exit_code()

    def _predict(self, stop: Stop) -> Account:
        size = CHUNK_BATCHES * self._request.batch_size
        with stop.giving_up_allowed():
            # what is wrong with the whole file is found here, before anything is written
            found = self._inputs.chunks(size, patient_until=None if self._engine is None else stop)
        chunks = ChunkReader(found, self._request.file, self._bar)
        with self._opened() as output, self._bar:
            account = Account(self._inputs, output, self._bar, output.done)
            with stop.giving_up_allowed():
                chunks.skip(output.done)
            if self._engine is not None:
                run_on(self._engine, chunks, self._settings, account.add, stop)
            else:
                run_here(chunks, self._answer, account.add, stop)
        return account

    def _answer(self, lines: list[Example | Problem]) -> Answer:
        from ssnt.pipeline.bulk import answer_chunk

        return answer_chunk(self._transducer, lines, self._settings)

    @contextmanager
    def _opened(self) -> Iterator[ResumableOutput | _StreamOutput]:
        """Where outputs go; notes afterwards what is kept of them."""
        from ssnt.pipeline.prediction_lines import PredictionLines

        header = PredictionLines(self._request.form, with_alignment=self._request.align).header()
        if self._target.place is None:
            with results(self._target.out) as sink:
                sink.write(header)
                yield _StreamOutput(sink)
            return
        output = ResumableOutput(self._target.place, self._journal, self._target.begun, header)
        try:
            with output:
                yield output
        except BaseException:
            self._kept = output.kept
            raise

    def _models_named(self) -> dict[str, str]:
        """The models by what they are, and not by where; each by itself, so that a message can say which is another."""
        if len(self._settings.sha256) == 1:
            return {"the model's SHA-256": self._settings.sha256[0]}
        return {f"the SHA-256 of model {place}": one for place, one in enumerate(self._settings.sha256, start=1)}

    def _journal_settings(self, transducer: Transducer, data: DataConfig) -> dict[str, Any]:
        """What outputs depend on, by the names that users know."""
        from ssnt.pipeline.bulk import versions
        from ssnt.pipeline.settings import plan_search

        request = self._request
        plan = plan_search(transducer.config, search=request.search, beam=request.beam, nbest=request.nbest)
        return {
            **self._models_named(),
            **{f"the version of {name}": version for name, version in versions().items()},
            _THREADS: _set_threads(request, self._target.begun, self._engine),
            "--device": request.device,
            "--search": plan.search,
            "--beam": plan.options.beam,
            "--nbest": request.nbest,
            "--batch-size": request.batch_size,
            "the number of lines read together": CHUNK_BATCHES * request.batch_size,
            "--format": str(request.form),
            "--align": request.align,
            "--input-format": data.format,
            "--source-column": data.source_column,
            "--tags-column": data.tags_column,
            "--tags": request.tags,
        }


class _StreamOutput:
    """Writes to a stream at once, for whoever waits for it."""

    done = Done()

    def __init__(self, sink: TextIO) -> None:
        self._sink = sink

    def write(self, text: str, done: Done) -> None:
        """Writes the results of a chunk."""
        self._sink.write(text)
        self._sink.flush()


def _engine(request: Request) -> Engine | None:
    """The engine that has workers; None if the work is done in this process."""
    name = request.engine or "local"
    if name == "local" and request.address is None and request.workers in (None, 1):
        return None
    from ssnt.engines import make_engine

    return make_engine("ray" if name == "ray" else "local", address=request.address, workers=request.workers)


def _bulk_settings(request: Request) -> BulkSettings:
    from ssnt.pipeline.bulk import BulkSettings, model_sha256
    from ssnt.pipeline.loading import find_models

    directories = tuple(map(os.path.abspath, find_models(request.model)))  # workers may be elsewhere
    return BulkSettings(
        models=directories,
        sha256=tuple(map(model_sha256, directories)),
        device=request.device,
        path=request.file,
        search=request.search,
        beam=request.beam,
        nbest=request.nbest,
        batch_size=request.batch_size,
        form=str(request.form),
        align=request.align,
    )


def _bar(file: str, data: DataConfig, out: str | None) -> ProgressBar:
    from ssnt.data.readers import files_of

    return make_bar(files_of(file, data, needs_target=False), out)


def _set_threads(request: Request, begun: Journal | None, engine: Engine | None) -> int:
    """How many threads compute, which may change the last digit of a number: in a run that goes on, as many as before.

    A worker has one, and so has this process if it is to be one of ``--workers 1``.
    """
    import torch

    if engine is not None:
        return 1
    before = None if begun is None else begun.settings.get(_THREADS)
    if isinstance(before, int) and before > 0:
        torch.set_num_threads(before)
    elif request.workers is not None:
        torch.set_num_threads(1)
    return torch.get_num_threads()
