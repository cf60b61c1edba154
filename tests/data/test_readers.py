"""Readers: every format, every way a line can be wrong, and prediction files."""

import gzip
import io
import sys
from pathlib import Path

import pytest

from ssnt.config import DataConfig
from ssnt.data.formats import resolve_format
from ssnt.data.lines import Problem
from ssnt.data.readers import files_of, iterate, read_examples
from ssnt.errors import ConfigError, DataError
from ssnt.types import Example


def write(path: Path, text: str) -> str:
    path.write_text(text, encoding="utf-8", newline="")
    return str(path)


def read(tmp_path: Path, text: str, needs_target: bool = True, needs_tags: bool | None = None, **data) -> list[Example]:
    path = write(tmp_path / "file", text)
    return list(read_examples(path, DataConfig(**data), needs_target=needs_target, needs_tags=needs_tags))


def complaint(tmp_path: Path, text: str, needs_target: bool = True, needs_tags: bool | None = None, **data) -> str:
    """What is said about the first bad line, without the name of the directory."""
    with pytest.raises(DataError) as caught:
        read(tmp_path, text, needs_target, needs_tags, **data)
    message = str(caught.value)
    assert message.startswith(f"{tmp_path}/")
    return message.removeprefix(f"{tmp_path}/")


# ---- every format ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "line", "expected"),
    [
        ({}, "a b\tc\textra", Example("a b", "c")),
        ({"source_column": 3, "target_column": 1, "tags_column": 2}, "x\tA; B;A;;\ty", Example("y", "x", ("A", "B"))),
        ({"tags_column": 3, "tag_separator": " "}, "x\ty\tA B", Example("x", "y", ("A", "B"))),
        ({"format": "jsonl"}, '{"source": "e\\u0301", "target": "b"}', Example("é", "b")),
        (
            {"format": "jsonl"},
            '{"tags": ["A", " B", "A"], "source": "x", "target": "y", "more": 1}',
            Example("x", "y", ("A", "B")),
        ),
        ({"format": "jsonl"}, '{"source": "x", "target": "y", "tags": "A;B"}', Example("x", "y", ("A", "B"))),
        (
            {"format": "jsonl", "source_column": "in", "target_column": "out", "tags_column": "t"},
            '{"in": "x", "out": "y", "t": null}',
            Example("x", "y"),
        ),
        (
            {"format": "sigmorphon2016"},
            "gehen\tpos=V,tense=PST\tging",
            Example("gehen", "ging", ("pos=V", "tense=PST")),
        ),
        ({"format": "sigmorphon2017"}, "gehen\tging\tV;PST", Example("gehen", "ging", ("V", "PST"))),
        ({"format": "sigmorphon2023"}, "gehen\tV;PST\tging", Example("gehen", "ging", ("V", "PST"))),
        (
            {"format": "morph-trans"},
            "<s> A b e </s>|<s> A b e n d </s>|case=dative:number=plural",
            Example("Abe", "Abend", ("case=dative", "number=plural")),
        ),
        ({"format": "morph-trans"}, "<s> | </s>|<s> > e \u0301 </s>|k=v|w", Example("|", ">é", ("k=v|w",))),
        (
            {"format": "morph-trans", "source_unit": "tokens", "target_unit": "tokens"},
            "<s> aa b </s>|<s> aa b c </s>|k=v",
            Example("aa b", "aa b c", ("k=v",)),
        ),
        ({"format": "g2p"}, "READ\tR IY D", Example("READ", "R IY D")),
        ({"format": "cmudict"}, "READ(1)  R  EH1 D # past; tense", Example("READ", "R EH1 D")),
        ({"format": "cmudict"}, "#HASH-MARK  HH AE1 SH", Example("#HASH-MARK", "HH AE1 SH")),
        ({"format": "cmudict"}, "a.d. EY2 D IY1", Example("a.d.", "EY2 D IY1")),
        ({"format": "cmudict"}, "READ\tR IY1 D", Example("READ", "R IY1 D")),
        ({"format": "cmudict"}, "(1)  W AH1 N", Example("(1)", "W AH1 N")),
    ],
)
@pytest.mark.parametrize("pack", [False, True])
def test_formats(tmp_path: Path, data: dict, line: str, expected: Example, pack: bool):
    path = tmp_path / "file"
    content = f"{line}\n{line}\n".encode()
    path.write_bytes(gzip.compress(content) if pack else content)
    first, second = read_examples(str(path), DataConfig(**data))
    assert first == Example(expected.source, expected.target, expected.tags, 1)
    assert second.line == 2


