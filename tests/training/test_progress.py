import math

import pytest

from ssnt.config import Config
from ssnt.training.progress import Kept, Progress, Row


def kept(epoch: int, value: float, perplexity: float = 2.0) -> Kept:
    return Kept(epoch, value, perplexity, f"epoch-{epoch:03d}.safetensors")


def test_the_best_weights_are_kept_and_lower_perplexity_decides_between_equal_ones():
    progress = Progress()
    assert progress.keep(kept(1, 0.5), "accuracy", 2)
    assert progress.keep(kept(2, 0.5, 1.5), "accuracy", 2)
    assert not progress.keep(kept(3, 0.4, 1.0), "accuracy", 2)
    assert [one.epoch for one in progress.kept] == [2, 1]
    assert progress.keep(kept(4, 0.6, 9.0), "accuracy", 2)
    assert [one.epoch for one in progress.kept] == [4, 2]


def test_of_entirely_equal_weights_the_earlier_are_kept():
    progress = Progress()
    for epoch in (1, 2):
        progress.keep(kept(epoch, 0.5, math.inf), "accuracy", 1)
    assert [one.epoch for one in progress.kept] == [1]


@pytest.mark.parametrize(("metric", "better"), [("perplexity", 1.0), ("edit_distance", 1.0), ("rouge_l", 3.0)])
def test_what_is_better_depends_on_the_metric(metric: str, better: float):
    progress = Progress()
    assert progress.note_value(2.0, metric)
    assert not progress.note_value(2.0, metric)
    assert progress.note_value(better, metric)
    assert not progress.note_value(4.0 - better, metric)
    assert (progress.best_value, progress.since_best) == (better, 1)


def test_no_number_is_worse_than_any_other():
    progress = Progress()
    assert progress.note_value(math.nan, "accuracy")
    assert progress.note_value(0.0, "accuracy")
    assert not progress.note_value(math.nan, "accuracy")


@pytest.mark.parametrize(("metric", "nothing", "some"), [("accuracy", 0.0, 0.2), ("wer", 1.0, 0.8)])
def test_a_lower_perplexity_counts_as_long_as_hardly_anything_is_right(metric: str, nothing: float, some: float):
    progress = Progress()
    assert progress.note_value(nothing, metric, 30.0)
    assert progress.note_value(nothing, metric, 20.0)
    assert not progress.note_value(nothing, metric, 25.0)
    assert progress.note_value(some, metric, 19.0)
    assert not progress.note_value(some, metric, 10.0)
    assert (progress.best_value, progress.best_perplexity, progress.since_best) == (some, 10.0, 1)


def test_degrees_of_wrong_need_no_perplexity():
    progress = Progress()
    assert progress.note_value(0.01, "rouge_l", 30.0)
    assert not progress.note_value(0.01, "rouge_l", 20.0)


def test_patience_counts_validations_without_a_better_value():
    config = Config.model_validate({"validation": {"patience": 2}})
    progress = Progress()
    for value, over in ((0.5, False), (0.5, False), (0.4, True)):
        progress.note_value(value, "accuracy")
        assert (progress.end_reason(config) is not None) == over
    assert "2 validations ago (validation.patience)" in str(progress.end_reason(config))
    assert progress.end_reason(Config.model_validate({"validation": {"patience": None}})) is None


def test_training_ends_after_the_last_epoch_and_the_last_step_once_it_is_validated():
    config = Config.model_validate({"training": {"max_epochs": 3, "max_steps": 7}})
    assert "max_epochs (3)" in str(Progress(epoch=4).end_reason(config))
    progress = Progress(epoch=2, step=7)
    assert progress.end_reason(config) is None
    progress.note_value(0.1, "accuracy")
    assert "max_steps (7)" in str(progress.end_reason(config))


def test_a_state_gives_the_same_progress():
    row = Row(1, 5, 0.1, 2.0, 3.0, None, "accuracy", 0.5, True, 100.0, 1.5)
    progress = Progress(epoch=2, epoch_step=3, step=8, loss_sums=[1.5, 2.5], kept=[kept(1, 0.5)], rows=[row])
    assert Progress.from_state(progress.to_state()) == progress
