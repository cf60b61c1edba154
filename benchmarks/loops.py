"""Training steps through the module that ``ssnt train`` uses, with and without Lightning's trainer around it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from lightning.pytorch import Callback
from numpy.typing import NDArray
from torch import Tensor

from ssnt import SSNT, Batch
from ssnt.checkpoint.load import model_config
from ssnt.config import Config, load_config
from ssnt.data.prepared import Prepared, prepare
from ssnt.interrupts import Stop
from ssnt.loss import ssnt_loss
from ssnt.training.callbacks import Conductor, Surroundings
from ssnt.training.datamodule import Share, TrainingData
from ssnt.training.display import Display
from ssnt.training.fit import make_trainer
from ssnt.training.module import TrainingModule
from ssnt.training.processes import World
from ssnt.training.progress import Progress
from ssnt.training.quiet import quiet_lightning
from ssnt.training.run_directory import RunDirectory
from ssnt.training.validation import Validation

DATIVE_PLURAL = "case=dative,number=plural"


def dative_plurals(folder: Path, place: Path, split: str = "train") -> Path:
    """Writes the German dative plurals of a split as a file of pairs, lowercased; returns its name."""
    rows = [line.split("\t") for line in (folder / f"{split}.tsv").read_text(encoding="utf-8").splitlines()]
    pairs = [f"{lemma}\t{form}\n".lower() for lemma, tags, form in rows if tags == DATIVE_PLURAL]
    path = place / f"{split}.tsv"
    path.write_text("".join(pairs), encoding="utf-8")
    return path


def inflection_settings(train: Path, batch_size: int, **training: object) -> Config:
    """The preset for inflection, over a file of pairs, with a cache beside it."""
    return load_config(
        preset="inflection",
        overrides={
            "data": {"format": "tsv", "train": str(train), "cache": str(train.parent / "cache")},
            "batch": {"size": batch_size},
            "training": {"max_epochs": 1000, **training},
            "out": str(train.parent / "model"),
        },
    )


class BareLoop:
    """A model, its data and its optimiser, with the steps of ``ssnt train`` and nothing else.

    Args:
        config: The settings.
        prepared: The training data; prepared anew if not given.
        loss: What to minimise instead of the model's own loss.
    """

    def __init__(
        self,
        config: Config,
        prepared: Prepared | None = None,
        loss: Callable[[SSNT, Batch], Tensor] | None = None,
    ) -> None:
        self.config = config
        self.prepared = prepared or prepare(str(config.data.train), config.data, None, is_training=True)
        torch.manual_seed(config.training.seed)
        self.model = SSNT(model_config(config, self.prepared.vocabulary)).train()
        self.data = TrainingData(self.prepared, config, Progress())
        self.module = TrainingModule(self.model, config, Progress(), self.data.total_steps())
        self.optimiser = self.module.configure_optimizers()
        self.module.begin_count()
        self._loss = loss

    def shares(self) -> Iterator[Share]:
        """The batches, from the first."""
        return iter(self.data.train_dataloader())

    def step(self, share: Share, index: int = 0) -> None:
        """One step with one batch."""
        self.module.on_train_batch_start(share, index)
        loss = (
            self.module.training_step(share)
            if self._loss is None
            else self._loss(self.model, share.batch) / share.pairs
        )
        self.optimiser.zero_grad()
        loss.backward()
        self.module.configure_gradient_clipping(self.optimiser)
        self.optimiser.step()
        self.module.progress.step += 1

    def run(self, steps: int) -> None:
        """The first steps of the training, data included."""
        for index, share in zip(range(steps), self.shares(), strict=False):
            self.step(share, index)


class Clock(Callback):
    """Notes when each step begins, and when the last one ends, before the conductor validates and writes."""

    def __init__(self, steps: int) -> None:
        self.times: list[float] = []
        self._steps = steps

    def on_train_batch_start(self, *arguments: Any) -> None:
        self.times.append(time.perf_counter())

    def on_train_batch_end(self, *arguments: Any) -> None:
        if arguments[-1] == self._steps - 1:
            self.times.append(time.perf_counter())


def with_lightning(config: Config, prepared: Prepared, steps: int) -> NDArray[np.float64]:
    """Seconds of each of the first steps as ``ssnt train`` takes them, loading the next batch included."""
    loop = BareLoop(config, prepared)
    progress, world = Progress(), World()
    directory = RunDirectory(str(config.out))
    directory.training.mkdir(parents=True, exist_ok=True)
    data = TrainingData(prepared, config, progress)
    module = TrainingModule(loop.model, config, progress, data.total_steps())
    validation = Validation(config, prepared.vocabulary, [])
    conductor = Conductor(Surroundings(config, directory, world, Display(), Stop()), progress, data, validation)
    clock = Clock(steps)
    with quiet_lightning():
        trainer = make_trainer(config, world, conductor, directory.training)
        trainer.callbacks.insert(0, clock)
        trainer.fit(module, datamodule=data)
    return np.diff(clock.times)


def materialised_loss(model: SSNT, batch: Batch) -> Tensor:
    """The model's loss, summed, by way of a log-softmax over all symbols at every cell: ``(B, J, I, V)``."""
    encoding = model.encode(batch)
    src_states = model.output_dropout(encoding.states)
    tgt_states = model.output_dropout(model.decoder(batch.tgt, encoding.condition))
    log_probs = model.word.log_probs(src_states[:, None], tgt_states[:, :, None])  # (B, J, I, V)
    index = batch.tgt[:, :, None, None].expand(*log_probs.shape[:3], 1)
    log_word = log_probs.gather(-1, index)[..., 0]  # (B, J, I)
    decisions = model.transition.log_grid(src_states, tgt_states)
    lens = batch.src_lens, batch.tgt_lens
    return ssnt_loss(log_word, decisions.log_emit, decisions.log_shift, *lens, reduction="sum")
