"""Jobs on a Ray cluster: the processes of :mod:`ssnt.engines.local`, wherever there is a core for them.

A Ray actor of one CPU is a :class:`~ssnt.engines.local.LocalWorker`, and so has a process of its own for the jobs. They
run as they do on one machine, in a main thread that signals can reach, and give the same files. Relative paths mean the
same for them too, so that machines must share the file system that these are on.
"""

from __future__ import annotations

import importlib.util
import os
import signal
import socket
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from ssnt.engines.base import Job, Report, Tell
from ssnt.engines.crew import CannotStartError, Crew, WorkerDiedError
from ssnt.engines.local import LocalWorker, cores, python_path
from ssnt.errors import ConfigError
from ssnt.interrupts import Stop

_POLL = 0.5  # seconds between looks at whether an actor that does not come is still waited for
_PATIENCE = 10.0  # seconds to reach a cluster, and for an actor to end its process
_TALKS = 4  # calls to an actor at a time: one waits for a report, and others stop the job

_CLIENT = "ray://"
_LONG = 30.0  # seconds after which it is told that an actor waits
_WAITING = (
    "a worker has been waiting for a free CPU of the Ray cluster for 30 seconds; others use it, or there are more "
    "workers (--workers, hardware.workers) than CPUs"
)

_STORE = 128 * 2**20  # bytes for what jobs and reports pass through, which are small


class RayEngine:
    """Does jobs on a Ray cluster, in processes of one thread each.

    Args:
        address: The head of the cluster, as ``host:port``, or ``auto`` for the one that this machine belongs to; None:
            a cluster is started on this machine, and ended after the jobs.
        workers: How many jobs at a time; None: as many as the cluster has CPUs when it begins.

    Raises:
        ConfigError: Ray is not installed.
    """

    def __init__(self, address: str | None = None, workers: int | None = None) -> None:
        if importlib.util.find_spec("ray") is None:
            raise ConfigError("the engine 'ray' needs Ray, which is not installed; run pip install 'ssnt[ray]'")
        self._address = address
        self._asked = workers

    @property
    def workers(self) -> int:
        """How many jobs it does at a time."""
        if self._asked is not None:
            return self._asked
        if self._address is None:
            return cores()
        with self.connected() as ray:
            return _cpus(ray)

    def check(self) -> None:
        """Looks whether the cluster can be reached; one that is to be started on this machine is not looked for.

        Raises:
            ConfigError: It cannot, or has no CPUs.
        """
        if self._address is not None:
            with self.connected() as ray:
                _cpus(ray)

    def run(self, jobs: Iterator[Job | None], tell: Tell, stop: Stop) -> None:
        """Does all jobs; see :meth:`ssnt.engines.base.Engine.run`.

        Raises:
            ConfigError: The cluster cannot be reached, or has no CPUs.
        """
        with self.connected() as ray:
            cpus = _cpus(ray)
            count = self._asked or (cores() if self._address is None else cpus)
            Crew([RayWorker() for _ in range(count)], jobs, tell, stop).run()

    @contextmanager
    def connected(self) -> Iterator[Any]:
        """Ray with a connection to the cluster, which is closed afterwards unless it was there before.

        Raises:
            ConfigError: The cluster cannot be reached, or there is a connection to another one.
        """
        import ray

        if ray.is_initialized():
            _check_same(ray, self._address)
            yield ray
            return
        with _same_signals():
            _connect(ray, self._address, self.workers if self._address is None else None)
        try:
            with _quiet():
                yield ray
        finally:
            ray.shutdown()


