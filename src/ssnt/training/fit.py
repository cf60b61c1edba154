"""From settings to a trained model: starts a training or goes on with it, and writes the model directory."""

from __future__ import annotations

import shlex
from collections import Counter
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Trainer
from lightning.pytorch.strategies import DDPStrategy, Strategy

from ssnt.checkpoint import load_model, metrics_record, save_model
from ssnt.checkpoint.load import model_config
from ssnt.config import Config, TrainingConfig
from ssnt.data.crossover import Crossover
from ssnt.data.formats import resolve_format
from ssnt.data.prepared import Prepared, prepare
from ssnt.data.readers import how_read, read_examples
from ssnt.denormals import without_denormals
from ssnt.errors import ConfigError, HardwareError, ModelError
from ssnt.interrupts import Stop, StopNow, TrainingInterrupted
from ssnt.nn import Model, build_model
from ssnt.nn.precision import advised_on_cpu, cpu_lacks
from ssnt.pipeline import Transducer
from ssnt.training.callbacks import Conductor, Surroundings
from ssnt.training.checkpoints import AtomicCheckpointIO, average_weights, load_weights, read_checkpoint
from ssnt.training.datamodule import TrainingData
from ssnt.training.display import Display, choose_display
from ssnt.training.logs import require_tensorboard
from ssnt.training.module import TrainingModule
from ssnt.training.processes import PATIENCE, Ranks, World, is_first_process, joined_world, uses_gpu
from ssnt.training.progress import Progress
from ssnt.training.quiet import quiet_lightning
from ssnt.training.run_directory import RunDirectory
from ssnt.training.threads import limited_threads, thread_count
from ssnt.training.validation import Validation
from ssnt.types import Example

_PRECISIONS: dict[str, Any] = {
    "float32": "32-true",
    "bfloat16": "bf16-mixed",
    "float16": "16-mixed",
    "float64": "32-true",  # that is, as the weights are
}
_SHOWN_UNSEEN = 8


def train(config: Config, *, resume: bool = False, overwrite: bool = False, display: bool | None = None) -> Transducer:
    """Trains a model and writes its directory, ``config.out``.

    A training that was stopped, by Ctrl-C, by a full disk or by ``kill -9``, goes on with ``resume`` from its last
    checkpoint; on a CPU the weights become the same, bit for bit, as if it had not been stopped.

    Args:
        config: The settings; ``data.train`` and ``out`` must be set.
        resume: Whether to go on with the training that is in ``config.out``. Its settings must be the same, apart from
            those in :data:`~ssnt.training.MAY_CHANGE`, and ``hardware.precision`` between ``float32`` and ``bfloat16``;
            :func:`~ssnt.training.run_config` gives them.
        overwrite: Whether a model or training that is there may be replaced.
        display: Whether to show the progress on the terminal; None: if there is one, otherwise a line for each epoch.

    Returns:
        The trained model.

    Raises:
        ConfigError: A setting is missing or cannot be used here, the directory exists, or there is nothing to go on
            with.
        DataError: The data cannot be used, or has changed since the training was started.
        ModelError: Training has diverged.
        StorageError: A file cannot be written; the last checkpoint is kept.
        TrainingInterrupted: Training was stopped by a signal; it is a KeyboardInterrupt.
    """
    shown = choose_display(display) if is_first_process(config) else Display()
    try:
        if config.training.per_tag:
            from ssnt.training.per_tag import train_per_tag

            return train_per_tag(config, resume=resume, overwrite=overwrite, display=shown)
        if config.hardware.engine != "local":
            raise ConfigError(
                f"setting 'hardware.engine': {config.hardware.engine!r} is for the many models of training.per_tag and "
                "for sweeps; one model is trained by several processes with hardware.devices and hardware.nodes"
            )
        return train_one(config, resume=resume, overwrite=overwrite, display=shown, stop=Stop())
    finally:
        shown.close()


