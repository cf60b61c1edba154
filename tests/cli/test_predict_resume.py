"""``ssnt predict --out``: what is done survives, and a run that goes on ends in the same bytes."""

from __future__ import annotations

import errno
import gzip
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from commands import Outcome, Run, environment, write
from ssnt.cli import chunk_run, prediction_run, resumable_output
from ssnt.cli.resumable_output import Done, Place, ResumableOutput
from ssnt.errors import ModelError, StorageError
from ssnt.files import sync
from ssnt.pipeline import Transducer, bulk
from transducers import shaken

CHUNK = 4  # lines
ARGUMENTS = ("predict", "model", "many.txt", "--batch-size", "2", "--beam", "2", "--out", "out.txt")

GO_ON = "go on with: ssnt predict --resume model many.txt --batch-size 2 --beam 2 --out out.txt"

Break = Callable[[int, Callable[[], None]], None]


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prediction_run, "CHUNK_BATCHES", 2)


@pytest.fixture
def many(place: Path) -> Path:
    """Some chunks of lines, the last one not full; here and there is one that cannot be used or is not known."""
    dice = random.Random(3)
    words = ["".join(dice.choices("abcdefäz", k=dice.randint(1, 7))) for _ in range(6 * CHUNK + 5)]
    words[CHUNK + 3] = words[4 * CHUNK] = ""
    words[2] = words[5 * CHUNK] = "qa"
    return write(place / "many.txt", *words)


@pytest.fixture
def whole(many: Path, run: Run) -> Callable[..., bytes]:
    """What a run without interruption writes, with more arguments or none."""

    def result(*more: str) -> bytes:
        done = run(*ARGUMENTS[:-1], "whole.txt", *more)
        assert done.code == 1, done.err
        return Path("whole.txt").read_bytes()

    return result


@pytest.fixture
def break_at(monkeypatch: pytest.MonkeyPatch) -> Break:
    """Has something happen in the middle of a chunk; later runs are left alone."""

    def plan(chunk: int, happen: Callable[[], None]) -> None:
        answer, seen = bulk.answer_chunk, 0

        def broken(transducer: Any, lines: Sequence[Any], settings: Any) -> Any:
            nonlocal seen
            seen += bool(lines)
            if seen == chunk + 1:
                seen += 1
                happen()
            return answer(transducer, lines, settings)

        monkeypatch.setattr(bulk, "answer_chunk", broken)

    return plan


def interrupt(number: int = signal.SIGINT) -> Callable[[], None]:
    def send() -> None:
        os.kill(os.getpid(), number)
        time.sleep(0.05)  # it is handled here, and not a few lines later

    return send


def stopped(run: Run, break_at: Break, *more: str, chunk: int = 3) -> Outcome:
    """A run that was interrupted after some chunks."""
    break_at(chunk, interrupt())
    done = run(*ARGUMENTS, *more)
    assert done.code == 130, done.err
    return done


def left() -> list[str]:
    return sorted(one.name for one in Path().iterdir() if "out.txt" in one.name)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_keeps_what_is_done_and_says_how_to_go_on(
    run: Run, whole: Callable[..., bytes], break_at: Break, number: int
):
    expected = whole()
    break_at(3, interrupt(number))
    done = run(*ARGUMENTS)
    assert done.code == 130
    part = Path("out.txt.part").resolve()
    assert done.err.splitlines()[-1] == f"ssnt: stopped; {3 * CHUNK} lines done, kept in {part}; {GO_ON}"
    assert left() == ["out.txt.part", "out.txt.part.json"]
    assert Path("out.txt.part").read_bytes() == b"".join(expected.splitlines(keepends=True)[: 3 * CHUNK])
    again = run(*ARGUMENTS, "--resume")
    assert again.code == 1
    assert Path("out.txt").read_bytes() == expected
    assert left() == ["out.txt"]


@pytest.mark.parametrize(
    "more",
    [
        ["--format", "tsv", "--nbest", "2", "--align"],
        ["--format", "jsonl", "--nbest", "2", "--align"],
        ["--format", "jsonl", "--search", "path"],
    ],
)
def test_a_run_that_goes_on_writes_the_same_bytes(
    run: Run, whole: Callable[..., bytes], break_at: Break, more: list[str]
):
    expected = whole(*more)
    stopped(run, break_at, *more, chunk=2)
    break_at(1, interrupt())
    assert run(*ARGUMENTS, *more, "--resume").code == 130
    assert run(*ARGUMENTS, *more, "--resume").code == 1
    assert Path("out.txt").read_bytes() == expected