class RayWorker:
    """An actor that does jobs, as the process sees it that gives them. One that has died is replaced."""

    def __init__(self) -> None:
        self._guard = threading.RLock()  # of what is below
        self._is_stopping = False
        self._actor: Any = None
        self._is_alive = False  # before that, an actor waits for a core, maybe for long, and cannot answer

    def begin(self, job: Job) -> None:
        """Gives the actor a job, when there is a core for it in the cluster.

        Raises:
            WorkerDiedError: It has died just now, or was told to stop.
            CannotStartError: It cannot have a process.
        """
        import ray

        with self._guard:
            if self._is_stopping:
                raise WorkerDiedError("was told to stop")
            self._actor = self._actor or _new_actor()
            with _deaths(self):
                begun = self._actor.begin.remote(job)
        waited = 0.0
        while not ray.wait([begun], timeout=_POLL)[0]:
            if self._is_stopping:
                raise WorkerDiedError("was told to stop")
            waited += _POLL
            if waited == _LONG:
                warnings.warn(_WAITING, stacklevel=1)
        with _deaths(self):
            ray.get(begun)
        with self._guard:
            if self._actor is None:
                raise WorkerDiedError("was told to stop")
            self._is_alive = True
            if self._is_stopping:  # whoever wanted that could not tell the actor
                self._ask_to("stop")

    def next(self) -> Report:
        """Waits for the next report of the job; the last one has a ``state``.

        Raises:
            WorkerDiedError: The actor, or its process, has died before.
        """
        import ray

        actor = self._actor
        if actor is None:
            raise WorkerDiedError("was told to stop")
        with _deaths(self):
            report: Report = ray.get(actor.next.remote())
        return report

    def cancel(self) -> None:
        """Asks for the end of the job."""
        with self._guard:
            self._ask_to("cancel")

    def stop(self) -> None:
        """Asks the actor to save and stop its job, and to take no other."""
        with self._guard:
            self._is_stopping = True
            self._ask_to("stop")

    def kill(self) -> None:
        """Ends the actor and its process at once."""
        with self._guard:
            self._is_stopping = True
            self._end("kill")

    def close(self) -> None:
        """Ends the actor, after its process."""
        with self._guard:
            self._is_stopping = True
            self._end("close")

    def forget(self) -> None:
        """Has the next job done by a new actor; this one is ended, should it still live where it cannot be reached."""
        import ray

        with self._guard:
            actor, self._actor, self._is_alive = self._actor, None, False
        if actor is not None:
            with suppress(Exception):
                ray.kill(actor)

    def _ask_to(self, do: str) -> Any:
        """Calls a method of the actor, if it lives."""
        if self._is_alive:
            with suppress(WorkerDiedError), _deaths(self):
                return getattr(self._actor, do).remote()
        return None

    def _end(self, how: str) -> None:
        import ray

        answer = self._ask_to(how)
        if answer is not None:  # a process that outlives its actor ends too, but only after it has saved
            ray.wait([answer], timeout=_PATIENCE)
        self.forget()


@contextmanager
def _deaths(worker: RayWorker) -> Iterator[None]:
    """Tells of a dead actor as of any dead worker.

    Raises:
        WorkerDiedError: It has died, or its process has.
        CannotStartError: It cannot have a process, or there cannot be such an actor.
    """
    from ray.exceptions import RayActorError, RayError, RayTaskError

    try:
        yield
    except RayTaskError as error:
        if isinstance(error.cause, WorkerDiedError | CannotStartError):
            raise error.cause from None  # without the account of Ray
        raise
    except RayActorError as error:
        worker.forget()
        raise WorkerDiedError(f"was lost with its Ray actor ({_first_line(error)})") from None
    except RayError as error:
        worker.forget()
        raise CannotStartError(f"Ray cannot have it done ({type(error).__name__}: {_first_line(error)})") from None


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _new_actor() -> Any:
    """An actor, which is begun when the cluster has a CPU for it."""
    import ray

    variables = {name: value for name, value in os.environ.items() if name.startswith("SSNT_")}
    make = ray.remote(LocalWorker).options(
        num_cpus=1,
        max_concurrency=_TALKS,
        runtime_env={"env_vars": {**variables, "PYTHONPATH": python_path(), "OMP_NUM_THREADS": "1"}},
    )
    return make.remote(os.getcwd())


