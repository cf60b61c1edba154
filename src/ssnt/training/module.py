"""The step of training, as Lightning wants it; the model itself knows nothing of Lightning."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from lightning.pytorch import LightningModule
from torch import Tensor

from ssnt.config import Config
from ssnt.errors import DataError, ModelError
from ssnt.nn import Model
from ssnt.training.datamodule import Share
from ssnt.training.progress import Progress
from ssnt.training.running_mean import RunningMean
from ssnt.training.schedule import learning_rate

CHECK_EVERY = 50
"""Steps between looks at the loss on devices that would have to be waited for."""


@dataclass(frozen=True)
class _StepLoss:
    """Sums over the pairs of a step: ``-log p(y|x)``, which is what is logged, and what is minimised."""

    nll: Tensor
    objective: Tensor


class TrainingModule(LightningModule):
    """A model, its loss and its optimiser.

    The loss of a step is the mean of ``-log p(y|x)`` over its pairs, also with several processes; with a
    ``training.delay_weight`` their delay is added to what is minimised, but not to what is logged. Random numbers are a
    function of seed, step and process, and the step size is one of the step: nothing of either has to be saved.

    Args:
        model: The model.
        config: The settings of the run.
        progress: How far it has come; steps are counted here.
        total_steps: How many steps the whole training has, for schedules that end there.
        rank: Which of several processes this is.
    """

    def __init__(self, model: Model, config: Config, progress: Progress, total_steps: int, rank: int = 0) -> None:
        super().__init__()
        self.model = model
        self.run_config = config
        self.progress = progress
        self.total_steps = total_steps
        self.rank = rank
        self.loss_sum: Tensor | None = None  # of this process's pairs in this epoch, where the model is
        self._optimiser: torch.optim.Optimizer | None = None
        self._mean: RunningMean | None = None
        self._mean_before: Mapping[str, Tensor] | None = None  # of a checkpoint

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Adam or AdamW, fused: on a CPU that takes a third to a ninth of the time of the others."""
        settings = self.run_config.optimiser
        is_fused = self.run_config.hardware.precision != "float16"  # a fused one unscales by itself, before clipping
        if settings.name == "adam":
            self._optimiser = torch.optim.Adam(self.model.parameters(), lr=settings.learning_rate, fused=is_fused)
        else:
            self._optimiser = torch.optim.AdamW(
                self.model.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay, fused=is_fused
            )
        return self._optimiser

    def on_train_start(self) -> None:
        """Begins to count, and to take the mean of weights if one is wanted."""
        self.begin_count()
        self._begin_mean()

    def _begin_mean(self) -> None:
        """Begins a mean of the weights where they are now, or goes on with that of a checkpoint."""
        decay = self.run_config.training.running_mean
        if not decay or self._mean is not None:
            return
        self._mean = RunningMean(self.model, decay)
        if self._mean_before is not None:
            self._mean.load_state(self._mean_before)
            self._mean_before = None

    def count_step(self) -> None:
        """Takes the weights into their mean, after a step that the progress has counted."""
        if self._mean is not None:
            self._mean.update(self.progress.step)

    def weights_to_keep(self) -> AbstractContextManager[None]:
        """Lets the model have the weights that are measured and kept: the running mean, if there is one."""
        self._begin_mean()
        return nullcontext() if self._mean is None else self._mean.in_place()

    def begin_count(self) -> None:
        """Counts losses from where the progress is."""
        sums = self.progress.loss_sums
        own = sums[self.rank] if self.rank < len(sums) else 0.0
        self.loss_sum = torch.tensor(own, dtype=torch.float64, device=self.device)

    def on_train_batch_start(self, batch: Share, batch_idx: int) -> None:
        """Sets the step size and the random numbers of a step."""
        for group in self._chosen_optimiser().param_groups:
            group["lr"] = self.learning_rate_at(self.progress.step + 1)
        seed = step_seed(self.run_config.training.seed, self.progress.step, self.rank)
        torch.default_generator.manual_seed(seed)
        if self.device.type == "cuda":
            torch.cuda.manual_seed(seed)

    def training_step(self, share: Share) -> Tensor:
        """The part of a step's loss that this process has."""
        try:
            parts = self._loss(share)
            nll, loss = parts.nll, parts.objective
        except DataError:  # on a CPU the loss refuses what is no number
            nll = loss = torch.stack([one.sum() for one in self.model.parameters()]).sum() * math.nan
        if share.scale:
            self._sum().add_(nll.detach())
        if self.device.type == "cpu" and not math.isfinite(loss.item()):
            # Other processes do not know of it. A gradient that is no number goes to all, and all stop at this step.
            loss = loss * math.nan
        return loss * share.scale

    def _loss(self, share: Share) -> _StepLoss:
        training = self.run_config.training
        if not training.delay_weight:
            loss = self.model.loss(share.batch, end=training.end, fastemit=training.fastemit, reduction="sum")
            return _StepLoss(loss, loss)
        terms = self.model.loss_terms(share.batch, end=training.end, fastemit=training.fastemit)
        nll = terms.nll.sum()
        return _StepLoss(nll, nll + training.delay_weight * terms.delay.sum())

    def configure_gradient_clipping(
        self,
        optimizer: torch.optim.Optimizer,
        gradient_clip_val: float | None = None,
        gradient_clip_algorithm: str | None = None,
    ) -> None:
        """Clips the gradient's norm, and stops before a gradient that is no number reaches the weights.

        Raises:
            ModelError: The loss or its gradient is infinite or no number.
        """
        limit = self.run_config.optimiser.gradient_clip
        parameters = [one for one in self.model.parameters() if one.grad is not None]
        norm = torch.nn.utils.get_total_norm([one.grad for one in parameters if one.grad is not None], foreach=True)
        if limit is not None and (self.device.type != "cpu" or norm.item() > limit):
            torch.nn.utils.clip_grads_with_norm_(parameters, limit, norm, foreach=True)
        if self.device.type == "cpu":
            if not math.isfinite(norm.item()):
                raise self._diverged()
        elif (self.progress.step + 1) % CHECK_EVERY == 0:
            self.check_finite()

    def check_finite(self) -> None:
        """Waits for the device, and raises if a loss since the last look was infinite or no number.

        Raises:
            ModelError: It was.
        """
        if not math.isfinite(self._sum().item()):
            raise self._diverged()

    def learning_rate_at(self, step: int) -> float:
        """The step size at a step, counted from 1."""
        return learning_rate(self.run_config.optimiser, step, self.total_steps, self.progress.plateau_scale)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Adds the progress, and leaves Lightning's own count of loops out: ours is exact."""
        checkpoint.pop("loops", None)
        checkpoint["progress"] = self.progress.to_state()
        if self._mean is not None:
            checkpoint["running_mean"] = self._mean.to_state()

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Remembers the mean of the weights until training starts, when the model is where it will be."""
        self._mean_before = checkpoint.get("running_mean")

    def _sum(self) -> Tensor:
        if self.loss_sum is None:
            self.loss_sum = torch.zeros((), dtype=torch.float64, device=self.device)
        return self.loss_sum

    def _chosen_optimiser(self) -> torch.optim.Optimizer:
        if self._optimiser is None:
            raise ModelError("the optimiser is made when training starts, and it has not")
        return self._optimiser

    def _diverged(self) -> ModelError:
        progress, optimiser = self.progress, self.run_config.optimiser
        where = f"at step {progress.step + 1} (epoch {progress.epoch})"
        if self.device.type != "cpu":
            where = f"at or shortly before step {progress.step + 1} (epoch {progress.epoch})"
        return ModelError(
            f"{where} the loss or its gradient is infinite or not a number: training has diverged, or no path explains "
            f"a pair any more; the last checkpoint is from before and is kept. Try a smaller "
            f"optimiser.learning_rate ({optimiser.learning_rate:g}), a smaller optimiser.gradient_clip "
            f"({optimiser.gradient_clip}), optimiser.warmup_steps ({optimiser.warmup_steps})"
            + ("" if self.run_config.hardware.precision == "float32" else ", or hardware.precision=float32")
            + f"; with the first two this training can go on: ssnt train --resume --out {self.run_config.out} "
            f"optimiser.learning_rate={optimiser.learning_rate / 4:g}"
        )


def step_seed(seed: int, step: int, rank: int) -> int:
    """The seed of the random numbers of one step in one process."""
    return int.from_bytes(hashlib.blake2b(f"{seed} {step} {rank}".encode(), digest_size=4).digest(), "little")
