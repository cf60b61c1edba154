"""The check of a file finds everything, with its line; the statistics count right."""

import json
import os
import sys
from collections import Counter, defaultdict
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssnt.config import DataConfig, SearchConfig
from ssnt.data.check import CheckReport, check_file, file_stats
from ssnt.data.lines import Problem
from ssnt.data.repeats import Repeats
from ssnt.errors import DataError

GOOD = "abc\tcba\nbca\tacb\ncab\tbac\n"


def check(tmp_path: Path, text: str | bytes, options: dict | None = None, **data) -> CheckReport:
    path = tmp_path / "file"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return check_file(str(path), DataConfig(**data), **(options or {}))


def said(report: CheckReport) -> list[str]:
    """What is said, without the directory."""
    return [str(problem).removeprefix(str(Path(report.path).parent) + "/") for problem in report.problems]


def test_a_good_file(tmp_path: Path):
    report = check(tmp_path, GOOD)
    assert said(report) == []
    assert report.is_usable
    assert report.sentence() == "3 usable examples, 0 errors, 0 warnings"
    assert report.vocabulary.source.symbols == ("a", "b", "c")


def test_every_bad_line_is_listed(tmp_path: Path):
    text = GOOD.encode() + b"only\n\tb\na\t\n\xff\tb\n\n" + GOOD.upper().encode() + b"ABC\n\n"
    report = check(tmp_path, text)
    assert [(one.line, one.is_error) for one in report.problems] == [(n, True) for n in (4, 5, 6, 7, 8, 12)]
    assert (report.errors, report.warnings, report.examples) == (6, 0, 6)
    assert not report.is_usable
    assert said(report)[0].startswith("file:4: no target: expected in column 2 (data.target_column)")
    assert said(report)[3].startswith("file:7: not valid UTF-8: byte 0xff at place 1")
    assert report.sentence() == "6 usable examples, 6 errors, 0 warnings"


@pytest.mark.parametrize(
    ("text", "data", "message"),
    [
        ("", {}, "file: there is no example in this file"),
        ("a\tb\n", {}, "file:1: there is only one example; a model cannot be trained on one"),
        (
            "x\ty\nab\tba\n",
            {"source_column": "x"},
            "file:2: there is only one example; a model cannot be trained on one",
        ),
        (
            GOOD + "ab\tba\nabcd\tab\n",
            {"max_source_length": 2},
            "file:4: there is only one example; a model cannot be trained on one (1 of 5 pairs are used; left out: "
            "4 by data.max_source_length (2); raise these limits)",
        ),
        ("x\tx\na\tb\n", {"source_column": "x"}, "file:1: the column name 'x' is there twice (columns 1 and 2)"),
        ("x\ty\na\tb\n", {"source_column": "z"}, "file:1: no column 'z' (data.source_column); there are 'x', 'y'"),
        (
            GOOD,
            {"max_source_length": 2, "max_cells": 1},
            "file: none of 3 pairs is left after the filters, which took 3 by data.max_source_length (2); "
            "raise these limits",
        ),
    ],
)
def test_errors_of_whole_files(tmp_path: Path, text: str, data: dict, message: str):
    report = check(tmp_path, text, **data)
    assert report.errors == 1
    assert [line for line in said(report) if line.startswith(message)]
    assert [one.is_error for one in report.problems if message.split(": ")[1] in str(one)] == [True]


def test_one_line_is_enough_for_evaluation_and_prediction(tmp_path: Path):
    vocabulary = check(tmp_path, GOOD).vocabulary
    assert said(check(tmp_path, "ab\tba\n", {"against": vocabulary})) == []
    assert said(check(tmp_path, "ab\n", {"needs_target": False})) == []


def test_a_missing_file(tmp_path: Path):
    report = check_file(str(tmp_path / "nothing"), DataConfig())
    assert said(report) == ["nothing: no such file"]
    with pytest.raises(DataError, match="nothing: no such file"):
        check_file(str(tmp_path / "nothing"), DataConfig(), against=str(tmp_path / "nothing"))


