import json
import re
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from ssnt.checkpoint import load_model
from ssnt.config import Config, read_settings
from ssnt.data.units import Characters
from ssnt.errors import ConfigError, DataError, ModelError
from ssnt.files import sha256_of
from ssnt.pipeline import Transducer
from ssnt.training import TrainingInterrupted, fit, run_config, train
from ssnt.training.checkpoints import average_weights
from ssnt.training.fit import train_one
from ssnt.training.progress import Row
from ssnt.training.run_directory import RunDirectory
from trainings import MakeConfig, StopAt, answer, progress_of, rows, weights, write_pairs


def test_a_model_learns_and_its_directory_holds_what_it_should(make_config: MakeConfig, tmp_path: Path, capsys):
    config = make_config(
        data={
            "train": write_pairs(tmp_path / "easy.tsv", 200, seed=5, letters="abc"),
            "dev": write_pairs(tmp_path / "easy-dev.tsv", 40, seed=6, letters="abc"),
        },
        training={"max_epochs": 10, "average": 2},
        model={"hidden_size": 32, "input_dropout": 0.0},
        optimiser={"learning_rate": 0.02},
    )
    transducer = train(config)
    assert transducer.transduce(["bacca"])[0].text == answer("bacca")
    out = Path(str(config.out))
    assert {one.name for one in out.iterdir()} == {
        "README.md", "config.yaml", "metrics.json", "model.safetensors", "training", "vocab.json"
    }  # fmt: skip
    loaded = Transducer.from_pretrained(out)
    assert loaded.score([("abc", "AABC")]) == transducer.score([("abc", "AABC")])
    metrics = json.loads((out / "metrics.json").read_text())
    accuracy = {score["name"]: score["value"] for score in metrics["scores"]["dev"]}["accuracy"]
    assert accuracy >= 0.7
    assert metrics["data"]["train"] == {"file": "easy.tsv", "sha256": sha256_of(config.data.train), "examples": 200}
    assert metrics["training"]["steps"] == int(rows(config)[-1]["step"])
    errors = capsys.readouterr().err
    assert sum(line.startswith("epoch ") for line in errors.splitlines()) == len(rows(config))
    assert f"ssnt: dev accuracy {accuracy:.4f}" in errors
    assert "ightning" not in errors


def test_the_final_weights_are_the_average_of_the_kept_ones(make_config: MakeConfig):
    config = make_config(training={"max_epochs": 4, "average": 2})
    model = train(config, display=False).model
    kept = progress_of(config).kept
    directory = RunDirectory(str(config.out)).training
    assert {one.name for one in directory.glob("*.safetensors")} == {one.file for one in kept}
    assert len(kept) == 2
    expected = average_weights([directory / one.file for one in sorted(kept, key=lambda one: one.epoch)])
    for name, tensor in expected.items():
        assert torch.equal(model.state_dict()[name], tensor), name


def test_the_record_of_a_run_has_settings_and_hashes(make_config: MakeConfig):
    config = make_config(training={"max_epochs": 1})
    train(config, display=False)
    record = read_settings(RunDirectory(str(config.out)).record)
    assert record["data_sha256"] == {"train": sha256_of(config.data.train), "dev": sha256_of(config.data.dev)}
    assert run_config(str(config.out)) == config


def test_training_stops_when_the_dev_metric_no_longer_improves(make_config: MakeConfig):
    config = make_config(
        training={"max_epochs": 30}, optimiser={"learning_rate": 1e-9}, validation={"patience": 3, "metric": "accuracy"}
    )
    train(config, display=False)
    assert len(rows(config)) == 4
    assert progress_of(config).end_reason(config) == "the best value was 3 validations ago (validation.patience)"


@pytest.mark.parametrize("factor", [None, 0.2])
def test_a_plateau_halves_the_step_size_or_what_the_factor_says(make_config: MakeConfig, factor: float | None):
    given = {} if factor is None else {"plateau_factor": factor}
    config = make_config(
        training={"max_epochs": 4},
        optimiser={"learning_rate": 1e-9, "schedule": "plateau", "plateau_patience": 1, **given},
        validation={"patience": None},
    )
    train(config, display=False)
    steps = [1e-9 * (factor or 0.5) ** falls for falls in (0, 0, 1, 2)]
    assert [float(row["learning_rate"]) for row in rows(config)] == pytest.approx(steps, rel=1e-6)


@pytest.mark.parametrize("factor", [0.0, 1.0, -0.5, 2.0])
def test_a_plateau_makes_the_step_size_smaller(make_config: MakeConfig, factor: float):
    with pytest.raises(ValueError, match="plateau_factor"):
        make_config(optimiser={"plateau_factor": factor})


