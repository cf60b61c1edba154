"""The benchmarks' own parts: counting, keeping and reporting results. What they measure is not tested here."""

from __future__ import annotations

import ast
import csv
import importlib
import json
import os
import re
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from transducers import copying_transducer

from conftest import require

ROOT = Path(__file__).parents[1]
BENCHMARKS = ROOT / "benchmarks"
SHARED = {"flops", "load", "loops", "measure", "options", "report", "results"}
SCRIPTS = {"per_tag", "prediction", "serve", "step", "summarisation", "training"}  # of which functions are tested


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Imports a module of the benchmarks by name."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    before = set(sys.modules)

    def load(name: str) -> ModuleType:
        return importlib.import_module(name)

    yield load
    for name in set(sys.modules) - before:
        if name in SHARED | SCRIPTS or name.partition(".")[0] == "peers":
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
    ("changed", "doubts"),
    [
        ({}, ""),
        ({"commit": "0123456789-dirty"}, "the code had changes that are in no commit"),
        ({"load": 7.8}, "the load was 7.8 on 2 cores"),
        (
            {"load": 2.6, "commit": "0123456789-dirty"},
            "the code had changes that are in no commit, and the load was 2.6 on 2 cores",
        ),
    ],
)
def test_doubtful_figures_are_marked(
    modules: Any,
    rows: list[Any],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    changed: dict[str, Any],
    doubts: str,
) -> None:
    results, report = modules("results"), modules("report")
    fine = replace(results.conditions(threads=1), cores=2, load=2.4, commit="0123456789")
    monkeypatch.setattr(results, "RESULTS", tmp_path)
    monkeypatch.setattr(results, "ROOT", tmp_path)
    monkeypatch.setattr(results, "conditions", lambda _: replace(fine, **changed))
    recorder = results.Recorder("loss", threads=1)
    recorder.add(rows[0])
    recorder.write()
    assert capsys.readouterr().out.count(f"WARNING, measure again: {doubts}") == (2 if doubts else 0)
    with (tmp_path / "loss.csv").open(encoding="utf-8", newline="") as file:
        assert [line["doubts"] for line in csv.DictReader(file)] == [doubts]
    text = report.page(report.load(tmp_path))
    assert (f"**Doubtful, to be measured again:** {doubts}." in text) == bool(doubts)
    assert ("at least 4, reached, but doubtful |" in text) == bool(doubts)


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
    sizes = flops.Sizes(pairs, pairs * src_len, pairs * tgt_len, pairs * src_len * tgt_len)
    assert flops.counted_flops(config, pairs, src_len, tgt_len) == flops.total_flops(config, sizes)


def test_sizes_count_padding_only_if_asked(modules: Any) -> None:
    import torch

    from ssnt import Batch

    flops = modules("flops")
    lens = torch.tensor([5, 2]), torch.tensor([1, 3])
    batch = Batch(torch.ones(2, 5, dtype=torch.long), lens[0], torch.ones(2, 3, dtype=torch.long), lens[1])
    assert flops.Sizes.of([batch]) == flops.Sizes(2, 7, 4, 11)
    assert flops.Sizes.of([batch], padding=True) == flops.Sizes(2, 10, 6, 30)


def test_materialised_loss_is_the_models(modules: Any) -> None:
    import torch

    from ssnt import SSNT, Batch, ModelConfig

    torch.manual_seed(0)
    model = SSNT(ModelConfig.variant("biSSNT+", src_vocab_size=9, tgt_vocab_size=11, hidden_size=8, embed_size=5))
    src, tgt = torch.randint(4, 9, (2, 5)), torch.randint(4, 11, (2, 3))
    batch = Batch(src, torch.tensor([5, 2]), tgt, torch.tensor([1, 3]))
    expected = model.loss(batch, reduction="sum")
    torch.testing.assert_close(modules("loops").materialised_loss(model, batch), expected)


# ---- parts of scripts


def test_a_call_may_time_itself(modules: Any) -> None:
    measure = modules("measure")
    found = measure.alternately({"own": lambda: measure.Seconds(123.0), "all": lambda: 123.0}, repeats=1)
    assert found["own"] == 123.0
    assert found["all"] < 100


@pytest.mark.parametrize(
    ("peak", "size", "next_peak"),
    [
        (lambda size: 0.5 + 0.25 * size, 30, 8.25),  # the guess is right
        (lambda size: 0.5 + 0.25 * size + 0.01 * size**2, 17, 8.24),  # too large
        (lambda size: 0.5 + min(size, 10) * 0.25 + max(0, size - 10) * 0.125, 50, 8.125),  # too small
        (lambda size: 1 + size / 1000, 64, None),  # never reached
    ],
)
def test_the_largest_batch_is_the_one_before_the_first_too_large_one(
    modules: Any, peak: Any, size: int, next_peak: float | None
) -> None:
    tried: list[int] = []

    def peak_of(size: int) -> float:
        tried.append(size)
        return float(peak(size))

    found = modules("summarisation").largest_batch(peak_of, limit=8.0, most=64)
    assert found.size == size
    assert found.peak == pytest.approx(peak(size))
    assert found.next_peak == (None if next_peak is None else pytest.approx(next_peak))
    assert len(tried) == len(set(tried))
    assert ("no larger one was tried" in str(found)) == (next_peak is None)


