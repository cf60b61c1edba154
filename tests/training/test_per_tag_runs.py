"""One model for each tag set, from data to models, however often the training is stopped."""

import math
import os
import signal
import time
from pathlib import Path

import pytest

from ssnt.config import Config
from ssnt.data.readers import read_examples
from ssnt.errors import ModelError
from ssnt.evaluation import evaluate_model
from ssnt.files import sha256_of
from ssnt.pipeline import PerTagTransducer, Transducer
from ssnt.training import per_tag, train
from tagged import Notes, write_tagged
from trainings import MakeConfig, files_of, start

PATIENCE = 240


@pytest.mark.slow
def test_models_are_trained_side_by_side_without_those_that_cannot_be(make_tagged: MakeConfig, tmp_path: Path):
    path = Path(write_tagged(tmp_path / "odd.tsv", {"UP": 60, "TWICE": 40}, seed=1))
    path.write_text(path.read_text() + "abcabcabcabc\tx\tV;LONG\n")
    config = make_tagged(
        data={"train": str(path), "max_source_length": 8},
        training={"max_epochs": 12},
        model={"hidden_size": 32, "input_dropout": 0.0},
        optimiser={"learning_rate": 0.02},
        batch={"size": 8},
    )
    display = Notes()
    per_tag.train_per_tag(config, resume=False, overwrite=False, display=display)
    assert display.notes[-2].endswith("; of 23 examples, 3 have tag sets without a model")
    assert display.notes[-1] == f"2 models are in {config.out}"
    found = Transducer.from_pretrained(str(config.out))
    assert isinstance(found, PerTagTransducer)
    assert sorted(found.models) == [("TWICE", "V"), ("UP", "V")]
    assert found.transduce(["ab"], tags=[["V", "UP"]])[0].text == "AB"
    assert found.metrics["training"]["models"] == 2
    assert found.metrics["training"]["failed"] == {}
    assert list(found.metrics["training"]["left_out"]) == ["LONG;V"]
    assert found.metrics["training"]["left_out"]["LONG;V"].startswith(f"{path}:101: the tag set LONG;V is left out: ")
    kept = {score["name"]: score for score in found.metrics["scores"]["dev"]}
    assert kept.keys() == {"accuracy", "edit_distance", "perplexity"}
    dev = list(read_examples(str(config.data.dev), config.data, needs_tags=True))
    for score in evaluate_model(found, dev, list(kept)).scores:  # asked again, all in one process
        assert kept[score.name]["signature"] == score.signature
        assert kept[score.name]["value"] == (pytest.approx(score.value) if math.isfinite(score.value) else None)


@pytest.mark.slow
def test_one_failure_hurts_none_but_itself(make_tagged: MakeConfig):
    config = make_tagged(training={"max_epochs": 1})
    broken = Path(str(config.out)) / "models/000"

    class Breaking(Notes):
        def note(self, text: str) -> None:
            """Puts a file in the place of a model's directory, before training starts."""
            super().note(text)
            broken.parent.mkdir(parents=True, exist_ok=True)
            broken.touch()

    with pytest.raises(ModelError) as caught:
        per_tag.train_per_tag(config, resume=False, overwrite=False, display=Breaking())
    text = str(caught.value)
    assert text.startswith(
        f"1 of 3 models could not be trained; the others are in {config.out}; to try these again: ssnt train --resume "
        f"--out {config.out}\nADD;V: {broken}: "
    )
    found = Transducer.from_pretrained(str(config.out))
    assert isinstance(found, PerTagTransducer)
    assert sorted(found.models) == [("TWICE", "V"), ("UP", "V")]
    assert list(found.metrics["training"]["failed"]) == ["ADD;V"]


def all_weights(config: Config) -> dict[str, str]:
    places = Path(str(config.out)).glob("models/*/model.safetensors")
    return {place.parent.name: sha256_of(place) for place in places}