@pytest.mark.parametrize(
    ("name", "source", "target"),
    [
        ("tsv", "characters", "characters"),
        ("parallel", "tokens", "tokens"),
        ("g2p", "characters", "tokens"),
        ("cmudict", "characters", "tokens"),
        ("morph-trans", "characters", "characters"),
    ],
)
def test_units_of_formats(name: str, source: str, target: str):
    form = resolve_format(DataConfig(format=name))
    assert (form.source_unit, form.target_unit) == (source, target)
    other = resolve_format(DataConfig(format=name, source_unit="bpe", target_unit="graphemes"))
    assert (other.source_unit, other.target_unit) == ("bpe", "graphemes")


def test_comments_of_cmudict_are_passed_over(tmp_path: Path):
    assert read(tmp_path, ";;; a comment\nA  AH\n", format="cmudict") == [Example("A", "AH", line=2)]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            {"format": "cmudict", "source_column": 1},
            "setting 'data.source_column': the format 'cmudict' has no columns to choose, got 1; leave it out",
        ),
        ({"format": "parallel", "tags_column": "x"}, "the format 'parallel' has no columns to choose, got 'x'"),
        (
            {"format": "jsonl", "target_column": 2},
            "setting 'data.target_column': expected the name of a key for jsonl, got 2",
        ),
        (
            {"source_column": 2},
            "setting 'data.target_column': column 2 is that of data.source_column too; set both to different columns",
        ),
        (
            {"format": "sigmorphon2017", "target_column": 3},
            "setting 'data.tags_column': column 3 is that of data.target",
        ),
    ],
)
def test_columns_that_a_format_cannot_have(tmp_path: Path, data: dict, message: str):
    with pytest.raises(ConfigError) as caught:
        iterate(str(tmp_path / "no-such-file"), DataConfig(**data))
    assert message in str(caught.value)


# ---- columns by name -------------------------------------------------------------------------------------------------

NAMES = {"source_column": "lemma", "target_column": "form", "tags_column": "tags"}


def test_columns_by_name(tmp_path: Path):
    text = "\ufefftags\t id \tform\tlemma \nV;PST\t1\tging\tgehen\n"
    assert read(tmp_path, text, **NAMES) == [Example("gehen", "ging", ("V", "PST"), 2)]


def test_names_and_numbers_together(tmp_path: Path):
    assert read(tmp_path, "x\tlemma\na\tb\n", source_column="lemma", target_column=1) == [Example("b", "a", line=2)]


@pytest.mark.parametrize(
    ("text", "data", "message"),
    [
        (
            "lema\tform\ttags\na\tb\tc\n",
            NAMES,
            "file:1: no column 'lemma' (data.source_column); there are 'lema', 'form', 'tags'; did you mean 'lema'?",
        ),
        ("a\tb\n", {"source_column": "lemma"}, "file:1: no column 'lemma' (data.source_column); there are 'a', 'b'"),
        (
            "lemma\tform\ttags\tform\na\tb\tc\td\n",
            NAMES,
            "file:1: the column name 'form' is there twice (columns 2 and 4); rename one, or choose columns by number",
        ),
        (
            "x\tlemma\na\tb\n",
            {"source_column": "lemma"},
            "file:1: setting 'data.target_column': column 2 is that of data.source_column too; "
            "set both to different columns",
        ),
        (
            "lemma\tform\ttags\na\tb\n",
            NAMES,
            "file:2: no tags: expected in column 3 'tags' (data.tags_column), the line has 2 columns; "
            "the format 'tsv' has tags there",
        ),
        (
            "lemma\tform\ttags\n",
            NAMES,
            "file: there is no example in this file besides the line that names the columns",
        ),
    ],
)
def test_headers_that_do_not_fit(tmp_path: Path, text: str, data: dict, message: str):
    assert complaint(tmp_path, text, **data) == message