@pytest.mark.parametrize(
    ("line", "data", "kind", "message"),
    [
        ("abc\tcba", {}, "duplicate", "file:4: the same as line 1"),
        ("ABC\tcba", {"lowercase": True}, "duplicate", "file:4: the same as line 1"),
        (
            "abc\tabc",
            {},
            "several targets",
            "file:4: 1 source with the same tags has several targets; the first is here",
        ),
        ("a\x07b\tabc", {}, "control character", "file:4: the source holds U+0007 (control character) at place 2"),
        ("ab\ta\u200bbc", {}, "control character", "file:4: the target holds U+200B (zero width space) at place 2"),
        ("ab\tc\ufffdc", {}, "control character", "file:4: the target holds U+FFFD (replacement character) at place 2"),
        ("ab\rb\tcc", {}, "control character", "file:4: the source holds U+000D (control character) at place 3"),
        ("ab \tc", {}, "surrounding space", "file:4: the source begins or ends with whitespace: 'ab '"),
        ("ab\t\u00a0c", {}, "surrounding space", "file:4: the target begins or ends with whitespace: '\\xa0c'"),
        ("ab\tc\tx", {}, "columns", "file:4: has 3 columns, and line 1 has 2; is there a tab inside a text?"),
        (
            "e\u0301\ta",
            {},
            "not NFC",
            "file:4: 1 line is not in Unicode's composed form (NFC), the first here; read as",
        ),
        (
            "a\t" + "abc" * 9,
            {},
            "long target",
            "file:4: the target has 27 symbols, and the search writes at most 26 for a source of 1; "
            "raise search.max_length or search.max_length_ratio",
        ),
        ("abé\ta", {}, "seen once", "file:4: 1 source symbol, of 4, seen only once: 'é' (line 4)"),
        ("ab\taz", {}, "seen once", "file:4: 1 target symbol, of 4, seen only once: 'z' (line 4)"),
        (
            "abcabc\ta",
            {"max_source_length": 5},
            "filtered",
            "file: 3 of 4 pairs are used; left out: 1 by data.max_source_length (5)",
        ),
    ],
)
def test_warnings(tmp_path: Path, line: str, data: dict, kind: str, message: str):
    assert not said(check(tmp_path, GOOD, **data)), "nothing is wrong without the line"
    report = check(tmp_path, f"{GOOD}{line}\n", **data)
    assert report.counts[kind] == 1
    assert report.errors == 0
    assert [one for one in said(report) if one.startswith(message)], said(report)


@pytest.mark.parametrize(
    ("line", "data"),
    [
        ("a b \t c", {"source_unit": "tokens", "target_unit": "tokens"}),
        ("क्\u200dष\tक्\u200dष", {}),
        ("ab\tc d", {}),
        ("A\ta", {"lowercase": True}),
    ],
)
def test_what_is_not_odd(tmp_path: Path, line: str, data: dict):
    report = check(tmp_path, f"{GOOD}{line}\n", **data)
    assert report.examples == 4
    assert set(report.counts) <= {"seen once"}


def test_lines_without_tags(tmp_path: Path):
    report = check(tmp_path, "ab\tba\tV\nba\tab\t\nbb\taa\tV\n", format="sigmorphon2017")
    assert said(report) == ["file:2: there are no tags in this line"]
    lines = [json.dumps({"source": "ab", "target": "ab", "tags": tags}) for tags in (["V"], [], "V")]
    report = check(tmp_path, "\n".join(lines), format="jsonl")
    assert "file:2: there are no tags in this line, and others have some" in said(report)
    report = check(tmp_path, "\n".join([lines[1]] * 3), format="jsonl")
    assert report.counts["no tags"] == 0


def test_tags_are_a_set_in_duplicates(tmp_path: Path):
    report = check(tmp_path, "a\tb\tV;X\na\tb\tX;V\na\tb\tV\n", format="sigmorphon2017")
    assert said(report) == ["file:2: the same as line 1"]