@pytest.mark.parametrize("metric", ["perplexity", "edit_distance", "rouge_l"])
def test_any_metric_can_decide(make_config: MakeConfig, metric: str):
    config = make_config(validation={"metric": metric})
    train(config, display=False)
    values = [float(row["value"]) for row in rows(config)]
    best = max(values) if metric == "rouge_l" else min(values)
    assert progress_of(config).best_value == pytest.approx(best, rel=1e-5)
    assert {row["metric"] for row in rows(config)} == {metric}


def test_validation_can_be_rarer_and_the_last_epoch_has_one_all_the_same(make_config: MakeConfig):
    config = make_config(training={"max_epochs": 3}, validation={"every": 2, "examples": 5})
    train(config, display=False)
    assert [bool(row["value"]) for row in rows(config)] == [False, True, True]


def test_a_last_step_in_the_middle_of_an_epoch(make_config: MakeConfig):
    config = make_config(training={"max_epochs": 3, "max_steps": 11})
    train(config, display=False)
    assert [row["step"] for row in rows(config)] == ["8", "11"]
    longer = make_config(training={"max_epochs": 3, "max_steps": 20})
    train(longer, resume=True, display=False)
    assert [row["step"] for row in rows(config)] == ["8", "11", "16", "20"]


def test_an_existing_directory_is_refused_or_replaced(make_config: MakeConfig):
    config = make_config(training={"max_epochs": 1})
    train(config, display=False)
    with pytest.raises(ConfigError, match=r"holds a trained model already; .*--resume.*--overwrite"):
        train(config, display=False)
    other = make_config(training={"max_epochs": 1, "seed": 5})
    before = weights(config)
    train(other, overwrite=True, display=False)
    assert weights(config) != before
    assert run_config(str(other.out)).training.seed == 5


def test_a_failed_start_with_overwrite_leaves_the_old_model(make_config: MakeConfig):
    config = make_config(training={"max_epochs": 1})
    train(config, display=False)
    before = weights(config)
    Path(str(config.data.train)).write_text("only one column\n")
    with pytest.raises(DataError, match=r"train.tsv:1: "):
        train(config, overwrite=True, display=False)
    assert weights(config) == before
    assert run_config(str(config.out)) == config


@pytest.mark.parametrize("text", ["only one column\n", ""])
def test_a_training_that_is_refused_leaves_nothing(make_config: MakeConfig, text: str):
    config = make_config()
    Path(str(config.data.train)).write_text(text)
    with pytest.raises(DataError, match=r"train.tsv"):
        train(config, display=False)
    assert not Path(str(config.out)).exists()


def test_the_old_model_stays_until_there_is_a_new_one(make_config: MakeConfig):
    config, other = (make_config(training={"max_epochs": 1, "seed": seed}) for seed in (1, 5))
    whole = make_config(training={"max_epochs": 1, "seed": 5}, out=f"{config.out}2")
    train(config, display=False)
    train(whole, display=False)
    before = weights(config)
    display = StopAt(step=3)
    with pytest.raises(TrainingInterrupted):
        train_one(other, resume=False, overwrite=True, display=display, stop=display.stop)
    assert weights(config) == before
    assert Transducer.from_pretrained(str(config.out)).config.training.seed == 1
    train(other, resume=True, display=False)
    assert weights(other) == weights(whole)
    assert "finished already" in note_of(other)


def test_an_old_model_is_not_taken_for_the_new_one(make_config: MakeConfig, monkeypatch):
    config, other = (make_config(training={"max_epochs": 1, "seed": seed}) for seed in (1, 5))
    train(config, display=False)
    before = weights(config)

    def fail(*_, **__) -> None:
        raise OSError("full")

    for resume in (False, True):  # all steps are done, and as many as the old model had
        with monkeypatch.context() as patch:
            patch.setattr(fit, "save_model", fail)
            with pytest.raises(OSError, match="full"):
                train(other, resume=resume, overwrite=not resume, display=False)
        assert weights(config) == before
    train(other, resume=True, display=False)
    assert Transducer.from_pretrained(str(config.out)).config.training.seed == 5
    assert weights(config) != before
    assert "finished already" in note_of(other)


def note_of(config: Config) -> str:
    """What going on with a training says last."""
    display = StopAt()
    train_one(config, resume=True, overwrite=False, display=display, stop=display.stop)
    return display.notes[-1]


class StopAfterAnEpoch(StopAt):
    """Wants to stop when the first epoch has been measured."""

    def add(self, row: Row, epochs: int) -> None:
        self.stop.request()