def test_a_header_that_cannot_be_read_is_the_only_problem(tmp_path: Path):
    path = tmp_path / "file"
    path.write_bytes(b"lemm\xff\tform\na\tb\nc\td\n")
    found = list(iterate(str(path), DataConfig(source_column="lemma")))
    assert len(found) == 1
    assert "not valid UTF-8" in str(found[0])


def test_empty_names_are_no_names(tmp_path: Path):
    assert len(read(tmp_path, "lemma\tform\t\t\na\tb\t\t\n", source_column="lemma")) == 1


# ---- lines that cannot be used ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "line", "message"),
    [
        (
            {},
            "only",
            "no target: expected in column 2 (data.target_column), the line has 1 column; columns are split by tabs",
        ),
        ({"source_column": 4, "target_column": 1}, "a\tb", "no source: expected in column 4 (data.source_column)"),
        ({}, "\tb", "the source is empty"),
        ({}, "a\t", "the target is empty"),
        ({}, "a\t \u3000", "the target is empty"),
        ({}, "\t", "the source is empty"),
        ({}, "", "the line is empty"),
        ({}, "  ", "the line is empty"),
        (
            {"format": "sigmorphon2017"},
            "a\tb",
            "no tags: expected in column 3 (data.tags_column), the line has 2 columns; "
            "the format 'sigmorphon2017' has tags there",
        ),
        ({"format": "jsonl"}, "{", "not valid JSON: Expecting property name enclosed in double quotes at place 2"),
        ({"format": "jsonl"}, "[1]", "expected a JSON object, got a list ([1])"),
        (
            {"format": "jsonl"},
            '{"sorce": "a", "target": "b"}',
            "no key 'source' (data.source_column); there are 'sorce'",
        ),
        ({"format": "jsonl"}, '{"source": "a"}', "no key 'target' (data.target_column); there are 'source'"),
        ({"format": "jsonl"}, "{}", "no key 'source' (data.source_column); there are none"),
        (
            {"format": "jsonl"},
            '{"source": 3, "target": "b"}',
            "expected a string for the key 'source', got a number (3)",
        ),
        ({"format": "jsonl"}, '{"source": "a", "target": null}', "expected a string for the key 'target', got null"),
        ({"format": "jsonl"}, '{"source": "a", "source": "b"}', "not usable JSON: the key 'source' is there twice"),
        ({"format": "jsonl"}, '{"source": "", "target": "b"}', "the source is empty"),
        (
            {"format": "jsonl"},
            '{"source": "a", "target": "b", "tags": [1]}',
            "expected a string or a list of strings for the key 'tags', got a list ([1])",
        ),
        ({"format": "jsonl"}, '{"source": "\\ud800", "target": "b"}', "holds half of a character"),
        ({"format": "jsonl"}, '{"source": "a", "target": ' + "[" * 100_000, "not usable JSON: "),
        ({"format": "jsonl", "tags_column": "t"}, '{"source": "a", "target": "b"}', "no key 't' (data.tags_column)"),
        ({"format": "morph-trans"}, "a b|c|k=v", "expected a source such as '<s> a b </s>'"),
        ({"format": "morph-trans"}, "<s> a </s>|k=v", "expected a target such as '|<s> a b c </s>'"),
        ({"format": "morph-trans"}, "<s> a </s>|<s> b </s>", "expected tags such as '|case=nominative"),
        ({"format": "morph-trans"}, "<s> </s>|<s> b </s>|k=v", "the source is empty"),
        ({"format": "cmudict"}, "WORD", "no pronunciation: expected 'WORD  P1 P2'"),
        ({"format": "cmudict"}, "WORD  # P1", "no pronunciation: expected 'WORD  P1 P2'"),
    ],
)
def test_bad_lines(tmp_path: Path, data: dict, line: str, message: str):
    good = {
        "jsonl": '{"source": "a", "target": "b"' + (', "t": "x"}' if "tags_column" in data else "}"),
        "morph-trans": "<s> a </s>|<s> b </s>|k=v",
        "cmudict": "A  AH",
        "sigmorphon2017": "a\tb\tc",
    }.get(data.get("format", "tsv"), "a\tb\tc\td")
    if '"tags"' in line:
        good = good.replace("}", ', "tags": []}')
    text = f"{good}\n{line}\n{good}\n"
    assert complaint(tmp_path, text, **data).startswith(f"file:2: {message}")
    found = list(iterate(str(tmp_path / "file"), DataConfig(**data)))
    assert [isinstance(one, Problem) for one in found] == [False, True, False], "the lines around it are read"