def test_batches_of_the_most_cells_come_first(modules: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import numpy as np

    from ssnt.config import load_config
    from ssnt.training.progress import Progress

    prepared = SimpleNamespace(src_lens=np.array([2, 9, 3, 4]), tgt_lens=np.array([2, 1, 6, 1]))
    data = modules("summarisation").LargestFirst(prepared, load_config(preset="summarisation"), Progress())
    monkeypatch.setattr(data, "_plan", lambda _: [np.array([0, 3]), np.array([1]), np.array([2])])
    assert [one.tolist() for one in data.plan(1)] == [[2], [0, 3], [1]]


def test_parts_of_a_step_leave_its_model_alone(modules: Any, tmp_path: Path) -> None:
    import torch

    train = tmp_path / "train.tsv"
    train.write_text("haus\thäusern\nbaum\tbäumen\ntag\ttagen\n", encoding="utf-8")
    step, loops = modules("step"), modules("loops")
    loop = loops.BareLoop(loops.inflection_settings(train, 2))
    loop.run(2)
    before = [weight.detach().clone() for weight in loop.model.parameters()]
    gradients = [weight.grad for weight in loop.model.parameters()]
    calls = step.part_calls(loop, [loop.data.share(1, one) for one in loop.data.plan(1)])
    for call in calls.values():
        call()
    assert {f"{name}, both" for name in step.PASSES} | {"clipping", "optimiser", "data"} < calls.keys()
    torch.testing.assert_close(list(loop.model.parameters()), before, rtol=0, atol=0)
    assert all(now.grad is then for now, then in zip(loop.model.parameters(), gradients, strict=True))


def test_gradients_are_clipped_as_the_backward_pass_leaves_them(
    modules: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    train = tmp_path / "train.tsv"
    train.write_text("haus\thäusern\nbaum\tbäumen\ntag\ttagen\n", encoding="utf-8")
    step, loops = modules("step"), modules("loops")
    config = loops.inflection_settings(train, 3)
    optimiser = config.optimiser.model_copy(update={"gradient_clip": 0.01})
    loop = loops.BareLoop(config.model_copy(update={"optimiser": optimiser}))
    norms: list[float] = []
    clip = loop.module.configure_gradient_clipping

    def noted(optimiser: Any) -> None:
        norms.append(float(torch.nn.utils.get_total_norm([w.grad for w in loop.model.parameters()])))
        clip(optimiser)

    monkeypatch.setattr(loop.module, "configure_gradient_clipping", noted)
    calls = step.gradient_calls(loop, [loop.data.share(1, one) for one in loop.data.plan(1)])
    for name in ("clipping", "clipping", "optimiser", "clipping"):
        calls[name]()
    assert norms == [norms[0]] * 4
    assert norms[0] > 0.01


def test_the_best_time_of_each_step_counts(modules: Any) -> None:
    import numpy as np

    training = modules("training")
    runs = iter([[9.0, 9.0], [1.0, 3.0], [2.0, 1.0]])  # the first one warms up
    turn = training.Turn(10, lambda: np.array(next(runs)))
    assert training.best_of({"one": turn}, repeats=2) == {"one": 5.0}


def test_trained_models_are_kept_by_what_they_were_trained_with(modules: Any, tmp_path: Path) -> None:
    name = modules("prediction").cache_name
    data = tmp_path / "train.tsv"
    data.write_text("a\tN\tb\n", encoding="utf-8")
    first = name(data, {"version": "1", "size": 128})
    assert first == name(data, {"size": 128, "version": "1"})
    assert first != name(data, {"version": "2", "size": 128})
    data.write_text("a\tN\tc\n", encoding="utf-8")
    assert first != name(data, {"version": "1", "size": 128})


def test_ends_of_epochs_are_read_from_logs(modules: Any, tmp_path: Path) -> None:
    for model, (seconds, end) in {"001": ([2, 5], 1000), "002": ([1, 3, 9], 1004)}.items():
        log = tmp_path / "models" / model / "training" / "log.csv"
        log.parent.mkdir(parents=True)
        log.write_text("epoch,seconds\n" + "".join(f"1,{one}\n" for one in seconds), encoding="utf-8")
        os.utime(log, (end, end))
    assert sorted(modules("per_tag").epoch_ends(tmp_path)) == [996, 997, 998, 1000, 1004]


@pytest.mark.parametrize(("share", "value"), [(0.5, 2.0), (0.51, 3.0), (0.99, 4.0), (0.01, 1.0)])
def test_percentiles_are_values_that_were_measured(modules: Any, share: float, value: float) -> None:
    assert modules("serve").percentile([4.0, 1.0, 3.0, 2.0], share) == value


@pytest.mark.parametrize(
    ("changed", "is_right"),
    [
        ({}, True),
        ({"log_prob": -1.00001}, True),
        ({"log_prob": -1.001}, False),
        ({"log_prob": None}, False),
        ({"text": "gekaufd"}, False),
        ({"alignment": [0, 1]}, False),
    ],
)
def test_answers_of_the_service_are_compared(modules: Any, changed: dict[str, Any], is_right: bool) -> None:
    expected = {"text": "gekauft", "alignment": [0, 2], "is_complete": True, "log_prob": -1.0}
    body = json.dumps({"results": [{"outputs": [expected | changed]}]}).encode()
    answer, serve = modules("load").Answer, modules("serve")
    assert serve.is_right(answer(200, body, 0.1), expected) == is_right
    assert not serve.is_right(answer(500, body, 0.1), expected)


@pytest.mark.parametrize("size", [0, 5, 125, 126, 70_000])
def test_frames_of_clients_are_those_of_the_protocol(modules: Any, size: int) -> None:
    frames = require("websockets.frames", "the protocol of WebSockets")
    streams = require("websockets.streams", "the protocol of WebSockets")
    load, payload = modules("load"), b"x" * size
    reader = streams.StreamReader()
    reader.feed_data(load.frame(payload))
    parse = frames.Frame.parse(reader.read_exact, mask=True)
    with pytest.raises(StopIteration) as parsed:
        next(parse)
    assert (parsed.value.value.opcode, parsed.value.value.data) == (frames.Opcode.TEXT, payload)
    sent = frames.Frame(frames.Opcode.TEXT, payload).serialize(mask=False)
    assert load.first_frame(bytearray(sent[:-1] if size else sent[:1])) is None
    found = load.first_frame(bytearray(sent + b"more"))
    assert (found.opcode, found.payload, found.size) == (frames.Opcode.TEXT, payload, len(sent))


@pytest.mark.slow
def test_the_service_is_measured(modules: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require("fastapi", "the service")
    monkeypatch.setattr(modules("results"), "RESULTS", tmp_path)
    monkeypatch.setattr(modules("results"), "ROOT", tmp_path)
    copying_transducer().save_pretrained(tmp_path / "model")
    monkeypatch.setattr(sys, "argv", ["serve.py", "--quick", "--model", str(tmp_path / "model")])
    modules("serve").main()
    rows = {one.row.case: one.row for one in modules("results").read_results(tmp_path / "quick" / "serve.csv")}
    assert len(rows) == 7
    exact = [row for row in rows.values() if row.ours.name == "lost or wrong"]
    assert [(row.ours.value, row.passed) for row in exact] == [(0.0, True)] * 2


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


def test_a_missing_peer_is_a_named_skip(
    modules: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    peer = modules("peers.peer")
    monkeypatch.setattr(peer, "ENVIRONMENTS", tmp_path)
    with pytest.raises(SystemExit) as ended:
        peer.Peer("yoyodyne", "yoyodyne_driver.py")
    assert ended.value.code == 0
    assert "needs yoyodyne; install it with python benchmarks/peers/install.py" in capsys.readouterr().out


DRIVER = """
import sys
print('{"version": "1"}', flush=True)
for line in sys.stdin:
    sys.stderr.write("x" * 200_000)
    sys.stderr.flush()
    if line == "end\\n":
        sys.exit("the reason")
    print('{"seconds": 2}', flush=True)
"""


def test_a_peer_may_say_much_and_is_heard_if_it_fails(
    modules: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    peer = modules("peers.peer")
    environment = tmp_path / "talkative"
    (environment / "bin").mkdir(parents=True)
    (environment / ".installed").touch()
    (environment / "bin" / "python").symlink_to(sys.executable)
    (tmp_path / "driver.py").write_text(DRIVER, encoding="utf-8")
    monkeypatch.setattr(peer, "ENVIRONMENTS", tmp_path)
    with peer.Peer("talkative", tmp_path / "driver.py") as one:
        assert one.about == {"version": "1"}
        assert one.ask("go") == {"seconds": 2}
        with pytest.raises(SystemExit, match=r"(?s)ended with code 1:\nx+the reason"):
            one.ask("end")


def test_make_runs_every_benchmark() -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8").replace("\\\n", " ")
    match = re.search(r"^BENCHMARKS := (.*)$", text, re.MULTILINE)
    assert match is not None
    scripts = {path.stem for path in BENCHMARKS.glob("*.py")} - SHARED
    assert set(match[1].split()) >= scripts
    for name in scripts:
        tree = ast.parse((BENCHMARKS / f"{name}.py").read_text(encoding="utf-8"))
        assert any(isinstance(node, ast.FunctionDef) and node.name == "main" for node in tree.body), name