def test_what_was_wrong_before_the_interrupt_is_counted_too(run: Run, whole: Callable[..., bytes], break_at: Break):
    whole()
    first = stopped(run, break_at)
    assert first.err.startswith(f"ssnt: error: many.txt:{CHUNK + 4}: the line is empty\n")
    assert run(*ARGUMENTS, "--resume").err.splitlines() == [
        f"ssnt: error: many.txt:{4 * CHUNK + 1}: the line is empty",
        "ssnt: warning: 2 inputs with symbols that the model does not know",
        f"ssnt: error: 2 of {6 * CHUNK + 5} lines could not be used",
    ]


def test_what_the_journal_does_not_know_of_is_done_again(run: Run, whole: Callable[..., bytes], break_at: Break):
    expected = whole()
    stopped(run, break_at)
    with Path("out.txt.part").open("ab") as part:
        part.write("ÄB".encode()[:-2])  # as if killed in the middle of a character
    assert run(*ARGUMENTS, "--resume").code == 1
    assert Path("out.txt").read_bytes() == expected


def test_a_run_that_was_killed_at_its_very_end_goes_on(run: Run, whole: Callable[..., bytes], break_at: Break):
    expected = whole()
    stopped(run, break_at, chunk=6)
    kept = Path("out.txt.part.json").read_bytes()
    assert run(*ARGUMENTS, "--resume").code == 1
    # all was written, and the journal was not yet gone
    Path("out.txt.part.json").write_bytes(kept)
    done = run(*ARGUMENTS, "--resume")
    assert done.code == 0
    assert done.err == (
        "ssnt: note: out.txt: is there and no unfinished run is: it is complete, or was never begun by such a run; "
        "nothing is done (to make it anew, leave out --resume)\n"
    )
    assert Path("out.txt").read_bytes() == expected
    assert left() == ["out.txt"]


@pytest.mark.parametrize("is_empty_part_left", [False, True])
def test_where_nothing_is_to_go_on_with_a_run_begins(run: Run, whole: Callable[..., bytes], is_empty_part_left: bool):
    expected = whole()
    if is_empty_part_left:  # of a run that was killed at once, and has not replaced what was there before
        Path("out.txt").write_text("from before")
        Path("out.txt.part").touch()
    done = run(*ARGUMENTS, "--resume")
    assert done.code == 1
    assert done.err.startswith("ssnt: note: out.txt: there is no unfinished run to go on with; a new one begins\n")
    assert Path("out.txt").read_bytes() == expected
    assert left() == ["out.txt"]


def test_an_early_interrupt_does_not_lose_what_was_begun(run: Run, many: Path, break_at: Break):
    Path("out.txt").write_text("from before")
    stopped(run, break_at)
    journal = json.loads(Path("out.txt.part.json").read_text())
    Path("out.txt.part.json").write_text(json.dumps(journal | {"done": vars(Done())}))  # killed before the first chunk
    break_at(0, interrupt())
    done = run(*ARGUMENTS, "--resume")
    assert (done.code, done.err) == (130, f"ssnt: stopped; what was done before is kept; {GO_ON}\n")
    assert left() == ["out.txt", "out.txt.part", "out.txt.part.json"]
    assert run(*ARGUMENTS, "--resume").code == 1
    assert Path("out.txt").read_text() != "from before"


