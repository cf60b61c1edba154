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


@pytest.mark.parametrize(
    ("capabilities", "is_lacking"),
    [
        ({"architecture": "x86_64", "avx512_f": True, "avx512_bf16": False, "amx_bf16": False}, True),
        ({"architecture": "x86_64", "avx512_f": True, "avx512_bf16": True, "amx_bf16": False}, False),
        ({"architecture": "x86_64", "avx512_f": True, "avx512_bf16": False, "amx_bf16": True}, False),
        # without AVX-512 oneDNN says yes only where there are other instructions for it
        ({"architecture": "x86_64", "avx512_f": False, "avx_ne_convert": True}, False),
        ({"architecture": "aarch64"}, False),
    ],
)
def test_bfloat16_that_onednn_only_emulates_is_lacking(asked_anew, monkeypatch, capabilities, is_lacking):
    if not torch.backends.mkldnn.is_available():
        pytest.skip("this torch has no oneDNN")
    monkeypatch.setitem(precision._QUESTIONS, torch.bfloat16, "_says_yes")
    monkeypatch.setattr(torch.ops.mkldnn, "_says_yes", lambda: True, raising=False)
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities, raising=False)
    assert cpu_lacks(torch.bfloat16) == is_lacking


@pytest.mark.parametrize(
    ("has_avx512", "has_avx512_bf16", "has_amx", "is_lacking"),
    [
        (True, False, False, True),
        (True, True, False, False),
        (True, False, True, False),
        (False, False, False, False),
        (None, None, None, False),
    ],
)
def test_an_older_torch_tells_less_of_its_cpu(
    asked_anew, monkeypatch, has_avx512, has_avx512_bf16, has_amx, is_lacking
):
    if not torch.backends.mkldnn.is_available():
        pytest.skip("this torch has no oneDNN")
    monkeypatch.setitem(precision._QUESTIONS, torch.bfloat16, "_says_yes")
    monkeypatch.setattr(torch.ops.mkldnn, "_says_yes", lambda: True, raising=False)
    monkeypatch.delattr(torch.cpu, "get_capabilities", raising=False)
    for name, answer in (
        ("_is_avx512_supported", has_avx512),
        ("_is_avx512_bf16_supported", has_avx512_bf16),
        ("_is_amx_tile_supported", has_amx),
    ):
        if answer is None:
            monkeypatch.delattr(torch.cpu, name, raising=False)
        else:
            monkeypatch.setattr(torch.cpu, name, lambda answer=answer: answer, raising=False)
    assert cpu_lacks(torch.bfloat16) == is_lacking


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