def test_invalid_utf8_is_in_its_place(tmp_path: Path):
    path = tmp_path / "file"
    path.write_bytes(b"a\tb\n\xff\tb\nc\td\n")
    found = list(iterate(str(path), DataConfig()))
    assert [one.line for one in found] == [1, 2, 3]
    assert isinstance(found[1], Problem)


def test_all_lines_of_jsonl_have_tags_or_none(tmp_path: Path):
    with_tags, without = '{"source": "a", "target": "b", "tags": []}\n', '{"source": "a", "target": "b"}\n'
    assert "file:2: no key 'tags' (data.tags_column), which every line must have; there are 'source', 'target'" == (
        complaint(tmp_path, with_tags + without, format="jsonl")
    )
    assert "file:2: has the key 'tags', which the lines before do not have; give all lines tags, or none" == (
        complaint(tmp_path, without + with_tags, format="jsonl")
    )


@pytest.mark.parametrize("text", ["", "\n", "\n \n\n"])
def test_an_empty_file(tmp_path: Path, text: str):
    assert complaint(tmp_path, text) == "file: there is no example in this file"


def test_empty_lines_at_the_end_are_no_problem(tmp_path: Path):
    assert len(read(tmp_path, "a\tb\n\n  \n\n")) == 1
    path = write(tmp_path / "file", "a\tb\n\n\nc\td\n\n")
    assert [one.line for one in iterate(path, DataConfig()) if isinstance(one, Problem)] == [2, 3]


def test_empty_tags_are_no_tags(tmp_path: Path):
    assert read(tmp_path, "a\tb\t\n", format="sigmorphon2017") == [Example("a", "b", (), 1)]


def test_missing_files(tmp_path: Path):
    with pytest.raises(DataError, match=r"nothing\.tsv: no such file"):
        list(read_examples(str(tmp_path / "nothing.tsv"), DataConfig()))


