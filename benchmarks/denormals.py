"""What it saves to take numbers below the normal range for zero: in training, and in searches of the trained model.

A model of H=256 learns the present participles of Spanish verbs, which it soon writes without an error: then most of
its probabilities are next to zero. After that, an epoch of its training, and searches, are timed with such numbers and
with zeros in their place, in turns, in one thread.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from loops import BareLoop, inflection_settings
from measure import alternately
from options import parser, require_data
from results import Figure, Recorder, faster

from ssnt.config import Config
from ssnt.decode import ModelScorer, SearchOptions
from ssnt.decode.marginal import marginal_search
from ssnt.denormals import without_denormals

TAGS = "type=participle,tense=present"
BATCH = 64
WAYS: dict[str, Callable[[], AbstractContextManager[None]]] = {"zero": without_denormals, "kept": nullcontext}


def participles(folder: Path, place: Path) -> Path:
    """Writes the pairs of the present participles as a file; returns its name."""
    rows = [line.split("\t") for line in (folder / "train.tsv").read_text(encoding="utf-8").splitlines()]
    path = place / "train.tsv"
    pairs = [f"{lemma}\t{form}\n".lower() for lemma, tags, form in rows if tags == TAGS]
    path.write_text("".join(pairs), encoding="utf-8")
    return path


def settings(train: Path) -> Config:
    """The preset for inflection, twice as large."""
    config = inflection_settings(train, BATCH)
    return config.model_copy(update={"model": config.model.model_copy(update={"hidden_size": 256})})


def compare(train: Path, recorder: Recorder, *, epochs: int, repeats: int, steps: int) -> None:
    """Trains, measures, and adds the rows."""
    loop = BareLoop(settings(train))
    shares = [loop.data.share(1, indices) for indices in loop.data.plan(1)][:steps]
    with without_denormals():
        for _ in range(epochs):
            loop.run(len(shares))

    def training(way: str) -> None:
        with WAYS[way]():
            for share in shares:
                loop.step(share)

    def searches(way: str) -> None:
        loop.model.eval()
        scorer, options = ModelScorer(loop.model), SearchOptions(beam=8)
        with WAYS[way](), torch.no_grad():
            for share in shares:
                marginal_search(scorer, share.batch, options)
        loop.model.train()

    pairs = sum(share.pairs for share in shares)
    for name, work in (("training", training), ("marginal search, beam 8", searches)):
        best = alternately({way: lambda way=way, work=work: work(way) for way in WAYS}, repeats, burst=1)
        ours, other = (Figure(way, best[way] / pairs * 1e6, "us a pair") for way in WAYS)
        recorder.add(faster(f"{name}, after {epochs} epochs", ours, other))


def main() -> None:
    options = parser(__doc__).parse_args()
    folder = require_data(options, "inflection/es-V")
    torch.set_num_threads(1)
    recorder = Recorder("denormals", quick=options.quick)
    with TemporaryDirectory() as place:
        train = participles(folder, Path(place))
        epochs, repeats, steps = (1, 1, 5) if options.quick else (12, 5, 1000)
        compare(train, recorder, epochs=epochs, repeats=repeats, steps=steps)
    recorder.write()


if __name__ == "__main__":
    main()
