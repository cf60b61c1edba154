"""Alignment pictures."""

import pytest
import torch

from ssnt import Alignment, ShapeError
from ssnt.plots import plot_alignment


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_a_picture_shows_symbols_and_path(tmp_path, suffix):
    emit = torch.tensor([[0.9, 0.1, 0.0], [0.0, 0.2, 0.8]])
    figure = plot_alignment(emit, ["a", "b", "</s>"], ["x", "</s>"], Alignment((0, 2), -1.0), title="a pair")
    axes = figure.axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a", "b", "</s>"]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["x", "</s>"]
    shown = axes.images[0].get_array()
    assert shown.shape == (3, 2)  # the source runs down
    assert shown[2, 1] == pytest.approx(0.8)
    line, dots = axes.lines
    assert list(zip(*line.get_data(), strict=True)) == [(0, 0), (0, 0), (0, 0), (1, 0), (1, 2)]
    assert list(dots.get_ydata()) == [0, 2]
    figure.savefig(tmp_path / f"picture.{suffix}")
    assert (tmp_path / f"picture.{suffix}").stat().st_size > 1000


def test_sizes_must_fit():
    with pytest.raises(ShapeError, match=r"emit must have shape \(J, I\) = \(1, 2\), .* got \(2, 1\)"):
        plot_alignment(torch.ones(2, 1), ["a", "b"], ["x"])
