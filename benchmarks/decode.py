"""Decoding speed on a trained inflection model: marginal search against training and against path search.

Needs the data set of German nouns, ``inflection/de-N`` (columns lemma, tags and form). Trains a
biSSNT+ on one inflection type first, which takes about a minute.
"""

from __future__ import annotations

import random
import time
from pathlib import Path

import torch
from measure import alternately
from options import parser, require_data
from results import Figure, Recorder, more
from torch.nn.utils.rnn import pad_sequence

from ssnt import SSNT, Batch, ModelConfig
from ssnt.decode import ModelScorer, SearchOptions
from ssnt.decode.marginal import marginal_search
from ssnt.decode.path import path_search
from ssnt.types import EOS_ID, UNK_ID

TAGS = "case=dative,number=plural"
Pairs = list[tuple[str, str]]


def read(path: Path) -> Pairs:
    rows = [line.rstrip("\n").split("\t") for line in path.open(encoding="utf-8")]
    pairs = [(lemma.lower(), form.lower()) for lemma, tags, form in rows if tags == TAGS]
    if not pairs:
        raise SystemExit(f"{path}: no row has the tags {TAGS}")
    return pairs


def batches(pairs: Pairs, number: dict[str, int], size: int) -> list[Batch]:
    ordered = sorted(pairs, key=lambda pair: (len(pair[0]), len(pair[1])))
    made = []
    for first in range(0, len(ordered), size):
        sides = []
        for words in zip(*ordered[first : first + size], strict=True):
            rows = [torch.tensor([*(number.get(c, UNK_ID) for c in word), EOS_ID]) for word in words]
            sides += [pad_sequence(rows, batch_first=True), torch.tensor([len(row) for row in rows])]
        made.append(Batch(*sides))
    return made


def train(model: SSNT, data: list[Batch], epochs: int) -> None:
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(epochs):
        for batch in random.Random(epoch).sample(data, len(data)):
            optimiser.zero_grad()
            model.loss(batch).backward()
            optimiser.step()


def accuracy(found: list, data: list[Batch]) -> float:
    right = total = 0
    for hypotheses, batch in zip(found, data, strict=True):
        for row, best in enumerate(hypotheses):
            expected = batch.tgt[row, : int(batch.tgt_lens[row]) - 1].tolist()
            right += bool(best) and list(best[0].symbols) == expected
            total += 1
    return right / total


def trained_model(folder: Path, epochs: int) -> tuple[SSNT, dict[str, int]]:
    """A model of one inflection type, and the numbers of its letters."""
    pairs = read(folder / "train.tsv")
    letters = sorted({c for pair in pairs for word in pair for c in word})
    number = {letter: UNK_ID + 1 + k for k, letter in enumerate(letters)}
    size = UNK_ID + 1 + len(letters)
    torch.manual_seed(0)
    config = ModelConfig.variant(
        "biSSNT+", src_vocab_size=size, tgt_vocab_size=size, input_dropout=0.5, output_dropout=0.5
    )
    model = SSNT(config)
    start = time.perf_counter()
    train(model, batches(pairs, number, 32), epochs)
    print(f"  trained on {len(pairs)} pairs, {epochs} epochs, {time.perf_counter() - start:.0f} s")
    return model.eval(), number


def inflection(folder: Path, epochs: int, repeats: int, recorder: Recorder) -> None:
    model, number = trained_model(folder, epochs)
    test = batches(read(folder / "test.tsv"), number, 64)
    words = sum(len(batch.src) for batch in test)
    training = batches(read(folder / "test.tsv"), number, 32)  # the same words, so that lengths are the same
    optimiser = torch.optim.Adam(model.parameters(), lr=0.0)

    def step() -> None:
        for batch in training:
            optimiser.zero_grad()
            model.loss(batch).backward()
            optimiser.step()

    scorer, settings = ModelScorer(model), SearchOptions(beam=8)
    marginal, path = (
        lambda search=search: [search(scorer, batch, settings) for batch in test]
        for search in (marginal_search, path_search)
    )
    right = {name: accuracy(search(), test) for name, search in (("marginal", marginal), ("path", path))}
    note = f"accuracy on {words} test words: marginal {right['marginal']:.3f}, path {right['path']:.3f}"
    best = alternately({"training": step, "marginal": marginal, "path": path}, repeats, burst=1)
    rates = {name: Figure(name, words / seconds, "examples/s") for name, seconds in best.items()}
    recorder.add(
        more("marginal search, beam 8, against training", rates["marginal"], rates["training"], 0.5, note=note)
    )
    recorder.add(more("marginal search, beam 8, against path search", rates["marginal"], rates["path"], 5, note=note))


def large_vocabulary(scale: float, repeats: int, recorder: Recorder, columns: int = 10) -> None:
    """Greedy path search with 30,000 symbols against all pairwise word distributions of as many columns.

    The model is random, with scaled logits: the search is exact, so the flatter the word distributions are, the more of
    them it has to look at. The mean probability of the likeliest word tells how flat they are.
    """
    torch.manual_seed(0)
    config = ModelConfig.variant("biSSNT+", src_vocab_size=1000, tgt_vocab_size=30_000, hidden_size=256)
    model = SSNT(config).eval()
    with torch.no_grad():
        model.word.src_weight.mul_(scale)
        model.word.tgt_weight.mul_(scale)
        model.word.bias[EOS_ID] = -1000.0  # so that it writes until the limit
    src = torch.randint(4, 1000, (1, 31))
    src[0, -1] = EOS_ID
    batch = Batch(src, torch.tensor([31]))
    scorer, settings = ModelScorer(model), SearchOptions(beam=1, max_length=columns)

    def materialise() -> float:
        """All pairwise word distributions; returns the mean probability of the likeliest word."""
        with torch.no_grad():
            source = scorer.read(batch)
            for _ in range(columns):
                tgt = torch.nn.functional.linear(torch.tanh(torch.randn(31, 256)) / 4, model.word.tgt_weight)
                log_words = (source.logits[0][None] + tgt[:, None]).log_softmax(-1)
            return log_words.amax(dim=2).exp().mean().item()

    best = alternately({"greedy": lambda: path_search(scorer, batch, settings), "pairs": materialise}, repeats, burst=1)
    greedy, pairs = Figure("greedy search", best["greedy"] * 1e3, "ms"), Figure("all pairs", best["pairs"] * 1e3, "ms")
    case = f"greedy path search, V=30,000, 30 source words, {columns} columns, logits times {scale:g}"
    note = f"the likeliest word has {materialise():.2f} on average"
    recorder.add(more(case, greedy, pairs, 0.25, "at most", note))


def main() -> None:
    takes = parser(__doc__)
    takes.add_argument("--epochs", type=int, default=15)
    options = takes.parse_args()
    folder = require_data(options, "inflection/de-N")
    torch.set_num_threads(1)
    recorder = Recorder("decode", quick=options.quick)
    repeats = 1 if options.quick else 3
    inflection(folder, 1 if options.quick else options.epochs, repeats, recorder)
    for scale in (30.0, 75.0, 150.0):
        large_vocabulary(scale, repeats, recorder)
    recorder.write()


if __name__ == "__main__":
    main()
