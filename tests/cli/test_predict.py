"""``ssnt predict``: an output for each line, in order, as they come."""

from __future__ import annotations

import gzip
import json
import os
import select
import subprocess
import time
from pathlib import Path

import pytest

from commands import Outcome, Run, started, write
from ssnt.cli import inputs


def rows(done: Outcome) -> list[list[str]]:
    return [line.split("\t") for line in done.out.splitlines()]


def test_text_is_one_output_a_line(run: Run, place: Path):
    done = run("predict", "model", "words.txt")
    assert (done.code, done.err) == (0, "")
    assert done.out == "ABC\nFADE\nBAD\nZAB\nÄB\n"


def test_several_models_answer_together(run: Run, place: Path):
    assert run("predict", "model,model", "words.txt").out == run("predict", "model", "words.txt").out
    assert run("predict", "model,model", "words.txt", "--workers", "2").out.startswith("ABC\nFADE\n")
    done = run("predict", "model,model", "words.txt", "--align")
    assert done.code == 2
    assert "an ensemble has none" in done.err
    assert run("predict", "model,none", "words.txt").code == 2
    accuracy, of_both = (run("evaluate", name, "test.tsv", "--json").out for name in ("model", "model,model"))
    assert json.loads(accuracy)[0]["value"] == json.loads(of_both)[0]["value"]


def test_standard_input_is_the_default(run: Run, place: Path):
    for arguments in (["predict", "model"], ["predict", "model", "-"]):
        assert run(*arguments, stdin="abc\nfad").out == "ABC\nFAD\n"
    assert run("predict", "model", stdin="").out == ""
    assert run("predict", "model", stdin=gzip.compress(b"abc\nfad\n")).out == "ABC\nFAD\n"


def test_a_column_of_answers_is_ignored(run: Run, place: Path):
    assert run("predict", "model", "test.tsv").out == run("predict", "model", "words.txt").out


def test_tsv_has_ranks_and_alignments(run: Run, place: Path):
    done = run("predict", "model", "words.txt", "--nbest", "2", "--align")
    header, *found = rows(done)
    assert header == ["line", "rank", "source", "tags", "prediction", "log_prob", "alignment"]
    assert [(row[0], row[1]) for row in found] == [(str(line), str(rank)) for line in range(1, 6) for rank in (1, 2)]
    assert found[0][2:5] == ["abc", "", "ABC"]
    assert found[0][6] == "0-0 1-1 2-2"
    assert all(float(best[5]) > float(second[5]) for best, second in zip(found[::2], found[1::2], strict=True))


def test_jsonl_has_everything(run: Run, place: Path):
    done = run("predict", "model", "words.txt", "--nbest", "2", "--align", "--format", "jsonl")
    found = [json.loads(line) for line in done.out.splitlines()]
    assert [one["line"] for one in found] == [1, 2, 3, 4, 5]
    best = found[0]
    assert (best["source"], best["tags"], best["prediction"]) == ("abc", [], "ABC")
    assert best["log_prob"] < 0
    assert best["alignment"] == [[0, 0], [1, 1], [2, 2]]
    assert best["is_complete"] is True
    assert best["unknown"] == 0
    (other,) = best["alternatives"]
    assert other["log_prob"] < best["log_prob"]


def test_text_with_several_outputs_is_refused(run: Run, place: Path):
    for more in (["--nbest", "2"], ["--align"]):
        done = run("predict", "model", "words.txt", "--format", "text", *more)
        assert done.code == 2
        assert "use --format tsv or jsonl" in done.err


def test_a_tab_in_an_output_does_not_break_the_line(tmp_path: Path):
    from ssnt.data.rows import row

    assert row(["a\tb\nc\r", "d"]) == "a\\tb\\nc\\r\td\n"


