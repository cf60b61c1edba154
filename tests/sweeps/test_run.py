"""Sweeps of tiny models, from start to end: they find what single trainings find, however often they are stopped."""

from __future__ import annotations

import csv
import importlib.util
import warnings
from pathlib import Path
from typing import Any

import pytest

import ssnt
from ssnt.config import Config, load_config, read_settings
from ssnt.engines.base import Job, Report, Tell, failed
from ssnt.errors import ConfigError, DataError, HardwareError, ModelError
from ssnt.interrupts import Stop, TrainingInterrupted
from ssnt.sweeps import SweepResult, run_sweep, sweep_config
from ssnt.sweeps.directory import SweepDirectory
from ssnt.sweeps.space import Space
from ssnt.training import fit
from sweeping import SPACE, InProcess, MakeSweep, pretended, sweep_settings
from trainings import files_of

GOOD, BAD = 0.01, 0.9


def by_learning_rate(config: Config) -> list[float]:
    """Dev perplexities that are better with a lower learning rate."""
    return [2.0 + config.optimiser.learning_rate + 1 / epoch for epoch in (1, 2, 3)]


def table(out: Path) -> list[dict[str, str]]:
    with (out / "trials.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def states(result: SweepResult) -> list[str]:
    return [one.state for one in sorted(result.trials, key=lambda one: one.number)]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, SweepResult]:
    """A sweep of four tiny models that nobody has disturbed; nobody may change it."""
    place = tmp_path_factory.mktemp("finished")
    return place, run_sweep(sweep_settings(place, keep=2), engine=InProcess(), display=False)


def test_a_grid_finds_what_single_trainings_find(finished: tuple[Path, SweepResult], tmp_path: Path):
    _, result = finished
    base = load_config(overrides=sweep_settings(tmp_path).model_dump(exclude={"sweep"}))
    points = [(size, rate) for size in SPACE["model.hidden_size"] for rate in SPACE["optimiser.learning_rate"]]
    found = {one.number: one for one in result.trials}
    for number, (size, rate) in enumerate(points, start=1):
        changes: dict[str, Any] = {
            "model": base.model.model_copy(update={"hidden_size": size}),
            "optimiser": base.optimiser.model_copy(update={"learning_rate": rate}),
            "validation": base.validation.model_copy(update={"metric": "perplexity"}),
            "out": str(tmp_path / str(number)),
        }
        alone = ssnt.train(base.model_copy(update=changes), display=False)
        assert found[number].params == {"model.hidden_size": size, "optimiser.learning_rate": rate}
        assert found[number].value == alone.metrics["scores"]["dev"][0]["value"]
    assert [one.value for one in result.trials] == sorted(one.value for one in found.values())
    assert result.best is result.trials[0]


def test_what_a_sweep_leaves(finished: tuple[Path, SweepResult]):
    place, result = finished
    best, out = result.best, place / "sweep"
    assert best is not None
    model = ssnt.Transducer.from_pretrained(result.model)
    assert model.metrics["scores"]["dev"][0]["value"] == best.value
    settings = load_config(out / "best.yaml")
    assert settings.model.hidden_size == best.params["model.hidden_size"]
    assert (settings.out, settings.validation.metric, settings.hardware.threads) == (None, "perplexity", None)
    rows = table(out)
    assert [row["trial"] for row in rows] == ["0001", "0002", "0003", "0004"]
    assert {float(row["perplexity"]) for row in rows} == {one.value for one in result.trials}
    kept = {path.parent.name for path in out.glob("trials/*/model.safetensors")}
    assert kept == {one.name for one in result.trials[:2]}
    for one in result.trials[2:]:  # the log and the scores stay
        left = {path.name for path in (out / "trials" / one.name).rglob("*") if path.is_file()}
        assert left == {"metrics.json", "config.yaml", "log.csv"}
    assert not (out / "training").exists()


