"""The plans as they are: every setting is known, and the paper's tables have the paper's settings.

A trial's key follows what its plan says, not what a preset means: a preset that changes must be noticed here.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from experiments.plan import Trial, tables, trials_of
from experiments.runner import check_settings

from experiments import plan
from ssnt.config import Config

TABLES = tables()


def _settings(table: str) -> list[tuple[Trial, Config]]:
    """A trial for each different settings of a table, with the settings that it means."""
    trained = {json.dumps(one.settings, sort_keys=True): one for one in trials_of(table) if not one.members}
    return [(one, one.config()) for one in trained.values()]


@pytest.mark.parametrize("table", TABLES)
def test_a_plan_can_be_run(table: str) -> None:
    trials = trials_of(table)
    keys = [one.key for one in trials]
    assert len(set(keys)) == len(keys)
    assert _settings(table)
    before = [one.key for earlier in TABLES[: TABLES.index(table)] for one in trials_of(earlier)]
    assert all(set(one.members) <= {*before, *keys[:at]} for at, one in enumerate(trials))


def test_nothing_is_tested_while_something_is_chosen() -> None:
    assert not any(one.has_test for one in trials_of("selection"))


def test_the_papers_settings_of_inflection() -> None:
    for trial, config in _settings("inflection"):
        model = config.model
        assert (model.hidden_size, model.input_dropout, model.output_dropout) == (128, 0.5, 0.5), trial.system
        assert (model.encoder_layers, model.decoder_layers) == (1, 1)
        if not config.training.crossover:  # which the paper has not
            assert (config.optimiser.name, config.optimiser.learning_rate, config.batch.size) == ("adam", 0.001, 32)
        assert (config.search.search, config.search.beam) == ("marginal", 30)
        assert (config.data.lowercase, config.validation.metric) == (True, "accuracy")
        assert (config.optimiser.schedule, config.training.running_mean) == ("plateau", 0.998)


@pytest.mark.parametrize("table", ["summarisation", "gigaword"])
def test_the_papers_settings_of_summarisation(table: str) -> None:
    for trial, config in _settings(table):
        wanted = 128 if "H=128" in trial.system else 256
        layers = int(trial.system[-1]) if "L=" in trial.system else 1
        assert (config.model.hidden_size, config.model.input_dropout, config.model.output_dropout) == (wanted, 0.2, 0.0)
        assert (config.model.encoder_layers, config.model.decoder_layers) == (layers, layers)
        assert (config.optimiser.name, config.optimiser.learning_rate, config.batch.size) == ("adam", 0.001, 32)
        assert (config.search.beam, config.search.copy_unknown) == (1, False)
        assert (config.data.max_source_length, config.data.max_target_length, config.data.max_cells) == (50, 25, 500)
        assert (config.data.min_count, config.validation.metric) == (5, "perplexity")


def test_the_plan_in_the_readme_is_understood(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (Path(plan.__file__).parent / "README.md").read_text(encoding="utf-8")
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "plan.yaml").write_text(text.partition("```yaml\n")[2].partition("```")[0], encoding="utf-8")
    monkeypatch.setattr(plan, "HOME", tmp_path)
    trials = plan.trials_of("own")
    assert [(one.system, one.tags, len(one.members)) for one in trials] == [
        ("one", "case=dative;number=plural", 0),
        ("one", "case=dative;number=plural", 0),
        ("both", "case=dative;number=plural", 2),
    ]
    check_settings(trials)