def _connect(ray: Any, address: str | None, workers: int | None) -> None:
    """Starts a cluster on this machine, or joins one.

    Raises:
        ConfigError: It cannot be started, or not be reached.
    """
    from ray.exceptions import RayError

    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR", "configure_logging": True}
    if address is not None:
        _check_reachable(address)
    try:
        if address is None:
            ray.init(address="local", num_cpus=workers, include_dashboard=False, object_store_memory=_STORE, **quiet)
        else:
            ray.init(address=address, **quiet)
    except (OSError, RuntimeError, ValueError, RayError) as error:
        why = _first_line(error)
        if address is None:
            raise ConfigError(
                f"a Ray cluster could not be started on this machine ({why}); use --engine local"
            ) from error
        guarded = "; one that is guarded by a token needs RAY_AUTH_MODE=token in the environment, and the token"
        raise ConfigError(_unreachable(address, why) + guarded) from error


def _cpus(ray: Any) -> int:
    """How many CPUs the cluster has.

    Raises:
        ConfigError: None, so that jobs would wait for ever.
    """
    cpus = int(ray.cluster_resources().get("CPU", 0))
    if not cpus:
        raise ConfigError("the Ray cluster has no CPUs for jobs; add a machine to it, or start it with --num-cpus")
    return cpus


def _check_same(ray: Any, address: str | None) -> None:
    """Looks whether the connection that is there already is the one that is asked for.

    Raises:
        ConfigError: It is another one, or there is nothing at the address.
    """
    if address is None or ":" not in address:
        return  # whichever there is
    _check_reachable(address)
    here = ray.get_runtime_context().gcs_address
    asked, found = _resolved(ray, address), _resolved(ray, here)
    if asked == found or (address.startswith(_CLIENT) and asked[0] == found[0]):  # clients have another port
        return
    raise ConfigError(
        f"this process is connected to the Ray cluster {here!r} already, and cannot use {address!r} too; leave "
        "--address (hardware.address) out, or call ray.shutdown() first"
    )


def _check_reachable(address: str) -> None:
    """Looks whether there is anything at an address, which Ray itself tries for minutes.

    Raises:
        ConfigError: There is nothing.
    """
    host, port = _host_and_port(address)
    if not host:
        return  # such as auto
    try:
        socket.create_connection((host, int(port)), timeout=_PATIENCE).close()
    except (OSError, ValueError) as error:
        raise ConfigError(_unreachable(address, str(error))) from None


def _host_and_port(address: str) -> tuple[str, str]:
    host, _, port = address.removeprefix(_CLIENT).rpartition(":")
    return host.strip("[]"), port


def _resolved(ray: Any, address: str) -> tuple[str, str]:
    """An address with the number of its machine, as Ray knows it."""
    host, port = _host_and_port(address)
    with suppress(OSError):
        host = socket.gethostbyname(host)
    return (ray.util.get_node_ip_address() if host.startswith("127.") else host), port


def _unreachable(address: str, why: str) -> str:
    return (
        f"the Ray cluster {address!r} cannot be reached ({why}); give --address (hardware.address) as HOST:PORT, which "
        "'ray start --head' prints, or leave it out to start a cluster on this machine"
    )


@contextmanager
def _quiet() -> Iterator[None]:
    """In this block Ray does not print what it thinks of dead workers, which it would on standard output."""
    try:
        from ray._private import worker

        before = worker._worker_logs_enabled
    except (ImportError, AttributeError):  # another version of Ray, which then prints
        yield
        return
    worker._worker_logs_enabled = False
    try:
        yield
    finally:
        worker._worker_logs_enabled = before


@contextmanager
def _same_signals() -> Iterator[None]:
    """Signals stay with whoever handles them; Ray would take SIGTERM."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