def test_an_interrupt_while_the_model_is_loaded_says_what_to_do(run: Run, many: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(prediction_run, "load_transducer", lambda *_: interrupt()())
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background of a shell it is ignored
    try:
        done = run(*ARGUMENTS)
        assert (done.code, done.err) == (130, "ssnt: stopped; no lines are done yet; start the same command again\n")
        assert run("predict", "model", "many.txt").err == "ssnt: stopped\n"
    finally:
        signal.signal(signal.SIGINT, before)


def test_an_ensemble_goes_on_with_the_models_it_was_begun_with(run: Run, many: Path, break_at: Break):
    shaken(Transducer.from_pretrained("model"), 1).save_pretrained("other")
    shaken(Transducer.from_pretrained("model"), 2).save_pretrained("third")
    arguments = ["predict", "model,other", *ARGUMENTS[2:]]
    assert run(*arguments).code == 1
    expected = Path("out.txt").read_bytes()
    break_at(3, interrupt())
    assert run(*arguments).code == 130
    for models in ("model,third", "other,model", "model"):
        done = run("predict", models, *ARGUMENTS[2:], "--resume")
        assert done.code == 2
        assert ("the SHA-256 of model 1" in done.err) is (models != "model,third")
        assert "the SHA-256 of model 2" in done.err
    assert run(*arguments, "--resume").code == 1
    assert Path("out.txt").read_bytes() == expected


def test_packed_input_goes_on(run: Run, whole: Callable[..., bytes], break_at: Break, many: Path):
    expected = whole()
    Path("many.txt.gz").write_bytes(gzip.compress(many.read_bytes()))
    arguments = ["predict", "model", "many.txt.gz", *ARGUMENTS[3:]]
    break_at(3, interrupt())
    assert run(*arguments).code == 130
    assert run(*arguments, "--resume").code == 1
    assert Path("out.txt").read_bytes() == expected


KILLABLE = """
import sys, time
from ssnt.cli import app, prediction_run, resumable_output
from ssnt.pipeline import bulk

prediction_run.CHUNK_BATCHES = 2
resumable_output.SAVE_SECONDS = 0.0
answer = bulk.answer_chunk
bulk.answer_chunk = lambda *given: (time.sleep(0.1), answer(*given))[1]
app.run()
"""


def test_a_run_that_was_killed_goes_on(run: Run, whole: Callable[..., bytes]):
    expected = whole()
    job = subprocess.Popen([sys.executable, "-c", KILLABLE, *ARGUMENTS], env=environment(), stderr=subprocess.PIPE)
    try:
        deadline = time.monotonic() + 120
        while not (Path("out.txt.part.json").exists() and Place("out.txt").read().done.chunks >= 2):
            assert job.poll() is None, job.communicate()[1]
            assert time.monotonic() < deadline
            time.sleep(0.02)
    finally:
        job.kill()
        job.communicate()
    assert job.returncode == -signal.SIGKILL
    assert not Path("out.txt").exists()
    assert 2 * CHUNK <= Place("out.txt").read().done.lines < 6 * CHUNK + 5
    assert run(*ARGUMENTS, "--resume").code == 1
    assert Path("out.txt").read_bytes() == expected


def test_an_unfinished_run_is_not_lost_by_accident(run: Run, whole: Callable[..., bytes], break_at: Break):
    expected = whole()
    stopped(run, break_at)
    before = Path("out.txt.part").read_bytes(), Path("out.txt.part.json").read_bytes()
    for arguments in (ARGUMENTS, ["predict", "model", "-", "--out", "out.txt"]):
        done = run(*arguments, stdin="abc\n")
        assert done.code == 2
        assert done.err == (
            f"ssnt: error: {Path('out.txt.part').resolve()}: holds an unfinished run ({3 * CHUNK} lines done); go on "
            "with it (--resume), throw it away and begin anew (--overwrite), or choose another --out\n"
        )
    assert (Path("out.txt.part").read_bytes(), Path("out.txt.part.json").read_bytes()) == before
    assert run(*ARGUMENTS, "--overwrite").code == 1
    assert Path("out.txt").read_bytes() == expected
    assert left() == ["out.txt"]


def test_standard_input_may_throw_an_unfinished_run_away(run: Run, many: Path, break_at: Break):
    stopped(run, break_at)
    assert run("predict", "model", "--out", "out.txt", "--overwrite", stdin="abc\n").code == 0
    assert left() == ["out.txt"]
    assert Path("out.txt").read_text() == "ABC\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["words.txt", "--resume"], "--resume and --overwrite are about the file that --out names; give --out"),
        (["words.txt", "--out", "-", "--overwrite"], "--resume and --overwrite are about the file that --out names"),
        (
            ["words.txt", "--out", "x", "--resume", "--overwrite"],
            "--resume goes on with what is there and --overwrite replaces it; give one of them",
        ),
        (
            ["-", "--out", "x", "--resume"],
            "--resume: standard input cannot be read again from its beginning; put the input into a file",
        ),
        (
            ["pipe", "--out", "x", "--resume"],
            "--resume: pipe cannot be read again from its beginning; put the input into a file",
        ),
        (
            ["words.txt", "--out", "/dev/null", "--resume"],
            "--resume: /dev/null is a device or a pipe, which keeps nothing; leave out --resume",
        ),
        (["words.txt", "--out", "model"], "model: is a directory; --out must name a file"),
        (
            ["words.txt", "--address", "auto"],
            "the address of a Ray cluster ('auto') is of use to the engine 'ray' only",
        ),
    ],
)
def test_what_cannot_be_is_refused(run: Run, place: Path, arguments: list[str], message: str):
    os.mkfifo("pipe")
    before = sorted(place.iterdir())
    done = run("predict", "model", *arguments)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"ssnt: error: {message}"), done.err
    assert sorted(place.iterdir()) == before


