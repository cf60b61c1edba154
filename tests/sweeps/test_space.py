"""What a sweep tries is checked before anything is trained."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ssnt.config import SweepRunConfig, load_sweep_config, parse_overrides
from ssnt.config.sweep import DEFAULT_SPACE, FIXED
from ssnt.errors import ConfigError
from ssnt.sweeps.space import Space


def space(**sweep: Any) -> Space:
    return Space(SweepRunConfig.model_validate({"sweep": sweep}))


def test_the_grid_has_every_combination_in_order():
    grid = space(space={"model.hidden_size": [4, 8], "model.input_dropout": {"low": 0.1, "high": 0.35, "step": 0.1}})
    assert grid.size == 6
    assert list(grid.points()) == [
        {"model.hidden_size": size, "model.input_dropout": dropout} for size in (4, 8) for dropout in (0.1, 0.2, 0.3)
    ]
    assert grid.point(4) == {"model.hidden_size": 8, "model.input_dropout": 0.2}
    config = grid.config(grid.point(4))
    assert (config.model.hidden_size, config.model.input_dropout) == (8, 0.2)


def test_without_a_space_it_is_a_grid_around_the_papers_settings():
    config = SweepRunConfig()
    assert config.sweep.space == DEFAULT_SPACE
    assert (config.sweep.metric, config.sweep.sampler) == ("perplexity", "grid")
    points = list(Space(config).points())
    for size, dropout in ((256, 0.2), (128, 0.5)):  # summarisation and inflection
        paper = {"model.hidden_size": size, "model.input_dropout": dropout, "optimiser.learning_rate": 0.001}
        assert paper in points


def test_numbers_are_whole_where_the_setting_is():
    ranges = {"model.hidden_size": {"low": 2, "high": 9, "step": 3}, "model.input_dropout": {"low": 0, "high": 0.5}}
    found = space(sampler="random", space={**ranges, "optimiser.learning_rate": {"low": 1, "high": 2, "log": True}})
    whole, fraction, log = found.distributions().values()
    assert (type(whole).__name__, whole.low, whole.high, whole.step) == ("IntDistribution", 2, 8, 3)
    assert (type(fraction).__name__, fraction.low, fraction.high) == ("FloatDistribution", 0.0, 0.5)
    assert (type(log).__name__, log.log) == ("FloatDistribution", True)


def test_a_range_of_small_steps_is_not_written_out():
    steps = {"low": 0, "high": 0.5, "step": 1e-15}
    (found,) = space(sampler="random", space={"model.input_dropout": steps}).distributions().values()
    assert (found.low, found.high, found.step) == (0.0, 0.5, 1e-15)


HIDDEN = "setting 'sweep.space': model.hidden_size"


@pytest.mark.parametrize(
    ("sweep", "complaint"),
    [
        ({"space": {}}, "'sweep.space': expected names of settings, each with a list of values or a range, got {}"),
        ({"space": {"model.hidden_size": 3}}, f"{HIDDEN}: expected a list of values or a range such as {{low: 1, high"),
        ({"space": {"model.hidden_size": []}}, f"{HIDDEN}: expected a list of values or a range"),
        ({"space": {"model.hidden_size": [[1]]}}, f"{HIDDEN}: expected values that are numbers, text, true, false or"),
        ({"space": {"model.hidden_size": [8, 4, 8]}}, f"{HIDDEN}: 8 is given twice; leave one out"),
        (
            {"space": {"model.hidden_size": {"low": 1, "hi": 4}}},
            f"{HIDDEN}: unknown setting 'hi' (got 4): did you mean",
        ),
        ({"space": {"model.hidden_size": {"low": 5, "high": 4}}}, f"{HIDDEN}: expected low to be at most high, got 5"),
        ({"space": {"model.hidden_size": {"low": 0, "high": 4, "log": True}}}, "expected low to be above 0 with log"),
        (
            {"space": {"model.hidden_size": {"low": 1, "high": 4, "log": True, "step": 1}}},
            "expected step or log, got both",
        ),
        (
            {"space": {"model.hidden_size": {"low": 1, "high": 4}}},
            f"{HIDDEN}: a grid needs a list of values or a range with a step, got {{'low': 1, 'high': 4}}; give one, "
            "or set sweep.sampler to random or tpe",
        ),
        (
            {"sampler": "tpe", "space": {"model.hidden_size": {"low": 1.5, "high": 4}}},
            f"{HIDDEN} is a whole number; expected low, high and step to be whole numbers",
        ),
        (
            {"sampler": "tpe", "space": {"optimiser.name": {"low": 1, "high": 4}}},
            "'sweep.space': optimiser.name is not a number; expected a list of values, got {'low': 1, 'high': 4}",
        ),
        (
            {"space": {"model.hiden_size": [8]}},
            "'sweep.space': unknown setting 'model.hiden_size' (got [8]): did you mean 'model.hidden_size'?",
        ),
        (
            {"space": {"model": [8]}},
            "expected settings, got the section 'model'; name its settings one by one, such as",
        ),
        ({"space": {"hardware.threads": [1]}}, "hardware.threads cannot be tried: it says where a model is trained"),
        (
            {"trials": 4},
            "setting 'sweep.trials': expected none with the sampler grid, which tries everything, got 4; leave it out",
        ),
        ({"samplr": "grid"}, "unknown setting 'sweep.samplr' (got 'grid'): did you mean 'sweep.sampler'?"),
        ({"pruner": "mean"}, "setting 'sweep.pruner': expected 'none', 'median', 'asha' or 'hyperband', got 'mean'"),
        # what only the whole settings tell
        (
            {"space": {"model.hidden_size": [8, -1]}},
            "'sweep.space': model.hidden_size=-1: setting 'model.hidden_size': expected a value greater than 0, got -1",
        ),
        (
            {"sampler": "random", "space": {"model.input_dropout": {"low": 0.5, "high": 1.0}}},
            "model.input_dropout=1: setting 'model.input_dropout': expected a value less than 1, got 1.0",
        ),
        (
            {"space": {"optimiser.name": ["adamw", "adam"], "optimiser.weight_decay": [0.0, 0.1]}},
            "optimiser.name=adam optimiser.weight_decay=0.1: setting 'optimiser.weight_decay': expected 0 with adam",
        ),
        (
            {"space": {"model.hidden_size": list(range(1, 102)), "model.embed_size": list(range(1, 101))}},
            "'sweep.space': the grid has 10,100 points, and at most 10,000 can be tried; give fewer values",
        ),
        (  # more than any memory holds
            {"space": {"model.input_dropout": {"low": 0, "high": 0.5, "step": 1e-18}}},
            "'sweep.space': the grid has 500,000,000,000,000,001 points, and at most 10,000 can be tried",
        ),
    ],
)
def test_what_cannot_be_tried_is_told(sweep: dict[str, Any], complaint: str):
    with pytest.raises(ConfigError) as caught:
        space(**sweep)
    assert complaint in str(caught.value)


@pytest.mark.parametrize("name", FIXED)
def test_what_trials_are_compared_by_stays(name: str):
    with pytest.raises(ConfigError, match=f"{name} cannot be tried: "):
        space(space={name: ["x"]})


def test_ends_of_many_ranges_are_checked_one_by_one():
    many = {f"model.{name}": {"low": 1, "high": 9} for name in ("embed_size", "hidden_size", "feature_size")}
    lists = {"batch.size": list(range(1, 200)), "optimiser.learning_rate": [0.1, -0.1]}
    with pytest.raises(
        ConfigError, match=r"setting 'optimiser\.learning_rate': expected a value greater than 0, got -0\.1"
    ):
        space(sampler="tpe", space={**many, **lists})


def test_a_sweep_in_a_file_and_on_the_command_line(tmp_path: Path):
    (tmp_path / "a.yaml").write_text("sweep: {space: {model.hidden_size: [4, 8]}, sampler: random}\n")
    overrides = parse_overrides(["sweep.trials=7", "sweep.space={batch.size: [1, 2]}"], SweepRunConfig)
    config = load_sweep_config(tmp_path / "a.yaml", preset="inflection", overrides=overrides)
    assert config.sweep.space == {"model.hidden_size": [4, 8], "batch.size": [1, 2]}
    assert (config.sweep.trials, config.search.beam) == (7, 30)
    (tmp_path / "a.yaml").write_text("sweep: {space: {model.hiden_size: [4]}}\n")
    with pytest.raises(ConfigError, match=r"a\.yaml: setting 'sweep\.space': unknown setting 'model\.hiden_size'"):
        load_sweep_config(tmp_path / "a.yaml")