def record_of(out: Path) -> dict[str, Any]:
    """What the record of a sweep says, apart from where its files and processes are."""
    record = read_settings(out / "sweep.yaml")
    for name in ("engine", "workers"):
        del record["config"]["hardware"][name]
    return {**record, "config": {**record["config"], "out": None}}


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["local", pytest.param("ray", marks=pytest.mark.xdist_group("ray"))])
def test_all_files_are_the_same_wherever_and_in_how_many_processes_trials_are_trained(
    finished: tuple[Path, SweepResult], tmp_path: Path, engine: str, request: pytest.FixtureRequest
):
    if engine == "ray":
        request.getfixturevalue("ray_cluster")
    place, expected = finished
    config = sweep_config(place / "sweep")
    hardware = config.hardware.model_copy(update={"engine": engine, "workers": 2})
    out = tmp_path / "sweep"
    result = run_sweep(config.model_copy(update={"hardware": hardware, "out": str(out)}), display=False)
    assert result.trials == expected.trials  # all that the study knows, apart from times
    assert record_of(out) == record_of(place / "sweep")
    found, wanted = (
        {name: text for name, text in files_of(one).items() if name not in ("study.db", "sweep.yaml")}
        for one in (out, place / "sweep")
    )
    assert {"best.yaml", "trials.csv", "best/config.yaml", f"trials/{result.trials[1].name}/config.yaml"} <= set(wanted)
    assert found == wanted


def test_a_finished_sweep_is_not_repeated(finished: tuple[Path, SweepResult], capsys: pytest.CaptureFixture[str]):
    place, result = finished
    engine = InProcess()
    again = run_sweep(sweep_config(place / "sweep"), resume=True, engine=engine)
    assert again == result
    assert not engine.jobs
    assert "all 4 trials are done already" in capsys.readouterr().err


def test_a_sweep_that_was_stopped_goes_on(
    finished: tuple[Path, SweepResult], make_sweep: MakeSweep, capsys: pytest.CaptureFixture[str]
):
    config = make_sweep()
    with pytest.raises(TrainingInterrupted) as caught:  # in the second trial, after its first epoch
        run_sweep(config, engine=InProcess(stop_after=3))
    message = f"stopped; 1 of 4 trials are done; go on with: ssnt sweep --resume --out {config.out}"
    assert str(caught.value) == message
    assert capsys.readouterr().err.endswith(f"ssnt: {message}\n")
    assert [row["state"] for row in table(Path(str(config.out)))] == ["complete", "running"]
    engine = InProcess()
    result = run_sweep(sweep_config(str(config.out)), resume=True, engine=engine, display=False)
    assert [job.name for job in engine.jobs] == ["trial 0002", "trial 0003", "trial 0004"]
    assert result.trials == finished[1].trials
    # the second one has gone on from its checkpoint
    with (Path(str(config.out)) / "trials" / "0002" / "training" / "log.csv").open(newline="") as file:
        assert [row["epoch"] for row in csv.DictReader(file)] == ["1", "2"]


class KilledError(Exception):
    """Stands for the end of the process that sweeps."""


def test_a_cluster_that_cannot_be_reached_leaves_nothing_in_the_way(make_sweep: MakeSweep):
    class Unreachable(InProcess):
        def check(self) -> None:
            raise ConfigError("the Ray cluster cannot be reached")

    config = make_sweep()
    with pytest.raises(ConfigError, match="cannot be reached"):
        run_sweep(config, engine=Unreachable(), display=False)
    assert not Path(str(config.out)).exists()


@pytest.mark.parametrize("at", [1, 6])
@pytest.mark.parametrize("sampler", ["grid", "tpe"])
def test_wherever_a_sweep_is_killed_it_goes_on_to_the_same_trials(
    make_sweep: MakeSweep, tmp_path: Path, sampler: str, at: int
):
    more = {} if sampler == "grid" else {"trials": 5}
    config = make_sweep(sampler=sampler, pruner="asha", space={"optimiser.learning_rate": [0.3, 0.1, 0.9, 0.2]}, **more)
    whole = run_sweep(config, engine=InProcess(pretended(by_learning_rate)), display=False)

    class Dying(InProcess):
        left = at

        def run(self, jobs: Any, tell: Tell, stop: Stop) -> None:
            def counted(job: Job, report: Report) -> bool | None:
                self.left -= 1
                if not self.left:
                    raise KilledError
                return tell(job, report)

            super().run(jobs, counted, stop)

    broken = config.model_copy(update={"out": str(tmp_path / "broken")})
    with pytest.raises(KilledError):
        run_sweep(broken, engine=Dying(pretended(by_learning_rate)), display=False)
    resumed = run_sweep(broken, resume=True, engine=InProcess(pretended(by_learning_rate)), display=False)
    assert resumed.trials == whole.trials


