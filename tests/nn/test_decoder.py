import pytest
import torch

from ssnt.errors import DataError, ShapeError
from ssnt.nn import PrefixDecoder
from ssnt.types import BOS_ID

TGT = torch.tensor([[4, 5, 6, 2], [7, 2, 0, 0], [2, 0, 0, 0]])


def decoder(**settings) -> PrefixDecoder:
    return PrefixDecoder(8, 3, 5, **settings).double()


@pytest.mark.parametrize("layers", [1, 2])
def test_forward_is_the_recurrence_over_the_previous_symbols(lstm_states, layers):
    module = decoder(layers=layers, condition_size=2)
    condition = torch.randn(3, 2).double()
    states = module(TGT, condition)
    assert states.shape == (3, 4, module.output_size)
    for b in range(3):
        previous = torch.tensor([BOS_ID, *TGT[b, :-1].tolist()])
        torch.testing.assert_close(states[b], lstm_states(module, previous, condition[b]))


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("condition_size", [0, 2])
def test_a_chain_of_steps_is_forward(layers, condition_size):
    module = decoder(layers=layers, condition_size=condition_size)
    condition = torch.randn(3, condition_size).double() if condition_size else None
    states = module(TGT, condition)
    symbols, state = torch.full((3,), BOS_ID), module.initial_state(3)
    for j in range(4):
        stepped, state = module.step(symbols, state, condition)
        torch.testing.assert_close(stepped, states[:, j], rtol=1e-13, atol=1e-14)
        symbols = TGT[:, j]


def test_a_state_does_not_see_its_own_symbol():
    module = decoder()
    changed = TGT.clone()
    changed[:, 2] = 3
    before, after = module(TGT), module(changed)
    assert torch.equal(before[:, :3], after[:, :3])
    assert not torch.equal(before[:, 3], after[:, 3])


@pytest.mark.parametrize(
    ("tgt", "error", "message"),
    [
        (TGT[0], ShapeError, r"tgt: expected shape \(B, J\), got \(4,\)"),
        (TGT.float(), ShapeError, r"tgt: expected dtype torch.int64, got torch.float32"),
        (TGT + 1, DataError, r"tgt: expected symbols from 0 to 7 .*, got 8 at \[1, 0\]"),
        (TGT[:, :0], ShapeError, r"tgt: expected at least one pair and one symbol, got shape \(3, 0\)"),
    ],
)
def test_bad_input(tgt, error, message):
    with pytest.raises(error, match=message):
        decoder()(tgt)
