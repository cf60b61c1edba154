import io
import sys

import pytest

from ssnt.training.display import Display, Moment, Pace, PlainDisplay, RichDisplay, choose_display, clock
from ssnt.training.progress import Row

ROW = Row(3, 15, 0.01, 12.5, 4.25, 3.5, "accuracy", 0.25, True, 100.0, 61.0)
MOMENT = Moment(3, 40, 2, 8, 1.25, 567.8, 3723.0)


def test_without_a_terminal_there_is_a_line_for_each_epoch(capsys):
    display = choose_display(None)
    assert isinstance(display, PlainDisplay)
    display.show(MOMENT)
    display.add(ROW, 40)
    display.note("two\nlines")
    display.show_part("1/3 models", "V;PST epoch 4", is_done=False)
    display.show_part("1/3 models", "V;PST done", is_done=True)
    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        "epoch  3/40  loss 12.5000  dev perplexity 3.5000  dev accuracy 0.2500  100 examples/s  1:01  best",
        "ssnt: two",
        "ssnt: lines",
        "1/3 models  V;PST done",
    ]


def test_it_can_be_silent(capsys):
    display = choose_display(False)
    display.add(ROW, 40)
    display.note("something")
    assert capsys.readouterr() == ("", "")
    assert type(display) is Display


def test_a_model_chosen_by_training_perplexity_is_said_to_be(capsys):
    PlainDisplay().add(Row(1, 5, 0.01, 2.0, 1.5, None, "perplexity", 1.5, False, 10.0, 1.0), 2)
    assert "  train perplexity 1.5000  " in capsys.readouterr().err


def test_perplexity_is_not_shown_twice(capsys):
    PlainDisplay().add(Row(1, 5, 0.01, 2.0, 1.5, 3.0, "perplexity", 3.0, False, 10.0, 1.0), 2)
    assert capsys.readouterr().err.count("perplexity") == 1


def test_on_a_terminal_a_line_moves(monkeypatch):
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "160")
    display = choose_display(None)
    assert isinstance(display, RichDisplay)
    display.add(ROW, 40)
    display.show(MOMENT)
    display._bar.refresh()
    display.note("a note")
    display.close()
    text = terminal.getvalue()
    assert "dev accuracy 0.2500" in text
    assert "epoch 3/40" in text
    for part in ("loss 1.2500", "accuracy 0.2500", "568 examples/s", "at most 1:02:03 left", "a note"):
        assert part in text


@pytest.mark.parametrize(("seconds", "text"), [(0.4, "0:00"), (59.6, "1:00"), (3599, "59:59"), (3600, "1:00:00")])
def test_times(seconds: float, text: str):
    assert clock(seconds) == text


def test_pace_counts_steps_and_leaves_out_what_is_not_training(monkeypatch):
    now = [100.0]
    monkeypatch.setattr("time.perf_counter", lambda: now[0])
    pace = Pace()
    assert (pace.pairs_per_second(), pace.seconds_left(5)) == (0.0, None)
    now[0] += 2
    pace.step(10)
    now[0] += 6  # a validation
    pace.begin()
    now[0] += 2
    pace.step(30)
    assert pace.pairs_per_second() == 10
    assert pace.end_epoch() == 10
    assert pace.seconds_left(4) == 20
