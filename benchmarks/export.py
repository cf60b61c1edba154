"""Exported models on ONNX Runtime against the same models on PyTorch: streams, searches, start; and 8-bit weights."""

from __future__ import annotations

import itertools
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from measure import alternately
from options import parser, skip
from results import ROOT, Figure, Recorder, Row, faster, more

from ssnt.checkpoint import SavedModel
from ssnt.config import load_config
from ssnt.data.readers import read_examples
from ssnt.data.sample import sample_path
from ssnt.onnx_runtime import OnnxTransducer, load
from ssnt.pipeline import Transducer, Transduction
from ssnt.training import train
from ssnt.types import Example

START = "from ssnt.onnx_runtime import load; load({place!r}).transduce(['zocken'])"
START_OF_TORCH = "import ssnt; ssnt.Transducer.from_pretrained({place!r}).transduce(['zocken'])"


def sample(part: str, model: Transducer) -> list[Example]:
    """The embedded verbs."""
    return list(read_examples(str(sample_path(part)), model.config.data))


def quickstart(out: Path, epochs: int) -> Transducer:
    """The model that ``ssnt quickstart`` trains."""
    settings = {
        "data": {"train": str(sample_path("train")), "dev": str(sample_path("dev"))},
        "training": {"max_epochs": epochs},
        "out": str(out),
    }
    return train(load_config(preset="quickstart", overrides=settings))


def exported(model: Transducer, place: Path, *, int8: bool = False) -> OnnxTransducer:
    """The same model on ONNX Runtime, in one thread."""
    from ssnt.export import export_onnx

    export_onnx(SavedModel(model.model, model.vocabulary, model.config, model.metrics), place, int8=int8)
    return load(place)


def streams(model: Transducer, other: OnnxTransducer, words: Sequence[str], repeats: int, recorder: Recorder) -> None:
    """One stream pushed letter by letter, and many that are stepped together."""
    symbols = sum(map(len, words))

    def one_by_one(transducer: Any) -> None:
        for word in words:
            stream = transducer.stream()
            for letter in word:
                stream.push(letter)

    def together(transducer: Any) -> None:
        transducer.stream_each([Example(word) for word in words], batch_size=64)

    for case, run in (("one stream at a time", one_by_one), ("64 streams together", together)):
        best = alternately({"torch": lambda run=run: run(model), "onnx": lambda run=run: run(other)}, repeats, burst=2)
        ours, torchs = (Figure(name, best[name] / symbols * 1e6, "us/symbol") for name in ("onnx", "torch"))
        recorder.add(faster(f"{case}, beam 8", ours, torchs, bar=1))


def searches(
    model: Transducer, other: OnnxTransducer, examples: Sequence[Example], repeats: int, recorder: Recorder
) -> None:
    """Whole inputs, and that the outputs are the same."""
    for search in ("marginal", "path", "online"):

        def run(transducer: Any, search: Any = search) -> list[Transduction]:
            return list(transducer.transduce_each(examples, search=search))

        same = sum(one.text == two.text for one, two in zip(run(model), run(other), strict=True))
        best = alternately({"torch": lambda run=run: run(model), "onnx": lambda run=run: run(other)}, repeats, burst=2)
        ours, torchs = (Figure(name, len(examples) / best[name], "words/s") for name in ("onnx", "torch"))
        note = f"{same} of {len(examples)} outputs are the same"
        recorder.add(more(f"{search} search, beam 8", ours, torchs, note=note))


def start(place: Path, model: Path, repeats: int, recorder: Recorder) -> None:
    """From nothing to the first output, the interpreter's own start included."""

    def seconds(code: str) -> float:
        begin = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        return time.perf_counter() - begin

    codes = START.format(place=str(place)), START_OF_TORCH.format(place=str(model))
    pairs = [tuple(seconds(code) for code in codes) for _ in range(repeats)]
    ours, torchs = (min(times) for times in zip(*pairs, strict=True))
    note = f"PyTorch takes {torchs:.2f} s"
    recorder.add(
        more("start to the first output", Figure("onnx", ours, "s"), Figure("allowed", 1, "s"), 1, "at most", note)
    )


