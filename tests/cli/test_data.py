"""``ssnt data check`` and ``ssnt data stats``."""

from __future__ import annotations

import json
import re
from pathlib import Path

from commands import Run, write


def test_check_lists_every_problem_with_its_line(run: Run, place: Path):
    (place / "bad.tsv").write_bytes(b"a\tA\nb\n\tC\nd\t\n\xff\tE\na\tA\n")
    done = run("data", "check", "bad.tsv")
    assert done.code == 1
    found = done.out.splitlines()
    errors = [line for line in found if ": error: " in line]
    assert [line.split(": ")[0] for line in errors] == ["bad.tsv:2", "bad.tsv:3", "bad.tsv:4", "bad.tsv:5"]
    assert "no target" in errors[0]
    assert "the source is empty" in errors[1]
    assert "the target is empty" in errors[2]
    assert "not valid UTF-8" in errors[3]
    assert "bad.tsv:6: warning: the same as line 1" in found
    assert done.err.startswith("bad.tsv: 2 usable examples, 4 errors, ")
    assert done.err.endswith("; read as tsv: first 'a' -> 'A'\n")


def test_warnings_alone_are_no_failure(run: Run, place: Path):
    write(place / "twice.tsv", "a\tA", "a\tA", "b\tA")
    done = run("data", "check", "twice.tsv")
    assert done.code == 0
    assert "twice.tsv:2: warning: the same as line 1" in done.out


def test_check_compares_dev_with_train(run: Run, place: Path):
    write(place / "dev.tsv", "aq\tAQ", "b\tB")
    done = run("data", "check", "train.tsv", "--dev", "dev.tsv")
    assert done.code == 0
    unseen = [line for line in done.out.splitlines() if line.startswith("dev.tsv:1: warning: 1 source symbol not in")]
    assert len(unseen) == 1
    assert unseen[0].endswith("1 time: 'q' (line 1)")
    assert [line.split(":")[0] for line in done.err.splitlines()] == ["train.tsv", "dev.tsv"]


def test_check_knows_formats_settings_and_prediction(run: Run, place: Path):
    assert run("data", "check", "tagged.tsv", "--format", "sigmorphon2017").code == 0
    done = run("data", "check", "train.tsv", "data.max_source_length=1")
    assert done.code == 1
    assert (
        "train.tsv: error: none of 5 pairs is left after the filters, which took 5 by data.max_source_length (1)"
        in done.out
    )
    assert run("data", "check", "words.txt").code == 1
    sources = run("data", "check", "words.txt", "--sources-only")
    assert sources.code == 0
    assert re.search(r"; read as tsv: first '\w+'$", sources.err.strip())
    assert run("data", "check", "-", stdin="a\tA\nb\tB\n").code == 0


def test_stats_counts(run: Run, place: Path):
    done = run("data", "stats", "tagged.tsv", "--format", "sigmorphon2017")
    assert done.code == 0
    lines = done.out.splitlines()
    assert lines[0] == "5 examples; all 5 pairs are used"
    assert lines[2].split()[:4] == ["source", "characters", "15", "8"]
    assert "1 set of 2 tags" in lines
    record = json.loads(run("data", "stats", "train.tsv", "--json").out)
    assert record["examples"] == 5
    assert record["source"]["symbols"] == 15


def test_stats_compares_with_training_data(run: Run, place: Path):
    write(place / "dev.tsv", "aqq\tA", "b\tB")
    done = run("data", "stats", "dev.tsv", "--against", "train.tsv")
    (row,) = [line.split() for line in done.out.splitlines() if line.startswith("source") and "characters" not in line]
    assert row == ["source", "1", "2", "q"]


def test_stats_of_many_tag_sets_shows_the_most_frequent(run: Run, place: Path):
    write(place / "many.tsv", *(f"a\tA\tT{k}" for k in range(25)))
    done = run("data", "stats", "many.tsv", "--format", "sigmorphon2017")
    assert "and 5 more; --json has all" in done.out


def test_stats_stops_at_a_bad_line(run: Run, place: Path):
    write(place / "bad.tsv", "a\tA", "b")
    done = run("data", "stats", "bad.tsv")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("ssnt: error: bad.tsv:2: no target")


def test_options_and_settings_must_agree(run: Run, place: Path):
    write(place / "three.tsv", "a\tA\tx", "b\tB\tx")
    for option, setting, message in (
        (("--tags-column", "3"), "tags_column=2", "'data.tags_column': given twice, as 3 by --tags-column and as 2 by"),
        (
            ("--format", "tsv"),
            "data.format=jsonl",
            "'data.format': given twice, as 'tsv' by --format and as 'jsonl' by",
        ),
    ):
        done = run("data", "check", "three.tsv", *option, setting)
        assert done.code == 2
        assert f"setting {message} " in done.err
    assert run("data", "check", "three.tsv", "--tags-column", "3", "data.tags_column=3").code == 0
