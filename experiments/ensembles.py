"""Ensembles of kept answers: what models that are gone answer together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from experiments.answers import Answer, together, unpacked
from experiments.datasets import Parts, of_type
from experiments.outcomes import signs_of
from experiments.plan import Trial, asker_of, known_types, tags_of
from ssnt.data.references import PooledExample, pool_references
from ssnt.engines.base import DONE, Report
from ssnt.errors import DataError
from ssnt.metrics import Score
from ssnt.metrics.score import signature


def measured_together(
    trial: Trial, answers: Mapping[str, Mapping[str, Any]], parts: Parts, retrained: int = 0
) -> Report:
    """Measures what the members of a trial answer together, each output with the mean of their probabilities for it.

    Args:
        trial: The ensemble.
        answers: What each member has kept, by its key.
        parts: Its data set.
        retrained: How many of the answers are of another training than the member's row, to be written down.

    Raises:
        DataError: The answers are of other data, or not of the same questions.
    """
    first = answers[trial.members[0]]
    for key in trial.members:
        if answers[key]["data"] != parts.sha256:
            raise DataError(f"{key}: its answers are of other data than {trial.dataset} is now")
        for name in ("normalisation", "unit"):
            if answers[key][name] != first[name]:
                raise DataError(
                    f"{key}: expected the {name} {first[name]} of {trial.members[0]}, got {answers[key][name]}; they "
                    "were not asked the same"
                )
    record: dict[str, Any] = {"scores": {}, "outcomes": {}, "uncertain": {}, "retrained": retrained}
    values: dict[str, float] = {}
    for part, whole in trial.asked(parts).items():
        questions = pool_references(of_type(whole, trial.tags), **first["normalisation"])
        verdicts = [together(own) for own in _by_question(trial, questions, answers, part)]
        rights = [one.is_right for one in verdicts]
        values[part] = sum(rights) / len(rights)
        score = Score("accuracy", values[part], len(rights), _signature(trial, first["unit"]), is_higher_better=True)
        cells = signs_of(questions, rights, whole, by_type=trial.dataset in known_types())
        record["scores"][part] = [score.to_record()]
        record["outcomes"][part] = {"cells": cells}
        record["uncertain"][part] = sum(not one.is_certain for one in verdicts)
    row = {"dev": values["dev"], "test": values.get("test"), "epochs": 0, "seconds": 0.0, "data": parts.sha256}
    return {"state": DONE, "row": row, "record": record}


def _by_question(
    trial: Trial, questions: Sequence[PooledExample], answers: Mapping[str, Mapping[str, Any]], part: str
) -> list[list[Answer]]:
    """What the members have answered to each question: each system and seed once."""
    found: list[list[Answer]] = [[] for _ in questions]
    for key in trial.members:
        tags = "" if trial.tags else tags_of(key, trial.dataset)  # a member may be for one of the tag sets
        places = [at for at, one in enumerate(questions) if not tags or ";".join(one.tags) == tags]
        own = unpacked(answers[key][part])
        if len(own) != len(places):
            raise DataError(f"{key}: expected an answer to each of {len(places)} questions of {part}, got {len(own)}")
        for place, answer in zip(places, own, strict=True):
            found[place].append(answer)
    askers = len({asker_of(key) for key in trial.members})
    if lonely := next((one for one, own in zip(questions, found, strict=True) if len(own) != askers), None):
        raise DataError(f"{trial.key}: expected {askers} answers to each question, not to {lonely.source!r}")
    return found


def _signature(trial: Trial, unit: str) -> str:
    models = f"models:{trial.model_count}"
    how = ("search:kept-answers", "mean:outputs", models, "formula:exact/items", f"unit:{unit}", "norm:NFC")
    return signature("accuracy", *how, "bootstrap:none")
