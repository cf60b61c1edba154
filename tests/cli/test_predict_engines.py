"""``ssnt predict`` with workers, in bounded memory, and with a bar: the outputs are the same."""

from __future__ import annotations

import io
import itertools
import os
import random
import secrets
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from commands import Outcome, Run, environment, process, started, write
from ssnt import engines
from ssnt.cli import chunk_run, prediction_run, progress_bar
from ssnt.cli.progress_bar import ProgressBar, RichBar, make_bar
from ssnt.engines.base import STOPPED, Job, Report, Tell, failed
from ssnt.interrupts import Stop, StopNow
from ssnt.pipeline import bulk
from ssnt.pipeline.bulk import Answer, BulkSettings, predict_job
from ssnt.types import Example

from conftest import require

SETTINGS = BulkSettings(("model",), ("",), "cpu", "words.txt")


@pytest.fixture
def many(place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Chunks of four lines."""
    monkeypatch.setattr(prediction_run, "CHUNK_BATCHES", 2)
    dice = random.Random(3)
    words = ["".join(dice.choices("abcdefäz", k=dice.randint(1, 7))) for _ in range(30)]
    words[5] = words[13] = ""
    words[21] = "qq"
    return write(place / "many.txt", *words)


def predicted(run: Run, out: str, *more: str) -> tuple[Outcome, bytes]:
    done = run("predict", "model", "many.txt", "--batch-size", "2", "--out", out, *more)
    return done, Path(out).read_bytes() if Path(out).exists() else b""


class BackwardEngine:
    """Takes as many jobs as it gets before it does any, and does the last one first, in this process."""

    workers = 2

    def __init__(self) -> None:
        self.runs = 0
        self.taken: list[int] = []
        self.reports: dict[int, Report] = {}  # other reports than true ones, by the number of the job

    def run(self, jobs: Iterator[Job | None], tell: Tell, stop: Stop) -> None:
        self.runs += 1
        while found := list(itertools.takewhile(lambda job: job is not None, jobs)):
            before = sum(self.taken)
            self.taken.append(len(found))
            for place, job in reversed(list(enumerate(found, before))):
                tell(job, {"busy": True})
                report = self.reports.get(place)
                tell(job, predict_job(job.order, lambda _: None, stop) if report is None else report)
            if stop.is_requested:
                return


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> BackwardEngine:
    one = BackwardEngine()
    monkeypatch.setattr(engines, "make_engine", lambda *_, **__: one)
    monkeypatch.setattr(chunk_run, "CHUNKS_AHEAD", 2)
    bulk._loaded.cache_clear()
    return one


def test_answers_are_put_in_order_and_few_wait(run: Run, many: Path, engine: BackwardEngine):
    expected = predicted(run, "here.jsonl", "--format", "jsonl", "--align")
    assert predicted(run, "out.jsonl", "--format", "jsonl", "--align", "--workers", "2") == expected
    assert expected[0].code == 1
    assert engine.taken == [4, 4]  # two chunks a worker
    assert engine.runs == 1


def test_standard_input_is_read_in_whole_chunks(run: Run, many: Path, engine: BackwardEngine):
    expected = run("predict", "model", "many.txt", "--batch-size", "2")
    done = run("predict", "model", "--batch-size", "2", "--workers", "2", stdin=many.read_bytes())
    assert done.out == expected.out
    assert sum(engine.taken) == 8


def test_a_chunk_that_no_worker_can_do_ends_the_run(run: Run, many: Path, engine: BackwardEngine):
    expected = predicted(run, "here.txt")[1]
    engine.reports[5] = failed("its process was killed by signal 9")
    done, _ = predicted(run, "out.txt", "--workers", "2")
    assert done.code == 2
    part = Path("out.txt.part").resolve()
    assert done.err.splitlines()[-2:] == [
        f"ssnt: note: 16 lines done, kept in {part}; go on with: ssnt predict --resume model many.txt "
        "--batch-size 2 --out out.txt --workers 2",
        "ssnt: error: lines 21 to 24 of many.txt: its process was killed by signal 9",
    ]
    engine.reports.clear()
    assert predicted(run, "out.txt", "--workers", "2", "--resume")[1] == expected


def test_workers_that_stop_lose_nothing(run: Run, many: Path, engine: BackwardEngine, monkeypatch: pytest.MonkeyPatch):
    expected = predicted(run, "here.txt")[1]

    def interrupted(*given: object) -> Answer:
        os.kill(os.getpid(), signal.SIGINT)
        raise StopNow

    engine.reports[4] = {"state": STOPPED}
    answer = bulk.answer_chunk
    calls: list[int] = []

    def sometimes(*given: object) -> Answer:
        calls.append(1)
        return answer(*given) if len(calls) < 7 else interrupted()  # type: ignore[arg-type]

    monkeypatch.setattr(bulk, "answer_chunk", sometimes)
    done, _ = predicted(run, "out.txt", "--workers", "2")
    assert done.code == 130
    assert done.err.splitlines()[-1].startswith("ssnt: stopped; 16 lines done, kept in ")
    monkeypatch.setattr(bulk, "answer_chunk", answer)
    engine.reports.clear()
    engine.taken.clear()
    assert predicted(run, "out.txt", "--workers", "2", "--resume")[1] == expected


def test_an_engine_that_leaves_jobs_is_a_defect():
    chunks = iter([chunk_run.Chunk(0, [Example("a", line=1)], "", 0)])

    class Lazy(BackwardEngine):
        def run(self, jobs: Iterator[Job | None], tell: Tell, stop: Stop) -> None:
            next(jobs)

    with pytest.raises(RuntimeError, match="the engine has left jobs undone"):
        chunk_run.run_on(Lazy(), chunks, SETTINGS, lambda *_: None, Stop())


def test_what_is_done_is_written_and_a_stop_is_heard_while_input_is_awaited(place: Path):
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with started("predict", "model", "--workers", "2", "--batch-size", "1", **pipes) as job:
        assert job.stdin is not None
        assert job.stdout is not None
        job.stdin.write(b"abc\n" * prediction_run.CHUNK_BATCHES + b"fa")
        job.stdin.flush()
        ready, _, _ = select.select([job.stdout], [], [], 60)
        assert ready, "no answer"
        assert job.stdout.readline() == b"ABC\n"
        job.send_signal(signal.SIGTERM)
        assert job.wait(30) == 130
        assert job.stderr is not None
        assert job.stderr.read() == b"ssnt: stopped\n"


def heard(_: object, *__: object, **___: object) -> None:
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(0.1)
    pytest.fail("the signal was not heard")


def test_a_stop_is_heard_before_there_is_any_input(run: Run, many: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(prediction_run.Inputs, "chunks", heard)
    assert run("predict", "model", "--workers", "2") == Outcome(130, "", "ssnt: stopped\n")


def test_processes_write_the_same_bytes(run: Run, many: Path):
    more = ["--format", "jsonl", "--nbest", "2", "--align"]  # numbers with all their digits
    expected = predicted(run, "here.txt", *more)
    assert predicted(run, "out.txt", *more, "--workers", "2") == expected


@pytest.mark.slow
def test_a_cluster_writes_the_same_bytes(run: Run, many: Path):
    require("ray", "prediction on a Ray cluster")
    expected = predicted(run, "here.jsonl", "--format", "jsonl", "--nbest", "2", "--align")
    done = predicted(
        run, "out.jsonl", "--format", "jsonl", "--nbest", "2", "--align", "--engine", "ray", "--workers", "2"
    )
    assert done == expected


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@pytest.fixture
def head() -> Iterator[tuple[str, dict[str, str]]]:
    """A Ray cluster that is there already: its address, and the variables of whoever may use it."""
    require("ray", "prediction on a Ray cluster")
    port = free_port()
    variables = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32), "RAY_USAGE_STATS_ENABLED": "0"}
    with tempfile.TemporaryDirectory(prefix="ray") as directory:  # a short name, as it is that of sockets too
        settings = {
            "port": port,
            "ray-client-server-port": free_port(),
            "num-cpus": 2,
            "object-store-memory": 100_000_000,
            "include-dashboard": "false",
            "temp-dir": directory,
        }
        arguments = [f"--{name}={value}" for name, value in settings.items()]
        cluster = subprocess.Popen(
            [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block", *arguments],
            env=environment(**variables),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            deadline = time.monotonic() + 60
            while not is_open(port):
                assert cluster.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.1)
            yield f"127.0.0.1:{port}", variables
        finally:
            cluster.terminate()  # it ends its processes
            try:
                cluster.wait(30)
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(cluster.pid, signal.SIGKILL)


def is_open(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.slow
def test_a_cluster_that_is_there_writes_the_same_bytes(run: Run, place: Path, head: tuple[str, dict[str, str]]):
    address, variables = head
    arguments = ["predict", "model", "words.txt", "--batch-size", "1", "--format", "jsonl"]  # two chunks
    expected = run(*arguments, "--workers", "1")
    assert process(*arguments, "--engine", "ray", "--address", address, **variables) == expected
    assert expected.code == 0


@pytest.mark.parametrize("more", [[], ["--workers", "2"]])
def test_memory_does_not_grow_with_the_input(
    run: Run, place: Path, engine: BackwardEngine, monkeypatch: pytest.MonkeyPatch, more: list[str]
):
    def answer(transducer: object, lines: list[Example], settings: BulkSettings) -> Answer:
        return Answer("".join(f"{one.source}\n" for one in lines), len(lines))

    monkeypatch.setattr(bulk, "answer_chunk", answer)

    def peak(lines: int) -> float:
        write(place / "long.txt", *(f"{number:0100d}" for number in range(lines)))
        tracemalloc.start()
        try:
            assert run("predict", "model", "long.txt", "--batch-size", "8", "--out", "out.txt", *more).code == 0
            return tracemalloc.get_traced_memory()[1] / 1e6
        finally:
            tracemalloc.stop()

    peak(100)  # imports and caches
    few, many = peak(1000), peak(12_000)  # the lines alone are 1.2 MB
    assert many < few + 0.5
    assert Path("out.txt").read_bytes() == Path("long.txt").read_bytes()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_bar_is_for_a_terminal_that_shows_no_results(place: Path, monkeypatch: pytest.MonkeyPatch):
    def kind(out: str | None) -> type[ProgressBar]:
        return type(make_bar(["words.txt"], out))

    assert kind("out.txt") is ProgressBar  # standard error is no terminal here
    monkeypatch.setattr(sys, "stderr", Terminal())
    assert (kind("out.txt"), kind(None), kind("-")) == (RichBar, RichBar, RichBar)
    monkeypatch.setattr(progress_bar, "is_terminal", lambda: True)
    assert (kind("out.txt"), kind(None), kind("-")) == (RichBar, ProgressBar, ProgressBar)


def test_the_bar_tells_lines_pace_and_time_left(place: Path, monkeypatch: pytest.MonkeyPatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    now = [100.0]
    monkeypatch.setattr(progress_bar.time, "monotonic", lambda: now[0])
    file = write(place / "long.txt", *["äbc"] * 300)
    with make_bar([str(file)], "out.txt") as bar:
        for number in range(1, 201):
            bar.watch("long.txt", number, "äbc")
        assert bar.read_bytes == 1000
        bar.skip(500)
        bar.begin(100, 500)
        now[0] += 10
        bar.show(200, 1000)
    shown = terminal.getvalue()
    assert "200 lines  10 lines/s  0:10 left" in shown
    assert sys.stderr is terminal


def test_the_length_of_packed_input_is_not_known(place: Path, monkeypatch: pytest.MonkeyPatch):
    import gzip

    Path("packed").write_bytes(gzip.compress(b"abc\n"))
    assert progress_bar._text_size(["words.txt"]) == Path("words.txt").stat().st_size
    assert progress_bar._text_size(["words.txt", "packed"]) is None
    assert progress_bar._text_size(["-"]) is None
    monkeypatch.setattr(sys, "stderr", Terminal())
    with make_bar(["packed"], "out.txt") as bar:
        bar.show(10, 100)
    assert "left" not in sys.stderr.getvalue()  # type: ignore[attr-defined]


def test_a_run_with_a_bar_writes_the_same(run: Run, many: Path, monkeypatch: pytest.MonkeyPatch):
    expected = predicted(run, "here.txt")
    seen: list[tuple[int, int]] = []

    class Bar(ProgressBar):
        is_shown = True  # type: ignore[assignment]

        def show(self, lines: int, read_bytes: int) -> None:
            seen.append((lines, read_bytes))

    monkeypatch.setattr(prediction_run, "make_bar", lambda *_: Bar())
    assert predicted(run, "out.txt") == expected
    assert [lines for lines, _ in seen] == [4, 8, 12, 16, 20, 24, 28, 30]
    assert seen[-1][1] == many.stat().st_size
