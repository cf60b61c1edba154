"""What README.md and the pages in docs/ show, runs, and what they name, exists.

The blocks of a page run in its order, in one directory: a block with a ``title`` is written to the file of that name,
the commands of a ``console`` block run with bash, a ``python`` block runs in the namespace of the page. What a console
block shows of a command's output is not compared, except for lines that are about errors and warnings: these have to
come, word for word, and the exit code has to fit them.

``ssnt`` comes from a fork server, which spares each command the seconds of its imports: see fork_server.py.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from doc_pages import DOCS, FENCE, LANGUAGES, PAGES, ROOT, SHELLS, Command, blocks, commands
from fork_server import REAL_PATH

# What costs some seconds more than other pages, above all because it trains or starts many processes.
SLOW = {
    "README.md",
    "errors.md",
    "evaluation.md",
    "getting-started.md",
    "model-directory.md",
    "sweeps.md",
    "training.md",
}

# Commands that are not run: they install, need a network, a second machine or somebody at the keyboard, run all tests,
# or do not end. The tests below check what they name.
NOT_RUN = (
    r"(\.venv/bin/)?(python -m )?pip install .*",
    r"make [a-z]+",
    r"git clone .*",
    r"hf auth login",
    r"ssnt [a-z]+ [\w-]+/[\w-]+( .*)?",  # a model on the hub
    r"ssnt quickstart --serve",
    r"tensorboard .*",
    r"torchrun --nnodes 1 --nproc-per-node 2 -m ssnt train .*",  # tests/training/test_processes.py starts the like
)

# Trainings are shortened, so that no page may set any of these itself: a few steps, a few more if they go on, and a
# narrow search on the development data, as a model that has learnt nothing writes long outputs.
SHORT = """
ssnt() {
  case "$1" in
    quickstart) command ssnt "$@" --epochs 1 ;;
    train) case " $* " in
        *" --print-config "*) command ssnt "$@" ;;
        *" --resume "*) command ssnt "$@" training.max_steps=10 ;;
        *) command ssnt "$@" training.max_steps=5 search.beam=1 search.max_length=20 ;;
      esac ;;
    sweep) case " $* " in
        *" --resume "*) command ssnt "$@" ;;
        *) command ssnt "$@" training.max_steps=5 search.beam=1 search.max_length=20 \
          "sweep.space={optimiser.learning_rate: [0.001]}" ;;
      esac ;;
    *) command ssnt "$@" ;;
  esac
}
"""


def is_run(command: Command) -> bool:
    return not any(re.fullmatch(pattern, command.text) for pattern in NOT_RUN)


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What ``ssnt quickstart`` writes, after few epochs. A new process trains it, as the reader's does.

    It is trained once for all processes that test.
    """
    home = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        home = home.parent
    with (home / "model.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (home / "model").exists():
            partial = home / "model.partial"
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir()
            run(Command("command ssnt quickstart --epochs 2", ()), partial, REAL_PATH)
            partial.rename(home / "model")
    return home / "model" / "quickstart"


def run(command: Command, home: Path, path: str) -> None:
    """Runs a command in a directory; one that is to fail runs as it is, others are shortened."""
    # a function only where there is something to shorten: `kill $!` reaches a command, but not what a function has run
    is_long = re.search(r"\bssnt (quickstart|train|sweep)\b", command.text)
    preamble = SHORT if is_long and not command.exit_code else ""
    text = command.text.replace("/tmp/", "./")  # nothing is written outside of the directory
    script = f"{preamble}\nset -o pipefail\n{text}\n"
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=home,
        env=os.environ | {"PATH": path, "COLUMNS": "120"},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=300,
        check=False,
    )
    told = done.stdout + done.stderr
    assert done.returncode == command.exit_code, f"$ {command.text}\nexit code {done.returncode}\n{told}"
    for line in command.complaints:
        assert line in told.splitlines(), f"$ {command.text}\nexpected: {line}\n{told}"


