"""What the figures are drawn of."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from experiments.__main__ import app
from typer.testing import CliRunner

from experiments import figures
from ssnt.types import Example
from transducers import make_vocabulary


def test_the_longest_input_that_fits_and_can_be_written_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    sources = ["ab", "abcdefab", "abcq", "bcde", "cdef", "abcdef"]  # too long, not to be written, and the first of two
    test = [Example(one, one, ("X",)) for one in sources[:-1]] + [Example("abcdef", "abcdef", ("Y",))]
    monkeypatch.setattr(figures, "load", lambda _: SimpleNamespace(test=test))
    wanted = figures.Wanted("toy", "inflection", "biSSNT+", "inflection/toy", "X", longest=6)
    assert figures._longest(wanted, make_vocabulary(source="abcdefq", target="abcdef")) == "bcde"


def test_figures_without_a_model_are_named_and_no_success(tmp_path: Path) -> None:
    found = CliRunner().invoke(app, ["figures", "--work", str(tmp_path)])
    assert found.exit_code == 1
    for wanted in figures.WANTED:
        assert f"{wanted.name}: {wanted.system} for {wanted.dataset}" in found.output