def test_symbols_that_would_be_taken_apart(tmp_path: Path):
    text = "<s> a b </s>|<s> b a </s>|k=v\n<s> b a </s>|<s> aa b </s>|k=v\n"
    report = check(tmp_path, text, format="morph-trans")
    assert said(report) == [
        "file:2: symbols of several characters, the first here, are taken apart; "
        "to keep them whole, set data.source_unit and data.target_unit to tokens"
    ]
    assert not check(tmp_path, text, format="morph-trans", source_unit="tokens", target_unit="tokens").counts[
        "long symbol"
    ]


def test_the_search_decides_what_is_too_long(tmp_path: Path):
    text = f"{GOOD}a\t{'abc' * 9}\n"
    assert check(tmp_path, text, {"search": SearchConfig(max_length_margin=30)}).counts["long target"] == 0
    assert check(tmp_path, text, {"search": SearchConfig(max_length=2)}).counts["long target"] == 4


# ---- against training data -------------------------------------------------------------------------------------------


def test_unseen_symbols_and_tags_are_counted(tmp_path: Path):
    train = tmp_path / "train"
    train.write_text("ab\tba\tV;X\nba\tab\tV\n", encoding="utf-8")
    data = {"format": "sigmorphon2017"}
    dev = "ab\tbb\tV\naxb\taya\tV;Z\nyx\tba\tQ;Z\n"
    report = check(tmp_path, dev, {"against": str(train)}, **data)
    assert said(report) == [
        "file:2: 2 source symbols not in the vocabulary of the training data, 3 times: 'x' (line 2), 'y' (line 3)",
        "file:2: 1 target symbol not in the vocabulary of the training data, 1 time: 'y' (line 2)",
        "file:2: 2 tags not in the vocabulary of the training data, 3 times: 'Z' (line 2), 'Q' (line 3)",
    ]
    assert report.is_usable
    assert report.unseen_source == Counter(x=2, y=1)
    assert report.unseen_target == Counter(y=1)
    assert report.unseen_tags == Counter(Z=2, Q=1)
    trained = check_file(str(train), DataConfig(**data))
    assert said(check(tmp_path, dev, {"against": trained.vocabulary}, **data)) == said(report)


def in_json(*tags: str | None) -> str:
    rows = [{"source": "ab", "target": "ba"} | ({} if one is None else {"tags": one}) for one in tags]
    return "".join(json.dumps(row) + "\n" for row in rows)


def test_tags_that_the_training_data_has_are_needed(tmp_path: Path):
    train = tmp_path / "train"
    train.write_text(in_json("V", "N"), encoding="utf-8")
    for against in (str(train), check_file(str(train), DataConfig(format="jsonl")).vocabulary):
        report = check(tmp_path, in_json(None, None), {"against": against}, format="jsonl")
        assert [one.is_error for one in report.problems] == [True, True]
        assert said(report)[0].startswith("file:1: no key 'tags' (data.tags_column), which every line must have")
        assert check(tmp_path, in_json("V", "N"), {"against": against}, format="jsonl").is_usable
        allowed = check(tmp_path, in_json(None), {"against": against, "needs_tags": False}, format="jsonl")
        assert allowed.is_usable, "what the caller says goes first"


def test_a_file_of_tags_that_the_training_data_has_is_needed(tmp_path: Path):
    for name in ("train", "dev"):
        (tmp_path / f"{name}.src").write_text("a b\nb a\n", encoding="utf-8")
        (tmp_path / f"{name}.tgt").write_text("b a\na b\n", encoding="utf-8")
    (tmp_path / "train.tags").write_text("V\nN\n", encoding="utf-8")
    data, dev = DataConfig(format="parallel"), str(tmp_path / "dev")
    report = check_file(dev, data, against=str(tmp_path / "train"))
    assert said(report) == ["dev: tags are needed, and there is no file of tags beside that of the sources (NAME.tags)"]
    assert not report.is_usable
    (tmp_path / "dev.tags").write_text("V\nN\n", encoding="utf-8")
    assert check_file(dev, data, against=str(tmp_path / "train")).is_usable


