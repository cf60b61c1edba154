"""Filters by length, and what they say about a file."""

import json

import pytest

from ssnt.config import DataConfig
from ssnt.data.filters import FilterReport, Filters

PAPER = Filters.of(DataConfig(max_source_length=50, max_target_length=25, max_cells=500))


@pytest.mark.parametrize(
    ("src_len", "tgt_len", "verdict"),
    [
        (50, 10, None),
        (51, 1, "max_source_length"),
        (20, 25, None),
        (1, 26, "max_target_length"),
        (50, 11, "max_cells"),
        (51, 26, "max_source_length"),
    ],
)
def test_verdicts(src_len: int, tgt_len: int, verdict: str | None):
    assert PAPER.verdict(src_len, tgt_len) == verdict


def test_no_limit_takes_nothing():
    assert Filters.of(DataConfig()).verdict(10**6, 10**6) is None
    assert not Filters().is_active
    assert Filters(max_cells=1).is_active
    assert PAPER.is_active


def report(*verdicts: str | None) -> FilterReport:
    counted = FilterReport(PAPER)
    for verdict in verdicts:
        counted.count(verdict)
    return counted


@pytest.mark.parametrize(
    ("verdicts", "sentence"),
    [
        ([None, None], "all 2 pairs are used"),
        ([None], "the only pair is used"),
        (
            [None, "max_cells", "max_source_length", "max_cells"],
            "1 of 4 pairs are used; left out: 1 by data.max_source_length (50), 2 by data.max_cells (500)",
        ),
        (
            ["max_target_length", "max_cells"],
            "none of 2 pairs is left after the filters, which took 1 by data.max_target_length (25), "
            "1 by data.max_cells (500); raise these limits",
        ),
    ],
)
def test_sentences(verdicts: list[str | None], sentence: str):
    counted = report(*verdicts)
    assert counted.sentence() == sentence
    assert counted.total == len(verdicts)
    assert counted.kept == verdicts.count(None)


def test_a_report_is_kept_as_json():
    counted = report(None, "max_cells")
    assert FilterReport.from_json(json.loads(json.dumps(counted.to_json()))) == counted