@pytest.mark.parametrize(
    ("more", "differs"),
    [
        (["--beam", "3"], "--beam was 2 and is 3"),
        (["--search", "path"], "--search was marginal and is path"),
        (["--nbest", "2"], "--nbest was 1 and is 2; --format was text and is tsv"),
        (["--format", "tsv", "--align"], "--format was text and is tsv; --align was False and is True"),
        (
            ["--batch-size", "3"],
            "--batch-size was 2 and is 3; the number of lines read together was 4 and is 6",
        ),
        (["--source-column", "2"], "--source-column was not given and is 2"),
        (["--input-format", "jsonl"], "--input-format was tsv and is jsonl"),
    ],
)
def test_other_settings_are_refused(run: Run, many: Path, break_at: Break, more: list[str], differs: str):
    stopped(run, break_at)
    before = Path("out.txt.part").read_bytes()
    if "--input-format" in more:
        many.write_text('{"source": "abc"}\n')
    done = run(*ARGUMENTS, "--resume", *more)
    assert done.code == 2
    assert done.err == (
        f"ssnt: error: {Path('out.txt.part').resolve()}: was begun otherwise: {differs}; go on with what it was begun "
        "with, or begin anew with --overwrite\n"
    )
    assert Path("out.txt.part").read_bytes() == before


def test_another_model_is_refused(run: Run, many: Path, break_at: Break):
    stopped(run, break_at)
    shutil.rmtree("model")
    shutil.copytree("bidirectional", "model")
    done = run(*ARGUMENTS, "--resume")
    assert done.code == 2
    assert ": was begun otherwise: the model's SHA-256 was " in done.err


def test_the_same_settings_may_be_said_otherwise(run: Run, whole: Callable[..., bytes], break_at: Break):
    expected = whole()
    stopped(run, break_at)
    assert run(*ARGUMENTS, "--resume", "--search", "marginal", "--workers", "1").code == 1
    assert Path("out.txt").read_bytes() == expected


@pytest.mark.parametrize("line", [0, 2 * CHUNK])
def test_another_input_is_refused(run: Run, many: Path, break_at: Break, line: int):
    stopped(run, break_at)
    lines = many.read_text().splitlines()
    write(many, *lines[:line], "zzz", *lines[line + 1 :])
    expected = (
        f"ssnt: error: many.txt: its first {3 * CHUNK} lines are not what they were when the run was begun; put the "
        "old file back, or begin anew with --overwrite\n"
    )
    assert run(*ARGUMENTS, "--resume") == Outcome(2, "", expected)
    write(many, *lines[:CHUNK])
    assert run(*ARGUMENTS, "--resume") == Outcome(2, "", expected)
    assert left() == ["out.txt.part", "out.txt.part.json"]


def test_lines_that_come_later_may_change(run: Run, many: Path, break_at: Break):
    stopped(run, break_at)
    lines = many.read_text().splitlines()
    write(many, *lines[: 4 * CHUNK], "abc")
    assert run(*ARGUMENTS, "--resume").code == 1
    assert run(*ARGUMENTS[:-1], "whole.txt").code == 1
    assert Path("out.txt").read_bytes() == Path("whole.txt").read_bytes()