@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=[pytest.mark.slow] * (page.name in SLOW), id=page.name) for page in PAGES]
)
def test_page_runs(
    page: Path, quick_path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.chdir(tmp_path)
    text = page.read_text(encoding="utf-8")
    uses_model = re.search(r'(ssnt [a-z]+ |from_pretrained\("|cp -r )quickstart\b', text)
    if uses_model and "$ ssnt quickstart" not in text:
        # the page says that the reader has this directory already
        copy_model(request.getfixturevalue("model"), tmp_path / "quickstart")
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks(page):
        if block.title is not None:
            (tmp_path / block.title).write_text(block.text, encoding="utf-8")
        elif block.language == "python":
            code = "\n" * block.line + block.text  # so that a traceback has the line of the page
            exec(compile(code, str(page), "exec"), names)
        elif page.name != "commands.md":
            for command in filter(is_run, commands(block)):
                run(command, tmp_path, quick_path)


def copy_model(model: Path, to: Path) -> None:
    shutil.copytree(model, to, copy_function=os.link)


# ---- the examples of commands


@pytest.fixture(scope="session")
def material(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that the examples in the help of training commands name."""
    from ssnt.data.sample import sample_path

    home = tmp_path_factory.mktemp("material")
    copy_model(model, home / "model")
    for split in ("train", "dev", "test"):
        pairs = [
            line.split("\t")[:2] for line in Path(sample_path(split)).read_text(encoding="utf-8").splitlines()[:40]
        ]
        # the third column is for the examples with tags, and others ignore it
        rows = "".join(f"{source}\t{target}\tV.PTCP;PST\n" for source, target in pairs)
        (home / f"{split}.tsv").write_text(rows, encoding="utf-8")
    (home / "settings.yaml").write_text("data: {train: train.tsv, dev: dev.tsv}\n", encoding="utf-8")
    return home


# The other examples are in the help of commands as they are here, and tests/cli/test_examples.py runs them all, but
# does not really train.
COMMANDS = [
    command
    for block in blocks(DOCS / "commands.md")
    for command in commands(block)
    if re.match(r"ssnt (-|train |quickstart)", command.text) and is_run(command)
]


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS, ids=[command.text for command in COMMANDS])
def test_example_of_a_command_runs(command: Command, material: Path, quick_path: str, tmp_path: Path) -> None:
    # the examples of a command are alternatives, so each has files of its own
    home = tmp_path / "home"
    shutil.copytree(material, home)
    if command.text.startswith("ssnt train ") and "--resume" not in command.text:
        shutil.rmtree(home / "model")
    run(command, home, quick_path)


# ---- what is not run, named


def named_commands() -> Iterator[tuple[str, str]]:
    for page in (*PAGES, ROOT / "CONTRIBUTING.md"):
        for block in blocks(page):
            yield from ((page.name, command.text) for command in commands(block) if not is_run(command))
        text = page.read_text(encoding="utf-8")
        yield from ((page.name, code) for code in re.findall(r"`((?:make|pip install) [^`\n]+)`", text))


def test_make_targets_named_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = [(page, text.split()[1]) for page, text in named_commands() if text.startswith("make ")]
    assert {page for page, _ in targets} >= {"README.md", "CONTRIBUTING.md", "getting-started.md"}
    for page, target in targets:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), f"{page}: make {target}"


def test_extras_named_exist() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = {
        (page.name, extra)
        for page in PAGES
        for extras in re.findall(r"(?:ssnt|\.|`)\[([a-z,]+)\]", page.read_text(encoding="utf-8"))
        for extra in extras.split(",")
    }
    assert {extra for _, extra in named} >= {"tb", "triton", "docs", "dev"}
    for page, extra in named:
        assert extra in project["optional-dependencies"], f"{page}: [{extra}]"


def test_constraints_named_exist() -> None:
    for page, text in named_commands():
        for file in re.findall(r"-c (\S+)", text):
            assert (ROOT / file).exists(), f"{page}: {file}"


# ---- the pages


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_blocks_have_a_known_language(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    found = blocks(page)
    assert text.count("```") == 2 * len(found), "a fenced block does not end"
    for block in found:
        assert block.language in LANGUAGES, f"{page.name}:{block.line}: {block.language}"
        assert block.language in {"", "console"} or block.language not in SHELLS, (
            f"{page.name}:{block.line}: use console"
        )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_settings_shown_can_be_used(page: Path) -> None:
    from ssnt.config import SweepRunConfig, parse_settings  # all settings that there are

    for block in blocks(page):
        if block.language == "yaml":
            SweepRunConfig.model_validate(parse_settings(block.text, f"{page.name}:{block.line}"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_settings_named_exist(page: Path) -> None:
    from ssnt.config import Config, Settings

    sections = {name: set(type(value).model_fields) for name, value in Config() if isinstance(value, Settings)}
    for section, name in re.findall(rf"`({'|'.join(sections)})\.(\w+)[=`:]", page.read_text(encoding="utf-8")):
        assert name in sections[section] or f"{section}.{name}" in OTHER_NAMES, f"{page.name}: {section}.{name}"


OTHER_NAMES = {"data.readers", "model.safetensors"}
"""What looks like a setting and is none."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_and_options_named_exist(page: Path) -> None:
    from ssnt.cli.app import VERBS

    names = {verb.group or verb.name for verb in VERBS}
    text = page.read_text(encoding="utf-8")
    for name in re.findall(r"`ssnt ([a-z]+)\b", text):
        assert name in names, f"{page.name}: ssnt {name}"
    known = set(re.findall(r"--[a-z-]+", (DOCS / "commands.md").read_text(encoding="utf-8"))) | OTHER_OPTIONS
    for option in re.findall(r"`(--[a-z-]+)", text):
        assert option in known, f"{page.name}: {option}"


OTHER_OPTIONS = {"--nnodes", "--rdzv-backend"}
"""Options of torchrun."""


def test_settings_that_may_change_are_those_named() -> None:
    from ssnt.training import MAY_CHANGE

    text = (DOCS / "training.md").read_text(encoding="utf-8")
    sentence = re.search(r"Some settings may be changed.*?Others", text, re.DOTALL)
    assert sentence is not None
    places = {"data.train", "data.dev", "data.cache", "out"}
    within_limits = {"hardware.precision"}  # between the two whose weights are the same
    assert set(re.findall(r"`(\w+\.\w+)`", sentence[0])) | places == MAY_CHANGE | within_limits


def test_exit_codes_are_those_named() -> None:
    from ssnt.cli import errors

    codes = {errors.SOME_FAILED, errors.MISTAKE, errors.DEFECT, errors.INTERRUPTED, errors.READER_GONE}
    named = re.findall(r"^\| (\d+) \|", (DOCS / "commands.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert set(map(int, named)) == codes | {0}


def test_metrics_are_those_named() -> None:
    from ssnt.evaluation import METRIC_NAMES

    section = (DOCS / "evaluation.md").read_text(encoding="utf-8").partition("## Metrics")[2].partition("**Edits**")[0]
    rows = [line.split(" | ")[0] for line in section.splitlines() if line.startswith("| `")]
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == set(METRIC_NAMES)


def test_formats_and_units_are_those_named() -> None:
    from typing import get_args

    from ssnt.config import Format, UnitName

    text = (DOCS / "data-formats.md").read_text(encoding="utf-8")
    headings = re.findall(r"^## ([a-z][\w-]+)$", text, re.MULTILINE)
    assert headings == list(get_args(Format))
    units = text.partition("## Units")[2].partition("```")[0]
    assert re.findall(r"^\| `(\w+)`", units, re.MULTILINE) == list(get_args(UnitName))


def test_no_place_of_this_machine_is_named() -> None:
    for path in (*PAGES, ROOT / "mkdocs.yml", *DOCS.rglob("*.py"), *DOCS.glob("intros/*")):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"/(home|root|work|Users)/", text), path.name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_tables_have_no_pipes_in_their_cells(page: Path) -> None:
    # in code within a table, some readers of Markdown show the backslash that others need
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    assert [line for line in text.splitlines() if line.startswith("|") and r"\|" in line] == []