@dataclass
class Compared:
    """How models in 8 bits do beside the same in float32, added up over models.

    Attributes:
        words: How many words were tried.
        whole: How many of them float32 has right.
        less: How many of them 8 bits have right.
        different: How many outputs are not the same.
    """

    words: int = 0
    whole: int = 0
    less: int = 0
    different: int = 0

    def add(self, other: OnnxTransducer, small: OnnxTransducer, examples: Sequence[Example]) -> None:
        """Lets both models write the outputs of some examples."""
        rows = zip(examples, other.transduce_each(examples), small.transduce_each(examples), strict=True)
        for example, one, two in rows:
            target = other.vocabulary.normalise(example.target)
            self.words += 1
            self.whole += one.text == target
            self.less += two.text == target
            self.different += one.text != two.text

    def row(self, case: str, note: str = "") -> Row:
        """Both accuracies, and how many outputs differ."""
        less, whole = (100 * right / self.words for right in (self.less, self.whole))
        note = f"{self.different} of {self.words} outputs differ{note}"
        return more(case, Figure("int8", less, "%"), Figure("float32", whole, "%"), note=note)


def size(place: Path) -> float:
    """Megabytes of a directory."""
    return sum(one.stat().st_size for one in place.iterdir()) / 1e6


def int8(
    examples: Sequence[Example], other: OnnxTransducer, small: OnnxTransducer, places: list[Path], recorder: Recorder
) -> None:
    """What 8-bit weights cost in accuracy and probability, and what they save."""

    def nats(transducer: Any) -> float:
        return -sum(one.log_prob for one in transducer.score_each(examples)) / len(examples)

    compared = Compared()
    compared.add(other, small, examples)
    note = f"; {nats(small):.4f} against {nats(other):.4f} nats for each right output"
    recorder.add(compared.row("accuracy on the sample's test set", note))
    sizes = [size(place) for place in places]
    recorder.add(faster("size of the directory", Figure("int8", sizes[1], "MB"), Figure("float32", sizes[0], "MB")))


def inflection(folder: Path, most: int = 60) -> None:
    """Prints the same for the models of an inflection set, one for each of up to 14 types, on some test words each."""
    sys.path.insert(0, str(ROOT))
    from experiments.datasets import load as load_data

    name = folder.name.removeprefix("inflection_")
    test, compared, sizes = load_data(f"inflection/{name}").test, Compared(), []
    for kind in sorted(folder.iterdir())[:14]:
        examples = [Example(one.source, one.target) for one in test if ";".join(one.tags) == kind.name][:most]
        found = sorted(kind.glob("1/*/model.safetensors"))
        if not found or not examples:
            continue
        model = Transducer.from_pretrained(found[0].parent)
        with tempfile.TemporaryDirectory() as place:
            places = [Path(place) / "float32", Path(place) / "int8"]
            compared.add(exported(model, places[0]), exported(model, places[1], int8=True), examples)
            sizes.append([size(one) for one in places])
    if not sizes:
        skip(f"found no models with test words in {folder}")
    whole, less = (sum(column) / len(sizes) for column in zip(*sizes, strict=True))
    print(f"{compared.row(f'{name}, {len(sizes)} models')}; {whole:.2f} and {less:.2f} MB each")


def main() -> None:
    takes = parser(__doc__)
    takes.add_argument("--model", type=Path, help="a model directory of the sample (default: one is trained, 1 minute)")
    takes.add_argument(
        "--inflection",
        type=Path,
        metavar="FOLDER",
        help="only 8 bits, on the models of a set: experiments/work/models/inflection/biSSNT+/inflection_de-V",
    )
    options = takes.parse_args()
    try:
        import onnx  # noqa: F401
        import onnxruntime  # noqa: F401
    except ImportError:
        skip("needs onnx and onnxruntime; run pip install 'ssnt[export]'")
    torch.set_num_threads(1)
    if options.inflection:
        inflection(options.inflection)
        return
    recorder = Recorder("export", quick=options.quick, threads=1)
    repeats = 1 if options.quick else 5
    with tempfile.TemporaryDirectory() as folder:
        place = options.model or Path(folder) / "model"
        epochs = 2 if options.quick else 15
        model = Transducer.from_pretrained(place) if options.model else quickstart(place, epochs)
        torch.set_num_threads(1)  # training may have set it
        places = [Path(folder) / "float32", Path(folder) / "int8"]
        other, small = exported(model, places[0]), exported(model, places[1], int8=True)
        examples = sample("test", model)[: 20 if options.quick else None]
        words = [one.source for one in itertools.islice(examples, 8 if options.quick else 64)]
        streams(model, other, words, repeats, recorder)
        searches(model, other, examples, repeats, recorder)
        start(places[0], place, repeats, recorder)
        int8(sample("test", model), other, small, places, recorder)
    recorder.write()


if __name__ == "__main__":
    main()
