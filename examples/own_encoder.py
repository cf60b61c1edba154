"""An encoder of your own in the paper's model: a causal convolution, which can also be stepped.

An encoder is an ``nn.Module`` with ``output_size``, ``is_streaming`` and ``forward``; one that can read a symbol at a
time has ``initial_state`` and ``step`` too (``ssnt.nn.Encoder`` and ``ssnt.nn.StreamingEncoder``). The rest of the
model, the searches and the streams take it as it is. The task is invented: every symbol is copied, and odd ones are
written twice. Takes some seconds.

    python examples/own_encoder.py [--steps N]
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

import ssnt
from ssnt.decode import Failure, ModelScorer, SearchOptions, Stream, StreamOptions, decode
from ssnt.nn import Step

SYMBOLS = 12  # the first four are special


@dataclass(frozen=True)
class Window:
    """What a stream remembers: the embeddings of the symbols before, ``(B, width - 1, E)``.

    Attributes:
        embedded: One row for each stream.
    """

    embedded: Tensor

    def select(self, index: Tensor) -> Window:
        """The rows ``index``, in that order: searches reorder what they remember."""
        return Window(self.embedded.index_select(0, index))


class ConvolutionEncoder(nn.Module):
    """``h_i`` from the last ``width`` symbols up to ``x_i``: no recurrence, and no look ahead."""

    is_streaming = True

    def __init__(self, vocab_size: int, size: int, width: int = 3) -> None:
        super().__init__()
        self.output_size = size
        self.width = width
        self.embedding = nn.Embedding(vocab_size, size)
        self.convolution = nn.Conv1d(size, size, width)

    def forward(self, src: Tensor, src_lens: Tensor, condition: Tensor | None = None) -> Tensor:
        """Maps symbols (B, I) to states (B, I, H); padding comes after a source and cannot reach its states."""
        before = self.initial_state(len(src)).embedded  # (B, width - 1, H)
        return self._convolved(torch.cat([before, self.embedding(src)], dim=1))

    def initial_state(self, batch_size: int) -> Window:
        """Nothing has been read: zeros."""
        return Window(self.embedding.weight.new_zeros(batch_size, self.width - 1, self.output_size))

    def step(self, symbols: Tensor, state: Window, condition: Tensor | None = None) -> Step[Window]:
        """Reads one symbol (B,) of each stream."""
        seen = torch.cat([state.embedded, self.embedding(symbols)[:, None]], dim=1)  # (B, width, H)
        return Step(self._convolved(seen)[:, 0], Window(seen[:, 1:]))

    def _convolved(self, embedded: Tensor) -> Tensor:
        return torch.tanh(self.convolution(embedded.transpose(1, 2)).transpose(1, 2))


def expected(source: list[int]) -> list[int]:
    """The right answer."""
    return [copy for symbol in source for copy in [symbol] * (1 + symbol % 2)]


def make_batch(size: int, generator: torch.Generator) -> ssnt.Batch:
    """Invents pairs; both sides end in the end symbol, and the lengths count it."""
    sides: list[Tensor] = []
    lengths = torch.randint(2, 8, (size,), generator=generator).tolist()
    sources = [torch.randint(4, SYMBOLS, (length,), generator=generator).tolist() for length in lengths]
    for rows in (sources, [expected(source) for source in sources]):
        tensors = [torch.tensor([*row, ssnt.EOS_ID]) for row in rows]
        sides += [pad_sequence(tensors, batch_first=True), torch.tensor([len(row) for row in tensors])]
    return ssnt.Batch(*sides)


def main() -> None:
    """Trains the model, decodes with it and streams with it."""
    parser = argparse.ArgumentParser(description="Trains a transducer with a convolutional encoder.")
    parser.add_argument("--steps", type=int, default=300, help="batches of 32 pairs (default: 300)")
    steps = parser.parse_args().steps
    torch.manual_seed(1)
    torch.set_num_threads(1)  # matrices this small are slower on several threads
    generator = torch.Generator().manual_seed(1)
    config = ssnt.ModelConfig(src_vocab_size=SYMBOLS, tgt_vocab_size=SYMBOLS, embed_size=48, hidden_size=48)
    model = ssnt.SSNT(config, encoder=ConvolutionEncoder(SYMBOLS, 48))
    optimiser = torch.optim.Adam(model.parameters(), lr=5e-3)
    for step in range(steps + 1):
        loss = model.loss(make_batch(32, generator), end="last", reduction="token")
        if step % 100 == 0 or step == steps:
            print(f"step {step:4d}   nats for each target symbol {loss.item():.4f}")
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()

    model.eval()
    scorer = ModelScorer(model)
    source = [7, 4, 9, 6]
    (found,) = decode(scorer, [source], "marginal", SearchOptions(end="last"))
    if isinstance(found, Failure):  # such as for an empty source
        raise found.error
    print(f"{source} -> {list(found[0].symbols)}, expected {expected(source)}")
    stream = Stream(scorer, StreamOptions(max_delay=1))
    for symbol in source:
        print(f"  read {symbol}: wrote {list(stream.push(symbol).committed)}")
    print(f"  end: wrote {list(stream.finish().symbols)}")


if __name__ == "__main__":
    main()
