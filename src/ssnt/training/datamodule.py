"""Training data as a stream of batches that can begin anywhere.

The batches of an epoch are a function of seed and epoch alone. A training that goes on in the middle of an epoch plans
the whole epoch again, which is cheap, and begins at the batch where it stopped: those before are never loaded.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from lightning.pytorch import LightningDataModule

from ssnt.config import Config
from ssnt.data.batching import Indices, collate, plan_batches, shard_of
from ssnt.data.crossover import Crossover
from ssnt.data.prepared import Prepared
from ssnt.training.progress import Progress
from ssnt.types import Batch


@dataclass(frozen=True)
class Share:
    """What one process works on in one step.

    Attributes:
        batch: Its pairs. If there are none for it, one that another process has too: every process has to take part.
        scale: What the sum of their losses is multiplied by, so that the mean over processes, which is what their
            gradients are put together by, is the mean over all pairs of the step; 0 if there are none.
        pairs: How many pairs all processes have.
        symbols: How many target symbols these have, end symbols included.
    """

    batch: Batch
    scale: float
    pairs: int
    symbols: int

    def to(self, device: torch.device | str, **_: Any) -> Share:
        """The same on another device."""
        return Share(self.batch.to(device), self.scale, self.pairs, self.symbols)


class TrainingData(LightningDataModule):
    """Gives the batches of a training from where it has come to.

    To Lightning the whole training is one epoch: how many batches an epoch of ours has may differ from epoch to epoch,
    and a training that goes on begins in the middle of one.

    Args:
        prepared: The training data.
        config: The settings of the run.
        progress: Where to begin.
        rank: Which of several processes this is.
        world_size: How many there are.
        crossover: What makes further examples for each epoch; None: there are none.
    """

    def __init__(
        self,
        prepared: Prepared,
        config: Config,
        progress: Progress,
        rank: int = 0,
        world_size: int = 1,
        crossover: Crossover | None = None,
    ):
        super().__init__()
        self.prepared = prepared
        self.config = config
        self.progress = progress
        self.rank = rank
        self.world_size = world_size
        self._crossover = crossover
        self._plan = lru_cache(maxsize=2)(self._make_plan)
        self._examples = lru_cache(maxsize=2)(self._make_examples)

    def examples(self, epoch: int) -> Prepared:
        """What an epoch, counted from 1, goes through: the training data, and what is made of it."""
        return self._examples(epoch)

    def plan(self, epoch: int) -> list[Indices]:
        """The batches of an epoch, counted from 1, over all processes."""
        return self._plan(epoch)

    def total_steps(self) -> int:
        """How many steps the whole training has, if all its epochs have as many as the first."""
        training = self.config.training
        steps = training.max_epochs * len(self.plan(1))
        return steps if training.max_steps is None else min(steps, training.max_steps)

    def train_dataloader(self) -> Iterator[Share]:
        """The shares of this process, to the end of the training."""
        return self._shares(self.progress.epoch, self.progress.epoch_step)

    def share(self, epoch: int, indices: Indices) -> Share:
        """This process's part of a batch of an epoch."""
        examples = self.examples(epoch)
        own = shard_of(indices, self.rank, self.world_size)
        scale = self.world_size / len(indices) if len(own) else 0.0
        batch = collate(examples, own if len(own) else indices[:1])
        return Share(batch, scale, len(indices), int(examples.tgt_lens[indices].sum()))

    def _shares(self, epoch: int, first: int) -> Iterator[Share]:
        while epoch <= self.config.training.max_epochs:
            for indices in self.plan(epoch)[first:]:
                yield self.share(epoch, indices)
            epoch, first = epoch + 1, 0

    def _make_plan(self, epoch: int) -> list[Indices]:
        examples = self.examples(epoch)
        return plan_batches(
            examples.src_lens,
            examples.tgt_lens,
            self.config.batch,
            seed=self.config.training.seed,
            epoch=epoch,
            shards=self.world_size,
        )

    def _make_examples(self, epoch: int) -> Prepared:
        return self.prepared if self._crossover is None else self._crossover.epoch(epoch)
