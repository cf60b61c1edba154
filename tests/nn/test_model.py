import copy
import io
import math
from dataclasses import replace
from itertools import combinations_with_replacement

import pytest
import torch
from torch import nn

from ssnt.config import VARIANTS, ModelConfig
from ssnt.errors import DataError, ModelError, ShapeError
from ssnt.nn import SSNT
from ssnt.types import PAD_ID, Batch, Grid

DEEP = {"encoder_layers": 2, "decoder_layers": 3, "transition_hidden_size": 2}


class WindowEncoder(nn.Module):
    """A convolution over the source; the tags are added to every state."""

    is_streaming = False

    def __init__(self, output_size: int = 6, condition_size: int = 0) -> None:
        super().__init__()
        self.output_size = output_size
        self.embedding = nn.Embedding(9, 4)
        self.conv = nn.Conv1d(4, output_size, kernel_size=3, padding=1)
        self.condition = nn.Linear(condition_size, output_size) if condition_size else None

    def forward(self, src, src_lens, condition=None):
        valid = torch.arange(src.size(1)) < src_lens[:, None]
        inputs = self.embedding(src) * valid[:, :, None]
        states = self.conv(inputs.transpose(1, 2)).transpose(1, 2).tanh()
        return states if self.condition is None else states + self.condition(condition)[:, None]


def gradients(model: nn.Module) -> dict[str, torch.Tensor]:
    return {name: weight.grad.clone() for name, weight in model.named_parameters()}


