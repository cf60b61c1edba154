"""A process from the fork server does what the same process does as a new one."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from commands import Outcome, write
from fork_server import REAL_PATH, ForkServer, is_usable

pytestmark = pytest.mark.skipif(not is_usable(), reason="commands are new processes here")

PAIRS = ("holen\tgeholt", "spielen", "zocken\tgezockt")


def shell(script: str, path: str, place: Path, **changes: str) -> Outcome:
    done = subprocess.run(
        ["bash", "-c", script],
        env=os.environ | {"PATH": path, "COLUMNS": "100"} | changes,
        cwd=place,
        input=b"h\xc3\xb6ren\tgeh\xc3\xb6rt\n",
        capture_output=True,
        timeout=120,
        check=False,
    )
    return Outcome(done.returncode, done.stdout.decode(), done.stderr.decode())


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ("ssnt --version", 0),
        ("ssnt score --help", 0),
        ("ssnt score one 'two words' --thre\xf6", 2),  # arguments, and what is wrong with them
        # a file here, and the environment; it is the only one for which a new process imports PyTorch
        pytest.param("ssnt train --train pairs.tsv --dev pairs.tsv --out $WHERE", 2, marks=pytest.mark.slow),
        ("ssnt data check pairs.tsv", 1),  # both outputs
        ("ssnt data check /dev/stdin", 1),
        ("tr a-z A-Z < pairs.tsv | ssnt data check /dev/stdin 2>&1 | sort", 0),
        ("ssnt data stats pairs.tsv --json > /dev/full; echo $? > out; cat out", 0),
        ("ssnt data check many.tsv | head -n 1; echo ${PIPESTATUS[0]}", 0),  # the reader has gone
    ],
)
def test_it_is_as_a_new_process(script: str, code: int, quick_path: str, tmp_path: Path) -> None:
    write(tmp_path / "pairs.tsv", *PAIRS)
    write(tmp_path / "many.tsv", *["no columns"] * 20_000)
    quick, real = (shell(script, path, tmp_path, WHERE="pairs.tsv") for path in (quick_path, REAL_PATH))
    assert quick == real
    assert quick.code == code


@contextmanager
def waiting(path: str, place: Path) -> Iterator[subprocess.Popen[str]]:
    """A command that waits for its input."""
    os.mkfifo(place / "input")
    job = subprocess.Popen(
        [shutil.which("ssnt", path=path), "data", "check", "input"],
        cwd=place,
        stderr=subprocess.PIPE,
        text=True,
    )
    with job, open(place / "input", "w", encoding="utf-8"):  # opened when the command reads it
        yield job


@pytest.mark.parametrize(
    ("number", "code", "told"), [(signal.SIGINT, 130, "ssnt: stopped\n"), (signal.SIGTERM, -signal.SIGTERM, "")]
)
def test_signals_are_passed_on(number: int, code: int, told: str, quick_path: str, tmp_path: Path) -> None:
    with waiting(quick_path, tmp_path) as job:
        job.send_signal(number)
        assert job.communicate(timeout=60)[1] == told
        assert job.returncode == code


def test_commands_run_side_by_side(quick_path: str, tmp_path: Path) -> None:
    with waiting(quick_path, tmp_path) as job:
        assert shell("ssnt --version", quick_path, tmp_path).code == 0
        assert job.poll() is None
        job.send_signal(signal.SIGINT)
        job.communicate(timeout=60)


HAS_TORCH = "import sys; print('torch' in sys.modules, *sys.argv[1:])"


@pytest.mark.parametrize(
    ("options", "changes", "told"),
    [
        (["-c", HAS_TORCH, "a b", "c"], {}, "True a b c\n"),
        (["-P", "-c", HAS_TORCH], {}, "True\n"),
        (["-c", HAS_TORCH], {"PYTHONHASHSEED": "5"}, "False\n"),  # a fork would have another one
        (["-B", "-c", HAS_TORCH], {}, "False\n"),  # an option that it does not know
        (["-c", "import sys; sys.exit('why')"], {}, ""),
        (["-c", "1 / 0"], {}, ""),
        (["-m", "ssnt", "--version"], {}, None),
        (["-V"], {}, None),
    ],
)
def test_python_is_a_fork_where_that_is_as_good(
    options: list[str], changes: dict[str, str], told: str | None, fork_server: ForkServer, tmp_path: Path
) -> None:
    quick, real = (
        subprocess.run([python, *options], env=os.environ | changes, cwd=tmp_path, capture_output=True, check=False)
        for python in (fork_server.python, sys.executable)
    )
    assert quick.returncode == real.returncode
    assert quick.stderr.splitlines()[-1:] == real.stderr.splitlines()[-1:]
    assert quick.stdout == (real.stdout if told is None else told.encode())


def test_a_fork_imports_our_code_anew(fork_server: ForkServer) -> None:
    script = "import sys; print(*(name for name in sys.modules if name.startswith('ssnt')))"
    assert subprocess.check_output([fork_server.python, "-c", script]) == b"\n"


def test_a_fork_ends_with_its_client(fork_server: ForkServer) -> None:
    script = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"
    with subprocess.Popen([fork_server.python, "-c", script], stdout=subprocess.PIPE) as job:
        fork = int(job.stdout.readline())
        job.kill()
    deadline = time.monotonic() + 60
    while Path(f"/proc/{fork}").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