def test_tags_that_the_training_data_has_not_are_ignored(tmp_path: Path):
    train = tmp_path / "train"
    train.write_text(in_json(None, None), encoding="utf-8")
    # otherwise the second line would be an error: the first has tags
    report = check(tmp_path, in_json("V", None), {"against": str(train)}, format="jsonl")
    assert said(report) == ["file:2: the same as line 1"]
    train.write_text("ab\tba\t\nba\tab\t\n", encoding="utf-8")
    report = check(tmp_path, "ab\tba\tV\nba\tab\t\n", {"against": str(train)}, format="sigmorphon2017")
    assert said(report) == []


def test_text_is_normalised_as_the_vocabulary_says(tmp_path: Path):
    train = tmp_path / "train"
    train.write_text("AB1\tBA\nba2\tab\n", encoding="utf-8")
    vocabulary = check_file(str(train), DataConfig(lowercase=True, digits_to_hash=True)).vocabulary
    report = check(tmp_path, "AB3\tBA\nab4\tba\n", {"against": vocabulary})
    assert said(report) == ["file:2: the same as line 1"]
    stats = file_stats(str(tmp_path / "file"), DataConfig(), against=vocabulary)
    assert (stats.unseen_source, stats.unseen_target) == (Counter(), Counter())
    assert stats.source.counts == Counter({"a": 2, "b": 2, "#": 2})
    plain = check_file(str(train), DataConfig()).vocabulary
    stats = file_stats(str(tmp_path / "file"), DataConfig(lowercase=True, digits_to_hash=True), against=plain)
    assert stats.source.counts == Counter("AB3ab4")
    assert stats.unseen_source == Counter("34")


def test_unseen_means_not_in_the_vocabulary(tmp_path: Path):
    train = tmp_path / "train"
    # z is too rare, and w is only in a pair that a filter takes
    train.write_text("abz\tba\nba\tab\nab\tabw\nbad line\n", encoding="utf-8")
    report = check(tmp_path, "zw\tba\nab\tw\n", {"against": str(train)}, min_count=2, max_target_length=2)
    assert report.unseen_source == Counter(z=1, w=1)
    assert report.unseen_target == Counter(w=1)
    assert report.report.total == report.report.kept == 2, "only training data is filtered"


def test_more_symbols_than_are_shown(tmp_path: Path):
    vocabulary = check(tmp_path, GOOD).vocabulary
    report = check(tmp_path, "ABCDEFGHIJKLM\ta\nab\ta\n", {"against": vocabulary})
    assert said(report)[0].endswith("'I' (line 1), 'J' (line 1) and 3 more")


def test_byte_pair_units_are_learnt_or_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    data = {"source_unit": "bpe", "target_unit": "bpe", "bpe_size": 20}
    report = check(tmp_path, "walk walk\twalked\nwalk\twalks walks\n", **data)
    assert report.errors == 0
    assert "walk" in report.vocabulary.source.symbols
    dev = check(tmp_path, "walk ü\twalk\n", {"against": report.vocabulary}, **data)
    assert list(dev.unseen_source) == [" ", "ü"] or list(dev.unseen_source) == ["ü"]
    assert said(check(tmp_path, "", **data)) == ["file: there is no example in this file"]
    assert check(tmp_path, "walk\n", {"needs_target": False}, **data).errors == 0
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(b"a\tb\n")))
    with pytest.raises(DataError, match="<stdin>: byte-pair units are learnt in a first reading, and this can be read"):
        check_file("-", DataConfig(**data))
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DataError, match="pipe: byte-pair units are learnt in a first reading"):
        check_file(str(tmp_path / "pipe"), DataConfig(**data))


# ---- many problems ---------------------------------------------------------------------------------------------------


