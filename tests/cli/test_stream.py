"""``ssnt stream``: outputs before the input has ended."""

from __future__ import annotations

import json
import os
import re
import select
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from commands import Run, environment, started
from ssnt.cli.arriving import arriving_text


def test_text_is_a_line_for_each_input(run: Run, place: Path):
    done = run("stream", "model", stdin="abc\r\n\nfäde")
    assert (done.code, done.out, done.err) == (0, "ABC\n\nFÄDE\n", "")
    assert run("stream", "model", stdin="").out == ""


def test_jsonl_has_every_update(run: Run, place: Path):
    done = run("stream", "model", "--format", "jsonl", stdin="abc\nfade\n")
    updates = [json.loads(line) for line in done.out.splitlines()]
    for line, word in ((1, "abc"), (2, "fade")):
        own = [one for one in updates if one["line"] == line]
        assert "".join(one["committed"] for one in own) == word.upper()
        assert [one["is_end"] for one in own] == [False] * (len(own) - 1) + [True]
        assert [one["read"] for one in own] == sorted(one["read"] for one in own)
        delays = [delay for one in own for delay in one["delays"]]
        assert len(delays) == len(word)
        assert delays == sorted(delays)
        assert own[-1]["log_prob"] < 0
        assert own[-1]["unknown"] == 0
    assert any(one["tentative"] for one in updates)


def test_the_settings_of_the_stream_are_taken(run: Run, place: Path):
    def delays(*options: str) -> list[int]:
        done = run("stream", "model", "--format", "jsonl", *options, stdin="abcdef\n")
        assert done.code == 0, done.err
        return [delay for line in done.out.splitlines() for delay in json.loads(line)["delays"]]

    patient = delays("--beam", "8")
    assert delays("--emit-threshold", "0.5") == [1, 2, 3, 4, 5, 6]
    assert sum(delays("--beam", "8", "--max-delay", "0")) < sum(patient)
    assert run("stream", "model", "--emit-threshold", "1.5").code == 2
    done = run("stream", "model", "--emit-threshold", "0.5", "--beam", "3", stdin="abc\n")
    assert done.code == 2
    assert "beam" in done.err


def test_tags_are_asked_for_and_given(run: Run, place: Path):
    done = run("stream", "tagged", stdin="abc\n")
    assert done.code == 2
    assert done.err == (
        "ssnt: error: the model was trained with tags: give those of the inputs, such as --tags 'V;PST'\n"
    )
    assert run("stream", "tagged", "--tags", "N;PL", stdin="abc\n").code == 0
    assert "leave --tags out" in run("stream", "model", "--tags", "N", stdin="abc\n").err


def test_a_model_that_is_not_online_is_refused(run: Run, place: Path):
    done = run("stream", "bidirectional", stdin="abc\n")
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        "ssnt: error: stream: 'biSSNT+' reads the whole input before it writes; train a model that can stream, such as "
        "uniSSNT+ (ssnt train --model uniSSNT+)\n"
    )


def test_a_file_is_told_to_be_standard_input(run: Run, place: Path):
    done = run("stream", "model", "words.txt")
    assert done.code == 2
    assert done.err.splitlines()[0].endswith("(words.txt); it reads standard input: ssnt stream MODEL < FILE")
    assert "standard input" not in run("info", "model", "words.txt").err


def test_bytes_that_are_not_utf8_are_told_with_their_line(run: Run, place: Path):
    done = run("stream", "model", stdin=b"abc\nfa\xffde\n")
    assert done.code == 2
    assert done.out.startswith("ABC\n")
    assert done.err == (
        "ssnt: error: <stdin>:2: not valid UTF-8: byte 0xff (invalid start byte); convert the input to UTF-8\n"
    )
    assert "unexpected end of data" in run("stream", "model", stdin="ä".encode()[:1]).err


@pytest.mark.parametrize(
    ("pieces", "is_typed", "expected"),
    [
        ([b"\xef\xbb\xbfa\r", b"\nb\rc\r"], False, "a\nb\rc\r"),
        (["ä".encode()[:1], "ä".encode()[1:]], False, "ä"),
        ([b"a\rb\x7f\x1b", b"\x04never"], True, "a\nb"),
    ],
)
def test_characters_are_put_together_as_they_arrive(
    monkeypatch: pytest.MonkeyPatch, pieces: list[bytes], is_typed: bool, expected: str
):
    monkeypatch.setattr("ssnt.cli.arriving.arriving_bytes", lambda: iter(pieces))
    assert "".join(arriving_text(is_typed=is_typed)) == expected


def read_until(handle: int, expected: bytes, seconds: float = 60.0) -> bytes:
    """What comes from a file until something is there."""
    got, deadline = b"", time.monotonic() + seconds
    while expected not in got:
        ready, _, _ = select.select([handle], [], [], max(0.0, deadline - time.monotonic()))
        assert ready, f"got only {got!r}"
        got += os.read(handle, 1 << 16)
    return got


def test_committed_text_comes_before_the_line_has_ended(place: Path):
    with started("stream", "model", "--max-delay", "0", stdin=subprocess.PIPE, stdout=subprocess.PIPE) as job:
        assert job.stdin is not None
        assert job.stdout is not None
        job.stdin.write(b"abcd")
        job.stdin.flush()
        assert read_until(job.stdout.fileno(), b"AB").startswith(b"AB")
        job.stdin.write(b"\n")
        job.stdin.flush()
        assert read_until(job.stdout.fileno(), b"\n").endswith(b"D\n")
        job.stdin.close()
        assert job.wait(30) == 0


@pytest.fixture
def terminal() -> Iterator[tuple[int, int]]:
    """Both ends of a terminal: that of whoever sits there, and that of the program."""
    pty = pytest.importorskip("pty", reason="this system has no terminals of this kind")
    mine, its = pty.openpty()
    yield mine, its
    os.close(mine)
    os.close(its)


def test_on_a_terminal_keys_are_answered_one_by_one(place: Path, terminal: tuple[int, int]):
    import termios

    mine, its = terminal
    before = termios.tcgetattr(its)
    with started("stream", "model", stdin=its, stdout=its, stderr=its, env=environment(TERM="xterm")) as job:
        shown = read_until(mine, b"Ctrl-D ends all.")
        for key in b"abc":
            os.write(mine, bytes([key]))
            shown += read_until(mine, bytes([key]) + " → ".encode())
        os.write(mine, b"\n")
        shown += read_until(mine, b"ABC")
        os.write(mine, b"\x04")
        assert job.wait(30) == 0
    assert termios.tcgetattr(its)[3] == before[3]  # echo and lines are as they were
    assert re.search("\x1b\\[2m[AB]", shown.decode())  # what is tentative is faint
    assert "\x1b[2K" in shown.decode()


def test_a_long_line_is_shown_from_its_end(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    from ssnt.cli.stream_views import LiveView
    from ssnt.pipeline import TextUpdate

    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("TERM", "xterm")
    view = LiveView()
    for letter in "abcdefghij" * 5:
        view.show(letter, TextUpdate(letter.upper(), "?", (letter,), (1,), (1,), 1))
    last = capsys.readouterr().out.split("\r")[-1]
    visible = re.sub("\x1b\\[[0-9;]*[A-Za-z]", "", last)
    assert len(visible) < 40
    assert visible.endswith("HIJ?")
