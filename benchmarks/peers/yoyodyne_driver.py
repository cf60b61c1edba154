"""Trains and predicts with yoyodyne, on command; runs in yoyodyne's own environment (``install.py`` makes it).

Reads one command a line from standard input and answers each with one line of JSON on standard output:

* ``train loop STEPS`` / ``train trainer STEPS``: so many steps of its training, data loading included, in a plain loop
  over its data loader, ``training_step`` and optimiser, or by its own ``Trainer`` without logger, checkpoints, bar and
  validation. The trainer's clock runs over the second of two epochs, when the process that loads the data is there
  already. The answer has the time of each step, to the begin of the next one; the same way has the same batches each
  time.
* ``predict loop BATCH BEAM`` / ``predict trainer BATCH BEAM``: predicts the file of ``--predict`` once, in a loop over
  its data loader and ``predict_step``, with text as result; or by its own ``Trainer`` and its callback that writes. The
  answer says besides of how many batches not all searches had ended at the longest output that is allowed.
* ``fit EPOCHS FILE``: trains for so many epochs, and keeps the weights; reads them instead if the file is there.

It first says which version it is, and with what settings models are trained. All models have one layer, and their
encoder reads both ways, which is yoyodyne's default. The process that loads data is yoyodyne's too (``num_workers=1``),
and may run on another core.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Callback
from torch.utils.data import DataLoader
from yoyodyne import callbacks, data, models, special, trainers
from yoyodyne.models import modules

SEED = 1
QUIET: dict[str, Any] = {
    "accelerator": "cpu",
    "devices": 1,
    "logger": False,
    "enable_checkpointing": False,
    "enable_progress_bar": False,
    "enable_model_summary": False,
    "num_sanity_val_steps": 0,
    "limit_val_batches": 0,
}


class StepClock(Callback):
    """Notes when each step of the last epoch begins, and when the last one ends."""

    def __init__(self) -> None:
        self.begins: list[float] = []
        self.end = 0.0

    def on_train_epoch_start(self, *_: Any) -> None:
        self.begins = []

    def on_train_batch_start(self, *_: Any) -> None:
        self.begins.append(time.perf_counter())

    def on_train_batch_end(self, *_: Any) -> None:
        self.end = time.perf_counter()


class PredictClock(Callback):
    """Times a prediction from its first batch on, whose loading is within, to its last one."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.endless: list[bool] = []
        self._start = 0.0

    def on_predict_batch_end(self, trainer: Any, module: Any, outputs: Any, *_: Any) -> None:
        self.endless.append(is_endless(outputs))

    def on_predict_epoch_start(self, *_: Any) -> None:
        self._start = time.perf_counter()

    def on_predict_epoch_end(self, *_: Any) -> None:
        self.seconds = time.perf_counter() - self._start