def test_a_hopeless_trial_is_given_up(make_sweep: MakeSweep):
    config = make_sweep(space={"optimiser.learning_rate": [0.03, 1e-6]}, pruner="asha")
    result = run_sweep(config, engine=InProcess(), display=False)
    assert states(result) == ["complete", "pruned"]
    assert (result.trials[1].epochs, result.trials[1].value) == (1, None)
    place = SweepDirectory(str(config.out)).trial(2)
    assert not list(place.rglob("*.safetensors"))
    assert len((place / "training" / "log.csv").read_text().splitlines()) == 2  # one epoch of two


@pytest.mark.parametrize("pruner", ["median", "asha", "hyperband"])
def test_every_pruner_gives_up_what_is_worse(make_sweep: MakeSweep, pruner: str):
    rates = [0.1, 0.11, 0.12, 0.13, 0.14, 0.9, 0.91, 0.92]
    config = make_sweep(pruner=pruner, space={"optimiser.learning_rate": rates}, keep=8)
    result = run_sweep(config, engine=InProcess(pretended(by_learning_rate)), display=False)
    assert states(result)[0] == "complete"
    assert "pruned" in states(result)[5:]


@pytest.mark.parametrize("sampler", ["random", "tpe"])
def test_the_seed_fixes_what_is_drawn_and_more_can_be_drawn(make_sweep: MakeSweep, sampler: str):
    space = {"optimiser.learning_rate": {"low": 1e-4, "high": 1e-1, "log": True}, "model.hidden_size": [4, 8]}

    def drawn(out: str, **sweep: Any) -> list[Any]:
        config = make_sweep(sampler=sampler, space=space, **sweep).model_copy(update={"out": f"{out}"})
        resume = Path(out).exists()
        result = run_sweep(config, resume=resume, engine=InProcess(pretended(by_learning_rate)), display=False)
        return [one.params for one in sorted(result.trials, key=lambda one: one.number)]

    place = str(make_sweep().out)
    first = drawn(f"{place}-a", trials=12, seed=3)
    assert drawn(f"{place}-b", trials=11, seed=3) == first[:11]
    assert drawn(f"{place}-b", trials=12, seed=3) == first
    assert drawn(f"{place}-c", trials=12, seed=4) != first


def test_optuna_is_silent(make_sweep: MakeSweep, capsys: pytest.CaptureFixture[str]):
    config = make_sweep(sampler="tpe", trials=2, pruner="hyperband")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run_sweep(config, engine=InProcess(pretended(by_learning_rate)), display=False)
    assert capsys.readouterr() == ("", "")


def test_a_metric_that_is_better_when_it_is_higher(make_sweep: MakeSweep):
    def job(order: dict[str, Any], tell: Any, stop: Stop) -> Report:
        rate = order["config"]["optimiser"]["learning_rate"]
        assert order["config"]["validation"]["metric"] == "accuracy"
        return {"state": "done", "scores": [{"name": "perplexity", "value": 9.0}, {"name": "accuracy", "value": rate}]}

    config = make_sweep(metric="accuracy", space={"optimiser.learning_rate": [0.1, 0.3, 0.2]})
    result = run_sweep(config, engine=InProcess(job), display=False)
    assert [one.value for one in result.trials] == [0.3, 0.2, 0.1]


def test_a_trial_that_fails_does_not_end_the_sweep(make_sweep: MakeSweep, capsys: pytest.CaptureFixture[str]):
    def job(order: dict[str, Any], tell: Any, stop: Stop) -> Report:
        rate = order["config"]["optimiser"]["learning_rate"]
        if rate == BAD:
            return failed("training has diverged", kind="ModelError")
        return {"state": "done", "scores": [{"name": "perplexity", "value": None if rate == GOOD else 2.0}]}

    config = make_sweep(space={"optimiser.learning_rate": [BAD, GOOD, 0.1]})
    result = run_sweep(config, engine=InProcess(job))
    assert states(result) == ["failed", "failed", "complete"]
    messages = [row["message"] for row in table(Path(str(config.out)))]
    assert messages == ["training has diverged", "its dev perplexity is infinite or not a number", ""]
    assert "trial 0001 failed: training has diverged" in capsys.readouterr().err
    hopeless = make_sweep(space={"optimiser.learning_rate": [BAD]}).model_copy(update={"out": f"{config.out}-2"})
    with pytest.raises(ModelError, match="no trial could be finished\ntrial 0001: training has diverged"):
        run_sweep(hopeless, engine=InProcess(job), display=False)


