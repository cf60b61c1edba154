"""Learns German past participles and shows where each letter is written.

A uniSSNT+ reads an infinitive and writes its participle (zocken -> gezockt). It is trained on 180 regular
verbs made from their stems, tried on verbs with stems it has not seen, streams one of them letter by letter, and draws
its alignment. Takes some fifteen seconds.

    python examples/demo.py [--out DIRECTORY] [--epochs N]
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Sequence
from pathlib import Path

import torch

from ssnt import SSNT, Batch, ModelConfig
from ssnt.decode import ModelScorer, Stream, StreamOptions, align, decode
from ssnt.plots import plot_alignment
from ssnt.types import EOS_ID, UNK_ID

STEMS = """
mach sag frag lern spiel hör wohn koch kauf lach tanz such brauch glaub hol leb lieb mal pack putz rauch reis
schau schenk schick setz stell stör teil träum turn wähl warn wein wisch zahl zeig bau blick bohr brems dank
dreh drück dusch fehl fisch flick folg führ füll gähn grins grüß hass heil heul hoff hüpf jag kämm kämpf kehr
kleb klopf knall kratz küss läut leck lehr leist lenk lob lock lös merk miet nag näh nick nutz pass pfleg
pflück plan prüf quäl räum reg ruh rühr säg schäl schätz schmück schnapp schnarch schraub schwänz seufz spar
sperr spül stärk staun steck stopf streif streik strick stürz stütz tank taug tropf üb wach wag weck wett wink
wirk würz zähl zapf zerr zück zünd surf chill jogg film park test check klick mail mix acht arbeit antwort bad
bet blut büß deut duld ernt falt fast fürcht gründ haft heirat herrsch hust irr kost land leit meld red rett
richt rost rüst schad schalt schlacht spend spott starr start tast töt wart weid zücht mein
""".split()  # noqa: SIM905 - a list of two hundred strings does not read better
HELD_OUT = ["zock", "kick", "fluch", "murr", "tob", "schnauf", "knips", "lausch", "trenn", "schmeck"]


def participle_pairs(stems: list[str]) -> list[tuple[str, str]]:
    """Infinitives with participles by the rule for weak verbs: ``ge-...-t``, with ``-et`` after t and d."""
    return [(stem + "en", "ge" + stem + ("et" if stem[-1] in "td" else "t")) for stem in stems]


class Symbols:
    """Characters and their numbers; the first four numbers are the special symbols."""

    def __init__(self, pairs: list[tuple[str, str]]) -> None:
        self.letters = sorted({letter for pair in pairs for word in pair for letter in word})
        self.number = {letter: UNK_ID + 1 + k for k, letter in enumerate(self.letters)}
        self.size = UNK_ID + 1 + len(self.letters)

    def numbers(self, word: str) -> list[int]:
        """The letters of a word as numbers."""
        return [self.number.get(letter, UNK_ID) for letter in word]

    def text(self, numbers: Sequence[int]) -> str:
        """The word that numbers stand for; special symbols are shown as a question mark."""
        return "".join(self.letters[n - UNK_ID - 1] if n > UNK_ID else "?" for n in numbers)

    def batch(self, pairs: list[tuple[str, str]]) -> Batch:
        """Both sides end in ``</s>``."""
        sides = []
        for words in zip(*pairs, strict=True):
            rows = [torch.tensor([*self.numbers(word), EOS_ID]) for word in words]
            sides += [torch.nn.utils.rnn.pad_sequence(rows, batch_first=True), torch.tensor([len(r) for r in rows])]
        return Batch(*sides)


def train(model: SSNT, batches: list[Batch], epochs: int) -> None:
    """Adam on the exact negative log-likelihood."""
    optimiser = torch.optim.Adam(model.parameters(), lr=2e-3)
    start = time.perf_counter()
    for epoch in range(1, epochs + 1):
        model.train()
        total = torch.tensor(0.0)
        for k in torch.randperm(len(batches)).tolist():
            loss = model.loss(batches[k], reduction="token")
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            total += loss.detach()
        if epoch == 1 or epoch % 10 == 0:
            seconds = time.perf_counter() - start
            print(f"epoch {epoch:3d}   loss per letter {total.item() / len(batches):.4f}   {seconds:4.0f} s")


def show_stream(scorer: ModelScorer, symbols: Symbols, word: str) -> None:
    """Reads a word letter by letter and shows what is written meanwhile."""
    stream = Stream(scorer, StreamOptions(beam=8, beam_threshold=5.0))
    written = ""
    for letter in word:
        update = stream.push(symbols.number.get(letter, UNK_ID))
        written += symbols.text(update.committed)
        print(f"  read {letter}   {written}{'(' + symbols.text(update.tentative) + ')' if update.tentative else ''}")
    print(f"  end      {written + symbols.text(stream.finish().symbols)}")


def main() -> None:
    """Trains, evaluates, streams and draws."""
    parser = argparse.ArgumentParser(description="Learns German past participles, streams one and draws it.")
    parser.add_argument("--out", type=Path, default=Path("demo"), help="directory for the picture (default: demo)")
    parser.add_argument("--epochs", type=int, default=60, help="passes over the training verbs (default: 60)")
    options = parser.parse_args()
    torch.manual_seed(1)
    torch.set_num_threads(1)  # matrices this small are slower on several threads
    training, held_out = participle_pairs(STEMS), participle_pairs(HELD_OUT)
    symbols = Symbols(training)
    config = ModelConfig.variant(
        "uniSSNT+", src_vocab_size=symbols.size, tgt_vocab_size=symbols.size, hidden_size=96, input_dropout=0.3
    )
    model = SSNT(config)
    print(f"{config.name}, {sum(p.numel() for p in model.parameters()):,} parameters, {len(training)} training verbs")
    train(model, [symbols.batch(training[k : k + 16]) for k in range(0, len(training), 16)], options.epochs)

    model.eval()
    scorer = ModelScorer(model)
    print("\nVerbs with stems never seen: the likeliest participle and its exact probability:")
    found = decode(scorer, [symbols.numbers(infinitive) for infinitive, _ in held_out])
    right = 0
    for (infinitive, participle), hypotheses in zip(held_out, found, strict=True):
        best = hypotheses[0]
        output = symbols.text(best.symbols)
        right += output == participle
        remark = "" if output == participle else f"   ({participle})"
        print(f"  {infinitive:10s} {output:12s} p = {math.exp(best.log_prob):.3f}{remark}")
    print(f"{right} of {len(held_out)} are right")

    infinitive, participle = held_out[0]
    print(f"\n{infinitive}, letter by letter; what is in brackets may still change:")
    show_stream(scorer, symbols, infinitive)

    options.out.mkdir(parents=True, exist_ok=True)
    picture = options.out / "alignment.png"
    (pair,) = align(scorer, symbols.batch(held_out[:1]))
    labels = [*infinitive, "</s>"], [*participle, "</s>"]
    plot_alignment(pair.emit, *labels, pair.path).savefig(picture, dpi=150)
    print(f"\nThe alignment of {infinitive} with {participle} is drawn in {picture}")


if __name__ == "__main__":
    main()
