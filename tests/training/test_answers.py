"""What models have answered where they were trained."""

import json
from pathlib import Path

import pytest

from ssnt.config import Config
from ssnt.evaluation import evaluate_model
from ssnt.pipeline import PerTagTransducer, Transducer
from ssnt.training.answers import AnsweredTransducer, answers_of
from ssnt.types import Example
from transducers import make_config, make_transducer

PST, PRS = ("PST", "V"), ("PRS", "V")
ROWS = {PST: [("ab", "ba"), ("ab", "bb"), ("fed", "x")], PRS: [("ab", "abc"), ("e", "e")]}
METRICS = ["accuracy", "edit_distance", "perplexity"]


def own_config(path: Path, config: Config, rows: list[tuple[str, str]]) -> Config:
    path.write_text("".join(json.dumps({"source": source, "target": target}) + "\n" for source, target in rows))
    return config.model_copy(update={"data": config.data.model_copy(update={"dev": str(path), "format": "jsonl"})})


def test_models_that_have_answered_are_measured_as_if_they_were_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    config = make_config()
    models = {tags: make_transducer(seed) for seed, tags in enumerate(ROWS)}
    answers = {
        tags: json.loads(json.dumps(answers_of(model, own_config(tmp_path / f"{tags[0]}.jsonl", config, ROWS[tags]))))
        for tags, model in models.items()
    }
    dev = [Example(source, target, tuple(reversed(tags))) for tags, rows in ROWS.items() for source, target in rows]
    dev.append(Example("ab", "b", ("ODD",)))  # for which there is no model
    asked = evaluate_model(PerTagTransducer(models, config), dev, METRICS, resamples=10)
    told: list[Example] = []
    real = Transducer.transduce_each
    monkeypatch.setattr(Transducer, "transduce_each", lambda self, own, **_: told.extend(own) or real(self, own))
    found = evaluate_model(AnsweredTransducer(models, config, answers), dev, METRICS, resamples=10)
    assert found.scores == asked.scores
    assert found.items == asked.items
    assert [one.index for one in found.failures] == [one.index for one in asked.failures] != []
    assert told == []
