"""The fused word grid against a materialised log-softmax."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ssnt
from ssnt import BackendError, ConfigError, DataError, ShapeError, factored_softmax, linear_word_grid

NAMES = ["src_states", "tgt_states", "src_weight", "tgt_weight", "bias"]


def materialised(src_states, tgt_states, src_weight, tgt_weight, bias, targets):
    """The definition: a full log-softmax at every cell."""
    logits = (src_states @ src_weight.T)[:, None] + (tgt_states @ tgt_weight.T + bias)[:, :, None]  # (B, J, I, V)
    index = targets[:, :, None, None].expand(-1, -1, src_states.shape[1], 1)
    return logits.log_softmax(-1).gather(-1, index)[..., 0]


def make_inputs(seed, batch=2, src=4, tgt=3, src_width=5, tgt_width=6, vocab=11, scale=1.0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    shapes = [(batch, src, src_width), (batch, tgt, tgt_width), (vocab, src_width), (vocab, tgt_width), (vocab,)]
    tensors = [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]
    tensors[0] *= scale
    tensors[1] *= scale
    targets = torch.randint(vocab, (batch, tgt), generator=generator)
    return [t.to(dtype).requires_grad_() for t in tensors], targets


def gradients(values, inputs, upstream):
    return torch.autograd.grad(values, inputs, upstream.to(values.dtype))


@pytest.mark.usefixtures("denormals")
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 2**32 - 1),
    batch=st.integers(1, 3),
    src=st.integers(1, 5),
    tgt=st.integers(1, 5),
    vocab=st.integers(1, 30),
    chunk_size=st.one_of(st.none(), st.integers(1, 40)),
    scale=st.sampled_from([0.1, 1.0, 30.0, 1000.0]),
    keep=st.booleans(),
    src_width=st.sampled_from([2, 5, 20]),  # exponentials are kept in the gradients if they fit there
)
def test_values_and_gradients_against_the_definition(seed, batch, src, tgt, vocab, chunk_size, scale, keep, src_width):
    inputs, targets = make_inputs(seed, batch, src, tgt, src_width=src_width, vocab=vocab, scale=scale)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(factored_softmax, "_KEPT_BYTES", factored_softmax._KEPT_BYTES if keep else -1)
        got = linear_word_grid(*inputs, targets, chunk_size=chunk_size)
    expected = materialised(*inputs, targets)
    torch.testing.assert_close(got, expected, rtol=1e-10, atol=1e-10)
    upstream = torch.randn(got.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    for name, mine, theirs in zip(
        NAMES, gradients(got, inputs, upstream), gradients(expected, inputs, upstream), strict=True
    ):
        torch.testing.assert_close(
            mine, theirs, rtol=1e-8, atol=1e-8 * scale, msg=lambda text, name=name: f"{name}: {text}"
        )


@pytest.mark.parametrize("chunk_size", [None, 3])
@pytest.mark.parametrize("scale", [1.0, 500.0])
def test_gradcheck(chunk_size, scale):
    inputs, targets = make_inputs(0, src=3, tgt=2, vocab=7, scale=scale)
    assert torch.autograd.gradcheck(lambda *x: linear_word_grid(*x, targets, chunk_size=chunk_size), inputs)


def disjoint_peaks(magnitude, dtype):
    """Source states that vote for symbol 0, 1, .. and target states that vote for others, by ``magnitude``."""
    vocab, width = 50, 50
    src_states = torch.eye(width)[None, :6] * magnitude  # position i peaks at symbol i
    tgt_states = torch.eye(width)[None, 20:25] * magnitude  # row j peaks at symbol 20 + j
    generator = torch.Generator().manual_seed(0)
    src_weight = torch.eye(vocab, width) + 1e-4 * torch.randn(vocab, width, generator=generator)
    tgt_weight = torch.eye(vocab, width) + 1e-4 * torch.randn(vocab, width, generator=generator)
    targets = torch.tensor([[20, 1, 40, 3, 24]])  # a target's peak, a source's peak, and nobody's
    tensors = [src_states, tgt_states, src_weight, tgt_weight, torch.randn(vocab, generator=generator)]
    return [t.to(dtype).requires_grad_() for t in tensors], targets


@pytest.mark.usefixtures("denormals")
@pytest.mark.parametrize("magnitude", [60.0, 200.0, 1e4])
@pytest.mark.parametrize("chunk_size", [None, 7])
def test_disjoint_peaks_in_float32(magnitude, chunk_size):
    inputs, targets = disjoint_peaks(magnitude, torch.float32)
    exact = [t.detach().double().requires_grad_() for t in inputs]
    transitions = [torch.full((1, 5, 6), math.log(0.5)) for _ in range(2)]
    lens = torch.tensor([6]), torch.tensor([5])

    def loss(values):
        return ssnt.ssnt_loss(values, *(t.to(values.dtype) for t in transitions), *lens, reduction="sum")

    got, expected = linear_word_grid(*inputs, targets, chunk_size=chunk_size), materialised(*exact, targets)
    assert got.isfinite().all()
    torch.testing.assert_close(got.double(), expected, rtol=1e-4, atol=1e-4)
    mine, theirs = loss(got), loss(expected)
    torch.testing.assert_close(mine.double(), theirs, rtol=1e-4, atol=0)
    for name, a, b in zip(NAMES, torch.autograd.grad(mine, inputs), torch.autograd.grad(theirs, exact), strict=True):
        assert a.isfinite().all(), name
        relative = (a.double() - b).norm() / b.norm()
        assert relative < 1e-4, (name, relative)


@pytest.mark.usefixtures("denormals")
def test_only_unsafe_cells_are_computed_again(monkeypatch):
    calls = []
    original = factored_softmax._exact
    monkeypatch.setattr(
        factored_softmax, "_exact", lambda inputs, cells: calls.append(len(cells)) or original(inputs, cells)
    )
    inputs, targets = make_inputs(0, dtype=torch.float32)
    linear_word_grid(*inputs, targets)
    assert calls == []
    inputs, targets = disjoint_peaks(200.0, torch.float32)
    with torch.no_grad():
        inputs[0][0, 3:] = 0.0  # half of the positions have no peak, and no trouble
    linear_word_grid(*inputs, targets)
    assert calls == [3 * 5]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_float32(dtype):
    inputs, targets = make_inputs(1, dtype=dtype)
    got = linear_word_grid(*inputs, targets)
    assert got.dtype == torch.float32
    torch.testing.assert_close(got, materialised(*(t.detach().float() for t in inputs), targets))
    got.sum().backward()
    assert all(t.grad.dtype == dtype for t in inputs)


def test_autocast_does_not_lower_the_precision_of_a_small_vocabulary():
    inputs, targets = make_inputs(2, dtype=torch.float32)
    plain = linear_word_grid(*inputs, targets)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        cast = linear_word_grid(*inputs, targets)
        gradient = torch.autograd.grad(cast.sum(), inputs)
    assert torch.equal(plain, cast)
    for a, b in zip(gradient, torch.autograd.grad(plain.sum(), inputs), strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("keep", [True, False])
def test_autocast_to_bfloat16_rounds_what_a_linear_layer_would_round_and_no_more(keep, monkeypatch):
    monkeypatch.setattr(factored_softmax, "_KEPT_BYTES", factored_softmax._KEPT_BYTES if keep else -1)
    inputs, targets = make_inputs(2, batch=3, src=7, tgt=5, dtype=torch.float32)
    src_states, tgt_states, src_weight, tgt_weight, bias = inputs
    with torch.autocast("cpu", dtype=torch.bfloat16):
        got = linear_word_grid(*inputs, targets, chunk_size=4)
        src_logits = torch.nn.functional.linear(src_states, src_weight).float()
        tgt_logits = torch.nn.functional.linear(tgt_states, tgt_weight).float() + bias
    logits = tgt_logits[:, :, None] + src_logits[:, None]
    index = targets[:, :, None, None].expand(-1, -1, src_states.shape[1], 1)
    expected = logits.log_softmax(dim=3).gather(3, index)[..., 0]
    torch.testing.assert_close(got, expected)
    assert not torch.allclose(got, materialised(*inputs, targets), rtol=1e-5, atol=1e-5)  # it is rounded
    ones = torch.ones_like(got)
    wide = torch.autograd.grad(materialised(*inputs, targets).sum(), inputs)
    for name, ours, theirs, exact in zip(
        NAMES, gradients(got, inputs, ones), gradients(expected, inputs, ones), wide, strict=True
    ):
        assert ours.dtype == torch.float32
        torch.testing.assert_close(ours, theirs, rtol=2e-2, atol=2e-2 * float(theirs.abs().max()))
        assert not torch.allclose(ours, exact, rtol=1e-4, atol=1e-4 * float(exact.abs().max())), name


def test_autocast_to_float16_whose_range_is_small_rounds_nothing():
    inputs, targets = make_inputs(2, dtype=torch.float32)
    with torch.autocast("cpu", dtype=torch.float16):
        got = linear_word_grid(*inputs, targets, chunk_size=4)
    torch.testing.assert_close(got, materialised(*inputs, targets))


def test_cells_that_are_computed_again_are_exact_under_autocast_too():
    inputs, targets = make_inputs(2, dtype=torch.float32)
    with torch.no_grad():
        inputs[0].mul_(600.0)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        got = linear_word_grid(*inputs, targets, chunk_size=4)
    wide = materialised(*(t.detach().double() for t in inputs), targets)
    far = wide < -700.0  # where logits are far apart, cells are unsafe
    assert far.any()
    torch.testing.assert_close(got[far], wide[far].float())
    (gradient,) = torch.autograd.grad(got[far].sum(), inputs[4])
    double = [t.detach().double().requires_grad_() for t in inputs]
    (expected,) = torch.autograd.grad(materialised(*double, targets)[far].sum(), double[4])
    torch.testing.assert_close(gradient, expected.float())


def test_padding_is_ignored_whatever_it_holds():
    inputs, targets = make_inputs(3, batch=3, src=5, tgt=4)
    src_lens, tgt_lens = torch.tensor([5, 2, 1]), torch.tensor([1, 4, 2])
    clean = linear_word_grid(*inputs, targets, src_lens=src_lens, tgt_lens=tgt_lens)
    dirty = [t.detach().clone().requires_grad_() for t in inputs]
    dirty_targets = targets.clone()
    with torch.no_grad():
        for b in range(3):
            dirty[0][b, src_lens[b] :] = math.nan
            dirty[1][b, tgt_lens[b] :] = math.inf
            dirty_targets[b, tgt_lens[b] :] = -100
    got = linear_word_grid(*dirty, dirty_targets, src_lens=src_lens, tgt_lens=tgt_lens)
    assert torch.equal(got, clean)
    full = materialised(*inputs, targets)
    for b in range(3):
        torch.testing.assert_close(got[b, : tgt_lens[b], : src_lens[b]], full[b, : tgt_lens[b], : src_lens[b]])
        assert not got[b, tgt_lens[b] :].any()
        assert not got[b, :, src_lens[b] :].any()
    upstream = torch.full_like(got, math.nan)  # whatever flows back into padding is dropped
    for b in range(3):
        upstream[b, : tgt_lens[b], : src_lens[b]] = 1.0
    for a, b in zip(gradients(got, dirty, upstream), gradients(clean, inputs, torch.ones_like(got)), strict=True):
        torch.testing.assert_close(a, b)


def test_tied_and_shared_weights_collect_both_gradients():
    generator = torch.Generator().manual_seed(0)
    states = [torch.randn(2, n, 6, generator=generator, dtype=torch.float64) for n in (4, 3)]
    weight = torch.randn(9, 6, generator=generator, dtype=torch.float64, requires_grad=True)
    both = torch.randn(9, 12, generator=generator, dtype=torch.float64, requires_grad=True)
    bias = torch.zeros(9, dtype=torch.float64)
    targets = torch.randint(9, (2, 3), generator=generator)
    for parameter, halves in ((weight, (weight, weight)), (both, (both[:, :6], both[:, 6:]))):
        got = torch.autograd.grad(linear_word_grid(*states, *halves, bias, targets).sum(), parameter)
        expected = torch.autograd.grad(materialised(*states, *halves, bias, targets).sum(), parameter)
        torch.testing.assert_close(got, expected)


@pytest.mark.parametrize("width", [5, 50])  # 50: the exponentials are kept where the gradients go, which ruins them
def test_backward_can_run_again_on_a_kept_graph(width):
    inputs, targets = make_inputs(4, src_width=width, tgt_width=width)
    value = linear_word_grid(*inputs, targets).sum()
    first = torch.autograd.grad(value, inputs, retain_graph=True)
    again = torch.autograd.grad(value, inputs)
    for a, b in zip(first, again, strict=True):
        torch.testing.assert_close(a, b)


def test_gradients_nobody_needs_are_not_made():
    inputs, targets = make_inputs(5)
    for t in inputs[:3]:
        t.requires_grad_(False)
    linear_word_grid(*inputs, targets).sum().backward()
    assert [t.grad is not None for t in inputs] == [False, False, False, True, True]


def test_a_banned_symbol_has_no_probability():
    inputs, targets = make_inputs(6)
    with torch.no_grad():
        inputs[4][3] = -math.inf
    targets[0, 0] = 3
    targets[1] = 5
    got = linear_word_grid(*inputs, targets)
    assert (got[0, 0] == -math.inf).all()
    torch.testing.assert_close(got, materialised(*inputs, targets))
    upstream = torch.where(got > -math.inf, 1.0, 0.0)
    assert all(g.isfinite().all() for g in gradients(got, inputs, upstream))


def test_a_second_derivative_raises():
    inputs, targets = make_inputs(7)
    value = linear_word_grid(*inputs, targets).sum()
    with pytest.raises(BackendError, match="the word grid can be differentiated once only"):
        torch.autograd.grad(value, inputs, create_graph=True)


def changed(name, change):
    inputs, targets = make_inputs(8)
    named = dict(zip([*NAMES, "targets"], [*(t.detach() for t in inputs), targets], strict=True))
    named[name] = change(named[name])
    return named


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("src_states", lambda t: t[0], r"src_states must have shape \(B, I, Hs\) with no empty axis, got \(4, 5\)"),
        ("src_states", lambda t: t[:, :0], r"src_states must have shape .* got \(2, 0, 5\)"),
        ("src_states", lambda t: t.tolist(), "src_states must be a torch.Tensor, got list"),
        ("tgt_states", lambda t: t[:1], r"tgt_states must have shape \(2, J, Ht\).* got \(1, 3, 6\)"),
        ("src_weight", lambda t: t[:, :4], r"src_weight must have shape \(V, H\) = \(11, 5\), .* got \(11, 4\)"),
        ("tgt_weight", lambda t: t[:9], r"tgt_weight must have shape \(V, H\) = \(11, 6\), .* got \(9, 6\)"),
        ("tgt_weight", lambda t: t.long(), "tgt_weight must have one of the dtypes float16, .*, got torch.int64"),
        ("bias", lambda t: t[None], r"bias must have shape \(V,\) = \(11,\), as src_weight has, got \(1, 11\)"),
        ("bias", lambda t: t[:-1], r"bias must have shape \(V,\) = \(11,\), as src_weight has, got \(10,\)"),
        ("src_weight", lambda t: t[:0], r"src_weight must have shape \(V, Hs\) with no empty axis, got \(0, 5\)"),
        (
            "targets",
            lambda t: t[:, :2],
            r"targets must have shape \(B, J\) = \(2, 3\), .* got \(2, 2\)",
        ),
        ("targets", lambda t: t.double(), "targets must be int32 or int64, got torch.float64"),
        ("targets", lambda t: t.to("meta"), "targets must be on src_states' device, cpu, got meta"),
    ],
)
def test_wrong_shapes_are_named(name, change, message):
    with pytest.raises(ShapeError, match=message):
        linear_word_grid(**changed(name, change))


@pytest.mark.parametrize("symbol", [-1, 11])
def test_targets_outside_the_vocabulary(symbol):
    named = changed("targets", lambda t: t.index_put((torch.tensor(1), torch.tensor(2)), torch.tensor(symbol)))
    with pytest.raises(DataError, match=rf"targets\[1, 2\] must be between 0 and 10, got {symbol}"):
        linear_word_grid(**named)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("requires_grad", [False, True])
def test_nan_is_named(name, requires_grad):
    def spoil(t):
        t = t.clone()
        t.view(-1)[-1] = math.nan
        return t.requires_grad_(requires_grad)

    with pytest.raises(DataError, match=rf"{name}\[.*\] must be finite, got nan"):
        linear_word_grid(**changed(name, spoil))


def test_logits_that_overflow_are_named():
    with pytest.raises(DataError, match="the logits overflow"):
        linear_word_grid(**changed("src_states", lambda t: t.sign() * 1e308))


def test_wrong_lengths_and_chunks():
    inputs, targets = make_inputs(9)
    with pytest.raises(
        ShapeError, match=r"src_lens\[1\] must be between 1 and 4, the size of the source \(I\) axis, got 5"
    ):
        linear_word_grid(*inputs, targets, src_lens=torch.tensor([4, 5]))
    with pytest.raises(ShapeError, match=r"tgt_lens\[0\] must be between 1 and 3, .* got 0"):
        linear_word_grid(*inputs, targets, tgt_lens=torch.tensor([0, 1]))
    with pytest.raises(ConfigError, match="chunk_size must be a whole number of at least 1, got 0"):
        linear_word_grid(*inputs, targets, chunk_size=0)


def test_a_target_in_no_chunk_gives_nan():
    # What the check sees on the CPU it does not look for on a GPU, where the result itself must tell.
    inputs, targets = make_inputs(10)
    targets[0, 1] = 99
    valid = torch.ones(2, 3, 4, dtype=torch.bool)
    log_word = factored_softmax.FactoredLogSoftmax.apply(*inputs, targets, valid, 5, True)
    assert log_word[0, 1].isnan().all()
    assert log_word[1].isfinite().all()


def test_a_bias_that_bans_everything_is_named():
    with pytest.raises(DataError, match="bias must leave at least one symbol possible"):
        linear_word_grid(**changed("bias", lambda t: torch.full_like(t, -math.inf)))
