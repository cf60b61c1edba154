import csv
import json
import threading
from pathlib import Path

import pytest
import torch

from ssnt.checkpoint import load_model
from ssnt.config import Config, read_settings
from ssnt.data.units import Characters
from ssnt.errors import ConfigError, DataError, ModelError
from ssnt.files import sha256_of
from ssnt.pipeline import Transducer
from ssnt.training import TrainingInterrupted, fit, run_config, train
from ssnt.training.checkpoints import average_weights, read_checkpoint
from ssnt.training.display import Display, Moment
from ssnt.training.interrupts import Stop
from ssnt.training.progress import Progress
from ssnt.training.run_directory import RunDirectory
from trainings import MakeConfig, answer, write_pairs


def rows(config: Config) -> list[dict[str, str]]:
    with RunDirectory(str(config.out)).log.open(newline="") as file:
        return list(csv.DictReader(file))


def weights(config: Config) -> str:
    return sha256_of(Path(str(config.out)) / "model.safetensors")


def progress_of(config: Config) -> Progress:
    return Progress.from_state(read_checkpoint(RunDirectory(str(config.out)).last)["progress"])


class StopAt(Display):
    """Wants to stop after some step, or during the validation of some epoch."""

    interval = 0.0

    def __init__(self, step: int = -1, validation: int = -1) -> None:
        self.stop = Stop()
        self._step, self._validation = step, validation
        self._steps = 0
        self.notes: list[str] = []

    def show(self, moment: Moment) -> None:
        self._steps += not moment.is_validating
        if self._steps == self._step or (moment.is_validating and moment.epoch == self._validation):
            self.stop.request()

    def note(self, text: str) -> None:
        self.notes.append(text)


def interrupt(config: Config, *, resume: bool = False, **where: int) -> StopAt:
    display = StopAt(**where)
    with pytest.raises(TrainingInterrupted):
        fit.train_one(config, resume=resume, overwrite=False, display=display, stop=display.stop)
    return display


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
    assert errors.count("epoch ") == len(rows(config))
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


@pytest.mark.parametrize("step", [1, 5, 8, 13])
def test_a_stopped_training_goes_on_to_the_same_weights(make_config: MakeConfig, step: int):
    settings = {
        "training": {"max_epochs": 3, "average": 2},
        "model": {"input_dropout": 0.3, "output_dropout": 0.2},
        "optimiser": {"schedule": "cosine", "warmup_steps": 4},
    }
    whole, parts = make_config(**settings), make_config(**settings, out=str(make_config().out) + "2")
    train(whole, display=False)
    display = interrupt(parts, step=step)
    assert display.notes[-1].endswith(f"; go on with: ssnt train --resume --out {parts.out}")
    assert f"step {step};" in display.notes[-1]
    interrupt(parts, resume=True, step=4)
    train(parts, resume=True, display=False)
    assert weights(whole) == weights(parts)
    own, expected = rows(parts), rows(whole)
    for row in (*own, *expected):
        del row["seconds"], row["pairs_per_second"]
    assert own == expected


def test_a_validation_that_was_given_up_is_done_when_training_goes_on(make_config: MakeConfig):
    settings = {"training": {"max_epochs": 2, "average": 2}}
    whole, parts = make_config(**settings), make_config(**settings, out=str(make_config().out) + "2")
    train(whole, display=False)
    for epoch in (1, 2):
        interrupt(parts, resume=epoch > 1, validation=epoch)
        progress = progress_of(parts)
        assert (progress.epoch, progress.epoch_step, len(progress.rows)) == (epoch, 8, epoch - 1)
    train(parts, resume=True, display=False)
    assert weights(whole) == weights(parts)


def test_training_stops_when_the_dev_metric_no_longer_improves(make_config: MakeConfig):
    config = make_config(
        training={"max_epochs": 30}, optimiser={"learning_rate": 1e-9}, validation={"patience": 3, "metric": "accuracy"}
    )
    train(config, display=False)
    assert len(rows(config)) == 4
    assert progress_of(config).end_reason(config) == "the best value was 3 validations ago (validation.patience)"


def test_a_plateau_halves_the_step_size(make_config: MakeConfig):
    config = make_config(
        training={"max_epochs": 5},
        optimiser={"learning_rate": 1e-9, "schedule": "plateau", "plateau_patience": 2},
        validation={"patience": None},
    )
    train(config, display=False)
    assert [float(row["learning_rate"]) for row in rows(config)] == [1e-9, 1e-9, 1e-9, 5e-10, 5e-10]


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


