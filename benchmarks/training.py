"""Training against yoyodyne: examples a second on German dative plurals, batch 32, H=128, one thread each.

Our side trains as ``ssnt train`` does, Lightning included; yoyodyne by its own trainer and in a plain loop around its
module, and the faster of the two counts. Both load their data while they train. Start-up, validation and checkpoints
are left out on both sides. The sides take turns; all turns of a side have the same batches, and the best time of each
step counts.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from loops import BareLoop, dative_plurals, inflection_settings, with_lightning
from numpy.typing import NDArray
from options import parser, require_data
from peers.peer import Peer, require_peer
from results import Figure, Recorder, more

from ssnt.config import Config

BATCH = 32
BARS = {"hard": 15.0, "soft": 6.0}
NAMES = {"hard": "yoyodyne hard attention, monotone", "soft": "yoyodyne soft attention"}


@dataclass(frozen=True)
class Turn:
    """What a side does again and again: some steps over so many examples, of which it gives the seconds of each."""

    examples: int
    steps: Callable[[], NDArray[np.float64]]


def variant(config: Config, *, is_bidirectional: bool) -> Config:
    """The same settings with another encoder."""
    return config.model_copy(
        update={"model": config.model.model_copy(update={"bidirectional": is_bidirectional})}, deep=True
    )


def our_turns(train: Path) -> dict[str, Turn]:
    """One epoch of our training, for each model."""
    first = BareLoop(inflection_settings(train, BATCH))
    plan = first.data.plan(1)
    steps = len(plan) - 1  # the last of an epoch validates
    examples = sum(map(len, plan[:steps]))
    config = inflection_settings(train, BATCH, max_steps=steps)
    models = {name: variant(config, is_bidirectional=name == "biSSNT+") for name in ("biSSNT+", "uniSSNT+")}
    return {
        name: Turn(examples, lambda model=model: with_lightning(model, first.prepared, steps))
        for name, model in models.items()
    }


def peer_turns(peers: dict[str, Peer], steps: int) -> dict[str, Turn]:
    """Some steps of each of yoyodyne's models, in both ways."""

    def turn(peer: Peer, way: str) -> Turn:
        return Turn(steps * BATCH, lambda: np.array(peer.ask("train", way, steps)["times"]))

    return {f"{name} {way}": turn(peer, way) for name, peer in peers.items() for way in ("loop", "trainer")}


def best_of(turns: dict[str, Turn], repeats: int) -> dict[str, float]:
    """Examples a second of each in the best times of its steps, after a turn that only warms up."""
    for turn in turns.values():
        turn.steps()
    times: dict[str, list[NDArray[np.float64]]] = {name: [] for name in turns}
    for _ in range(repeats):
        for name, turn in turns.items():
            times[name].append(turn.steps())
    return {name: turn.examples / float(np.min(times[name], axis=0).sum()) for name, turn in turns.items()}


def compare(train: Path, recorder: Recorder, repeats: int, steps: int) -> None:
    """Measures, and adds the rows."""
    with (
        Peer("yoyodyne", "yoyodyne_driver.py", "--model", "hard", "--train", train) as hard,
        Peer("yoyodyne", "yoyodyne_driver.py", "--model", "soft", "--train", train) as soft,
    ):
        peers = {"hard": hard, "soft": soft}
        best = best_of({**our_turns(train), **peer_turns(peers, steps)}, repeats)
    for ours in ("biSSNT+", "uniSSNT+"):
        for name, bar in BARS.items():
            ways = {way: best[f"{name} {way}"] for way in ("loop", "trainer")}
            way = max(ways, key=lambda one: ways[one])
            recorder.add(
                more(
                    f"{ours}, against {name} attention",
                    Figure(f"ssnt {ours}", best[ours], "examples/s"),
                    Figure(f"{NAMES[name]}, {way}", ways[way], "examples/s"),
                    bar if ours == "biSSNT+" else None,
                    note="by its own trainer {trainer:.0f}, in a plain loop {loop:.0f} examples/s".format(**ways),
                )
            )


def main() -> None:
    options = parser(__doc__).parse_args()
    folder = require_data(options, "inflection/de-N")
    require_peer("yoyodyne")
    torch.set_num_threads(1)
    recorder = Recorder("training", quick=options.quick)
    with tempfile.TemporaryDirectory() as place:
        train = dative_plurals(folder, Path(place))
        compare(train, recorder, repeats=1 if options.quick else 5, steps=5 if options.quick else 30)
    recorder.write()


if __name__ == "__main__":
    main()
