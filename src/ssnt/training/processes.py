"""Several processes that train together, on one machine or on several.

On one machine they are started here: this process is the first, and the others run ``ssnt.training.processes``, so that
neither the caller's script is run again nor anything is pickled. On several machines torchrun starts all of them, with
this program on each; what it says in the environment is taken over.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from lightning.fabric.plugins.environments.cluster_environment import ClusterEnvironment

from ssnt.config import Config
from ssnt.engines.local import python_command, python_path
from ssnt.errors import ConfigError, ModelError, SsntError

T = TypeVar("T")

PATIENCE = timedelta(days=7)
"""How long processes wait for one another: a validation may take long, and one that dies is noticed at once."""

_START = timedelta(minutes=10)
_POLL = 0.05  # seconds
_ARRIVED = "arrived"
_CONNECTION = re.compile("gloo|nccl|connection", re.IGNORECASE)  # what torch's errors about other processes mention
_VARIABLES = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


@dataclass(frozen=True)
class World:
    """The processes of a run, as one of them sees them.

    Attributes:
        rank: Which this is; 0 is the one that writes files.
        size: How many there are.
        local_rank: Which this is on its machine.
        node: Which machine this is.
        address: Where the first process is.
        port: And its port.
    """

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    node: int = 0
    address: str = "127.0.0.1"
    port: int = 0

    @property
    def is_first(self) -> bool:
        """Whether this process writes files and talks to the user."""
        return self.rank == 0

    def first(self, function: Callable[[], T]) -> T:
        """Calls a function in the first process, and gives its result, or raises its error, in all of them."""
        if self.size == 1:
            return function()
        found: list[Any] = [None]
        self.in_first(lambda: found.__setitem__(0, function()))
        dist.broadcast_object_list(found, src=0)
        result: T = found[0]
        return result

    def in_first(self, function: Callable[[], T]) -> T | None:
        """Calls a function in the first process and waits for it in the others, where the result is None.

        Raises:
            OtherProcessStoppedError: In the others, if it raised in the first.
        """
        result: T | None = None
        error: BaseException | None = None
        if self.is_first:
            try:
                result = function()
            except BaseException as caught:
                error = caught
        (has_failed,) = self.any(error is not None)
        if error is not None:
            raise error
        if has_failed:
            raise OtherProcessStoppedError("the first process of this training has stopped, and says why")
        return result

    def gather(self, value: float) -> list[float]:
        """The values of all processes, in the order of their ranks."""
        if self.size == 1:
            return [value]
        found = [torch.zeros(1, dtype=torch.float64) for _ in range(self.size)]
        dist.all_gather(found, torch.tensor([value], dtype=torch.float64))
        return [one.item() for one in found]

    def any(self, *flags: bool) -> tuple[bool, ...]:
        """For each flag whether any process has set it."""
        if self.size == 1:
            return flags
        values = torch.tensor([int(flag) for flag in flags])
        dist.all_reduce(values, op=dist.ReduceOp.MAX)
        return tuple(bool(value) for value in values.tolist())


class OtherProcessStoppedError(ModelError):
    """Another process of a run has stopped, and says why by itself."""


class Ranks(ClusterEnvironment):
    """Tells Lightning what is known about the processes of a run, whatever the environment says."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    @property
    def creates_processes_externally(self) -> bool:
        """Lightning need not start any."""
        return True

    @property
    def main_address(self) -> str:
        """Where the first process is."""
        return self._world.address

    @property
    def main_port(self) -> int:
        """And its port."""
        return self._world.port

    @staticmethod
    def detect() -> bool:
        """It is never looked for, but given."""
        return False

    def world_size(self) -> int:
        """How many processes there are."""
        return self._world.size

    def set_world_size(self, size: int) -> None:
        """Is known already."""

    def global_rank(self) -> int:
        """Which this is."""
        return self._world.rank

    def set_global_rank(self, rank: int) -> None:
        """Is known already."""

    def local_rank(self) -> int:
        """Which this is on its machine."""
        return self._world.local_rank

    def node_rank(self) -> int:
        """Which machine this is."""
        return self._world.node


@contextmanager
def joined_world(config: Config, *, resume: bool, overwrite: bool) -> Iterator[World]:
    """Gives the processes of a run; those that nobody has started yet are started, and end with the block.

    Raises:
        ConfigError: The settings ask for other processes than there are.
    """
    size = config.hardware.devices * config.hardware.nodes
    if size == 1:
        yield World()
        return
    given = _given_world(config, size)
    others: list[subprocess.Popen[bytes]] = []
    try:
        if given is not None:
            world = given
            # torchrun has a store of its own, which torch finds through the environment
            _join(world, config, None if "TORCHELASTIC_RUN_ID" in os.environ else _store(world))
        else:
            store = _store(World(size=size))
            world = World(size=size, port=store.port)
            others = [_start(config, world, rank, resume, overwrite) for rank in range(1, size)]
            _wait_for(others, store)
            _join(world, config, store)
        yield world
    except RuntimeError as error:
        if isinstance(error, SsntError) or not _CONNECTION.search(str(error)):
            raise
        raise _other_process_stopped(given) from error
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()
        _end(others)