# ---- prediction ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "line", "expected"),
    [
        ({}, "a", Example("a")),
        ({}, "a\tb\tc", Example("a")),
        ({}, "a\t", Example("a")),
        ({"target_column": 1, "source_column": 2}, "x\ta", Example("a")),
        ({"format": "sigmorphon2016"}, "a\tV,X", Example("a", None, ("V", "X"))),
        ({"format": "sigmorphon2017"}, "a\tb\tV;X", Example("a", None, ("V", "X"))),
        ({"format": "sigmorphon2017"}, "a\tV;X", Example("a", None, ("V", "X"))),
        ({"format": "sigmorphon2023"}, "a\tV;X", Example("a", None, ("V", "X"))),
        ({"format": "jsonl"}, '{"source": "a", "target": 3}', Example("a")),
        ({"format": "jsonl"}, '{"source": "a", "tags": ["V"]}', Example("a", None, ("V",))),
        ({"format": "morph-trans"}, "<s> a b </s>|k=v", Example("ab", None, ("k=v",))),
        ({"format": "morph-trans"}, "<s> a b </s>||k=v", Example("ab", None, ("k=v",))),
        ({"format": "morph-trans"}, "<s> a b </s>|<s> </s>|k=v", Example("ab", None, ("k=v",))),
        ({"format": "g2p"}, "READ", Example("READ")),
        ({"format": "cmudict"}, "READ(2)", Example("READ")),
        ({"format": "parallel"}, "a b", Example("a b")),
    ],
)
def test_sources_alone(tmp_path: Path, data: dict, line: str, expected: Example):
    assert read(tmp_path, line, needs_target=False, **data) == [
        Example(expected.source, None, expected.tags, 1),
    ]


def test_names_for_prediction_need_no_target(tmp_path: Path):
    data = {"source_column": "lemma", "target_column": "form"}
    assert read(tmp_path, "id\tlemma\n1\ta\n", needs_target=False, **data) == [Example("a", line=2)]
    assert "no column 'form' (data.target_column)" in complaint(tmp_path, "id\tlemma\n1\ta\n", **data)


@pytest.mark.parametrize(
    ("data", "line", "message"),
    [
        (
            {"format": "sigmorphon2016"},
            "a",
            "file:1: no tags: expected in column 2 (data.tags_column), the line has 1",
        ),
        (
            {"format": "sigmorphon2017"},
            "a",
            "file:1: no tags: expected in column 3 (data.tags_column), the line has 1",
        ),
        ({"tags_column": 2, "target_column": 3}, "a", "file:1: no tags: expected in column 2 (data.tags_column)"),
        (
            {},
            "a",
            "file: tags are needed, and the file has no column of tags: data.tags_column must say in which column",
        ),
        (
            {"format": "cmudict"},
            "a",
            "file: tags are needed, and the file has no column of tags: the format 'cmudict' has",
        ),
        (
            {"format": "jsonl"},
            '{"source": "a"}',
            "file:1: no key 'tags' (data.tags_column), which every line must have",
        ),
        ({"format": "morph-trans"}, "<s> a </s>", "file:1: expected tags such as"),
        ({"format": "parallel"}, "a", "file: tags are needed, and there is no file of tags beside that of the sources"),
    ],
)
def test_tags_that_are_missing_in_prediction(tmp_path: Path, data: dict, line: str, message: str):
    assert complaint(tmp_path, line, needs_target=False, needs_tags=True, **data).startswith(message)


@pytest.mark.parametrize(
    ("data", "line"),
    [
        ({"format": "sigmorphon2016"}, "a"),
        ({"format": "jsonl"}, '{"source": "a", "tags": 3}'),
        ({"format": "morph-trans"}, "<s> a </s>"),
    ],
)
def test_tags_can_be_ignored(tmp_path: Path, data: dict, line: str):
    assert read(tmp_path, line, needs_target=False, needs_tags=False, **data) == [Example("a", line=1)]


def test_every_line_of_prediction_has_an_answer_in_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    content = b"a\tV,X\n\nb\n\xff\tV\nc\tV\n  \n\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    found = list(iterate("-", DataConfig(format="sigmorphon2016"), needs_target=False))
    assert [one.line for one in found] == [1, 2, 3, 4, 5, 6, 7]
    assert [isinstance(one, Problem) for one in found] == [False, True, True, True, False, True, True]
    assert str(found[1]) == "<stdin>:2: the line is empty"


def test_nothing_to_predict_is_no_problem(tmp_path: Path):
    assert read(tmp_path, "", needs_target=False) == []


# ---- parallel text ---------------------------------------------------------------------------------------------------

PARALLEL = DataConfig(format="parallel")