@pytest.mark.parametrize("settings", [{}, DEEP, {"tie_target_embedding": True, "embed_size": 5}])
@pytest.mark.parametrize("tags", [False, True])
@pytest.mark.parametrize("name", VARIANTS)
def test_the_grid_is_the_papers_formula(make_model, make_batch, take_one, paper_grid, name, tags, settings):
    model, batch = make_model(name, tags=tags, **settings), make_batch(tags=tags)
    grid = model(batch)
    assert isinstance(grid, Grid)
    assert grid.log_word.shape == grid.log_emit.shape == grid.log_shift.shape == (4, 5, 5)
    for b in range(4):
        word, emit = paper_grid(model, take_one(batch, b))
        valid = (b, slice(len(word)), slice(word.size(1)))
        torch.testing.assert_close(grid.log_word[valid].exp(), word, rtol=1e-11, atol=1e-13)
        torch.testing.assert_close(grid.log_emit[valid].exp(), emit, rtol=1e-11, atol=1e-13)
        torch.testing.assert_close(grid.log_shift[valid].exp(), 1 - emit, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("end", ["any", "last"])
@pytest.mark.parametrize("name", VARIANTS)
def test_the_loss_sums_over_all_alignments(make_model, make_batch, take_one, paper_grid, name, end):
    model, batch = make_model(name), make_batch([(4, 3), (2, 2)])
    losses = model.loss(batch, end=end, reduction="none")
    for b in range(2):
        word, emit = paper_grid(model, take_one(batch, b))
        target, source = word.shape
        total = 0.0
        for path in combinations_with_replacement(range(source), target):
            if end == "last" and path[-1] != source - 1:
                continue
            p = 1.0
            for j, i in enumerate(path):
                start = path[j - 1] if j else 0
                p = p * (1 - emit[j, start:i]).prod() * emit[j, i] * word[j, i]
            total = total + p
        torch.testing.assert_close(losses[b], -torch.log(total))


def test_the_options_of_the_loss_reach_it(make_model, make_batch):
    model, batch = make_model("biSSNT+"), make_batch()
    losses = model.loss(batch, reduction="none")
    torch.testing.assert_close(model.loss(batch), losses.mean())
    torch.testing.assert_close(model.loss(batch, reduction="sum"), losses.sum())
    torch.testing.assert_close(model.loss(batch, reduction="token"), losses.sum() / batch.tgt_lens.sum())
    torch.testing.assert_close(model.loss(batch, reduction="none", backend="reference"), losses)
    model.loss(batch).backward()
    exact = gradients(model)
    model.zero_grad()
    model.loss(batch, fastemit=0.5).backward()
    assert not torch.equal(exact["word.bias"], gradients(model)["word.bias"])


@pytest.mark.parametrize("tags", [False, True])
@pytest.mark.parametrize("name", VARIANTS)
def test_a_pair_does_not_notice_its_batch(make_model, make_batch, take_one, name, tags):
    model, batch = make_model(name, tags=tags, **DEEP), make_batch(tags=tags)
    losses = model.loss(batch, reduction="none")
    losses.sum().backward()
    together = gradients(model)
    model.zero_grad()
    for b in range(4):
        alone = model.loss(take_one(batch, b), reduction="none")
        torch.testing.assert_close(alone[0], losses[b], rtol=1e-12, atol=1e-12)
        alone.sum().backward()
    for key, gradient in gradients(model).items():
        torch.testing.assert_close(gradient, together[key], rtol=1e-10, atol=1e-12, msg=key)


@pytest.mark.parametrize("name", VARIANTS)
def test_what_the_padding_holds_does_not_matter(make_model, make_batch, name):
    model, batch = make_model(name), make_batch()
    noise = replace(
        batch,
        src=torch.where(batch.src == PAD_ID, 5, batch.src),
        tgt=torch.where(batch.tgt == PAD_ID, 6, batch.tgt),
    )
    results = []
    for each in (batch, noise):
        model.zero_grad()
        loss = model.loss(each)
        loss.backward()
        results.append((loss, gradients(model)))
    assert torch.equal(results[0][0], results[1][0])
    for key, gradient in results[0][1].items():
        torch.testing.assert_close(gradient, results[1][1][key], rtol=1e-12, atol=1e-14, msg=key)


@pytest.mark.parametrize("name", VARIANTS)
def test_every_parameter_is_trained(make_model, make_batch, name):
    model = make_model(name, tags=True, **DEEP)
    model.loss(make_batch(tags=True)).backward()
    for key, gradient in gradients(model).items():
        assert gradient.any(), key
        assert gradient.isfinite().all(), key


@pytest.mark.parametrize("name", VARIANTS)
def test_tags_are_a_set_and_have_an_effect(make_model, make_batch, name):
    model, batch = make_model(name, tags=True), make_batch()

    def loss(*tags: int) -> torch.Tensor:
        return model.loss(replace(batch, features=torch.tensor([tags] * 4, dtype=torch.int64)))

    assert torch.equal(loss(1, 2, 3), loss(3, 1, 2))
    assert torch.equal(loss(1, 2, 3), loss(PAD_ID, 3, 2, 1, PAD_ID))
    assert not torch.isclose(loss(1, 2, 3), loss(1, 2, 4))
    assert not torch.isclose(loss(1, 2, 3), loss())


@pytest.mark.parametrize("name", VARIANTS)
def test_a_saved_model_comes_back_whole(make_model, make_batch, name):
    model, batch = make_model(name, tags=True), make_batch(tags=True)
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    restored = SSNT(model.config).double()
    restored.load_state_dict(torch.load(file, weights_only=True))
    assert torch.equal(restored.loss(batch), model.loss(batch))
    assert torch.equal(copy.deepcopy(model).loss(batch), model.loss(batch))


def test_a_tied_embedding_stays_tied(make_model, make_batch):
    model = make_model("biSSNT+", tie_target_embedding=True, embed_size=5)
    free = make_model("biSSNT+", embed_size=5)
    assert model.word.tgt_weight is model.decoder.embedding.weight
    assert len(list(model.parameters())) == len(list(free.parameters())) - 1
    model = copy.deepcopy(model).float()
    model.load_state_dict(model.state_dict())
    assert model.word.tgt_weight is model.decoder.embedding.weight
    # one weight in two places gets the sum of both gradients
    free.load_state_dict(model.double().state_dict())
    for each in (model, free):
        each.loss(make_batch()).backward()
    both = free.word.tgt_weight.grad + free.decoder.embedding.weight.grad
    torch.testing.assert_close(model.word.tgt_weight.grad, both)


@pytest.mark.parametrize("dropout", ["input_dropout", "output_dropout"])
def test_dropout_is_for_training_and_repeats_with_the_seed(make_model, make_batch, dropout):
    model, batch = make_model("biSSNT+", **{dropout: 0.5}, **DEEP), make_batch()
    plain = SSNT(model.config.model_copy(update={dropout: 0.0})).double()
    plain.load_state_dict(model.state_dict())

    def seeded_loss(seed: int) -> torch.Tensor:
        torch.manual_seed(seed)
        return model.loss(batch)

    assert torch.equal(seeded_loss(1), seeded_loss(1))
    assert not torch.equal(seeded_loss(1), seeded_loss(2))
    model.eval()
    assert torch.equal(seeded_loss(1), seeded_loss(2))
    torch.testing.assert_close(model.loss(batch), plain.loss(batch))


def test_encode_does_not_look_at_the_target(make_model, make_batch):
    model, batch = make_model("uniSSNT+", tags=True), make_batch(tags=True)
    empty = replace(batch, tgt=batch.tgt[:, :0], tgt_lens=batch.tgt_lens * 0)
    encoding = model.encode(empty)
    assert encoding.states.shape == (4, 5, 5)
    assert encoding.condition.shape == (4, 3)
    assert make_model("biSSNT").encode(make_batch()).condition is None


class Careless(nn.Module):
    """An encoder that leaves anything in padding."""

    is_streaming = False
    output_size = 6

    def __init__(self, filling: float):
        super().__init__()
        self.embedding = nn.Embedding(20, 6)
        self.filling = filling

    def forward(self, src, src_lens, condition=None):
        outside = torch.arange(src.size(1)) >= src_lens[:, None]
        return self.embedding(src).masked_fill(outside[..., None], self.filling)


def test_what_an_encoder_leaves_in_padding_reaches_nothing(make_model, make_batch):
    batch = make_batch()
    found = []
    for filling in (0.0, math.nan, 1e6):
        torch.manual_seed(0)
        model = make_model("biSSNT+", encoder=Careless(filling).double())
        assert not model.encode(batch).states[batch.src_lens.argmin(), int(batch.src_lens.min()) :].any()
        found.append(torch.autograd.grad(model.loss(batch), list(model.parameters())))
    for others in found[1:]:
        assert all(torch.equal(one, other) for one, other in zip(found[0], others, strict=True))


@pytest.mark.parametrize("name", VARIANTS)
def test_the_encoder_can_be_exchanged(make_model, make_batch, take_one, name):
    encoder = WindowEncoder(condition_size=3).double()
    model, batch = make_model(name, tags=True, encoder=encoder), make_batch(tags=True)
    losses = model.loss(batch, reduction="none")
    losses.sum().backward()
    assert encoder.conv.weight.grad.any()
    assert "encoder.conv.weight" in model.state_dict()
    for b in range(4):
        torch.testing.assert_close(model.loss(take_one(batch, b)), losses[b])


def test_an_encoder_must_be_a_module_and_give_the_promised_states(make_model, make_batch):
    with pytest.raises(ModelError, match=r"encoder: expected an nn.Module, got builtin_function_or_method; any"):
        make_model("biSSNT", encoder=torch.relu)
    encoder = WindowEncoder().double()
    model = make_model("biSSNT", encoder=encoder)
    encoder.output_size = 7
    with pytest.raises(ShapeError, match=r"encoder: expected states of shape \(4, 5, 7\), got \(4, 5, 6\); an"):
        model(make_batch())


def test_a_geometric_model_must_be_estimated_first(make_batch):
    model = SSNT(ModelConfig.variant("biSSNT", src_vocab_size=9, tgt_vocab_size=7))
    with pytest.raises(ModelError, match=r"no emission probability yet; call estimate_transition\(src_lens"):
        model.loss(make_batch())
    model.estimate_transition(torch.tensor([4, 2]), torch.tensor([1, 1]))
    assert model.loss(make_batch()).isfinite()


def test_a_neural_transition_is_not_estimated(make_model):
    with pytest.raises(ModelError, match=r"only a geometric transition is estimated .* transition='geometric'"):
        make_model("biSSNT+").estimate_transition([4], [3])


def changed(batch: Batch, **fields) -> Batch:
    return replace(batch, **{name: change(getattr(batch, name)) for name, change in fields.items()})


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        ({"src": lambda t: t[0]}, ShapeError, r"src: expected a batch axis .* got shape \(5,\)"),
        ({"src": lambda t: t + 7}, DataError, r"src: expected symbols from 0 to 8 .*; map unknown"),
        ({"src": lambda t: t.float()}, ShapeError, r"src: expected dtype torch.int64, got torch.float32"),
        ({"src": lambda t: t[:, :0]}, ShapeError, r"src: expected .* neither empty, got shape \(4, 0\)"),
        ({"src": lambda t: t.to("meta")}, ShapeError, r"src: expected a tensor on cpu, .* got one on meta; mo"),
        ({"src_lens": lambda t: t * 0}, ShapeError, r"src_lens\[\d\] must be between 1 and 5, .* got 0"),
        ({"src_lens": lambda t: t + 9}, ShapeError, r"src_lens\[\d\] must be between 1 and 5, .* got 13"),
        ({"tgt": lambda t: t[0]}, ShapeError, r"tgt: expected a batch axis .* got shape \(5,\)"),
        ({"tgt": lambda t: t[:, :, None]}, ShapeError, r"tgt: expected shape \(B, J\), got \(4, 5, 1\)"),
        ({"tgt": lambda t: t + 7}, DataError, r"tgt: expected symbols from 0 to 6 .*; map unknown"),
        ({"tgt": lambda t: t - 1}, DataError, r"tgt: expected symbols from 0 to 6 .*got -1 at .* PAD_ID"),
        ({"tgt": lambda t: t.int()}, ShapeError, r"tgt: expected dtype torch.int64, got torch.int32"),
        ({"tgt": lambda t: t[:, :0]}, ShapeError, r"tgt: expected .* neither empty, got shape \(4, 0\)"),
        ({"tgt_lens": lambda t: t - 1}, ShapeError, r"tgt_lens\[\d\] must be between 1 and 5, .* got 0"),
        ({"tgt_lens": lambda t: t + 9}, ShapeError, r"tgt_lens\[\d\] must be between 1 and 5, .* got 12"),
        (
            {"tgt": lambda t: t[:3], "tgt_lens": lambda t: t[:3]},
            ShapeError,
            r"tgt: expected 4 rows, as src has, got shape \(3, 5\); every tensor of a batch",
        ),
        ({"features": lambda t: t[:3]}, ShapeError, r"features: expected 4 rows, as src has, got shape \(3"),
        ({"features": lambda t: t + 6}, DataError, r"features: expected symbols from 0 to 5"),
        ({"features": lambda _: None}, ModelError, r"features: expected the tags of every pair, .* got None;"),
    ],
)
def test_bad_batches(make_model, make_batch, fields, error, message):
    with pytest.raises(error, match=message):
        make_model("biSSNT+", tags=True).loss(changed(make_batch(tags=True), **fields))


