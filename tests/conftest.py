"""Set-up that every test shares. It comes before any import of triton: keep it that way."""

import importlib
import os
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from types import ModuleType

# Triton reads this when it is first imported. With it, kernels run in Triton's interpreter, so that the
# GPU backend is tested on machines without a GPU.
os.environ["TRITON_INTERPRET"] = "1"

import hypothesis
import pytest
import torch

from fork_server import REAL_PATH, ForkServer, is_usable
from ssnt.denormals import without_denormals

pytest.register_assert_rewrite("oracles")

# Tensors this small only lose by sharing, above all when the tests themselves run in parallel. A test that is about
# threads sets their number for itself, and back.
torch.set_num_threads(1)

IN_CI = bool(os.environ.get("CI"))

# No deadline: the first call of a kernel compiles it. In CI the examples are the same on every run, so that
# a red run is about the change. Elsewhere new ones are tried each time; a failure prints how to repeat it.
hypothesis.settings.register_profile("local", deadline=None, print_blob=True)
hypothesis.settings.register_profile("ci", deadline=None, print_blob=True, derandomize=True)
hypothesis.settings.load_profile("ci" if IN_CI else "local")


@pytest.fixture(autouse=True, scope="session")
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Keeps prepared data out of the user's cache; subprocesses inherit it."""
    os.environ["SSNT_CACHE"] = str(tmp_path_factory.mktemp("cache"))


@pytest.fixture(params=["kept", "zero"])
def denormals(request: pytest.FixtureRequest) -> Iterator[None]:
    """What is said of underflow holds with numbers below the normal range, and where they are taken for zero."""
    with without_denormals() if request.param == "zero" else nullcontext():
        yield


def require(module: str, why: str) -> ModuleType:
    """Imports an optional module, or skips what needs it; under CI its absence is a failure.

    Works in a test and at the top of a test file. A module that is there but broken raises as usual.

    Args:
        module: Full name of the module.
        why: What needs it, for the message.

    Returns:
        The imported module.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if module != missing and not module.startswith(f"{missing}."):
            raise
    message = f"{module} is not installed: {why}"
    if IN_CI:
        pytest.fail(message, pytrace=False)
    pytest.skip(message, allow_module_level=True)


@pytest.fixture(scope="session")
def fork_server() -> Iterator[ForkServer]:
    """Where processes come from that need not import everything: see fork_server.py."""
    server = ForkServer()
    yield server
    server.close()


@pytest.fixture(scope="session")
def quick_path(request: pytest.FixtureRequest) -> str:
    """A ``PATH`` on which ``ssnt`` is there at once."""
    if not is_usable():
        return REAL_PATH
    return f"{request.getfixturevalue('fork_server').bin}{os.pathsep}{REAL_PATH}"


@pytest.fixture
def quick_processes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """In this test, Python processes are there at once; not for tests of what a new process imports or inherits."""
    if is_usable():
        monkeypatch.setattr(sys, "executable", request.getfixturevalue("fork_server").python)


QUICK_PROCESSES = {
    "test_a_stopped_training_goes_on_and_finished_models_are_not_trained_again",
    "test_a_sweep_that_was_stopped_and_one_that_was_killed_go_on",
    "test_all_files_are_the_same_wherever_and_in_how_many_processes_trials_are_trained",
    "test_an_error_in_the_first_process_ends_the_others",
    "test_ctrl_c_saves_and_says_how_to_go_on",
    "test_models_are_trained_side_by_side_without_those_that_cannot_be",
    "test_one_failure_hurts_none_but_itself",
    "test_ray_gives_the_same_files_and_loses_nothing_when_a_worker_is_killed",
    "test_the_old_models_stay_until_there_are_new_ones",
    "test_the_service_is_measured",
    "test_two_processes_stop_together_and_go_on",
    "test_two_processes_train_like_one_with_twice_the_batch",
}
"""Tests that start many processes, each of which would import everything."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if getattr(item, "originalname", None) in QUICK_PROCESSES:
            item.fixturenames.append("quick_processes")  # markers are too late for it here
    if hasattr(config, "workerinput"):  # one of several processes
        # what takes long is begun first, so that all end together
        items.sort(key=lambda item: (not item.get_closest_marker("xdist_group"), not item.get_closest_marker("slow")))


@pytest.fixture(scope="session")
def ray_cluster() -> Iterator[None]:
    """A Ray cluster with two CPUs, one for all tests of a process; an engine without an address finds it.

    Tests that use it are marked ``slow`` and ``xdist_group("ray")``, so that it is started once.
    """
    require("ray", "the engine on Ray")
    from ssnt.engines.ray import RayEngine

    with RayEngine(workers=2).connected():
        yield
