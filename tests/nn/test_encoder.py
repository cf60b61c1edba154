import pytest
import torch
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from ssnt.errors import DataError, ModelError, ShapeError
from ssnt.nn import LSTMEncoder, LSTMState

SRC = torch.tensor([[4, 5, 6, 2], [7, 2, 0, 0], [2, 0, 0, 0]])
LENS = torch.tensor([4, 2, 1])


def encoder(**settings) -> LSTMEncoder:
    return LSTMEncoder(8, 3, 5, **settings).double()


@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_forward_is_the_recurrence(lstm_states, layers, bidirectional):
    module = encoder(layers=layers, bidirectional=bidirectional, condition_size=2)
    condition = torch.randn(3, 2).double()
    states = module(SRC, LENS, condition)
    assert states.shape == (3, 4, module.output_size)
    assert module.output_size == (10 if bidirectional else 5)
    for b, length in enumerate(LENS.tolist()):
        torch.testing.assert_close(states[b, :length], lstm_states(module, SRC[b, :length], condition[b]))


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_gradients_are_those_of_torch_over_packed_sequences(layers, bidirectional):
    module = encoder(layers=layers, bidirectional=bidirectional)
    packed = pack_padded_sequence(module.embedding(SRC), LENS, batch_first=True, enforce_sorted=False)
    expected, _ = pad_packed_sequence(module.lstm(packed)[0], batch_first=True)
    inside = torch.arange(4) < LENS[:, None]
    upstream = torch.randn_like(expected) * inside[..., None]
    parameters = list(module.parameters())
    ours = torch.autograd.grad(module(SRC, LENS), parameters, upstream)
    for got, wanted in zip(ours, torch.autograd.grad(expected, parameters, upstream), strict=True):
        torch.testing.assert_close(got, wanted)