def test_files_of_others_are_left_alone(run: Run, many: Path):
    part, journal = Path("out.txt.part").resolve(), Path("out.txt.part.json").resolve()
    part.write_text("somebody's")
    for more in ([], ["--resume"], ["--overwrite"]):
        assert run(*ARGUMENTS, *more).err == (
            f"ssnt: error: {part}: is in the way, and there is no journal beside it (out.txt.part.json) that says what "
            "it is; move it elsewhere or remove it\n"
        )
    for content in ("{}", '{"kind": "ssnt predict", "format_version": 2}', "nothing", "[1]"):
        journal.write_text(content)
        for more in ([], ["--resume"], ["--overwrite"]):
            assert run(*ARGUMENTS, *more).err == (
                f"ssnt: error: {journal}: is no journal that this ssnt can read; move it and out.txt.part elsewhere or "
                "remove them\n"
            )
    assert part.read_text() == "somebody's"


def test_a_part_that_was_cut_is_refused(run: Run, many: Path, break_at: Break):
    stopped(run, break_at)
    size = Path("out.txt.part").stat().st_size
    os.truncate("out.txt.part", 5)
    assert run(*ARGUMENTS, "--resume").err == (
        f"ssnt: error: {Path('out.txt.part').resolve()}: has 5 bytes, and its journal says {size}: it was changed "
        "meanwhile; begin anew with --overwrite\n"
    )


def test_two_processes_do_not_write_the_same(run: Run, many: Path, break_at: Break):
    stopped(run, break_at)
    before = Path("out.txt.part").read_bytes()
    place = Place("out.txt")
    journal = place.read()
    output = ResumableOutput(place, journal.settings, journal)
    for more in ("--resume", "--overwrite"):
        assert run(*ARGUMENTS, more) == Outcome(
            2,
            "",
            f"ssnt: error: {place.part}: another process is writing it; wait for it, or choose another --out\n",
        )
    assert Path("out.txt.part").read_bytes() == before
    output._file.close()
    assert run(*ARGUMENTS, "--resume").code == 1


def fail() -> None:
    raise ModelError("something is wrong")


def test_an_error_keeps_what_is_done(run: Run, whole: Callable[..., bytes], break_at: Break):
    expected = whole()
    break_at(2, fail)
    done = run(*ARGUMENTS)
    assert done.code == 2
    assert done.err.splitlines()[-2:] == [
        f"ssnt: note: {2 * CHUNK} lines done, kept in {Path('out.txt.part').resolve()}; {GO_ON}",
        "ssnt: error: something is wrong",
    ]
    assert run(*ARGUMENTS, "--resume").code == 1
    assert Path("out.txt").read_bytes() == expected


@pytest.mark.parametrize(
    ("happen", "code", "message"),
    [
        (fail, 2, "ssnt: error: something is wrong\n"),
        (interrupt(), 130, "ssnt: stopped; no lines are done yet; start the same command again\n"),
    ],
)
def test_nothing_is_left_where_nothing_is_done(
    run: Run, many: Path, break_at: Break, happen: Callable[[], None], code: int, message: str
):
    Path("out.txt").write_text("from before")
    break_at(0, happen)
    assert run(*ARGUMENTS) == Outcome(code, "", message)
    assert left() == ["out.txt"]
    assert Path("out.txt").read_text() == "from before"


def test_a_full_disk_keeps_what_is_done(run: Run, whole: Callable[..., bytes], monkeypatch: pytest.MonkeyPatch):
    expected = whole()
    calls = 0

    def full(path: Path) -> None:
        nonlocal calls
        calls += 1
        if calls == 4:
            raise OSError(errno.ENOSPC, "No space left on device")
        sync(path)

    with monkeypatch.context() as patches:
        patches.setattr(resumable_output, "SAVE_SECONDS", 0.0)
        patches.setattr(resumable_output, "sync", full)
        done = run(*ARGUMENTS)
    assert done.code == 2
    assert done.err.splitlines()[-1] == (
        "ssnt: error: out.txt: could not be written (No space left on device); what was there before is unchanged"
    )
    assert f"{3 * CHUNK} lines done, kept in" in done.err
    assert run(*ARGUMENTS, "--resume").code == 1
    assert Path("out.txt").read_bytes() == expected


