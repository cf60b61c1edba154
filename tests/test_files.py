"""A file is whole or is what it was before."""

import errno
import hashlib
import os
import stat
from pathlib import Path

import pytest

from ssnt.errors import SsntError, StorageError
from ssnt.files import atomic_path, sha256_of, write_json, write_text


def test_text_is_written_as_it_is(tmp_path: Path):
    path = tmp_path / "new" / "a.txt"
    write_text(path, "ä\n\u2028b\r\n")
    assert path.read_bytes() == "ä\n\u2028b\r\n".encode()
    assert [one.name for one in path.parent.iterdir()] == ["a.txt"]


def test_json_keeps_letters_readable(tmp_path: Path):
    write_json(tmp_path / "a.json", {"ä": [1, None]})
    assert '"ä"' in (tmp_path / "a.json").read_text(encoding="utf-8")


def test_hash_is_sha256(tmp_path: Path):
    content = os.urandom(3_000_001)
    (tmp_path / "a").write_bytes(content)
    assert sha256_of(tmp_path / "a") == hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize("kind", [RuntimeError, KeyboardInterrupt])
def test_an_error_while_writing_leaves_the_old_file(tmp_path: Path, kind: type[BaseException]):
    path = tmp_path / "a.txt"
    write_text(path, "old")

    def break_off() -> None:
        with atomic_path(path) as partial:
            partial.write_text("half")
            raise kind

    with pytest.raises(kind):
        break_off()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_full_disk_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str):
    path = tmp_path / "a.txt"
    write_text(path, "old")

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(
        StorageError, match=r"a\.txt: could not be written \(No space left on device\).*unchanged; free"
    ):
        write_text(path, "new")
    monkeypatch.undo()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_in_the_place_of_a_directory_is_named(tmp_path: Path):
    (tmp_path / "a").write_text("")
    with pytest.raises(StorageError, match=r"b\.txt: could not be written") as caught:
        write_text(tmp_path / "a" / "b.txt", "")
    assert isinstance(caught.value, SsntError)
    assert isinstance(caught.value, OSError)


def test_permissions_are_those_of_new_files_or_of_the_old_one(tmp_path: Path):
    path = tmp_path / "a.txt"
    old = os.umask(0o027)
    try:
        write_text(path, "a")
        assert stat.S_IMODE(path.stat().st_mode) == 0o640
    finally:
        os.umask(old)
    path.chmod(0o604)
    write_text(path, "b")
    assert stat.S_IMODE(path.stat().st_mode) == 0o604


def test_a_link_is_followed(tmp_path: Path):
    real = tmp_path / "real.txt"
    write_text(real, "old")
    (tmp_path / "link.txt").symlink_to(real)
    write_text(tmp_path / "link.txt", "new")
    assert real.read_text() == "new"
    assert (tmp_path / "link.txt").is_symlink()


def test_a_device_is_written_to_and_not_replaced(tmp_path: Path):
    write_text("/dev/null", "x")
    assert not stat.S_ISREG(Path("/dev/null").stat().st_mode)