def test_parallel_text(tmp_path: Path):
    base = str(tmp_path / "x")
    write(tmp_path / "x.src", "a b\nc\n\n")
    (tmp_path / "x.tgt.gz").write_bytes(gzip.compress(b"d\ne f\n"))
    assert list(read_examples(base, PARALLEL)) == [Example("a b", "d", (), 1), Example("c", "e f", (), 2)]
    assert files_of(base, PARALLEL) == (f"{base}.src", f"{base}.tgt.gz")
    write(tmp_path / "x.tags", "V;X\n\n")
    assert [one.tags for one in read_examples(base, PARALLEL)] == [("V", "X"), ()]
    assert [one.tags for one in read_examples(base, PARALLEL, needs_tags=False)] == [(), ()]
    assert files_of(base, PARALLEL) == (f"{base}.src", f"{base}.tgt.gz", f"{base}.tags")
    assert files_of(base, DataConfig()) == (base,)


def test_parallel_text_for_prediction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    source = write(tmp_path / "x.src", "a b\nc\n")
    for path in (source, str(tmp_path / "x")):
        assert list(read_examples(path, PARALLEL, needs_target=False)) == [Example("a b", line=1), Example("c", line=2)]
    write(tmp_path / "x.tags", "V\n")
    for path in (source, str(tmp_path / "x")):
        first, second = iterate(path, PARALLEL, needs_target=False, needs_tags=True)
        assert first == Example("a b", None, ("V",), 1)
        assert str(second) == f"{tmp_path}/x.src:2: no tags: {tmp_path}/x.tags ends before this line"
    write(tmp_path / "x.tags", "V\nV\nV\n")
    *_, last = iterate(source, PARALLEL, needs_target=False)
    assert str(last).startswith(f"{tmp_path}/x.src:2: the last line; expected equally many lines")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a b\n")))
    assert list(read_examples("-", PARALLEL, needs_target=False)) == [Example("a b", line=1)]


@pytest.mark.parametrize(
    ("sources", "targets", "message"),
    [
        (
            "a\nb\nc\n",
            "d\n",
            "x.tgt:1: the last line; expected equally many lines, but {0}/x.src has 3, {0}/x.tgt has 1",
        ),
        (
            "a\n",
            "d\ne\n\n",
            "x.src:1: the last line; expected equally many lines, but {0}/x.src has 1, {0}/x.tgt has 2",
        ),
        ("a\n\nb\n", "d\ne\nf\n", "x.src:2: the source is empty"),
        ("a\nb\n", "d\n\n", "x.tgt:2: the target is empty"),
        ("a\n\nb\n", "d\n\ne\n", "x.src:2: the line is empty"),
        ("", "", "x: there is no example in this file"),
        ("a\n", None, "x.tgt: no such file: '{0}/x' should name parallel text without .src and .tgt"),
    ],
)
def test_parallel_text_that_does_not_fit(tmp_path: Path, sources: str, targets: str | None, message: str):
    write(tmp_path / "x.src", sources)
    if targets is not None:
        write(tmp_path / "x.tgt", targets)
    with pytest.raises(DataError) as caught:
        list(read_examples(str(tmp_path / "x"), PARALLEL))
    assert str(caught.value) == f"{tmp_path}/" + message.format(tmp_path)


def test_all_problems_of_parallel_text(tmp_path: Path):
    (tmp_path / "x.src").write_bytes(b"\xff\nb\n")
    (tmp_path / "x.tgt").write_bytes(b"\xff\nd\n")
    found = list(iterate(str(tmp_path / "x"), PARALLEL))
    assert [str(one).split(": ")[0] for one in found[:2]] == [f"{tmp_path}/x.src:1", f"{tmp_path}/x.tgt:1"]
    assert found[2] == Example("b", "d", (), 2)


def test_parallel_training_text_cannot_come_from_standard_input():
    with pytest.raises(DataError, match="<stdin>: parallel text cannot be read from standard input"):
        list(read_examples("-", PARALLEL))
