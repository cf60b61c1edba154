"""The loss in a model of your own: any states for the source, any states for the target prefix.

The task is invented: every symbol is copied, and odd ones are written twice. The model has a GRU on each side; what
makes it a transducer is the lines that build the grids and the one that calls the loss. Takes some seconds.

    python examples/loss_in_your_own_model.py [--steps N]
"""

from __future__ import annotations

import argparse

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid
from torch.nn.utils.rnn import pad_sequence

import ssnt

SIZE, SYMBOLS = 48, 12  # of the states, and how many symbols there are; the first four are special


class OwnModel(nn.Module):
    """Two GRUs, a word distribution that is split between them, and one number that says emit or shift."""

    def __init__(self) -> None:
        super().__init__()
        self.src_embedding, self.tgt_embedding = nn.Embedding(SYMBOLS, SIZE), nn.Embedding(SYMBOLS, SIZE)
        self.encoder, self.decoder = nn.GRU(SIZE, SIZE, batch_first=True), nn.GRU(SIZE, SIZE, batch_first=True)
        self.src_word, self.tgt_word = nn.Linear(SIZE, SYMBOLS, bias=False), nn.Linear(SIZE, SYMBOLS)
        self.src_emit, self.tgt_emit = nn.Linear(SIZE, SIZE), nn.Linear(SIZE, SIZE)
        self.emit = nn.Linear(SIZE, 1)

    def forward(self, src: Tensor, src_lens: Tensor, tgt: Tensor, tgt_lens: Tensor) -> Tensor:
        """Returns the loss of a batch of pairs, ``(B, I)`` and ``(B, J)``."""
        h, _ = self.encoder(self.src_embedding(src))  # (B, I, SIZE)
        # s_j must be made from the symbols before y_j only: the start symbol, then the target moved by one.
        start = torch.full_like(tgt[:, :1], ssnt.BOS_ID)
        s, _ = self.decoder(self.tgt_embedding(torch.cat([start, tgt[:, :-1]], dim=1)))  # (B, J, SIZE)

        log_word = ssnt.linear_word_grid(
            h,
            s,
            self.src_word.weight,
            self.tgt_word.weight,
            self.tgt_word.bias,
            tgt,
            src_lens=src_lens,
            tgt_lens=tgt_lens,
        )  # (B, J, I)
        logit = self.emit(torch.tanh(self.src_emit(h)[:, None] + self.tgt_emit(s)[:, :, None]))[..., 0]  # (B, J, I)
        return ssnt.ssnt_loss(
            log_word, logsigmoid(logit), logsigmoid(-logit), src_lens, tgt_lens, end="last", reduction="token"
        )


def make_batch(size: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Invents pairs; both sides end in the end symbol, and the lengths count it."""
    sources, targets = [], []
    for length in torch.randint(2, 8, (size,), generator=generator).tolist():
        source = torch.randint(4, SYMBOLS, (length,), generator=generator).tolist()
        target = [copy for symbol in source for copy in [symbol] * (1 + symbol % 2)]
        sources.append(torch.tensor([*source, ssnt.EOS_ID]))
        targets.append(torch.tensor([*target, ssnt.EOS_ID]))
    lens = [torch.tensor([len(row) for row in rows]) for rows in (sources, targets)]
    src, tgt = (pad_sequence(rows, batch_first=True, padding_value=ssnt.PAD_ID) for rows in (sources, targets))
    return src, lens[0], tgt, lens[1]


def main() -> None:
    """Trains the model and prints its loss."""
    parser = argparse.ArgumentParser(description="Trains a model of its own with the loss of ssnt.")
    parser.add_argument("--steps", type=int, default=300, help="batches of 32 pairs (default: 300)")
    steps = parser.parse_args().steps
    torch.manual_seed(1)
    torch.set_num_threads(1)  # matrices this small are slower on several threads
    generator = torch.Generator().manual_seed(1)
    model = OwnModel()
    optimiser = torch.optim.Adam(model.parameters(), lr=5e-3)
    for step in range(steps + 1):
        loss = model(*make_batch(32, generator))
        if step % 100 == 0 or step == steps:
            print(f"step {step:4d}   nats for each target symbol {loss.item():.4f}")
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()


if __name__ == "__main__":
    main()
