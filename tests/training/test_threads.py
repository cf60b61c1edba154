import numpy as np
import torch

from ssnt.config import Config
from ssnt.training import threads


def config(hidden_size: int, **hardware) -> Config:
    return Config.model_validate({"model": {"hidden_size": hidden_size}, "hardware": hardware})


def test_small_models_get_one_thread_and_large_ones_the_cores(monkeypatch):
    monkeypatch.setattr(threads, "cores", lambda: 8)
    assert threads.thread_count(config(256)) == 1
    assert threads.thread_count(config(257)) == 8
    assert threads.thread_count(config(512, devices=4)) == 2
    assert threads.thread_count(config(512, devices=16)) == 1
    assert threads.thread_count(config(64, threads=3)) == 3


def test_torch_gets_the_number_and_its_own_back():
    before = torch.get_num_threads()
    with threads.limited_threads(before + 1):
        assert torch.get_num_threads() == before + 1
    assert torch.get_num_threads() == before


def test_kernels_run_in_as_many_threads():
    from ssnt.dp.compiled import in_threads

    runs = []
    with threads.limited_threads(3):
        in_threads(lambda first, stop: runs.append((first, stop)), np.full(6, 10**9), worth_a_thread=1)
    assert sorted(runs) == [(0, 2), (2, 4), (4, 6)]
