"""The benchmarks' own parts: counting, keeping and reporting results. What they measure is not tested here."""

from __future__ import annotations

import ast
import re
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
BENCHMARKS = ROOT / "benchmarks"
SHARED = {"flops", "loops", "measure", "options", "report", "results"}


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Imports a module of the benchmarks by name."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    before = set(sys.modules)

    def load(name: str) -> ModuleType:
        return __import__(name)

    yield load
    for name in (set(sys.modules) - before) & SHARED:
        del sys.modules[name]


@pytest.fixture
def rows(modules: Any) -> list[Any]:
    results = modules("results")
    fused, materialised = results.Figure("fused", 0.25, "s"), results.Figure("materialised", 1.5, "s")
    return [
        results.faster("B=8, V=30", fused, materialised, 4, note='a "note", with a comma'),
        results.more("memory", fused, materialised, 0.1, "at most"),
        *(results.faster(f"V={v}", fused, materialised, series="time against V", x=v) for v in (1000, 30_000)),
    ]


def test_ratio_and_bar(rows: list[Any]) -> None:
    assert [row.ratio for row in rows[:2]] == [6.0, pytest.approx(1 / 6)]
    assert [row.passed for row in rows[:3]] == [True, False, None]
    assert "NOT REACHED" in str(rows[1])


def test_results_come_back_as_they_were_written(modules: Any, rows: list[Any], tmp_path: Path) -> None:
    results = modules("results")
    where = results.conditions(threads=1)
    path = tmp_path / "new" / "loss.csv"
    results.write_rows(path, rows[:1] + rows[2:], where)
    assert results.read_results(path) == [results.Result(row, where) for row in rows[:1] + rows[2:]]
    assert [item.name for item in path.parent.iterdir()] == ["loss.csv"]


def test_rows_of_other_cases_may_be_kept(modules: Any, rows: list[Any], tmp_path: Path) -> None:
    results = modules("results")
    where = results.conditions(threads=1)
    path = tmp_path / "loss.csv"
    results.write_rows(path, [rows[0], rows[2]], where)
    later = replace(where, date="2099-01-01")
    results.write_rows(path, [replace(rows[2], ratio=7.0), rows[3]], later, keep=True)
    found = [(one.row.case, one.row.ratio, one.conditions.date) for one in results.read_results(path)]
    assert found == [(rows[0].case, 6.0, where.date), (rows[2].case, 7.0, later.date), (rows[3].case, 6.0, later.date)]
    results.write_rows(path, [rows[3]], later)
    assert len(results.read_results(path)) == 1


def test_two_rows_of_one_case_are_refused(modules: Any, rows: list[Any]) -> None:
    recorder = modules("results").Recorder("loss", quick=True, threads=1)
    recorder.add(rows[0])
    with pytest.raises(ValueError, match="two rows have the case 'B=8, V=30'"):
        recorder.add(rows[0])


@pytest.mark.parametrize(
    ("value", "text"), [(0.0123456, "0.0123"), (1.0, "1.00"), (12.34, "12.3"), (123.4, "123"), (12345.6, "12,346")]
)
def test_numbers_have_three_digits(modules: Any, value: float, text: str) -> None:
    assert modules("results").number(value) == text


@pytest.mark.parametrize("variant", ["uniSSNT", "biSSNT+"])
def test_count_of_products_is_torchs(modules: Any, variant: str) -> None:
    from ssnt import ModelConfig

    flops = modules("flops")
    config = ModelConfig.variant(variant, src_vocab_size=9, tgt_vocab_size=31, hidden_size=8, embed_size=5)
    pairs, src_len, tgt_len = 3, 4, 6
    sizes = flops.Sizes(pairs * src_len, pairs * tgt_len, pairs * src_len * tgt_len)
    assert flops.counted_flops(config, pairs, src_len, tgt_len) == flops.total_flops(config, sizes)


def test_sizes_count_padding_only_if_asked(modules: Any) -> None:
    import torch

    from ssnt import Batch

    flops = modules("flops")
    lens = torch.tensor([5, 2]), torch.tensor([1, 3])
    batch = Batch(torch.ones(2, 5, dtype=torch.long), lens[0], torch.ones(2, 3, dtype=torch.long), lens[1])
    assert flops.Sizes.of([batch]) == flops.Sizes(7, 4, 11)
    assert flops.Sizes.of([batch], padding=True) == flops.Sizes(10, 6, 30)


def test_materialised_loss_is_the_models(modules: Any) -> None:
    import torch

    from ssnt import SSNT, Batch, ModelConfig

    torch.manual_seed(0)
    model = SSNT(ModelConfig.variant("biSSNT+", src_vocab_size=9, tgt_vocab_size=11, hidden_size=8, embed_size=5))
    src, tgt = torch.randint(4, 9, (2, 5)), torch.randint(4, 11, (2, 3))
    batch = Batch(src, torch.tensor([5, 2]), tgt, torch.tensor([1, 3]))
    expected = model.loss(batch, reduction="sum")
    torch.testing.assert_close(modules("loops").materialised_loss(model, batch), expected)


# ---- the report


def test_page_is_what_the_results_give(modules: Any) -> None:
    report = modules("report")
    results = report.load(BENCHMARKS / "results")
    text = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    assert text == report.page(results), "run: python benchmarks/report.py"
    named = set(re.findall(rf"{report.PICTURES}/([\w-]+\.png)", text))
    assert named == {path.name for path in (ROOT / "docs" / report.PICTURES).glob("*.png")}


def test_page_has_every_row_and_curve(modules: Any, rows: list[Any], tmp_path: Path) -> None:
    results, report = modules("results"), modules("report")
    for name in ("unheard_of", "loss"):
        results.write_rows(tmp_path / f"{name}.csv", rows, results.conditions(threads=1))
    found = report.load(tmp_path)
    assert list(found) == ["loss", "unheard_of"]
    text = report.page(found)
    assert "| B=8, V=30 | fused: 0.250 s | materialised: 1.50 s | 6.00 | at least 4, reached |" in text
    assert "at most 0.1, **not reached**" in text
    assert '- B=8, V=30: a "note", with a comma' in text
    report.draw("loss", found["loss"], tmp_path)
    assert f"![time against V]({report.PICTURES}/loss-time-against-V.png)" in text
    assert (tmp_path / "loss-time-against-V.png").read_bytes().startswith(b"\x89PNG")


def test_a_missing_data_set_is_a_named_skip(
    modules: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    options = modules("options")
    monkeypatch.setenv("SSNT_DATA", str(tmp_path))
    with pytest.raises(SystemExit) as ended:
        options.require_data(options.parser("").parse_args([]), "inflection/de-N")
    assert ended.value.code == 0
    assert "skipped" in (told := capsys.readouterr().out)
    assert str(tmp_path / "inflection" / "de-N") in told


def test_make_runs_every_benchmark() -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8").replace("\\\n", " ")
    match = re.search(r"^BENCHMARKS := (.*)$", text, re.MULTILINE)
    assert match is not None
    scripts = {path.stem for path in BENCHMARKS.glob("*.py")} - SHARED
    assert set(match[1].split()) >= scripts
    for name in scripts:
        tree = ast.parse((BENCHMARKS / f"{name}.py").read_text(encoding="utf-8"))
        assert any(isinstance(node, ast.FunctionDef) and node.name == "main" for node in tree.body), name