def test_a_finished_training_says_so_and_gives_its_model(make_config: MakeConfig, capsys):
    config = make_config()
    train(config, display=False)
    before = weights(config)
    transducer = train(config, resume=True)
    assert (
        "the training is finished already (training.max_epochs (2) is reached); nothing to do"
        in capsys.readouterr().err
    )
    assert isinstance(transducer, Transducer)
    assert weights(config) == before


def test_a_finished_training_can_be_made_longer(make_config: MakeConfig):
    train(make_config(), display=False)
    longer, whole = (
        make_config(training={"max_epochs": 4}),
        make_config(training={"max_epochs": 4}, out=f"{make_config().out}2"),
    )
    train(longer, resume=True, display=False)
    train(whole, display=False)
    assert weights(longer) == weights(whole)


def test_a_model_that_is_from_before_is_written_again(make_config: MakeConfig, monkeypatch):
    train(make_config(), display=False)
    longer = make_config(training={"max_epochs": 3})
    before = weights(longer)

    def fail(*_, **__) -> None:
        raise OSError("full")

    with monkeypatch.context() as patch:
        patch.setattr(fit, "save_model", fail)
        with pytest.raises(OSError, match="full"):
            train(longer, resume=True, display=False)
    assert weights(longer) == before
    train(longer, resume=True, display=False)
    assert load_model(str(longer.out)).metrics["training"]["steps"] == 24


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


def test_going_on_with_other_settings_or_data_is_refused(make_config: MakeConfig):
    config = make_config()
    interrupt(config, step=3)
    with pytest.raises(ConfigError, match=r"model.hidden_size \(was 16, is 24\)"):
        train(make_config(model={"hidden_size": 24}), resume=True, display=False)
    write_pairs(Path(str(config.data.dev)), 19, seed=2)
    with pytest.raises(DataError, match=r"dev.tsv: the dev data is not what the training"):
        train(config, resume=True, display=False)


def test_going_on_where_nothing_is_says_so(make_config: MakeConfig):
    with pytest.raises(ConfigError, match="there is no training to go on with; leave out --resume"):
        train(make_config(), resume=True, display=False)


def test_missing_settings_are_named(make_config: MakeConfig):
    with pytest.raises(ConfigError, match=r"'data.train': expected the file of training data \(--train\)"):
        train(Config(out="x"))
    with pytest.raises(ConfigError, match=r"'out': expected the model directory to write \(--out\)"):
        train(Config.model_validate({"data": {"train": "x.tsv"}}))


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_what_needs_a_gpu_is_refused_without_one(make_config: MakeConfig):
    with pytest.raises(ConfigError, match=r"'hardware.accelerator': there is no GPU here"):
        train(make_config(hardware={"accelerator": "gpu"}))
    with pytest.raises(ConfigError, match=r"'hardware.precision': float16 needs a GPU; on a CPU use bfloat16"):
        train(make_config(hardware={"precision": "float16"}))


def test_without_development_data_training_perplexity_decides(make_config: MakeConfig, capsys):
    config = make_config(data={"dev": None})
    transducer = train(config)
    assert "no development data (data.dev): the epoch is chosen by its training perplexity" in capsys.readouterr().err
    assert transducer.metrics["scores"] == {}
    assert [row["metric"] for row in rows(config)] == ["perplexity"] * 2
    assert [row["value"] for row in rows(config)] == [row["train_perplexity"] for row in rows(config)]


def test_unseen_symbols_are_counted_in_one_line(make_config: MakeConfig, tmp_path: Path, capsys):
    config = make_config(data={"dev": write_pairs(tmp_path / "odd.tsv", 20, seed=3, letters="abxy")})
    train(config)
    lines = [line for line in capsys.readouterr().err.splitlines() if "odd.tsv" in line]
    assert len(lines) == 1
    assert "not in the training data, and so unknown to the model: 2 source symbols ('" in lines[0]
    assert "; 2 target symbols ('" in lines[0]


def test_the_geometric_transition_is_estimated_from_all_lengths(make_config: MakeConfig):
    config = make_config(model={"transition": "geometric"}, training={"max_epochs": 1})
    model = train(config, display=False).model
    pairs = [line.split("\t") for line in Path(str(config.data.train)).read_text().splitlines()]
    lengths = [[len(Characters().split(side)) + 1 for side in pair] for pair in pairs]
    src, tgt = (sum(one) for one in zip(*lengths, strict=True))
    assert model.transition.emit_prob == tgt / (src + tgt)


@pytest.mark.parametrize(("precision", "dtype"), [("float64", torch.float64), ("bfloat16", torch.float32)])
def test_precisions(make_config: MakeConfig, precision: str, dtype: torch.dtype):
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