def test_a_limit_keeps_few_and_counts_all(tmp_path: Path):
    lines = ["abc\tcba"] + ["bad"] * 50 + ["abc\tcba"] * 40 + ["a\x01bc\tcba"]
    text = "\n".join(lines)
    seen: list[Problem] = []
    report = check(tmp_path, text, {"limit": 5, "on_problem": seen.append})
    assert (report.errors, report.warnings) == (50, 42)
    assert report.counts == Counter({"error": 50, "duplicate": 40, "control character": 1, "seen once": 1})
    assert len(seen) == 92
    kept = [one.line for one in report.problems if one.is_error]
    assert kept == [2, 3, 4, 5, 6]
    assert len(report.problems) == 5 + 5 + 1, "what is said about the whole file is always kept"
    assert [one.line for one in report.problems] == sorted(one.line for one in report.problems)
    everything = check(tmp_path, text)
    assert len(everything.problems) == 92


rows = st.tuples(st.sampled_from("ab"), st.sampled_from("xyz"), st.sampled_from([(), ("V",), ("V", "X"), ("X", "V")]))


@given(st.lists(rows, max_size=30))
def test_repeats_are_found(examples: list[tuple[str, str, tuple[str, ...]]]):
    repeats = Repeats()
    first: dict[object, int] = {}
    duplicates = []
    targets: dict[object, list[str]] = defaultdict(list)
    second_target = 0
    for line, (source, target, tags) in enumerate(examples, 10):
        repeats.add(source, target, tags, line)
        row = (source, target, frozenset(tags))
        if row in first:
            duplicates.append((line, first[row]))
        first.setdefault(row, line)
        known = targets[source, frozenset(tags)]
        if target not in known:
            known.append(target)
            if len(known) == 2 and not second_target:
                second_target = line
    assert list(repeats.duplicates()) == duplicates
    assert repeats.several_targets() == (sum(len(known) > 1 for known in targets.values()), second_target)


# ---- statistics ------------------------------------------------------------------------------------------------------


def test_statistics(tmp_path: Path):
    path = tmp_path / "file"
    path.write_text("abc\ta\tV;X\nab\tbb\tX;V\na\tcccc\tV\nabcdef\tb\tV\n", encoding="utf-8")
    stats = file_stats(str(path), DataConfig(format="sigmorphon2017", max_source_length=5))
    assert stats.examples == 4
    assert stats.source.lengths == Counter({3: 1, 2: 1, 1: 1, 6: 1})
    assert (stats.source.symbols, stats.source.mean_length) == (12, 3.0)
    assert [stats.source.percentile(percent) for percent in (0, 25, 26, 50, 75, 76, 100)] == [1, 1, 2, 2, 3, 6, 6]
    assert stats.source.counts == Counter(a=3, b=2, c=1), "of the pairs that are used"
    assert stats.source.seen_once == ("c",)
    assert stats.target is not None
    assert stats.target.counts == Counter(a=1, b=2, c=4)
    assert stats.tags == Counter(V=3, X=2)
    assert stats.tag_sets == Counter({("V", "X"): 2, ("V",): 2})
    assert stats.report.sentence() == "3 of 4 pairs are used; left out: 1 by data.max_source_length (5)"
    written = json.loads(json.dumps(stats.to_json()))
    assert written["source"]["length"]["histogram"] == {"1": 1, "2": 1, "3": 1, "6": 1}
    assert written["vocabulary"] == {"source": 3, "target": 3, "tags": 2}


def test_statistics_against_training_data(tmp_path: Path):
    train, dev = tmp_path / "train", tmp_path / "dev"
    train.write_text(GOOD, encoding="utf-8")
    dev.write_text("abd\td\nddd\ta\n", encoding="utf-8")
    stats = file_stats(str(dev), DataConfig(), against=str(train))
    assert (stats.unseen_source, stats.unseen_target) == (Counter(d=4), Counter(d=1))
    assert stats.to_json()["unseen"]["source"] == {"d": 4}
    assert stats.vocabulary.source.symbols == ("a", "b", "c")


def test_statistics_of_sources_alone(tmp_path: Path):
    path = tmp_path / "file"
    path.write_text("abc\nab\n", encoding="utf-8")
    stats = file_stats(str(path), DataConfig(), needs_target=False)
    assert (stats.examples, stats.target) == (2, None)
    with pytest.raises(DataError, match="file:1: no target"):
        file_stats(str(path), DataConfig())