def test_searches_differ_and_beams_are_taken(run: Run, place: Path):
    logs = {}
    for search in ("marginal", "path", "online"):
        found = rows(run("predict", "model", "words.txt", "--search", search, "--beam", "2", "--format", "tsv"))
        assert [row[4] for row in found[1:]] == ["ABC", "FADE", "BAD", "ZAB", "ÄB"]
        logs[search] = [float(row[5]) for row in found[1:]]
    assert all(path <= marginal for path, marginal in zip(logs["path"], logs["marginal"], strict=True))
    done = run("predict", "bidirectional", "words.txt", "--search", "online")
    assert done.code == 2
    assert "ssnt train --model uniSSNT+" in done.err


def test_a_bad_line_has_an_empty_output_and_a_message(run: Run, place: Path):
    stdin = b"abc\n\nfad\n\xff\xfe\n" + b"a" * 3000 + b"\nbad\n"
    done = run("predict", "model", stdin=stdin)
    assert done.code == 1
    assert done.out == "ABC\n\nFAD\n\n\nBAD\n"
    told = done.err.splitlines()
    assert told[0] == "ssnt: error: <stdin>:2: the line is empty"
    assert told[1].startswith("ssnt: error: <stdin>:4: not valid UTF-8: byte 0xff")
    assert told[2].startswith("ssnt: error: <stdin>:5: ")
    assert "3000 symbols" in told[2]
    assert told[3] == "ssnt: error: 3 of 6 lines could not be used"
    found = [json.loads(line) for line in run("predict", "model", "--format", "jsonl", stdin=stdin).out.splitlines()]
    assert [one["line"] for one in found if "error" in one] == [2, 4, 5]
    table = rows(run("predict", "model", "--format", "tsv", stdin=stdin))
    assert [row[0] for row in table if row[4] == ""] == ["2", "4", "5"]


def test_nothing_but_bad_lines_is_a_mistake(run: Run, place: Path):
    done = run("predict", "model", stdin="\n\n")
    assert (done.code, done.out) == (2, "\n\n")
    assert done.err.endswith("ssnt: error: 2 of 2 lines could not be used\n")


