"""What is committed: the report says what the results say."""

from __future__ import annotations

from pathlib import Path

from experiments.plan import HOME
from experiments.report import write_report


def test_the_report_is_that_of_the_results(tmp_path: Path) -> None:
    committed = (HOME / "REPORT.md").read_text(encoding="utf-8")
    written = write_report(target=tmp_path)
    assert written.read_text(encoding="utf-8") == committed, "run: python -m experiments report"
