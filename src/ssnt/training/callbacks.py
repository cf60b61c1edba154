"""What happens between the steps: counting, validation, selection, checkpoints, logs, and stopping when asked to."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer

from ssnt.config import Config
from ssnt.interrupts import Stop, StopNow
from ssnt.training.checkpoints import write_weights
from ssnt.training.datamodule import Share, TrainingData
from ssnt.training.display import Display, Moment, Pace
from ssnt.training.logs import TensorBoardLog, write_csv
from ssnt.training.module import TrainingModule
from ssnt.training.processes import World
from ssnt.training.progress import Kept, Progress, Row
from ssnt.training.run_directory import RunDirectory
from ssnt.training.validation import Measured, Validation

AGREE_EVERY = 16
"""Steps after which several processes ask one another whether to stop or to write a checkpoint."""


@dataclass(frozen=True)
class Surroundings:
    """What a run works with besides model and data.

    Attributes:
        config: Its settings.
        directory: Where it writes.
        world: The processes.
        display: What the user sees.
        stop: Who wants it to stop.
    """

    config: Config
    directory: RunDirectory
    world: World
    display: Display
    stop: Stop


class Conductor(Callback):
    """Leads a training through its epochs, from wherever it begins.

    Files are written in an order in which a process may be killed between any two: first the weights that the next
    checkpoint names, then the checkpoint, then what can be made from it again; last, weights that none names any more
    are deleted.

    Args:
        around: What the run works with.
        progress: How far it has come.
        data: The batches.
        validation: What measures the model.

    Attributes:
        is_interrupted: Whether training was stopped from outside.
    """

    def __init__(self, around: Surroundings, progress: Progress, data: TrainingData, validation: Validation) -> None:
        self.is_interrupted = False
        self._around = around
        self._config = around.config
        self._progress = progress
        self._data = data
        self._validation = validation
        self._pace = Pace()
        self._seconds_before = progress.seconds
        self._saved_at = self._shown_at = time.perf_counter()
        self._tensorboard: TensorBoardLog | None = None

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Takes the signals over from Lightning, and does what an interrupted training had still to do."""
        self._around.stop.listen()
        if self._around.world.is_first:
            self._around.directory.tidy({one.file for one in self._progress.kept})
            self._write_logs()
        self._pace = Pace()
        if self._is_epoch_over() and self._progress.validated_step != self._progress.step:
            self._module(pl_module).begin_count()
            self._end_epoch(trainer, self._module(pl_module))
        self._stop_if_done(trainer)

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Share, batch_idx: int
    ) -> None:
        """Counts a step; at the end of an epoch, or when it is time, does what is due."""
        progress = self._progress
        progress.step += 1
        progress.epoch_step += 1
        progress.pairs += batch.pairs
        progress.symbols += batch.symbols
        now = self._pace.step(batch.pairs)
        module = self._module(pl_module)
        module.count_step()
        self._show(module, now)
        if self._is_epoch_over():
            self._end_epoch(trainer, module)
            self._stop_if_done(trainer)
            return
        self._look_up(trainer, module, now)

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        """Leaves the terminal as it was."""
        self._close()

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Leaves the terminal as it was."""
        self._close()

    def _close(self) -> None:
        self._around.display.close()
        if self._tensorboard is not None:
            self._tensorboard.close()
            self._tensorboard = None

    def _module(self, pl_module: LightningModule) -> TrainingModule:
        if not isinstance(pl_module, TrainingModule):
            raise TypeError(f"expected a TrainingModule, got {type(pl_module).__name__}")
        return pl_module

    def _is_epoch_over(self) -> bool:
        progress = self._progress
        if progress.epoch > self._config.training.max_epochs:
            return False
        is_complete = progress.epoch_step >= len(self._data.plan(progress.epoch))
        # a run that goes on with fewer steps may be out of them before the first of an epoch, with nothing to measure
        return is_complete or (progress.epoch_step > 0 and progress.is_out_of_steps(self._config))

    def _look_up(self, trainer: Trainer, module: TrainingModule, now: float) -> None:
        """Stops or writes a checkpoint, if it is time for either; several processes agree on that."""
        around = self._around
        if around.world.size > 1 and self._progress.step % AGREE_EVERY:
            return
        is_due = now - self._saved_at > 60 * self._config.training.checkpoint_minutes
        must_stop, must_save = around.world.any(around.stop.is_requested, is_due)
        if must_stop or must_save:
            self._save(trainer, module)
        if must_stop:
            self._interrupt(trainer)

    def _interrupt(self, trainer: Trainer) -> None:
        self.is_interrupted = True
        trainer.should_stop = True

    def _stop_if_done(self, trainer: Trainer) -> None:
        if self._progress.end_reason(self._config) is not None:
            trainer.should_stop = True

    def _end_epoch(self, trainer: Trainer, module: TrainingModule) -> None:
        """Validates if it is time to, keeps the weights if they are good, and writes everything down."""
        progress, world = self._progress, self._around.world
        module.check_finite()
        progress.loss_sums = world.gather(self._loss_sum(module))
        measured: Measured | None = None
        perplexity = _perplexity(math.fsum(progress.loss_sums), progress.symbols)
        if self._must_validate():
            measured = self._validate(module, perplexity)
            if measured is None:  # it will be done when training goes on
                self._save(trainer, module)
                self._interrupt(trainer)
                return
        row = self._note(module, measured, perplexity)
        if progress.epoch_step >= len(self._data.plan(progress.epoch)):
            progress.begin_next_epoch()
            module.begin_count()
        self._save(trainer, module)
        if world.is_first:
            self._around.directory.tidy({one.file for one in progress.kept})
            write_csv(self._around.directory.log, progress.rows)
            if self._tensorboard is not None:
                self._tensorboard.add(row)
        self._around.display.add(row, self._config.training.max_epochs)
        self._pace.begin()
        if self._around.world.any(self._around.stop.is_requested)[0]:
            self._interrupt(trainer)

    def _must_validate(self) -> bool:
        progress, config = self._progress, self._config
        is_last = progress.epoch >= config.training.max_epochs or progress.is_out_of_steps(config)
        return is_last or progress.epoch % config.validation.every == 0

    def _validate(self, module: TrainingModule, train_perplexity: float) -> Measured | None:
        """Measures the model in the first process, for all of them; None: somebody wants to stop, and does not wait."""

        def measure() -> Measured | None:
            self._show(module, math.inf, is_validating=True)
            try:
                with module.weights_to_keep(), self._around.stop.giving_up_allowed():
                    return self._validation(module.model, train_perplexity)
            except StopNow:
                return None
            finally:
                module.model.train()

        return self._around.world.first(measure)

    def _note(self, module: TrainingModule, measured: Measured | None, perplexity: float) -> Row:
        """Puts an epoch into the log, and its weights among the best if they belong there."""
        progress = self._progress
        is_best = False
        rate = module.learning_rate_at(progress.step)
        if measured is not None:
            is_best = self._keep(module, measured)
            is_better = progress.note_value(measured.value, measured.metric, measured.dev_perplexity)
            self._lower_on_plateau(is_better)
        progress.seconds = self._seconds_before + self._pace.elapsed()
        row = Row(
            epoch=progress.epoch,
            step=progress.step,
            learning_rate=rate,
            train_loss=math.fsum(progress.loss_sums) / progress.pairs,
            train_perplexity=perplexity,
            dev_perplexity=None if measured is None else measured.dev_perplexity,
            metric="" if measured is None else measured.metric,
            value=None if measured is None else measured.value,
            is_best=is_best,
            pairs_per_second=self._pace.end_epoch(),
            seconds=progress.seconds,
        )
        progress.rows.append(row)
        return row

    def _keep(self, module: TrainingModule, measured: Measured) -> bool:
        """Writes the weights if they are among the best; says whether they are the very best."""
        progress = self._progress
        is_complete = progress.epoch_step >= len(self._data.plan(progress.epoch))
        step = "" if is_complete else f"-step-{progress.step}"
        perplexity = math.inf if measured.dev_perplexity is None else measured.dev_perplexity
        new = Kept(progress.epoch, measured.value, perplexity, f"epoch-{progress.epoch:03d}{step}.safetensors")
        is_best = progress.keep(new, measured.metric, self._config.training.average)
        if new in progress.kept and self._around.world.is_first:
            with module.weights_to_keep():
                write_weights(self._around.directory.training / new.file, module.model)
        return is_best

    def _lower_on_plateau(self, is_better: bool) -> None:
        progress, optimiser = self._progress, self._config.optimiser
        progress.plateau_count = 0 if is_better else progress.plateau_count + 1
        if optimiser.schedule == "plateau" and progress.plateau_count >= optimiser.plateau_patience:
            progress.plateau_scale *= optimiser.plateau_factor
            progress.plateau_count = 0

    def _save(self, trainer: Trainer, module: TrainingModule) -> None:
        """Writes the checkpoint from which training can go on at this very step."""
        module.check_finite()
        self._progress.loss_sums = self._around.world.gather(self._loss_sum(module))
        self._progress.seconds = self._seconds_before + self._pace.elapsed()
        trainer.save_checkpoint(self._around.directory.last)
        self._saved_at = time.perf_counter()

    def _loss_sum(self, module: TrainingModule) -> float:
        return 0.0 if module.loss_sum is None else module.loss_sum.item()

    def _write_logs(self) -> None:
        directory, progress = self._around.directory, self._progress
        if progress.rows:
            write_csv(directory.log, progress.rows)
        if self._config.training.tensorboard:
            self._tensorboard = TensorBoardLog(directory.tensorboard, progress.rows)

    def _show(self, module: TrainingModule, now: float, *, is_validating: bool = False) -> None:
        interval = self._around.display.interval
        if interval is None or now - self._shown_at < interval:
            return
        progress, training = self._progress, self._config.training
        self._shown_at = time.perf_counter()
        plan = len(self._data.plan(progress.epoch))
        steps = module.total_steps - progress.step
        own_pairs = max(1.0, progress.pairs / self._around.world.size)
        self._around.display.show(
            Moment(
                epoch=progress.epoch,
                max_epochs=training.max_epochs,
                epoch_step=progress.epoch_step,
                epoch_steps=plan,
                loss=self._loss_sum(module) / own_pairs,
                pairs_per_second=self._pace.pairs_per_second(),
                seconds_left=self._pace.seconds_left(max(0, steps)),
                is_validating=is_validating,
            )
        )


def _perplexity(nll: float, symbols: int) -> float:
    try:
        return math.exp(nll / symbols)
    except OverflowError:
        return math.inf