def test_many_bad_lines_are_counted_rather_than_listed(run: Run, place: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(inputs, "_MOST_MESSAGES", 2)
    done = run("predict", "model", stdin="abc\n\n\n\n\n")
    assert done.err.splitlines()[2:] == [
        "ssnt: error: further lines that cannot be used are only counted",
        "ssnt: error: 4 of 5 lines could not be used",
    ]


def test_unknown_symbols_are_told(run: Run, place: Path):
    done = run("predict", "model", stdin="abc\nqq\n")
    assert done.code == 0
    assert done.err == "ssnt: warning: 1 input with symbols that the model does not know\n"


def test_chunks_do_not_change_what_is_written(run: Run, place: Path):
    many = write(place / "many.txt", *["abc", "", "fade"] * 30)
    whole = run("predict", "model", many)
    assert whole.out == "ABC\n\nFADE\n" * 30
    assert run("predict", "model", many, "--batch-size", "1") == whole
    assert run("predict", "model", stdin=many.read_bytes()).out == whole.out


def test_tags_come_from_the_file_or_the_command_line(run: Run, place: Path):
    from_file = run("predict", "tagged", "tagged.tsv", "--format", "jsonl")
    assert from_file.code == 0, from_file.err
    given = run("predict", "tagged", "words.txt", "--tags", "N;PL", "--format", "jsonl")
    assert given.code == 0, given.err
    assert [json.loads(line)["tags"] for line in given.out.splitlines()] == [["N", "PL"]] * 5
    assert given.out == from_file.out
    other = run("predict", "tagged", "words.txt", "--tags", "SG", "--format", "jsonl")
    assert other.out != given.out
    unknown = run("predict", "tagged", "words.txt", "--tags", "N;XX")
    assert unknown.err == (
        "ssnt: warning: 5 inputs with tags that the model does not know, such as 'XX'; it knows 'N', 'PL', 'SG', and "
        "tags are split at ';'\n"
    )


def test_tags_for_a_model_without_any_are_refused(run: Run, place: Path):
    done = run("predict", "model", "words.txt", "--tags", "N")
    assert (done.code, done.out) == (2, "")
    assert done.err == "ssnt: error: --tags 'N': the model was trained without tags; leave --tags out\n"


def test_columns_are_chosen_by_number_and_name(run: Run, place: Path):
    write(place / "named.tsv", "id\tword", "1\tabc", "2\tfad")
    assert run("predict", "model", "named.tsv", "--source-column", "word").out == "ABC\nFAD\n"
    write(place / "numbered.tsv", "1\tabc", "2\tfad")
    # the second column is that of the target, which is not looked at
    assert run("predict", "model", "numbered.tsv", "--source-column", "2").out == "ABC\nFAD\n"
    write(place / "lines.jsonl", '{"source": "abc", "target": "fad"}')
    assert run("predict", "model", "lines.jsonl", "--input-format", "jsonl").out == "ABC\n"
    assert run("predict", "model", "lines.jsonl", "--input-format", "jsonl", "--source-column", "target").out == "FAD\n"
    same = run("predict", "tagged", "tagged.tsv", "--source-column", "3")
    assert same.code == 2
    assert "column 3 is that of data.source_column too" in same.err
    assert run("predict", "tagged", "tagged.tsv", "--input-format", "tsv", "--tags-column", "3").code == 0


def test_out_is_written_whole_or_not_at_all(run: Run, place: Path):
    done = run("predict", "model", "words.txt", "--out", "new/outputs.txt")
    assert (done.code, done.out) == (0, "")
    assert (place / "new" / "outputs.txt").read_text(encoding="utf-8") == "ABC\nFADE\nBAD\nZAB\nÄB\n"
    before = (place / "outputs.txt").read_bytes()
    done = run("predict", "model", "nowhere.txt", "--out", "outputs.txt")
    assert done.code == 2
    assert (place / "outputs.txt").read_bytes() == before
    assert sorted(one.name for one in (place / "new").iterdir()) == ["outputs.txt"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no device that is always full")
def test_a_full_disk_is_told(run: Run, place: Path):
    done = run("predict", "model", "words.txt", "--out", "/dev/full")
    assert done.code == 2
    assert done.err.startswith("ssnt: error: /dev/full: could not be written (No space left on device)")


def answer(job: subprocess.Popen[bytes], seconds: float = 60.0) -> bytes:
    """What a job writes next, while its input is still open."""
    assert job.stdout is not None
    ready, _, _ = select.select([job.stdout], [], [], seconds)
    assert ready, "no answer"
    return os.read(job.stdout.fileno(), 1 << 16)


def test_each_line_is_answered_as_it_arrives(place: Path):
    with started("predict", "model", "-", stdin=subprocess.PIPE, stdout=subprocess.PIPE) as job:
        assert job.stdin is not None
        for sent, expected in ((b"abc\n", b"ABC\n"), (b"fade\nb", b"FADE\n"), (b"ad\nzab\n", b"BAD\nZAB\n")):
            job.stdin.write(sent)
            job.stdin.flush()
            got = b""
            while len(got) < len(expected):
                got += answer(job)
            assert got == expected
        time.sleep(0.2)
        job.stdin.write(b"abc")
        job.stdin.close()
        assert answer(job) == b"ABC\n"
        assert job.wait(30) == 0


def test_head_ends_a_pipe_quietly(place: Path):
    write(place / "many.txt", *["abc", "fade"] * 2000)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with started("predict", "model", "many.txt", "--beam", "1", **pipes) as job:
        assert job.stdout is not None
        assert job.stderr is not None
        assert job.stdout.readline() == b"ABC\n"
        job.stdout.close()
        assert job.wait(60) in (0, 141)  # 0 if it was all in the pipe before the reader went
        assert job.stderr.read() == b""