class Driver:
    """A model and its data."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self._place = tempfile.TemporaryDirectory()
        self.data = self._data(options.batch)
        torch.manual_seed(SEED)
        self.model = make_model(options, self.data)
        self._loader = self.data.train_dataloader()
        self._optimiser: torch.optim.Optimizer | None = None

    def _data(self, batch: int) -> data.DataModule:
        columns = {"features_col": 2, "features_sep": ",", "target_col": 3} if self.options.features else {}
        return data.DataModule(
            model_dir=self._place.name,
            train=str(self.options.train),
            predict=self.options.predict and str(self.options.predict),
            batch_size=batch,
            **columns,
        )

    # ------------------------------------------------------------------------------------------------------ training

    def train(self, way: str, steps: str) -> dict[str, Any]:
        """The times of some steps, one way or the other."""
        moments = {"loop": self._steps, "trainer": self._fitted_steps}[way](int(steps))
        times = [after - before for before, after in pairwise(moments)]
        return {"times": times}

    def _steps(self, steps: int) -> list[float]:
        """When each step begins, and when the last one ends."""
        if self._optimiser is None:
            self._optimiser = self.model.configure_optimizers()[0][0]
        self.model.train()
        self.model.trainer = None  # it has no place to log to
        self._loader.sampler.generator = torch.Generator().manual_seed(SEED)  # the same batches each time
        moments = []
        for index, batch in zip(range(steps), _without_end(self._loader), strict=False):
            moments.append(time.perf_counter())
            self._optimiser.zero_grad()
            self.model.training_step(batch, index).backward()
            self._optimiser.step()
        return [*moments, time.perf_counter()]

    def _fitted_steps(self, steps: int) -> list[float]:
        """The same."""
        torch.manual_seed(SEED)  # the same batches each time
        clock = StepClock()
        trainer = trainers.Trainer(max_epochs=2, limit_train_batches=steps, callbacks=[clock], **QUIET)
        trainer.fit(self.model, datamodule=self.data)
        return [*clock.begins, clock.end]

    def fit(self, epochs: str, file: str) -> dict[str, Any]:
        """A model that is trained so far that it predicts words of sensible lengths."""
        path = Path(file)
        if path.exists():
            self.model.load_state_dict(torch.load(path))
            return {"seconds": 0.0}
        start = time.perf_counter()
        self._steps(int(epochs) * len(self._loader))
        path.parent.mkdir(parents=True, exist_ok=True)
        torch.save(self.model.state_dict(), path.with_suffix(".part"))
        path.with_suffix(".part").rename(path)
        return {"seconds": time.perf_counter() - start}

    # ---------------------------------------------------------------------------------------------------- prediction

    def predict(self, way: str, batch: str, beam: str) -> dict[str, Any]:
        """The best outputs of all rows, and how long they took."""
        self.model.beam_width = int(beam)
        self.model.eval()
        module = self._data(int(batch))
        seconds, outputs, endless = {"loop": self._predict_loop, "trainer": self._predict_trainer}[way](module)
        return {"seconds": seconds, "outputs": outputs, "batches": len(endless), "endless": sum(endless)}

    def _predict_loop(self, module: data.DataModule) -> tuple[float, list[str], list[bool]]:
        self.model.trainer = trainers.Trainer(**QUIET)  # it asks it whether it is validating
        mapper = data.Mapper(module.index)
        outputs: list[str] = []
        endless: list[bool] = []
        loader = module.predict_dataloader()
        next(iter(loader))  # starts the process that loads
        start = time.perf_counter()
        with torch.inference_mode():
            for index, batch in enumerate(loader):
                found = self.model.predict_step(batch, index)
                best = found[0][:, 0] if self.model.beam_width > 1 else found
                outputs += ["".join(mapper.decode_target(row)) for row in best]
                endless.append(is_endless(found))
        return time.perf_counter() - start, outputs, endless

    def _predict_trainer(self, module: data.DataModule) -> tuple[float, list[str], list[bool]]:
        path = Path(self._place.name) / "predictions.txt"
        clock = PredictClock()
        writer = callbacks.PredictionWriter(str(path))
        trainer = trainers.Trainer(callbacks=[clock, writer], **QUIET)
        trainer.predict(self.model, datamodule=module)
        lines = path.read_text(encoding="utf-8").splitlines()
        return clock.seconds, [line.partition("\t")[0] for line in lines], clock.endless


def make_model(options: argparse.Namespace, module: data.DataModule) -> models.BaseModel:
    """The model, of the sizes that all sides have; what is not said here is yoyodyne's default."""
    size = options.size
    kwargs: dict[str, Any] = {
        "source_encoder": modules.LSTMEncoder(embedding_size=size, hidden_size=size, layers=1, bidirectional=True),
        "embedding_size": size,
        "decoder_hidden_size": size,
        "decoder_layers": 1,
        "vocab_size": module.vocab_size,
        "target_vocab_size": module.target_vocab_size,
    }
    if options.longest:
        kwargs["max_target_length"] = options.longest
    is_hard = options.model == "hard"
    if options.features:
        # soft attention looks at tags as at symbols, and they have to be as large; hard attention appends them
        features = 32 if is_hard else 2 * size
        kwargs["features_encoder"] = modules.LinearEncoder(embedding_size=size, output_size=features)
    if is_hard:
        return models.HardAttentionLSTMModel(enforce_monotonic=True, **kwargs)
    return models.SoftAttentionLSTMModel(**kwargs)


def is_endless(found: torch.Tensor | tuple[torch.Tensor, torch.Tensor]) -> bool:
    """Whether some search of a batch was ended by the longest output that is allowed, and all others waited for it."""
    symbols = found[0] if isinstance(found, tuple) else found
    return not bool((symbols == special.END_IDX).any(dim=-1).all())


def _without_end(loader: DataLoader) -> Iterator[data.Batch]:
    """Full batches of one epoch after the other."""
    while True:
        yield from (batch for batch in loader if len(batch) == loader.batch_size)


def commands() -> Iterator[list[str]]:
    for line in sys.stdin:
        if line.strip():
            yield line.split()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=["hard", "soft"], required=True)
    parser.add_argument("--train", type=Path, required=True, help="columns source, target; or source, tags, target")
    parser.add_argument("--predict", type=Path)
    parser.add_argument("--features", action="store_true", help="the second column has tags, split by commas")
    parser.add_argument("--size", type=int, default=128, help="of embeddings and of hidden layers")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--longest", type=int, help="output, in symbols, its end included (default: yoyodyne's)")
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    for name in ("lightning", "lightning.pytorch", "lightning.pytorch.utilities.rank_zero"):
        logging.getLogger(name).setLevel(logging.ERROR)
    answers, sys.stdout = sys.stdout, sys.stderr  # what the library prints is no answer
    driver = Driver(options)
    calls: dict[str, Callable[..., dict[str, Any]]] = {
        "train": driver.train,
        "fit": driver.fit,
        "predict": driver.predict,
    }
    settings = {name: getattr(options, name) for name in ("model", "features", "size", "batch")}
    print(json.dumps({"version": version("yoyodyne"), "settings": settings}), file=answers, flush=True)
    for name, *arguments in commands():
        print(json.dumps(calls[name](*arguments)), file=answers, flush=True)


if __name__ == "__main__":
    main()