def test_values_that_do_not_go_together_are_a_failed_trial(make_sweep: MakeSweep, monkeypatch: pytest.MonkeyPatch):
    # ends of ranges are checked, and what lies between them is not
    monkeypatch.setattr(Space, "_corners", lambda _: iter([{"model.embed_size": 4}]))
    config = make_sweep(sampler="random", trials=6, space={"model.embed_size": [4, 5]})
    tied = config.model.model_copy(update={"embed_size": 4, "hidden_size": 4, "tie_target_embedding": True})
    config = config.model_copy(update={"model": tied})
    result = run_sweep(config, engine=InProcess(pretended(by_learning_rate)), display=False)
    assert {one.params["model.embed_size"]: one.state for one in result.trials} == {4: "complete", 5: "failed"}
    assert "expected embed_size equal to hidden_size" in result.trials[-1].message


def test_bfloat16_is_asked_of_this_cpu_only_where_trials_are_trained_on_it(
    make_sweep: MakeSweep, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(fit, "cpu_lacks", lambda _: True)

    def asked(engine: str, address: str | None = None) -> None:
        config = make_sweep()
        hardware = config.hardware.model_copy(update={"precision": "bfloat16", "engine": engine, "address": address})
        without_dev = config.data.model_copy(update={"dev": None})  # what is looked at next
        run_sweep(config.model_copy(update={"hardware": hardware, "data": without_dev}), display=False)

    for engine in ("local", "ray"):  # without an address Ray is started here
        with pytest.raises(HardwareError, match=r"hardware\.precision': this CPU has no instructions for bfloat16"):
            asked(engine)
    with pytest.raises(ConfigError, match=r"setting 'data\.dev'"):
        asked("ray", "head:6379")


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        (
            {"training": {"per_tag": True}},
            "setting 'training.per_tag': a trial of a sweep is the training of one model",
        ),
        ({"hardware": {"devices": 2}}, "setting 'hardware.devices': each of the trials of a sweep is trained by one"),
        ({"hardware": {"accelerator": "gpu"}}, "setting 'hardware.accelerator': the trials of a sweep are trained on"),
        ({"hardware": {"precision": "float16"}}, "setting 'hardware.precision': the trials of a sweep are trained on"),
        ({"hardware": {"address": "auto"}}, "is of use to the engine 'ray' only"),
        ({"out": None}, "setting 'out': expected the model directory to write"),
    ],
)
def test_what_a_sweep_cannot_have_is_told(
    make_sweep: MakeSweep, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], complaint: str
):
    # a GPU that the user may have is none of the trials'
    monkeypatch.setattr(fit, "uses_gpu", lambda config: config.hardware.accelerator != "cpu")
    config = make_sweep()
    config = config.model_copy(update={"hardware": config.hardware.model_copy(update={"accelerator": "auto"})})
    sections = {
        name: getattr(config, name).model_copy(update=value) if isinstance(value, dict) else value
        for name, value in changes.items()
    }
    with pytest.raises(ConfigError) as caught:
        run_sweep(config.model_copy(update=sections), display=False)
    assert complaint in str(caught.value)
    assert not Path(str(config.out)).exists()


def test_without_development_data_there_is_nothing_to_compare(make_sweep: MakeSweep):
    config = make_sweep()
    config = config.model_copy(update={"data": config.data.model_copy(update={"dev": None})})
    with pytest.raises(
        ConfigError, match=r"setting 'data.dev': expected the data that trials are compared on \(--dev\)"
    ):
        run_sweep(config, display=False)


def test_data_that_cannot_be_used_is_told_before_any_trial(make_sweep: MakeSweep):
    config = make_sweep()
    Path(str(config.data.dev)).write_text("no tab\n")
    engine = InProcess()
    with pytest.raises(DataError, match=r"dev\.tsv:1: "):
        run_sweep(config, engine=engine, display=False)
    assert not engine.jobs
    assert not Path(str(config.out)).exists()


def test_optuna_is_an_extra(make_sweep: MakeSweep, monkeypatch: pytest.MonkeyPatch):
    plain = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == "optuna" else plain(name, *rest)
    )
    with pytest.raises(ConfigError, match=r"run pip install 'ssnt\[sweep\]'"):
        run_sweep(make_sweep(), display=False)


def test_only_one_sweep_at_a_time(make_sweep: MakeSweep):
    config = make_sweep()
    with (
        SweepDirectory(str(config.out)).locked(),
        pytest.raises(ConfigError, match="another process is training here; wait for it, or choose another --out"),
    ):
        run_sweep(config, display=False)