def train_one(
    config: Config, *, resume: bool, overwrite: bool, display: Display, stop: Stop, wait: float = 0.0
) -> Transducer:
    """Trains one model; see :func:`train`.

    Args:
        config: The settings.
        resume: Whether to go on with the training that is there.
        overwrite: Whether it may be replaced.
        display: What the user sees.
        stop: Who may want it to stop.
        wait: Seconds to wait for another process that is training in the same directory.
    """
    out = check_settings(config)
    directory = RunDirectory(out)
    if is_first_process(config):
        directory.check(resume=resume, overwrite=overwrite)
    with (
        stop.on_signals(),
        quiet_lightning(),
        without_denormals(),  # before there are threads, which inherit it
        limited_threads(thread_count(config)),
        torch.random.fork_rng(devices=[]),
        joined_world(config, resume=resume, overwrite=overwrite) as world,
        directory.locked(wait) if world.is_first else nullcontext(),
    ):
        around = Surroundings(config, directory, world, display, stop)
        try:
            return _Run(around, resume=resume, overwrite=overwrite).transducer()
        except StopNow:
            raise _interrupted(around, "stopped at once") from None


def check_settings(config: Config) -> str:
    """Refuses settings that no training can start with, and gives the directory to write to.

    Raises:
        ConfigError: A setting is missing, does not go with another, or asks for what this machine does not have.
    """
    if config.data.train is None:
        raise ConfigError("setting 'data.train': expected the file of training data (--train), got none")
    if config.out is None:
        raise ConfigError("setting 'out': expected the model directory to write (--out), got none")
    hardware = config.hardware
    if hardware.accelerator == "gpu" and not torch.cuda.is_available():
        raise HardwareError(
            "setting 'hardware.accelerator': there is no GPU here that torch can use; set it to cpu or auto"
        )
    if hardware.precision == "float16" and not uses_gpu(config):
        raise HardwareError(f"setting 'hardware.precision': float16 needs a GPU; on this CPU use {advised_on_cpu()}")
    # the processes of a cluster look at their own machines; without an address they are started on this one
    is_done_here = hardware.engine == "local" or hardware.address is None
    if hardware.precision == "bfloat16" and is_done_here and not uses_gpu(config) and cpu_lacks(torch.bfloat16):
        raise HardwareError(
            "setting 'hardware.precision': this CPU has no instructions for bfloat16, such as AVX512_BF16 or AMX, and "
            "emulated it is slower than float32; use hardware.precision=float32, also with --resume"
        )
    if uses_gpu(config) and hardware.devices > torch.cuda.device_count():
        raise HardwareError(
            f"setting 'hardware.devices': expected at most {torch.cuda.device_count()}, the GPUs of this machine, "
            f"got {hardware.devices}"
        )
    if config.training.crossover:
        _check_units(config)
    if config.training.tensorboard:
        require_tensorboard()
    return config.out


def _check_units(config: Config) -> None:
    """Refuses to cross what is not made of letters: pieces of words put together are not the pieces of a word."""
    layout = resolve_format(config.data)
    for side, unit in (("source", layout.source_unit), ("target", layout.target_unit)):
        if unit not in ("characters", "graphemes"):
            raise ConfigError(
                f"setting 'training.crossover': expected symbols that are characters or graphemes, got {unit}; set "
                f"data.{side}_unit to one of these, or training.crossover to 0"
            )


def finished_because(config: Config) -> str | None:
    """Why the training in ``config.out`` has ended, if it has and its model is there; None if there is more to do."""
    directory = RunDirectory(str(config.out))
    if not directory.has_model or directory.is_model_old or not directory.last.exists():
        return None
    progress = Progress.from_state(read_checkpoint(directory.last)["progress"])
    try:
        metrics = load_model(directory.out).metrics
    except ModelError:  # damaged, and soon written again
        return None
    # a training that was made longer, and stopped after its last step, still has the model from before
    is_of_this_step = metrics.get("training", {}).get("steps") == progress.step
    return progress.end_reason(config) if is_of_this_step else None


def _interrupted(around: Surroundings, what: str) -> TrainingInterrupted:
    message = "stopped before training began"
    if around.directory.has_run:
        message = f"{what}; go on with: ssnt train --resume --out {shlex.quote(str(around.config.out))}"
    around.display.close()
    around.display.note(message)
    return TrainingInterrupted(message)


@dataclass(frozen=True)
class _Data:
    """The data of a run.

    Attributes:
        train: Training data as numbers.
        dev: Development data as numbers, None without any.
        examples: Development data as text.
        crossover: What makes further training examples, None if none are asked for.
    """

    train: Prepared
    dev: Prepared | None
    examples: list[Example]
    crossover: Crossover | None

    def hashes(self) -> dict[str, str]:
        """The SHA-256 of the files."""
        return {"train": self.train.data_hash, **({} if self.dev is None else {"dev": self.dev.data_hash})}