LIMITED = """
import resource
from ssnt.cli import app, prediction_run

prediction_run.CHUNK_BATCHES = 2
resource.setrlimit(resource.RLIMIT_FSIZE, (6000, 6000))
app.run()
"""


def test_a_file_that_may_not_grow_keeps_what_is_done(run: Run, place: Path):
    arguments = ["predict", "model", "long.txt", "--batch-size", "64", "--beam", "1", "--out"]
    write(place / "long.txt", *["abcabc"] * 1000)
    assert run(*arguments, "whole.txt").code == 0
    command = [sys.executable, "-c", LIMITED, *arguments, "out.txt"]
    job = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=120, check=False)
    assert job.returncode == 2
    part = Path("out.txt.part").resolve()
    assert job.stderr.splitlines() == [
        f"ssnt: note: 768 lines done, kept in {part}; go on with: ssnt predict --resume model long.txt --batch-size 64 "
        "--beam 1 --out out.txt",
        "ssnt: error: out.txt: could not be written (File too large); what was there before is unchanged",
    ]
    assert run(*arguments, "out.txt", "--resume").code == 0
    assert Path("out.txt").read_bytes() == Path("whole.txt").read_bytes()


def test_an_interrupt_is_heard_while_what_is_done_is_read_again(
    run: Run, whole: Callable[..., bytes], break_at: Break, monkeypatch: pytest.MonkeyPatch
):
    expected = whole()
    stopped(run, break_at)
    seen: list[object] = []

    def interrupted(one: object) -> bytes:
        seen.append(one)
        interrupt()()
        return b""

    with monkeypatch.context() as patches:
        patches.setattr(chunk_run, "_in_short", interrupted)
        done = run(*ARGUMENTS, "--resume")
    assert done.code == 130
    assert f"{3 * CHUNK} lines done, kept in" in done.err
    assert len(seen) == 1
    assert run(*ARGUMENTS, "--resume").code == 1
    assert Path("out.txt").read_bytes() == expected


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path):
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match=r"file/out.txt: could not be written \(.*\); what was there before is"):
        ResumableOutput(Place(str(tmp_path / "file" / "out.txt")), {}, None)


def test_the_journal_is_not_written_for_every_chunk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    now = [0.0]
    monkeypatch.setattr(resumable_output.time, "monotonic", lambda: now[0])
    place = Place(str(tmp_path / "out.txt"))
    saved = []
    with ResumableOutput(place, {}, None, "header\n") as output:
        for number in range(1, 11):
            now[0] += 0.5
            output.write("äb\n", Done(number, number, input_sha256=str(number)))
            saved.append(place.read().done.chunks)
    assert saved == [0, 0, 0, 4, 4, 4, 4, 8, 8, 8]
    assert place.file.read_text(encoding="utf-8") == "header\n" + "äb\n" * 10
    assert sorted(one.name for one in tmp_path.iterdir()) == ["out.txt"]


def test_a_link_stays_a_link_and_permissions_stay(run: Run, place: Path):
    (place / "elsewhere").mkdir()
    real = write(place / "elsewhere" / "real.txt", "old")
    real.chmod(0o640)
    Path("link.txt").symlink_to(real)
    assert run("predict", "model", "words.txt", "--out", "link.txt").code == 0
    assert Path("link.txt").is_symlink()
    assert real.read_text(encoding="utf-8").startswith("ABC\n")
    assert real.stat().st_mode & 0o777 == 0o640


def test_threads_stay_as_they_were(run: Run, many: Path, break_at: Break, monkeypatch: pytest.MonkeyPatch):
    stopped(run, break_at)
    journal = json.loads(Path("out.txt.part.json").read_text())
    journal["settings"]["the number of threads"] = 2
    Path("out.txt.part.json").write_text(json.dumps(journal))
    done = run(*ARGUMENTS, "--resume", "--workers", "2")
    assert done.code == 2
    assert "was begun otherwise: the number of threads was 2 and is 1;" in done.err
    asked: list[int] = []
    monkeypatch.setattr(torch, "set_num_threads", asked.append)
    monkeypatch.setattr(torch, "get_num_threads", lambda: asked[-1])
    assert run(*ARGUMENTS, "--resume").code == 1
    assert asked[-1] == 2