@pytest.mark.parametrize(
    ("make_display", "where"),
    [
        (partial(StopAt, step=3), "in epoch 1, step 3"),
        (partial(StopAt, step=8), "in epoch 1, step 8"),  # all its steps are done, and it is not measured
        (StopAfterAnEpoch, "after epoch 1, step 8"),
    ],
)
def test_an_epoch_that_was_interrupted_is_not_called_done(
    make_config: MakeConfig, make_display: Callable[[], StopAt], where: str
):
    display = make_display()
    with pytest.raises(TrainingInterrupted, match=f"stopped {where}; go on with"):
        train_one(make_config(), resume=False, overwrite=False, display=display, stop=display.stop)


@pytest.mark.parametrize(
    ("validation", "said"),
    [
        ({}, "that is with beam 2; the epochs were measured with beam 1"),
        ({"examples": 20}, "that is with beam 2; the epochs were measured with beam 1"),
        ({"beam": 2}, None),
        ({"beam": None}, None),
        ({"metric": "perplexity"}, None),  # no epoch was searched
        (
            {"metric": "perplexity", "examples": 5},
            "that is with all 20 development examples; the epochs were measured with the first 5",
        ),
        (
            {"examples": 5},
            "that is with beam 2 and all 20 development examples; the epochs were measured with beam 1 and the first 5",
        ),
    ],
)
def test_it_says_how_else_the_finished_model_was_measured(
    make_config: MakeConfig, validation: dict[str, Any], said: str | None
):
    display = StopAt()
    config = make_config(training={"max_epochs": 1}, validation=validation)
    train_one(config, resume=False, overwrite=False, display=display, stop=display.stop)
    assert [note for note in display.notes if note.startswith("that is with")] == ([said] if said else [])


def test_missing_settings_are_named(make_config: MakeConfig):
    with pytest.raises(ConfigError, match=r"'data.train': expected the file of training data \(--train\)"):
        train(Config(out="x"))
    with pytest.raises(ConfigError, match=r"'out': expected the model directory to write \(--out\)"):
        train(Config.model_validate({"data": {"train": "x.tsv"}}))


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_what_needs_a_gpu_is_refused_without_one(make_config: MakeConfig):
    with pytest.raises(ConfigError, match=r"'hardware.accelerator': there is no GPU here"):
        train(make_config(hardware={"accelerator": "gpu"}))
    with pytest.raises(
        ConfigError, match=r"'hardware.precision': float16 needs a GPU; on this CPU use (bfloat16 or )?float32$"
    ):
        train(make_config(hardware={"precision": "float16"}))


def test_bfloat16_is_refused_where_the_cpu_only_emulates_it(make_config: MakeConfig, monkeypatch):
    for place in ("ssnt.training.fit", "ssnt.nn.precision"):
        monkeypatch.setattr(f"{place}.cpu_lacks", lambda _: True)
    config = make_config(hardware={"precision": "bfloat16", "accelerator": "cpu"})
    with pytest.raises(
        ConfigError,
        match=r"'hardware.precision': this CPU has no instructions for bfloat16, .*; use hardware.precision=float32, ",
    ):
        train(config)
    assert not Path(str(config.out)).exists()
    with pytest.raises(ConfigError, match=r"float16 needs a GPU; on this CPU use float32$"):
        train(make_config(hardware={"precision": "float16"}))


def test_without_development_data_training_perplexity_decides(make_config: MakeConfig, capsys):
    config = make_config(data={"dev": None})
    transducer = train(config)
    errors = capsys.readouterr().err
    assert "no development data (data.dev): the epoch is chosen by its training perplexity" in errors
    assert "the epochs were measured" not in errors  # nothing was, with any beam
    assert transducer.metrics["scores"] == {}
    assert [row["metric"] for row in rows(config)] == ["perplexity"] * 2
    assert [row["value"] for row in rows(config)] == [row["train_perplexity"] for row in rows(config)]


def test_unseen_symbols_are_counted_in_one_line(make_config: MakeConfig, tmp_path: Path, capsys):
    config = make_config(data={"dev": write_pairs(tmp_path / "odd.tsv", 20, seed=3, letters="abxy")})
    train(config)
    lines = [line for line in capsys.readouterr().err.splitlines() if "odd.tsv" in line]
    assert len(lines) == 1
    text = Path(str(config.data.dev)).read_text()
    counts = {letter: text.count(letter) for letter in "xyXY"}
    assert "not in the training data, and so unknown to the model: source symbols '" in lines[0]
    for letter, count in counts.items():
        assert f"{letter!r} ({count})" in lines[0]
    assert "; target symbols '" in lines[0]