class _Run:
    """One training from its settings to its model, in each of its processes."""

    def __init__(self, around: Surroundings, *, resume: bool, overwrite: bool) -> None:
        self._around = around
        self._config = around.config
        self._resume = resume
        self._overwrite = overwrite

    def transducer(self) -> Transducer:
        """Trains as far as is left to train, and writes and gives the model."""
        world, directory = self._around.world, self._around.directory
        with self._around.stop.giving_up_allowed():
            # the first process fills the cache, from which the others read; one on another machine fills its own
            data = world.in_first(self._prepare) or self._prepare()
        world.in_first(lambda: self._open_directory(data))
        last = directory.last if self._resume and directory.last.exists() else None
        progress = Progress() if last is None else Progress.from_state(read_checkpoint(last)["progress"])
        if (done := self._done_already()) is not None:
            return done
        validation = Validation(self._config, data.train.vocabulary, data.examples)
        crossover = data.crossover if data.crossover and data.crossover.able else None
        batches = TrainingData(data.train, self._config, progress, world.rank, world.size, crossover)
        model = self._model(data.train)
        conductor = Conductor(self._around, progress, batches, validation)
        self._fit(model, batches, conductor, progress, last)
        if conductor.is_interrupted:
            place = f"in epoch {progress.epoch}" if progress.epoch_step else f"after epoch {progress.epoch - 1}"
            raise _interrupted(self._around, f"stopped {place}, step {progress.step}")
        transducer = world.in_first(lambda: self._finish(model, data, progress, validation))
        return transducer or Transducer.from_pretrained(directory.out)

    def _prepare(self) -> _Data:
        config = self._config.data
        train = prepare(str(config.train), config, None, is_training=True)
        crossover = _crossover(train, self._config.training)
        if config.dev is None:
            return _Data(train, None, [], crossover)
        dev = prepare(config.dev, config, train.vocabulary, is_training=False)
        has_tags = train.vocabulary.tags is not None
        return _Data(train, dev, list(read_examples(config.dev, config, needs_tags=has_tags)), crossover)

    def _open_directory(self, data: _Data) -> None:
        """Makes sure that the training may write where it is to write, and writes down what it is."""
        directory = self._around.directory
        directory.check(resume=self._resume, overwrite=self._overwrite)  # somebody may have come before
        if self._resume:
            directory.check_same(self._config, data.hashes())
            directory.complete_model()
            if directory.has_model and not directory.is_model_old and not directory.last.exists():
                raise ConfigError(
                    f"{directory.out}: the model is finished, and the checkpoint that its training could go on from is "
                    "gone; leave it as it is, or start anew with --overwrite"
                )
        elif self._overwrite:
            directory.clear()
        is_old = directory.is_model_old if self._resume else directory.has_model
        directory.write_record(self._config, data.hashes(), replaces_model=is_old)
        for note in _notes(self._config, data):
            self._around.display.note(note)

    def _done_already(self) -> Transducer | None:
        """The model of a training that is finished; None if there is something left to do."""
        reason = finished_because(self._config) if self._resume else None
        if reason is None:
            return None
        out = self._around.directory.out
        self._around.display.note(f"{out}: the training is finished already ({reason}); nothing to do")
        return Transducer.from_pretrained(out)

    def _model(self, data: Prepared) -> Model:
        torch.manual_seed(self._config.training.seed)
        model = build_model(model_config(self._config, data.vocabulary))
        if self._config.hardware.precision == "float64":
            model.double()
        model.prepare(torch.from_numpy(data.src_lens), torch.from_numpy(data.tgt_lens))
        return model

    def _fit(
        self, model: Model, batches: TrainingData, conductor: Conductor, progress: Progress, last: Path | None
    ) -> None:
        world = self._around.world
        module = TrainingModule(model, self._config, progress, batches.total_steps(), world.rank)
        trainer = make_trainer(self._config, world, conductor, self._around.directory.training)
        trainer.fit(module, datamodule=batches, ckpt_path=None if last is None else str(last))
        model.cpu()

    def _finish(self, model: Model, data: _Data, progress: Progress, validation: Validation) -> Transducer:
        """Averages the best weights, measures the model that they make, and writes it."""
        directory, config = self._around.directory, self._config
        kept = sorted(progress.kept, key=lambda one: one.epoch)
        if not kept:
            raise ConfigError(
                f"{directory.out}: {progress.end_reason(config)}, and there was no validation before that, so that "
                "there are no weights to choose from; let the training go on for longer"
            )
        epochs = ", ".join(str(one.epoch) for one in kept)
        self._around.display.note(f"training is over: {progress.end_reason(config)}; the weights are of epoch {epochs}")
        load_weights(model, average_weights([directory.training / one.file for one in kept]))
        model.eval()
        with self._around.stop.giving_up_allowed():
            scores = validation.final(model)
        parts = {"train": (config.data.train, data.train), "dev": (config.data.dev, data.dev)}
        metrics = metrics_record(
            scores={"dev": scores} if scores else {},
            data={
                name: {"file": file, "sha256": prepared.data_hash, "examples": len(prepared)}
                for name, (file, prepared) in parts.items()
                if prepared is not None
            },
            seed=config.training.seed,
            training={
                "epochs": progress.rows[-1].epoch,
                "steps": progress.step,
                "chosen_by": validation.metric if data.examples else f"training {validation.metric}",
                "chosen_epochs": [one.epoch for one in kept],
                "ended_because": progress.end_reason(config),
            },
        )
        save_model(directory.out, model, data.train.vocabulary, config, metrics, overwrite=True)
        if directory.is_model_old:
            directory.write_record(config, data.hashes())  # it no longer is
        for score in scores:
            self._around.display.note(f"dev {score}")
        if difference := validation.difference():
            self._around.display.note(difference)
        self._around.display.note(f"the model is in {directory.out}")
        return Transducer(model, data.train.vocabulary, config, metrics)


