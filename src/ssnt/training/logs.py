"""Logs of a training: a table of its epochs, and the same for TensorBoard.

Both are made from what the checkpoint remembers, and made anew when a training goes on: no epoch is in them twice or
missing, wherever it was interrupted.
"""

from __future__ import annotations

import csv
import importlib.util
import io
import shutil
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from ssnt.errors import ConfigError
from ssnt.files import write_text
from ssnt.training.progress import Row


def write_csv(path: Path, rows: Sequence[Row]) -> None:
    """Writes the whole log as CSV."""
    text = io.StringIO()
    writer = csv.DictWriter(text, [one.name for one in fields(Row)], lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({name: _shown(value) for name, value in asdict(row).items()})
    write_text(path, text.getvalue())


def _shown(value: Any) -> Any:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else value


def require_tensorboard() -> None:
    """Refuses what cannot be done without TensorBoard.

    Raises:
        ConfigError: It is not installed.
    """
    if importlib.util.find_spec("tensorboard") is None:
        raise ConfigError(
            "setting 'training.tensorboard': TensorBoard is not installed; run pip install 'ssnt[tb]', or set it to "
            "false"
        )


class TensorBoardLog:
    """Writes rows for TensorBoard.

    Args:
        directory: Where; what is there already is replaced.
        rows: The rows so far.
    """

    def __init__(self, directory: Path, rows: Sequence[Row]) -> None:
        from torch.utils.tensorboard import SummaryWriter

        shutil.rmtree(directory, ignore_errors=True)
        self._writer: Any = SummaryWriter(str(directory))
        for row in rows:
            self.add(row)

    def add(self, row: Row) -> None:
        """Writes one more row."""
        values = {
            "train/loss": row.train_loss,
            "train/perplexity": row.train_perplexity,
            "train/learning_rate": row.learning_rate,
            "dev/perplexity": row.dev_perplexity,
        }
        if row.value is not None and row.dev_perplexity is not None:
            values[f"dev/{row.metric}"] = row.value
        for name, value in values.items():
            if value is not None:
                self._writer.add_scalar(name, value, row.step)
        self._writer.flush()

    def close(self) -> None:
        """Lets the files go."""
        self._writer.close()
