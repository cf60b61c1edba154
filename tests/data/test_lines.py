"""Lines of files: encodings, line ends, packing, standard input, and what cannot be read."""

import gzip
import io
import os
import sys
import threading
from pathlib import Path

import pytest

from ssnt.data.lines import Problem, lines_or_problems, numbered_lines
from ssnt.errors import DataError


def lines_of(path: Path, content: bytes) -> list[tuple[int, str]]:
    path.write_bytes(content)
    return list(numbered_lines(str(path)))


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", []),
        (b"a\nb\n", ["a", "b"]),
        (b"a\nb", ["a", "b"]),
        (b"\n\na\n\n", ["", "", "a", ""]),
        (b"a\r\nb\r\n", ["a", "b"]),
        (b"a\rb\n", ["a\rb"]),
        (b"a\r\r\n", ["a\r"]),
        (b"\xef\xbb\xbfa\nb\n", ["a", "b"]),
        (b"a\n\xef\xbb\xbfb\n", ["a", "\ufeffb"]),
        (b"\xef\xbb\xbf\n", [""]),
        ("a\u2028b\x0bc\x85d\x1ce\x0cf\n".encode(), ["a\u2028b\x0bc\x85d\x1ce\x0cf"]),
        ("e\u0301\tA\u030a\n".encode(), ["\u00e9\t\u00c5"]),
    ],
)
def test_lines(tmp_path: Path, content: bytes, expected: list[str]):
    assert lines_of(tmp_path / "file", content) == list(enumerate(expected, 1))


@pytest.mark.parametrize("name", ["file.tsv.gz", "file.tsv"])
def test_packed_files_are_known_by_their_content(tmp_path: Path, name: str):
    packed = gzip.compress("ä\nb\n".encode()) + gzip.compress(b"c\n")
    assert lines_of(tmp_path / name, packed) == [(1, "ä"), (2, "b"), (3, "c")]


def test_a_name_that_ends_in_gz_may_be_plain(tmp_path: Path):
    assert lines_of(tmp_path / "file.gz", b"a\n") == [(1, "a")]


def as_stdin(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_standard_input(monkeypatch: pytest.MonkeyPatch, pack):
    as_stdin(monkeypatch, pack("\ufeffä\r\nb".encode()))
    assert list(numbered_lines("-")) == [(1, "ä"), (2, "b")]
    assert not sys.stdin.closed


def test_standard_input_that_is_text(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("a\nb\n"))
    assert list(numbered_lines("-")) == [(1, "a"), (2, "b")]


def test_a_line_is_there_as_soon_as_it_is_written(monkeypatch: pytest.MonkeyPatch):
    reading, writing = os.pipe()
    with open(reading, "rb") as file, open(writing, "wb", buffering=0) as out:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(file))
        out.write(b"first\n")
        rescue = threading.Timer(20.0, out.close)  # so that a reader that waits for more fails rather than hangs
        rescue.start()
        lines = numbered_lines("-")
        assert next(lines) == (1, "first")
        assert not out.closed
        out.write(b"second\n")
        assert next(lines) == (2, "second")
        assert not out.closed
        rescue.cancel()


def test_invalid_utf8_names_the_line_and_the_byte(tmp_path: Path):
    path = tmp_path / "file.tsv"
    with pytest.raises(DataError) as caught:
        lines_of(path, b"a\nD\xc9J\xc0\nb\n")
    assert str(caught.value) == (
        f"{path}:2: not valid UTF-8: byte 0xc9 at place 2 of the line (invalid continuation byte); "
        "convert the file, such as with iconv -f LATIN1 -t UTF-8"
    )


def test_the_lines_after_a_bad_one_are_read(tmp_path: Path):
    path = tmp_path / "file.tsv"
    path.write_bytes(b"a\n\xff\nb\n\xfe")
    found = list(lines_or_problems(str(path)))
    assert [(number, isinstance(line, Problem)) for number, line in found] == [
        (1, False),
        (2, True),
        (3, False),
        (4, True),
    ]


def test_utf16_is_said_once(tmp_path: Path):
    path = tmp_path / "file.tsv"
    path.write_bytes("a\tb\nc\td\n".encode("utf-16"))
    found = list(lines_or_problems(str(path)))
    assert [str(line) for _, line in found] == [
        f"{path}:1: this is UTF-16, not UTF-8; convert it, such as with iconv -t UTF-8"
    ]


@pytest.mark.parametrize(
    "damage", [lambda packed: packed[:-20], lambda packed: packed[:60] + b"\0" * 40 + packed[100:]]
)
def test_a_damaged_packed_file(tmp_path: Path, damage):
    content = "".join(f"line {number} {hash(str(number))}\n" for number in range(1000))
    path = tmp_path / "file.gz"
    path.write_bytes(damage(gzip.compress(content.encode())))
    with pytest.raises(DataError, match=r"file\.gz:\d+: the packed file is damaged or cut off \(.*\); get it again"):
        list(numbered_lines(str(path)))


def test_a_file_that_is_not_there(tmp_path: Path):
    with pytest.raises(DataError, match=r"nothing\.tsv: no such file"):
        list(numbered_lines(str(tmp_path / "nothing.tsv")))
    with pytest.raises(DataError, match="this is a directory; expected a file"):
        list(numbered_lines(str(tmp_path)))


def test_problems_say_where(tmp_path: Path):
    assert str(Problem("a.tsv", 3, "bad")) == "a.tsv:3: bad"
    assert str(Problem("a.tsv", 0, "bad")) == "a.tsv: bad"
    assert str(Problem("-", 3, "bad")) == "<stdin>:3: bad"


def test_the_watch_sees_lines_as_they_are_written(tmp_path: Path):
    path = tmp_path / "file"
    path.write_bytes("a\ne\u0301\n".encode())
    seen = []
    assert list(lines_or_problems(str(path), lambda *line: seen.append(line))) == [(1, "a"), (2, "\u00e9")]
    assert seen == [(str(path), 1, "a"), (str(path), 2, "e\u0301")]
