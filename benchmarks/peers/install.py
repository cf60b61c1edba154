"""Installs the peers that the benchmarks compare with, by package name, each into an environment of its own.

``python benchmarks/peers/install.py [NAME ...]`` makes ``envs/NAME`` beside this file, with the same torch as ours; one
that is there already stays as it is. Needs a compiler and cmake for fast_rnnt, which comes as source.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).resolve().parent
ENVIRONMENTS = HERE / "envs"
CONSTRAINTS = HERE.parents[1] / "constraints.txt"
TORCH = "torch"  # constraints.txt says which
YOYODYNE = "yoyodyne==0.5.27"
FAST_RNNT = "fast_rnnt==1.3"
PYBIND11 = "pybind11==3.0.4"  # the version that torch's own headers are of


class InstallError(Exception):
    """A command has failed; the message says which, and what it wrote last."""


def run(*command: str | Path, environment: dict[str, str] | None = None) -> None:
    """Runs a command, and shows what it wrote only if it fails."""
    done = subprocess.run(
        [str(part) for part in command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        env={**os.environ, **(environment or {})},
    )
    if done.returncode:
        last = "\n".join(done.stdout.splitlines()[-30:])
        raise InstallError(f"{' '.join(map(str, command))}\nended with code {done.returncode}:\n{last}")


class Environment:
    """A virtual environment that is being made."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.python = folder / "bin" / "python"
        run(sys.executable, "-m", "venv", "--clear", folder)
        self.pip("install", "-c", CONSTRAINTS, TORCH)

    def pip(self, *arguments: str | Path, environment: dict[str, str] | None = None) -> None:
        run(self.python, "-m", "pip", "--disable-pip-version-check", *arguments, environment=environment)

    def check(self, code: str) -> None:
        run(self.python, "-c", code)


def yoyodyne(env: Environment) -> None:
    env.pip("install", "-c", CONSTRAINTS, YOYODYNE)
    # they have no CPU build that fits this torch, and break the import of what looks for them
    env.pip("uninstall", "-y", "torchvision", "torchaudio")
    env.check("from yoyodyne.models import HardAttentionLSTMModel, SoftAttentionLSTMModel")


def fast_rnnt(env: Environment) -> None:
    missing = [tool for tool in ("cmake", "make", "g++") if shutil.which(tool) is None]
    if missing:
        raise InstallError(f"{FAST_RNNT} is built from source, which needs {', '.join(missing)}; install them first")
    env.pip("install", "-c", CONSTRAINTS, "setuptools", "wheel", "numpy")
    with tempfile.TemporaryDirectory() as place:
        # its build would fetch pybind11 by itself, from elsewhere and too old for this torch
        env.pip("download", "--no-deps", "--no-binary", "pybind11", "-d", place, PYBIND11)
        with tarfile.open(next(Path(place).glob("pybind11-*.tar.gz"))) as archive:
            archive.extractall(place, filter="data")
        source = next(one for one in Path(place).glob("pybind11-*") if one.is_dir())
        settings = {
            "CMAKE_BUILD_TYPE": "Release",
            "FT_BUILD_TESTS": "OFF",
            "FT_WITH_CUDA": "OFF",
            "CMAKE_CXX_STANDARD": "20",
            "CMAKE_CXX_FLAGS": f"-I{sysconfig.get_paths()['include']}",
            "CMAKE_POLICY_VERSION_MINIMUM": "3.5",
            "FETCHCONTENT_SOURCE_DIR_PYBIND11": str(source),
        }
        flags = {"FT_CMAKE_ARGS": " ".join(f"-D{name}={value}" for name, value in settings.items())}
        env.pip("install", "--no-build-isolation", FAST_RNNT, environment={**flags, "FT_MAKE_ARGS": "-j2"})
    env.check("import torch, fast_rnnt; fast_rnnt.rnnt_loss_simple")


PEERS: dict[str, Callable[[Environment], None]] = {"yoyodyne": yoyodyne, "fast_rnnt": fast_rnnt}


def install(name: str) -> None:
    """Makes an environment unless it is there; one half made is made anew."""
    folder = ENVIRONMENTS / name
    stamp = folder / ".installed"
    if stamp.exists():
        print(f"{name}: is there")
        return
    print(f"{name}: installing (a few minutes)", flush=True)
    PEERS[name](Environment(folder))
    stamp.touch()
    print(f"{name}: installed")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which ({', '.join(PEERS)}); default: all")
    names = parser.parse_args().names or list(PEERS)
    if unknown := [name for name in names if name not in PEERS]:
        parser.error(f"unknown peer {unknown[0]!r}: expected one of {', '.join(PEERS)}")
    failed = False
    for name in names:
        try:
            install(name)
        except InstallError as error:
            failed = True
            print(f"{name}: could not be installed; benchmarks that need it are skipped.\n{error}", file=sys.stderr)
    raise SystemExit(int(failed))


if __name__ == "__main__":
    main()