def test_the_geometric_transition_is_estimated_from_all_lengths(make_config: MakeConfig):
    config = make_config(model={"transition": "geometric"}, training={"max_epochs": 1})
    model = train(config, display=False).model
    pairs = [line.split("\t") for line in Path(str(config.data.train)).read_text().splitlines()]
    lengths = [[len(Characters().split(side)) + 1 for side in pair] for pair in pairs]
    src, tgt = (sum(one) for one in zip(*lengths, strict=True))
    assert model.transition.emit_prob == tgt / (src + tgt)


@pytest.mark.parametrize(("precision", "dtype"), [("float64", torch.float64), ("bfloat16", torch.float32)])
def test_precisions(make_config: MakeConfig, monkeypatch, precision: str, dtype: torch.dtype):
    monkeypatch.setattr("ssnt.training.fit.cpu_lacks", lambda _: False)  # emulated, it is slow and right
    config = make_config(hardware={"precision": precision}, training={"max_epochs": 1})
    train(config, display=False)
    assert load_model(str(config.out)).model.word.bias.dtype == dtype


def test_a_diverged_training_keeps_its_last_good_checkpoint(make_config: MakeConfig):
    train(make_config(training={"max_epochs": 1}), display=False)
    wild = make_config(optimiser={"learning_rate": 1e38, "gradient_clip": None}, training={"max_epochs": 3})
    with pytest.raises(ModelError, match=r"\(epoch 2\) the loss or its gradient is infinite or not a number"):
        train(wild, resume=True, display=False)
    assert progress_of(wild).step == 8
    train(make_config(optimiser={"learning_rate": 0.001}), resume=True, display=False)
    assert len(rows(wild)) == 2


def test_random_numbers_threads_and_grad_mode_of_the_caller_are_left_alone(make_config: MakeConfig):
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    torch.set_num_threads(2)
    try:
        train(make_config(training={"max_epochs": 1}, hardware={"threads": 1}), display=False)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)
    assert torch.equal(torch.rand(3), expected)
    assert torch.is_grad_enabled()


def test_training_works_in_another_thread(make_config: MakeConfig):
    found: list[object] = []

    def run() -> None:
        try:
            found.append(train(make_config(training={"max_epochs": 1}), display=False))
        except BaseException as error:
            found.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert isinstance(found[0], Transducer)


def test_a_checkpoint_is_written_when_its_time_has_come(make_config: MakeConfig, monkeypatch):
    config = make_config(training={"max_epochs": 1, "checkpoint_minutes": 1e-9})
    steps = []
    monkeypatch.setattr(
        "ssnt.training.checkpoints.torch.save", lambda state, _: steps.append(state["progress"]["step"])
    )
    monkeypatch.setattr(fit, "read_checkpoint", None)
    train(config, display=False)
    assert steps == [1, 2, 3, 4, 5, 6, 7, 8]


def test_one_model_can_be_conditioned_on_tags(make_config: MakeConfig, tmp_path: Path):
    path = tmp_path / "tagged.tsv"
    rules = {"UP": str.upper, "SAME": str}
    path.write_text("".join(f"{word}\t{rule(word)}\tV;{tag}\n" for word in ("ab", "ba") for tag, rule in rules.items()))
    config = make_config(
        data={"train": str(path), "dev": str(path), "tags_column": 3},
        training={"max_epochs": 25},
        model={"hidden_size": 32, "input_dropout": 0.0},
        optimiser={"learning_rate": 0.03},
    )
    transducer = train(config, display=False)
    assert [one.text for one in transducer.transduce(["ab", "ab"], tags=[["V", "UP"], ["V", "SAME"]])] == ["AB", "ab"]


def test_how_many_examples_can_be_crossed_is_told_and_none_is_no_mistake(make_config: MakeConfig):
    def notes(**data: bool) -> str:
        config = make_config(data=data, training={"max_steps": 1, "crossover": 1.0})
        display = StopAt()
        train_one(config, resume=False, overwrite=True, display=display, stop=display.stop)
        return "\n".join(display.notes)

    assert re.search(r"\n[1-9]\d* of \d+ training examples can be crossed", notes(lowercase=True))
    # letters become capitals, which nothing is a copy of
    assert "no training example can be crossed with another" in notes(lowercase=False)


@pytest.mark.parametrize(("side", "unit"), [("source", "bpe"), ("target", "tokens")])
def test_only_letters_can_be_crossed(make_config: MakeConfig, side: str, unit: str):
    config = make_config(data={f"{side}_unit": unit}, training={"crossover": 1.0})
    with pytest.raises(ConfigError, match=f"crossover': expected symbols .* got {unit}; set data.{side}_unit"):
        train(config, display=False)
    assert not Path(str(config.out)).exists()