def test_tags_for_a_model_without(make_model, make_batch):
    with pytest.raises(ModelError, match=r"features: expected None, .* got shape \(4, 3\); leave them out, or"):
        make_model("biSSNT+").loss(make_batch(tags=True))


@pytest.mark.parametrize("key", ["encoder.lstm.bias_hh_l0", "decoder.embedding.weight", "word.bias"])
def test_a_broken_parameter_is_not_hidden(make_model, make_batch, key):
    model = make_model("biSSNT")
    with torch.no_grad():
        model.get_parameter(key).fill_(float("nan"))
    with pytest.raises(DataError, match="must be finite, got nan"):
        model.loss(make_batch())


@pytest.mark.parametrize("name", VARIANTS)
def test_autocast_keeps_the_grid_in_full_precision(make_model, make_batch, name):
    model, batch = make_model(name).float(), make_batch()
    expected = model.loss(batch)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        grid, loss = model(batch), model.loss(batch)
    assert grid.log_word.dtype == grid.log_emit.dtype == grid.log_shift.dtype == torch.float32
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss, expected, rtol=0.05, atol=0.0)


@pytest.mark.parametrize("name", ["uniSSNT+", "biSSNT+"])
def test_a_few_pairs_are_learnt_by_heart(make_batch, name):
    batch = make_batch([(4, 3), (2, 5), (5, 4), (3, 6)])
    torch.manual_seed(0)
    config = ModelConfig.variant(name, src_vocab_size=9, tgt_vocab_size=7, embed_size=16, hidden_size=32)
    model = SSNT(config)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    first = model.loss(batch).item()
    for _ in range(100):
        optimizer.zero_grad()
        loss = model.loss(batch)
        loss.backward()
        optimizer.step()
    assert first > 5.0
    assert loss.item() < 0.1
