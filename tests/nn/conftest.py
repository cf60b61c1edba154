"""Small models and batches in float64."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from ssnt.config import ModelConfig
from ssnt.nn import SSNT
from ssnt.types import BOS_ID, EOS_ID, PAD_ID, UNK_ID, Batch

SRC_VOCAB, TGT_VOCAB, TAGS = 9, 7, 6
SIZES = {"src_vocab_size": SRC_VOCAB, "tgt_vocab_size": TGT_VOCAB, "embed_size": 4, "hidden_size": 5}
LENGTHS = ((4, 3), (2, 5), (5, 1), (1, 2))


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(20)


def sequences(lens: Sequence[int], vocab_size: int, generator: torch.Generator) -> Tensor:
    """Random symbols, each row closed by its end symbol and padded, (B, T)."""
    rows = torch.full((len(lens), max(lens)), PAD_ID)
    for row, length in zip(rows, lens, strict=True):
        row[: length - 1] = torch.randint(UNK_ID + 1, vocab_size, (length - 1,), generator=generator)
        row[length - 1] = EOS_ID
    return rows


@pytest.fixture
def make_batch() -> Callable[..., Batch]:
    """Makes a batch of pairs with the given (source, target) lengths."""

    def make(lengths: Sequence[tuple[int, int]] = LENGTHS, *, tags: bool = False, seed: int = 0) -> Batch:
        generator = torch.Generator().manual_seed(seed)
        src_lens, tgt_lens = [i for i, _ in lengths], [j for _, j in lengths]
        features = None
        if tags:
            features = torch.randint(PAD_ID, TAGS, (len(lengths), 3), generator=generator)
        return Batch(
            sequences(src_lens, SRC_VOCAB, generator),
            torch.tensor(src_lens),
            sequences(tgt_lens, TGT_VOCAB, generator),
            torch.tensor(tgt_lens),
            features,
        )

    return make


@pytest.fixture
def make_model() -> Callable[..., SSNT]:
    """Makes a float64 model of one of the paper's variants, ready to use."""

    def make(name: str, *, tags: bool = False, encoder: Any = None, **settings: Any) -> SSNT:
        if tags:
            settings |= {"feature_vocab_size": TAGS, "feature_size": 3}
        model = SSNT(ModelConfig.variant(name, **{**SIZES, **settings}), encoder=encoder).double()
        if not name.endswith("+"):
            model.estimate_transition([4, 2], [3, 4])
        return model

    return make


def one(batch: Batch, b: int) -> Batch:
    """The pair `b` alone, without padding."""
    i, j = int(batch.src_lens[b]), int(batch.tgt_lens[b])
    return Batch(
        batch.src[b : b + 1, :i],
        batch.src_lens[b : b + 1],
        batch.tgt[b : b + 1, :j],
        batch.tgt_lens[b : b + 1],
        None if batch.features is None else batch.features[b : b + 1],
    )


@pytest.fixture
def take_one() -> Callable[[Batch, int], Batch]:
    """Takes one pair out of a batch, without padding."""
    return one


@pytest.fixture
def lstm_states() -> Callable[..., Tensor]:
    """The paper's recurrence written out, one symbol, layer and direction at a time."""

    def run(module: Any, symbols: Tensor, condition: Tensor | None) -> Tensor:
        rows = [module.embedding.weight[symbol] for symbol in symbols]
        if condition is not None:
            rows = [torch.cat([row, condition]) for row in rows]
        lstm = module.lstm
        for layer in range(lstm.num_layers):
            ways = []
            for suffix in ("", "_reverse") if lstm.bidirectional else ("",):
                names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
                weights = [getattr(lstm, f"{name}_l{layer}{suffix}") for name in names]
                state = (rows[0].new_zeros(1, lstm.hidden_size), rows[0].new_zeros(1, lstm.hidden_size))
                way = []
                for row in reversed(rows) if suffix else rows:
                    state = torch.lstm_cell(row[None], state, *weights)
                    way.append(state[0][0])
                ways.append(way[::-1] if suffix else way)
            rows = [torch.cat(parts) for parts in zip(*ways, strict=True)]
        return torch.stack(rows)

    return run


@pytest.fixture
def paper_grid(lstm_states: Callable[..., Tensor]) -> Callable[[SSNT, Batch], tuple[Tensor, Tensor]]:
    """The word and emission probabilities of a single pair, (J, I) each, cell by cell."""

    def compute(model: Any, batch: Batch) -> tuple[Tensor, Tensor]:
        condition = None
        if model.features is not None:
            tags = {int(tag) for tag in batch.features[0]} - {PAD_ID}
            weight = model.features.embedding.weight
            condition = sum((weight[tag] for tag in sorted(tags)), torch.zeros_like(weight[0]))
        h = lstm_states(model.encoder, batch.src[0], condition)
        previous = torch.tensor([BOS_ID, *batch.tgt[0, :-1].tolist()])
        s = lstm_states(model.decoder, previous, condition)
        word, emit = h.new_zeros(len(s), len(h)), h.new_zeros(len(s), len(h))
        w_w = torch.cat([model.word.src_weight, model.word.tgt_weight], dim=1)
        for j in range(len(s)):
            for i in range(len(h)):
                both = torch.cat([h[i], s[j]])
                word[j, i] = torch.softmax(w_w @ both + model.word.bias, dim=0)[batch.tgt[0, j]]
                if model.config.transition == "geometric":
                    emit[j, i] = 7 / (6 + 7)  # the lengths in make_model
                else:
                    mlp = model.transition
                    w_t = torch.cat([mlp.src_layer.weight, mlp.tgt_layer.weight], dim=1)
                    hidden = torch.tanh(w_t @ both + mlp.src_layer.bias)
                    emit[j, i] = torch.sigmoid(mlp.output_layer.weight[0] @ hidden + mlp.output_layer.bias[0])
        return word, emit

    return compute
