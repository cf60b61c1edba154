import math

import pytest

from ssnt.config import OptimiserConfig
from ssnt.training.schedule import fraction, learning_rate


def rates(total: int = 10, **settings) -> list[float]:
    optimiser = OptimiserConfig(learning_rate=0.5, **settings)
    return [learning_rate(optimiser, step, total) for step in range(1, total + 1)]


def test_constant():
    assert rates(schedule="constant") == [0.5] * 10


def test_warmup_rises_from_zero_to_the_highest():
    assert rates(schedule="constant", warmup_steps=4)[:5] == pytest.approx([0.125, 0.25, 0.375, 0.5, 0.5])


def test_linear_is_a_straight_line_from_the_first_step_to_the_last():
    expected = [0.5 * (0.2 + 0.8 * (10 - step) / 9) for step in range(1, 11)]
    assert rates(schedule="linear", final_fraction=0.2) == pytest.approx(expected)
    assert rates(schedule="linear", final_fraction=0.2)[-1] == pytest.approx(0.1)


def test_linear_begins_after_the_warmup():
    expected = [0.25, 0.5, *(0.5 * (10 - step) / 8 for step in range(3, 11))]
    assert rates(schedule="linear", warmup_steps=2) == pytest.approx(expected)


def test_cosine_is_half_a_wave():
    expected = [0.25 * (1 + math.cos(math.pi * (step - 1) / 9)) for step in range(1, 11)]
    assert rates(schedule="cosine") == pytest.approx(expected)


def test_after_the_last_step_the_end_stays():
    optimiser = OptimiserConfig(schedule="cosine", final_fraction=0.1)
    assert fraction(optimiser, 50, 10) == pytest.approx(0.1)


@pytest.mark.parametrize("warmup", [0, 4])
def test_inverse_square_root_is_highest_where_the_warmup_ends(warmup: int):
    peak = max(1, warmup)
    expected = [0.5 * min(step / peak, math.sqrt(peak / step)) for step in range(1, 11)]
    assert rates(schedule="inverse-sqrt", warmup_steps=warmup) == pytest.approx(expected)


def test_plateau_scales_what_the_warmup_gives():
    optimiser = OptimiserConfig(learning_rate=0.5, schedule="plateau", warmup_steps=2)
    assert learning_rate(optimiser, 1, 10, plateau_scale=0.25) == pytest.approx(0.0625)
    assert learning_rate(optimiser, 9, 10, plateau_scale=0.25) == pytest.approx(0.125)


def test_a_training_of_one_step_has_a_step_size():
    assert rates(total=1, schedule="linear") == [0.5]
