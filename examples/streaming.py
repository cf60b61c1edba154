"""Streams a word letter by letter: what is certain after each letter, what is a guess, and how late it all comes.

Takes a model directory whose encoder reads in one direction, such as the one that ``ssnt quickstart`` writes. Without
one, it trains a model on the verbs that come with the package first, which takes about a minute.

    python examples/streaming.py [MODEL] [--word WORD] [--max-delay N] [--epochs N]
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import ssnt
from ssnt.config import load_config
from ssnt.data.sample import sample_path
from ssnt.metrics import latency


def train(out: Path, epochs: int) -> ssnt.Transducer:
    """Trains what ``ssnt quickstart`` trains."""
    settings = {
        "data": {"train": str(sample_path("train")), "dev": str(sample_path("dev"))},
        "training": {"max_epochs": epochs},
        "out": str(out),
    }
    return ssnt.train(load_config(preset="quickstart", overrides=settings))


def stream(transducer: ssnt.Transducer, word: str, max_delay: int | None) -> None:
    """Pushes one letter after another and shows what each brings."""
    text = transducer.stream(max_delay=max_delay)
    output = ""
    delays: list[int] = []
    for letter in word:
        update = text.push(letter)
        output += update.committed  # never taken back
        delays += update.delays  # for each committed symbol, how many letters had been read
        print(f"  {letter}   {output}{f'({update.tentative})' if update.tentative else ''}")
    rest = text.finish()  # the word has ended
    output, delays = output + rest.committed, [*delays, *rest.delays]
    print(f"  end {output}   log p = {text.log_prob:.3f}")
    if delays:
        score = latency(delays, src_len=len(word) + 1)  # the end of the word counts as a letter
        print(f"  average lagging {score.al:.2f} letters")


def main() -> None:
    """Streams a word once without and once with a bound on the delay."""
    parser = argparse.ArgumentParser(description="Streams a word letter by letter.")
    parser.add_argument("model", nargs="?", help="a model directory (default: one is trained)")
    parser.add_argument("--word", default="zocken", help="what to read (default: zocken)")
    parser.add_argument("--max-delay", type=int, default=1, help="letters that a symbol may wait (default: 1)")
    parser.add_argument("--epochs", type=int, default=30, help="of the training, if there is no model (default: 30)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        if options.model is None:
            transducer = train(Path(place) / "model", options.epochs)
        else:
            transducer = ssnt.Transducer.from_pretrained(options.model)
        for max_delay, name in ((None, "committed when all hypotheses agree"), (options.max_delay, "with a bound")):
            print(f"{options.word}, {name}; what is in brackets may still change:")
            stream(transducer, options.word, max_delay)


if __name__ == "__main__":
    main()
