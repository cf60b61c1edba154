"""LSTMs under autocast, on CPUs that have half precision and on those that have not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from ssnt.nn import precision
from ssnt.nn.decoder import PrefixDecoder
from ssnt.nn.encoder import LSTMEncoder
from ssnt.nn.precision import advised_on_cpu, cpu_lacks, supported_by_lstm

HALVES = [torch.bfloat16, torch.float16]


@pytest.fixture
def asked_anew() -> Iterator[None]:
    """What is known of this CPU is asked again, during a test and after it."""
    cpu_lacks.cache_clear()
    yield
    cpu_lacks.cache_clear()


def lacking(monkeypatch: pytest.MonkeyPatch, is_lacking: bool) -> None:
    monkeypatch.setattr(precision, "cpu_lacks", lambda _: is_lacking)


@pytest.mark.parametrize("dtype", HALVES)
def test_without_onednn_nothing_is_known_to_be_lacking(asked_anew, monkeypatch, dtype):
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    assert not cpu_lacks(dtype)


@pytest.mark.parametrize("dtype", HALVES)
def test_a_torch_that_cannot_be_asked_is_not_asked(asked_anew, monkeypatch, dtype):
    monkeypatch.setitem(precision._QUESTIONS, dtype, "_no_such_operator")
    assert not cpu_lacks(dtype)


def test_what_a_message_advises(monkeypatch):
    lacking(monkeypatch, True)
    assert advised_on_cpu() == "float32"
    lacking(monkeypatch, False)
    assert advised_on_cpu() == "bfloat16 or float32"


@torch.no_grad()
@pytest.mark.parametrize("dtype", HALVES)
def test_where_half_precision_is_lacking_lstms_are_the_same_to_the_bit(monkeypatch, dtype):
    lacking(monkeypatch, True)
    torch.manual_seed(1)
    encoder, decoder = LSTMEncoder(9, 6, 7, layers=2, bidirectional=True).eval(), PrefixDecoder(9, 6, 7).eval()
    symbols, lens = torch.randint(4, 9, (3, 5)), torch.tensor([5, 2, 4])

    def states() -> list[torch.Tensor]:
        step, state = decoder.step(symbols[:, 0], decoder.initial_state(3))
        return [encoder(symbols, lens), decoder(symbols), step, state.hidden, state.cell]

    expected = states()
    with torch.autocast("cpu", dtype=dtype):
        found = states()
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == torch.float32
        assert torch.equal(one, other)


def test_tensors_are_widened_only_where_autocast_is_turned_off(monkeypatch):
    weight, narrow = torch.zeros(2), torch.zeros(3, dtype=torch.bfloat16)
    lacking(monkeypatch, True)
    with torch.autocast("cpu", dtype=torch.bfloat16), supported_by_lstm(weight, narrow, weight) as (one, other):
        assert not torch.is_autocast_enabled("cpu")
        assert (one.dtype, other) == (torch.float32, weight)
    with supported_by_lstm(weight, narrow) as (one,):
        assert one is narrow
    lacking(monkeypatch, False)
    with torch.autocast("cpu", dtype=torch.bfloat16), supported_by_lstm(weight, narrow) as (one,):
        assert torch.is_autocast_enabled("cpu")
        assert one is narrow
