import csv
import importlib.util
import math
from pathlib import Path

import pytest

from ssnt.errors import ConfigError
from ssnt.training.logs import TensorBoardLog, require_tensorboard, write_csv
from ssnt.training.progress import Row

from conftest import require

ROWS = [
    Row(1, 5, 0.01, 12.5, 4.25, 3.5, "accuracy", 0.25, True, 100.0, 1.5),
    Row(2, 10, 0.01, 11.0, math.inf, None, "", None, False, 100.0, 3.0),
]


def test_the_table_has_a_line_for_each_epoch(tmp_path: Path):
    write_csv(tmp_path / "log.csv", ROWS)
    with (tmp_path / "log.csv").open(newline="") as file:
        first, second = csv.DictReader(file)
    assert (first["epoch"], first["step"], first["train_loss"], first["value"]) == ("1", "5", "12.5", "0.25")
    assert (second["dev_perplexity"], second["value"], second["is_best"]) == ("", "", "False")
    assert second["train_perplexity"] == "inf"


def test_without_tensorboard_it_says_how_to_have_it(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(ConfigError, match=r"training.tensorboard.*pip install 'ssnt\[tb\]'"):
        require_tensorboard()


def test_tensorboard_has_every_row_once_however_often_it_begins(tmp_path: Path):
    require("tensorboard", "logs for it")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    for rows in ((), ROWS[:1], ROWS):
        log = TensorBoardLog(tmp_path, rows)
        log.close()
    log = TensorBoardLog(tmp_path, ROWS[:1])
    log.add(ROWS[1])
    log.close()
    found = EventAccumulator(str(tmp_path)).Reload()
    assert [(one.step, one.value) for one in found.Scalars("train/loss")] == [(5, 12.5), (10, 11.0)]
    assert [(one.step, one.value) for one in found.Scalars("dev/accuracy")] == [(5, 0.25)]