@pytest.mark.slow
def test_a_stopped_training_goes_on_and_finished_models_are_not_trained_again(make_tagged: MakeConfig, tmp_path: Path):
    config = make_tagged(training={"max_epochs": 12}, validation={"patience": None})
    process = start(config, tmp_path, "--display")
    deadline = time.monotonic() + PATIENCE
    while not (Path(str(config.out)) / "models/000/training/last.ckpt").exists():
        assert time.monotonic() < deadline, process.kill()
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    count = len(all_weights(config))
    assert count < 3
    done = ["no model is", "1 model is", "2 models are"][count]
    last = errors.strip().splitlines()[-1]
    assert last == f"ssnt: stopped; {done} finished; go on with: ssnt train --resume --out {config.out}"
    process = start(config, tmp_path, "--resume", "--display")
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, errors
    assert "3 models are in" in errors
    times = {path: path.stat().st_mtime_ns for path in Path(str(config.out)).rglob("*.safetensors")}
    display = Notes()
    per_tag.train_per_tag(config, resume=True, overwrite=False, display=display)
    assert display.notes[-1].endswith("all 3 models are finished already; nothing to do")
    assert times == {path: path.stat().st_mtime_ns for path in Path(str(config.out)).rglob("*.safetensors")}
    whole = config.model_copy(update={"out": str(tmp_path / "whole")})
    per_tag.train_per_tag(whole, resume=False, overwrite=False, display=Notes())
    assert sorted(all_weights(whole)) == ["000", "001", "002"]
    assert all_weights(config) == all_weights(whole)


def ray_workers() -> list[int]:
    """The processes of this one's Ray cluster that have jobs."""
    parents, names = {}, {}
    for place in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(place.name)] = int((place / "stat").read_text().rpartition(")")[2].split()[1])
            names[int(place.name)] = (place / "cmdline").read_bytes()
        except OSError:  # it has ended
            continue

    def is_ours(process: int) -> bool:
        return process == os.getpid() or (process in parents and is_ours(parents[process]))

    return [process for process, name in names.items() if name.startswith(b"ray::LocalWorker") and is_ours(process)]


class KillsOne(Notes):
    """Kills a Ray worker when the first model is finished."""

    def show_part(self, overall: str, text: str, *, is_done: bool) -> None:
        super().show_part(overall, text, is_done=is_done)
        if overall.startswith("1/") and is_done:
            os.kill(ray_workers()[0], signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.xdist_group("ray")
def test_ray_gives_the_same_files_and_loses_nothing_when_a_worker_is_killed(
    ray_cluster: None, make_tagged: MakeConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    found = {}
    for engine, display in (("local", Notes()), ("ray", KillsOne())):
        config = make_tagged(
            training={"max_epochs": 8}, hardware={"engine": engine}, validation={"patience": None}
        ).model_copy(update={"out": "out"})
        (tmp_path / engine).mkdir()
        monkeypatch.chdir(tmp_path / engine)
        per_tag.train_per_tag(config, resume=False, overwrite=False, display=display)
        assert display.notes[-1] == "3 models are in out"
        found[engine] = files_of(tmp_path / engine / "out")
    assert sum(name.endswith("model.safetensors") for name in found["local"]) == 3
    assert found["local"] == found["ray"]


@pytest.mark.slow
def test_the_old_models_stay_until_there_are_new_ones(make_tagged: MakeConfig, monkeypatch):
    # a process takes longer to start than these models to train
    config, other = (make_tagged(training={"max_epochs": 1, "seed": seed}, hardware={"workers": 1}) for seed in (1, 5))
    out = Path(str(config.out))
    train(config, display=False)
    assert sorted(one.name for one in (out / "models").iterdir()) == ["000", "001", "002"]

    def fail(*_, **__) -> None:
        raise OSError("full")

    with monkeypatch.context() as patch:
        patch.setattr(per_tag, "save_per_tag", fail)
        for resume in (False, True):  # all its models are finished, and there are as many as before
            with pytest.raises(OSError, match="full"):
                train(other, resume=resume, overwrite=not resume, display=False)
            assert Transducer.from_pretrained(out).config.training.seed == 1
    train(other, resume=True, display=False)
    found = Transducer.from_pretrained(out)
    assert isinstance(found, PerTagTransducer)
    assert {one.config.training.seed for one in found.models.values()} == {5}
    assert sorted(one.name for one in (out / "models").iterdir()) == ["003", "004", "005"]
    display = Notes()
    per_tag.train_per_tag(other, resume=True, overwrite=False, display=display)
    assert display.notes[-1].endswith("all 3 models are finished already; nothing to do")
