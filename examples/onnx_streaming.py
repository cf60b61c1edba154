"""Streams text through an exported model with NumPy, ONNX Runtime and JSON alone: a loop to port to any language.

DIR is what ``ssnt export MODEL --onnx DIR`` has written::

    python examples/onnx_streaming.py DIR TEXT [TAG ...]
"""

import json
import sys
from pathlib import Path

import numpy as np
import onnxruntime

MOST = 8  # symbols that may be written at one source symbol


class Exported:
    """The graphs and tables of a model of characters that reads in one direction."""

    def __init__(self, directory: Path) -> None:
        self.about = json.loads((directory / "export.json").read_text(encoding="utf-8"))
        vocab = json.loads((directory / "vocab.json").read_text(encoding="utf-8"))
        side = vocab["source" if vocab["is_shared"] else "target"]
        self.names = vocab["special"] + side["symbols"]
        self.numbers = {name: k for k, name in enumerate(vocab["source"]["symbols"], len(vocab["special"]))}
        self.tags = {tag: k for k, tag in enumerate(vocab["tags"] or [], 1)}  # 0 is padding
        self.graphs = {one.stem: onnxruntime.InferenceSession(one) for one in directory.glob("*.onnx")}

    def run(self, graph: str, **inputs: np.ndarray) -> dict[str, np.ndarray]:
        """Runs a graph; it takes and gives arrays by name."""
        session = self.graphs[graph]
        return dict(zip([one.name for one in session.get_outputs()], session.run(None, inputs), strict=True))

    def step(self, part: str, symbol: int, before: dict, condition: dict) -> dict:
        """Lets the encoder or the decoder read one symbol; what comes out is what it goes on from, too."""
        shape = (1, self.about["sizes"][f"{part}_layers"], self.about["sizes"]["hidden"])
        zeros = np.zeros(shape, np.float32)
        state = {name: before.get(f"next_{name}", zeros) for name in ("hidden", "cell")}
        return self.run(f"{part}_step", symbols=np.array([symbol]), **state, **condition)

    def stream(self, text: str, tags: list[str]):
        """Yields what is written after each character, and at the end, which is read as a symbol as well."""
        special = self.about["special"]
        known = np.array([[self.tags[tag] for tag in tags if tag in self.tags]], np.int64)
        condition = self.run("features", tags=known) if self.about["has_tags"] else {}
        source: dict = {}
        prefix = self.step("decoder", special["begin"], {}, condition)
        for symbol in [*(self.numbers.get(one, special["unknown"]) for one in text), special["end"]]:
            is_last, written = symbol == special["end"], ""
            source = self.step("encoder", symbol, source, condition)
            for count in range(MOST + 1):
                sides = {"source": source, "prefix": prefix}  # one position, one prefix: (1, 1, size)
                halves = {f"{a}_{b}": sides[a][b][:, None] for a in sides for b in ("logits", "transition")}
                cell = self.run("joint", **halves)
                log_words = cell["log_words"][0, 0, 0]
                log_words[[special["pad"], special["begin"], *([] if is_last else [special["end"]])]] = -np.inf
                best = int(log_words.argmax())
                if best == special["end"] or count == MOST or not (is_last or cell["log_emit"] >= np.log(0.5)):
                    break  # shift: go on to the next source symbol
                written += self.names[best]  # emit
                prefix = self.step("decoder", best, prefix, condition)
            yield written


if __name__ == "__main__":
    place, text, *tags = sys.argv[1:] if len(sys.argv) > 2 else sys.exit(__doc__)
    for read, written in zip([*text, "end"], Exported(Path(place)).stream(text, tags), strict=True):
        print(f"{read:4}{written}")