def is_first_process(config: Config) -> bool:
    """Whether this process, as far as the environment says, is the one that talks to the user."""
    return config.hardware.devices * config.hardware.nodes == 1 or os.environ.get("RANK", "0") == "0"


def _given_world(config: Config, size: int) -> World | None:
    """What torchrun, or whoever else has started this process, says in the environment."""
    if not all(name in os.environ for name in _VARIABLES):
        if config.hardware.nodes > 1:
            raise ConfigError(
                f"setting 'hardware.nodes': {config.hardware.nodes} machines cannot be started from one; run on each: "
                f"torchrun --nnodes {config.hardware.nodes} --nproc-per-node {config.hardware.devices} "
                "--rdzv-backend c10d --rdzv-endpoint FIRST_MACHINE:29500 -m ssnt train ..."
            )
        return None
    rank, local_rank, found, port = (
        int(os.environ[name]) for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_PORT")
    )
    if found != size:
        raise ConfigError(
            f"settings 'hardware.devices' and 'hardware.nodes': expected {found} processes in all, as many as were "
            f"started (WORLD_SIZE), got {config.hardware.devices} x {config.hardware.nodes}"
        )
    return World(rank, size, local_rank, rank // config.hardware.devices, os.environ["MASTER_ADDR"], port)


def _store(world: World) -> Any:
    """Where the processes of a run find one another; made by the first, at a port that is free, found by the others."""
    make: Any = dist.TCPStore  # type: ignore[attr-defined]
    store = make(world.address, world.port, is_master=world.is_first, wait_for_workers=False, timeout=_START)
    store.add(_ARRIVED, 1)
    return store


def _wait_for(others: list[subprocess.Popen[bytes]], store: Any) -> None:
    """Waits until all others have arrived; one that ends instead must not be waited for.

    Raises:
        ModelError: One has ended.
    """
    while store.add(_ARRIVED, 0) <= len(others):
        if any(one.poll() is not None for one in others):
            raise _other_process_stopped(None)
        time.sleep(_POLL)


def _join(world: World, config: Config, store: Any) -> None:
    backend = "cpu:gloo,cuda:nccl" if uses_gpu(config) else "gloo"
    dist.init_process_group(backend, store=store, rank=world.rank, world_size=world.size, timeout=PATIENCE)


def _other_process_stopped(given: World | None) -> ModelError:
    if given is None:
        return ModelError(
            "another process of this training has stopped (what it said is above); the last checkpoint is kept"
        )
    return OtherProcessStoppedError("another process of this training has stopped, and says why")


def uses_gpu(config: Config) -> bool:
    """Whether a run uses GPUs."""
    return config.hardware.accelerator != "cpu" and torch.cuda.is_available()


def _start(config: Config, world: World, rank: int, resume: bool, overwrite: bool) -> subprocess.Popen[bytes]:
    """Starts one of the other processes; it reads what to do from its standard input."""
    environment = {
        **os.environ,
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(world.size),
        "MASTER_ADDR": world.address,
        "MASTER_PORT": str(world.port),
        "PYTHONPATH": python_path(),
    }
    process = subprocess.Popen(
        python_command("ssnt.training.processes"),
        stdin=subprocess.PIPE,
        stdout=sys.stderr.fileno() if _has_descriptor(sys.stderr) else None,
        env=environment,
        start_new_session=True,  # Ctrl-C is for the first process, which tells the others
    )
    if process.stdin is not None:
        order = {"config": config.model_dump(), "resume": resume, "overwrite": overwrite}
        process.stdin.write(json.dumps(order).encode())
        process.stdin.close()
    return process


def _has_descriptor(stream: Any) -> bool:
    try:
        stream.fileno()
    except (AttributeError, OSError, ValueError):
        return False
    return True


def _end(others: list[subprocess.Popen[bytes]]) -> None:
    for one in others:
        try:
            one.wait(timeout=30)
        except subprocess.TimeoutExpired:
            one.kill()
            one.wait()


def main() -> None:
    """Trains as one of several processes, as standard input says."""
    from ssnt.interrupts import TrainingInterrupted
    from ssnt.training.fit import train

    order = json.load(sys.stdin)
    try:
        train(
            Config.model_validate(order["config"]),
            resume=order["resume"],
            overwrite=order["overwrite"],
            display=False,
        )
    except (OtherProcessStoppedError, TrainingInterrupted):
        sys.exit(1)  # the first process has told the user
    except SsntError as error:
        print(f"ssnt: error: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
