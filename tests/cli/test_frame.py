"""What all commands share: help, errors and exit codes, streams and encodings, completion."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from pathlib import Path
from typing import get_args

import pytest
from typer.main import get_command

from commands import Run, command_line, environment, process, started
from ssnt.__about__ import __version__
from ssnt.cli import app as frame
from ssnt.cli import errors
from ssnt.cli.app import VERBS, examples_of, make_app
from ssnt.cli.options import FileFormat, Search, names
from ssnt.cli.prediction_files import PredictionFormat
from ssnt.config import Config, Format
from ssnt.errors import DataError, StorageError

HEAVY = {"lightning", "matplotlib", "numba", "pydantic", "torch", "yaml"}


def modules_after(*arguments: str, stdin: str = "") -> set[str]:
    """The top-level packages that a command has loaded in a new interpreter."""
    code = (
        "import json, sys\n"
        f"sys.argv = {['ssnt', *arguments]!r}\n"
        "from ssnt.cli import main\n"
        "try:\n    main()\n"
        "except SystemExit as end:\n"
        "    print(json.dumps([end.code, sorted({name.partition('.')[0] for name in sys.modules})]), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], input=stdin, capture_output=True, text=True, check=True)
    code, modules = json.loads(done.stderr.splitlines()[-1])
    assert code == 0, done.stderr
    return set(modules)


def test_help_brings_nothing_heavy():  # how long it takes is measured in benchmarks/import_time.py
    # Typer itself brings pydantic
    assert not modules_after("--help") & (HEAVY - {"pydantic"})


@pytest.mark.parametrize(
    "arguments",
    [
        ("score", "outputs.txt", "test.tsv"),
        ("compare", "outputs.txt", "baseline.txt", "test.tsv"),
        ("data", "check", "train.tsv", "--dev", "dev.tsv"),
        ("data", "stats", "train.tsv"),
        ("train", "--preset", "g2p", "--print-config"),
    ],
    ids=lambda arguments: " ".join(arguments[:2]),
)
def test_what_needs_no_model_brings_no_torch(place: Path, arguments: tuple[str, ...]):
    assert not modules_after(*arguments) & {"torch", "lightning", "matplotlib", "numba"}


def test_the_list_of_commands_has_every_verb(run: Run):
    listed = run("--help").out + run("data", "--help").out
    assert [verb.name for verb in VERBS if f" {verb.name} " not in listed] == []
    assert run("--version").out == f"ssnt {__version__}\n"


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)
def test_every_help_says_what_the_command_does_and_has_examples(run: Run, verb: frame.Verb):
    words = [*filter(None, [verb.group]), verb.name]
    done = run(*words, "--help")
    assert done.code == 0
    shown = " ".join(done.out.split())
    function = verb.function()
    assert (function.__doc__ or "").split("\n")[0] in shown
    assert examples_of(function), verb.name
    assert "Examples:" in done.out
    for example in examples_of(function):
        assert " ".join(example.split()) in shown
        assert f"ssnt {' '.join(words)}" in example


def test_options_mean_the_same_everywhere():
    """Of two options with one name in two commands, one help or the other is a mistake; outputs differ, though."""
    differing = {"--format", "--input-format", "--out", "-o", "--beam", "--dev", "--resume", "--overwrite"}
    differing |= {"--predictions-format"}
    differing |= {"--engine", "--address", "--workers"}  # of train, where they are for --per-tag only
    helps: dict[str, set[str]] = {}
    for command in _commands():
        for option in command.params:
            if option.param_type_name == "option":
                for name in option.opts:
                    helps.setdefault(name, set()).add(option.help or "")
    assert {name for name, texts in helps.items() if len(texts) > 1} <= differing
    assert all("" not in texts for texts in helps.values())


def _commands() -> list:
    top = get_command(make_app())
    found = []
    for command in top.commands.values():
        found += list(command.commands.values()) if hasattr(command, "commands") else [command]
    return found


def test_choices_are_those_of_the_settings():
    assert tuple(FileFormat) == get_args(Format)
    searches = Config.model_fields["search"].annotation.model_fields["search"].annotation
    assert tuple(Search) == get_args(searches)
    assert names(" accuracy, per,,accuracy ") == ["accuracy", "per"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["predict"], "Missing argument 'MODEL'."),
        (["predikt", "model"], "No such command 'predikt'. Did you mean 'predict'"),
        (["predict", "model", "--beam", "0"], "Invalid value for '--beam'"),
        (["predict", "model", "--beem", "3"], "No such option: --beem"),
        (["predict", "model", "--format", "xml"], "Invalid value for '--format'"),
        (["train", "--engine", "slurm"], "Invalid value for '--engine': 'slurm' is not one of 'local', 'ray'"),
        (
            ["predict", "model", "--search", "Pth"],
            "Invalid value for '--search': 'Pth' is not one of 'marginal', 'path'",
        ),
        (["--wrong"], "No such option: --wrong"),
        (["data", "chek", "x"], "No such command 'chek'"),
    ],
)
def test_a_wrong_command_line_is_told_in_one_line(run: Run, arguments: list[str], message: str):
    done = run(*arguments)
    assert done.code == 2
    assert done.out == ""
    first, second = done.err.splitlines()
    assert first.startswith(f"ssnt: error: {message}")
    assert "Value error" not in first
    assert second.startswith("Try 'ssnt")
    assert second.endswith("--help'.")


@pytest.mark.parametrize("arguments", [[], ["data"]])
def test_no_command_at_all_gives_the_help(run: Run, arguments: list[str]):
    done = run(*arguments)
    assert done.code == 2
    assert "Usage: ssnt" in done.out + done.err


def called(error: BaseException, *, debug: bool = False) -> int:
    def fail() -> None:
        raise error

    return errors.call(fail, debug=debug)


@pytest.mark.parametrize(
    ("error", "code", "told"),
    [
        (DataError("a.tsv:3: no\na.tsv:4: no"), 2, "ssnt: error: a.tsv:3: no\nssnt: error: a.tsv:4: no\n"),
        (DataError("m: (--resume, resume=True), (--out, out)"), 2, "ssnt: error: m: (--resume), (--out)\n"),
        (DataError("leave out --resume (resume=True) to start"), 2, "ssnt: error: leave out --resume to start\n"),
        (StorageError(28, "m: could not be written"), 2, "ssnt: error: m: could not be written\n"),
        (FileNotFoundError(2, "No such file", "x/ä"), 2, "ssnt: error: x/ä: No such file\n"),
        (OSError(28, "No space left on device"), 2, "ssnt: error: standard output: No space left on device\n"),
        (KeyboardInterrupt(), 130, "ssnt: stopped\n"),
        (KeyboardInterrupt("told already"), 130, ""),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_expected_error_is_a_message_and_a_code(
    error: BaseException, code: int, told: str, capsys: pytest.CaptureFixture[str]
):
    assert called(error) == code
    assert capsys.readouterr().err == told


@pytest.mark.parametrize("error", [KeyError("x"), OSError("without a number"), RuntimeError("oh")])
def test_a_defect_says_that_it_is_one(error: Exception, capsys: pytest.CaptureFixture[str]):
    assert called(error) == 70
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[-1].startswith(f"ssnt: this is a defect in ssnt {__version__}")


def test_a_pipe_that_breaks_elsewhere_is_a_defect(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(errors, "_reader_has_gone", lambda: False)
    assert called(BrokenPipeError(32, "Broken pipe")) == 70
    assert "defect" in capsys.readouterr().err


def test_debug_shows_where_an_error_arose(capsys: pytest.CaptureFixture[str]):
    assert called(DataError("a.tsv:3: no"), debug=True) == 2
    text = capsys.readouterr().err
    assert text.startswith("Traceback")
    assert text.endswith("ssnt: error: a.tsv:3: no\n")


def test_debug_is_an_option_and_a_variable(place: Path):
    done = process("--debug", "score", "none", "test.tsv")
    assert (done.code, "Traceback" in done.err) == (2, True)
    done = process("score", "none", "test.tsv", SSNT_DEBUG="1")
    assert (done.code, "Traceback" in done.err) == (2, True)
    done = process("score", "none", "test.tsv")
    assert (done.code, done.err) == (2, "ssnt: error: none: no such file\n")


def test_a_number_that_a_command_returns_is_the_exit_code():
    assert errors.call(lambda: 1, debug=False) == 1
    assert errors.call(lambda: None, debug=False) == 0


def test_output_is_utf8_whatever_the_locale(place: Path):
    done = process("data", "stats", "train.tsv", "--json", LC_ALL="C", PYTHONUTF8="0", PYTHONIOENCODING="ascii")
    assert done.code == 0
    assert json.loads(done.out)["examples"] == 5
    done = process("data", "check", "ä.tsv", LC_ALL="C", PYTHONUTF8="0", PYTHONIOENCODING="latin-1")
    assert "ä.tsv: error: no such file" in done.out


def test_a_reader_who_has_gone_is_no_error(place: Path):
    line = "a\tb\n" * 50_000
    (place / "many.tsv").write_text(line, encoding="utf-8")
    with started("data", "check", "many.tsv", stdout=subprocess.PIPE, stderr=subprocess.PIPE) as job:
        assert job.stdout is not None
        assert job.stderr is not None
        assert job.stdout.readline()
        job.stdout.close()
        assert job.wait(60) == 141
        assert job.stderr.read() == b""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no device that is always full")
def test_a_full_disk_behind_standard_output_is_told(place: Path):
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            command_line("data", "stats", "train.tsv"),
            stdout=full,
            stderr=subprocess.PIPE,
            env=environment(),
            check=False,
        )
    assert done.returncode == 2
    assert done.stderr == b"ssnt: error: standard output: No space left on device\n"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("ssnt pre", {"predict"}),
        ("ssnt data ", {"check", "stats"}),
        ("ssnt predict model --search ", {"marginal", "path", "online"}),
        ("ssnt score a b --metrics accuracy,rouge_", {"accuracy,rouge_1", "accuracy,rouge_2", "accuracy,rouge_l"}),
        ("ssnt train --preset inf", {"inflection"}),
    ],
)
def test_the_shell_completes(words: str, expected: set[str]):
    variables = {"_SSNT_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    assert set(process(**variables).out.split()) == expected


def test_the_prediction_formats_are_what_the_help_says():
    assert tuple(PredictionFormat) == ("text", "tsv", "jsonl")


def test_our_warnings_are_one_line_and_those_of_others_stay(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    from ssnt.plots import LabelWarning

    others: list[str] = []
    monkeypatch.setattr(warnings, "showwarning", lambda message, *_: others.append(str(message)))
    errors.show_warnings()
    warnings.showwarning(LabelWarning("no font"), LabelWarning, "/x/y.py", 3)
    warnings.showwarning(UserWarning("ours"), UserWarning, frame.__file__, 3)
    warnings.showwarning(UserWarning("theirs"), UserWarning, "/x/y.py", 3)
    assert capsys.readouterr().err == "ssnt: warning: no font\nssnt: warning: ours\n"
    assert others == ["theirs"]
