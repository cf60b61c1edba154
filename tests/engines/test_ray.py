"""The engine on Ray where a cluster is not as it should be; most of it with something that stands for Ray."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from typing import Any

import pytest

from ssnt.engines import make_engine
from ssnt.engines import ray as engine
from ssnt.engines.base import Job
from ssnt.engines.crew import CannotStartError, WorkerDiedError
from ssnt.engines.ray import RayWorker
from ssnt.errors import ConfigError
from ssnt.interrupts import Stop

from conftest import require

ray = require("ray", "the engine on Ray")

JOB = Job("a", "nothing:nothing", {})


class Method:
    """A method of an actor."""

    def __init__(self, actor: Actor, name: str) -> None:
        self._actor, self._name = actor, name

    def remote(self, *_: object) -> str:
        self._actor.asked.append(self._name)
        return self._name


class Actor:
    """What an actor is asked to do."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.is_killed = False

    def __getattr__(self, name: str) -> Method:
        return Method(self, name)


class Cluster:
    """What stands for Ray; things may happen in the middle of a call."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.actors: list[Actor] = []
        self.waits = 0  # so often an actor has to be waited for
        self.during_get: Any = lambda: None
        monkeypatch.setattr(engine, "_new_actor", self.make)
        for name in ("wait", "get", "kill"):
            monkeypatch.setattr(ray, name, getattr(self, name))

    def make(self) -> Actor:
        self.actors.append(Actor())
        return self.actors[-1]

    def wait(self, found: list[str], **_: object) -> tuple[list[str], list[str]]:
        self.waits -= 1
        return ([], found) if self.waits >= 0 else (found, [])

    def get(self, _: str) -> dict[str, str]:
        self.during_get()
        return {"state": "done"}

    def kill(self, actor: Actor) -> None:
        actor.is_killed = True


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    return Cluster(monkeypatch)


def test_a_stop_while_a_job_is_begun_reaches_the_actor(cluster: Cluster):
    worker = RayWorker()
    cluster.during_get = worker.stop
    worker.begin(JOB)
    assert cluster.actors[0].asked == ["begin", "stop"]


def test_an_actor_that_is_ended_while_a_job_is_begun_has_died(cluster: Cluster):
    worker = RayWorker()
    cluster.during_get = worker.kill
    with pytest.raises(WorkerDiedError, match="was told to stop"):
        worker.begin(JOB)
    assert cluster.actors[0].is_killed
    with pytest.raises(WorkerDiedError, match="was told to stop"):
        worker.next()


def raising(error: Exception) -> Any:
    def happen() -> None:
        raise error

    return happen


def test_an_actor_that_cannot_be_reached_does_not_live_on(cluster: Cluster):
    worker = RayWorker()
    worker.begin(JOB)
    cluster.during_get = raising(ray.exceptions.ActorUnavailableError("the network is down", b"x" * 16))
    with pytest.raises(WorkerDiedError, match=r"was lost with its Ray actor .*unavailable"):
        worker.next()
    assert cluster.actors[0].is_killed
    cluster.during_get = lambda: None
    worker.begin(JOB)
    assert len(cluster.actors) == 2


@pytest.mark.parametrize("name", ["RuntimeEnvSetupError", "ActorUnschedulableError"])
def test_an_actor_that_cannot_be_is_no_traceback(cluster: Cluster, name: str):
    worker = RayWorker()
    cluster.during_get = raising(getattr(ray.exceptions, name)("no such thing"))
    with pytest.raises(CannotStartError, match=rf"Ray cannot have it done \({name}: .*\)"):
        worker.begin(JOB)


def test_an_error_without_words_has_a_name(cluster: Cluster):
    class SilentError(ray.exceptions.RayError):
        pass

    worker = RayWorker()
    cluster.during_get = raising(SilentError())
    with pytest.raises(CannotStartError, match=r"\(SilentError: SilentError\)"):
        worker.begin(JOB)


def test_a_long_wait_for_a_cpu_is_told_once(cluster: Cluster):
    cluster.waits = 200
    with pytest.warns(UserWarning, match="waiting for a free CPU of the Ray cluster for 30 seconds") as told:
        RayWorker().begin(JOB)
    assert len(told) == 1


@pytest.fixture
def unconnected(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", lambda **_: None)
    monkeypatch.setattr(ray, "shutdown", lambda: None)
    return monkeypatch


def run(address: str | None = None) -> None:
    make_engine("ray", address=address, workers=1).run(iter(()), lambda *_: None, Stop())


def test_a_cluster_without_cpus_is_told(unconnected: pytest.MonkeyPatch):
    unconnected.setattr(ray, "cluster_resources", dict)
    with pytest.raises(ConfigError, match="the Ray cluster has no CPUs"):
        run()
    with pytest.raises(ConfigError, match="the Ray cluster has no CPUs"):
        _ = make_engine("ray", address="auto").workers


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), RuntimeError(""), ConnectionError("no")])
def test_a_cluster_that_cannot_be_started_is_told(unconnected: pytest.MonkeyPatch, error: Exception):
    def fail(**_: object) -> None:
        raise error

    unconnected.setattr(ray, "init", fail)
    with pytest.raises(ConfigError, match=r"a Ray cluster could not be started on this machine \(.+\)"):
        run()
    with pytest.raises(ConfigError, match=r"the Ray cluster 'auto' cannot be reached \(.+\)"):
        run("auto")


def test_a_ray_with_other_insides_is_only_noisier(unconnected: pytest.MonkeyPatch):
    unconnected.setattr(ray, "cluster_resources", lambda: {"CPU": 1.0})
    unconnected.setitem(sys.modules, "ray._private.worker", None)
    for private in (types.ModuleType("ray._private"), types.SimpleNamespace(worker=types.SimpleNamespace())):
        unconnected.setitem(sys.modules, "ray._private", private)
        run()


@pytest.fixture
def connected(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(ray, "is_initialized", lambda: True)
    monkeypatch.setattr(ray, "cluster_resources", lambda: {"CPU": 1.0})
    found = types.SimpleNamespace(gcs_address="10.1.2.3:6379")
    monkeypatch.setattr(ray, "get_runtime_context", lambda: found)
    monkeypatch.setattr(ray.util, "get_node_ip_address", lambda: "10.1.2.3")
    monkeypatch.setattr(engine, "_check_reachable", lambda _: None)


@pytest.mark.usefixtures("connected")
@pytest.mark.parametrize("address", [None, "auto", "10.1.2.3:6379", "localhost:6379", "ray://10.1.2.3:10001"])
def test_a_connection_that_is_there_is_used(address: str | None):
    run(address)


@pytest.mark.usefixtures("connected")
@pytest.mark.parametrize("address", ["10.1.2.3:6380", "10.1.2.4:6379", "ray://10.1.2.4:10001"])
def test_a_connection_to_another_cluster_is_not_taken_for_the_one_that_is_asked_for(address: str):
    with pytest.raises(ConfigError, match=rf"connected to the Ray cluster '10.1.2.3:6379' already.* '{address}'"):
        run(address)