@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("condition_size", [0, 2])
@pytest.mark.parametrize("has_skip", [False, True])
def test_a_chain_of_steps_is_forward(layers, condition_size, has_skip):
    module = encoder(layers=layers, condition_size=condition_size, has_skip=has_skip)
    condition = torch.randn(3, condition_size).double() if condition_size else None
    states = module(SRC, LENS, condition)
    assert module.is_streaming
    state = module.initial_state(3)
    for i in range(4):
        stepped, state = module.step(SRC[:, i], state, condition)
        valid = LENS > i
        torch.testing.assert_close(stepped[valid], states[valid, i], rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("bidirectional", [False, True])
def test_a_skip_appends_the_embedding_of_the_own_symbol(bidirectional):
    module = encoder(bidirectional=bidirectional, has_skip=True)
    plain = encoder(bidirectional=bidirectional)
    plain.load_state_dict(module.state_dict())
    states = module(SRC, LENS)
    assert states.shape[-1] == module.output_size == plain.output_size + 3
    torch.testing.assert_close(states[..., :-3], plain(SRC, LENS))
    torch.testing.assert_close(states[..., -3:], module.embedding(SRC))


def test_states_are_selected_by_row():
    module = encoder(layers=2)
    first = module.step(SRC[:, 0], module.initial_state(3))
    assert first.state.hidden.shape == first.state.cell.shape == (3, 2, 5)
    index = torch.tensor([2, 0, 0, 1])
    picked = first.state.select(index)
    assert isinstance(picked, LSTMState)
    symbols = torch.tensor([3, 4, 5, 6])
    stepped = module.step(symbols, picked)
    for row, origin in enumerate(index.tolist()):
        alone = module.step(symbols[row : row + 1], first.state.select(torch.tensor([origin])))
        torch.testing.assert_close(stepped.output[row : row + 1], alone.output)


def test_the_future_reaches_only_a_bidirectional_encoder():
    changed = SRC.clone()
    changed[0, 3] = 7
    for bidirectional in (False, True):
        module = encoder(bidirectional=bidirectional)
        same = torch.equal(module(SRC, LENS)[0, :3], module(changed, LENS)[0, :3])
        assert same is not bidirectional


def test_a_bidirectional_encoder_cannot_step():
    module = encoder(bidirectional=True)
    assert not module.is_streaming
    state = LSTMState(torch.zeros(3, 1, 5).double(), torch.zeros(3, 1, 5).double())
    for call in (lambda: module.initial_state(3), lambda: module.step(SRC[:, 0], state)):
        with pytest.raises(ModelError) as caught:
            call()
        assert str(caught.value) == (
            "a bidirectional encoder cannot read one symbol at a time: its states depend on the whole "
            "source; train a unidirectional model (uniSSNT or uniSSNT+, bidirectional=False)"
        )


def test_dropout_falls_on_every_layers_input():
    module = encoder(layers=2, dropout=0.5)
    assert module.dropout.p == module.lstm.dropout == 0.5
    once, again = module(SRC, LENS), module(SRC, LENS)
    assert not torch.equal(once, again)
    module.eval()
    assert torch.equal(module(SRC, LENS), module(SRC, LENS))


@pytest.mark.parametrize(
    ("src", "lens", "error", "message"),
    [
        (SRC[0], LENS, ShapeError, r"src: expected shape \(B, I\), got \(4,\); the batch axis comes first"),
        (SRC.int(), LENS, ShapeError, r"src: expected dtype torch.int64, got torch.int32; .*\.long\(\)"),
        (SRC + 1, LENS, DataError, r"src: expected symbols from 0 to 7 \(.* of 8\), got 8 at \[1, 0\]; map"),
        (SRC - 1, LENS, DataError, r"src: expected symbols from 0 to 7 .*, got -1 at \[1, 2\]; .* PAD_ID"),
        (SRC, LENS[:2], ShapeError, r"src_lens must have shape \(3,\), one length a pair, got \(2,\)"),
        (SRC, LENS.float(), ShapeError, r"src_lens must have an integer dtype, got torch.float32"),
        (SRC, LENS[None], ShapeError, r"src_lens must have shape \(3,\), one length a pair, got \(1, 3\)"),
        (SRC, LENS - 1, ShapeError, r"src_lens\[2\] must be between 1 and 4, the size of the src axis, got 0"),
        (SRC, LENS + 1, ShapeError, r"src_lens\[0\] must be between 1 and 4, the size of the src axis, got 5"),
        (SRC[:, :0], LENS, ShapeError, r"src: expected a batch axis .* neither empty, got shape \(3, 0\)"),
        (SRC[:0], LENS[:0], ShapeError, r"src: expected a batch axis .* neither empty, got shape \(0, 4\)"),
    ],
)
def test_bad_input(src, lens, error, message):
    with pytest.raises(error, match=message):
        encoder()(src, lens)


def test_bad_steps():
    module = encoder()
    state = module.initial_state(3)
    with pytest.raises(ShapeError, match=r"symbols: expected shape \(B,\), got \(3, 4\)"):
        module.step(SRC, state)
    with pytest.raises(DataError, match=r"symbols: expected symbols from 0 to 7 .*, got 8 at \[1\]"):
        module.step(SRC[:, 0] + 1, state)
    with pytest.raises(ShapeError, match=r"state: expected 2 rows, as symbols has, got shape \(3"):
        module.step(SRC[:2, 0], state)


def test_a_condition_must_fit():
    with pytest.raises(ModelError, match=r"condition: expected a tensor of shape \(3, 2\), got None; pass"):
        encoder(condition_size=2)(SRC, LENS)
    with pytest.raises(ModelError, match=r"condition: expected shape \(3, 2\), got shape \(3, 1\); build"):
        encoder(condition_size=2)(SRC, LENS, torch.zeros(3, 1).double())
    with pytest.raises(ModelError, match=r"condition: expected None, got shape \(3, 1\)"):
        encoder()(SRC, LENS, torch.zeros(3, 1).double())