def make_trainer(config: Config, world: World, conductor: Conductor, root: Path) -> Trainer:
    """Lightning's trainer with all that is not needed turned off: it then costs half a millisecond a step."""
    strategy: Strategy | str = "auto"
    if world.size > 1:
        strategy = DDPStrategy(timeout=PATIENCE, broadcast_buffers=False, gradient_as_bucket_view=True)
    return Trainer(
        accelerator="gpu" if uses_gpu(config) else "cpu",
        devices=config.hardware.devices,
        num_nodes=config.hardware.nodes,
        strategy=strategy,
        precision=_PRECISIONS[config.hardware.precision],
        plugins=[AtomicCheckpointIO(), Ranks(world)],
        callbacks=[conductor],
        default_root_dir=str(root),
        min_epochs=0,
        max_epochs=1,  # ours are counted by the conductor
        limit_val_batches=0,
        num_sanity_val_steps=0,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        use_distributed_sampler=False,
    )


def _crossover(train: Prepared, training: TrainingConfig) -> Crossover | None:
    if not training.crossover:
        return None
    return Crossover(train, ratio=training.crossover, keep=training.crossover_keep, seed=training.seed)


def _notes(config: Config, data: _Data) -> list[str]:
    """What the user should know before training starts."""
    first = next(read_examples(str(config.data.train), config.data))
    notes = [f"{config.data.train} is {how_read(config.data, first)}"]
    if data.train.report.taken:
        notes.append(f"{config.data.train}: {data.train.report.sentence()}")
    if data.crossover is not None:
        notes.append(_crossed(data.crossover.able, len(data.train)))
    if data.dev is None:
        notes.append("no development data (data.dev): the epoch is chosen by its training perplexity")
        return notes
    unseen: dict[str, Counter[str]] = {
        "source symbols": data.dev.unseen_source,
        "target symbols": data.dev.unseen_target,
        "tags": data.dev.unseen_tags,
    }
    parts = [f"{what} {_most_common(found)}" for what, found in unseen.items() if found]
    if parts:
        notes.append(f"{config.data.dev}: not in the training data, and so unknown to the model: {'; '.join(parts)}")
    return notes


def _crossed(able: int, examples: int) -> str:
    """What the user should know of crossed examples."""
    if able:
        return f"{able} of {examples} training examples can be crossed with others (training.crossover)"
    return (
        "no training example can be crossed with another, so that training.crossover has no effect: that needs two "
        "with the same tags whose targets copy the beginnings of their sources, and none is made longer than the "
        "longest"
    )


def _most_common(found: Counter[str]) -> str:
    shown = ", ".join(f"{symbol!r} ({count})" for symbol, count in found.most_common(_SHOWN_UNSEEN))
    return shown + (f" and {len(found) - _SHOWN_UNSEEN} others" if len(found) > _SHOWN_UNSEEN else "")
