"""The table of verbs, and what all of them share: help, errors, exit codes."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from ssnt.__about__ import __version__
from ssnt.cli.errors import MISTAKE, call, show_warnings, tell, usage_message, use_utf8

_EXAMPLES = "Examples:"
_STRAY = {"ssnt stream": "it reads standard input: ssnt stream MODEL < FILE"}
"""What to do with an argument too many, by command."""


@dataclass(frozen=True)
class Verb:
    """A command: ``ssnt NAME``, or ``ssnt GROUP NAME``.

    Attributes:
        name: What it is called.
        home: The module below ``ssnt.cli`` with its function, and the function's name, as ``module:function``.
        panel: Under which heading the list of commands shows it.
        group: The command that it belongs to.
    """

    name: str
    home: str
    panel: str = "Use a model"
    group: str | None = None

    @property
    def module(self) -> str:
        """The full name of its module."""
        return f"ssnt.cli.{self.home.partition(':')[0]}"

    def function(self) -> Callable[..., Any]:
        """Its function, whose docstring is its help and whose parameters are its options."""
        function: Callable[..., Any] = getattr(import_module(self.module), self.home.partition(":")[2])
        return function


VERBS = (
    Verb("quickstart", "quickstart:quickstart", "Train"),
    Verb("train", "train:train", "Train"),
    Verb("sweep", "sweep:sweep", "Train"),
    Verb("predict", "predict:predict"),
    Verb("stream", "stream:stream"),
    Verb("serve", "serve:serve"),
    Verb("align", "align:align"),
    Verb("loglik", "loglik:loglik"),
    Verb("info", "info:info"),
    Verb("export", "export:export"),
    Verb("evaluate", "evaluate:evaluate", "Measure"),
    Verb("score", "score:score", "Measure"),
    Verb("compare", "compare:compare", "Measure"),
    Verb("check", "data_check:check", group="data"),
    Verb("stats", "data_stats:stats", group="data"),
)
"""Every verb, in the order of the help. A new one is a line here and a file beside this one."""

GROUPS = {"data": ("Look at data files before training on them.", "Data")}
"""Help and heading of the commands that have commands."""


class Commands(TyperGroup):
    """All commands: tells errors in our way, in one place."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The names, in the order of the table."""
        return list(self.commands)

    def invoke(self, ctx: Any) -> Any:
        """Runs a command; every error becomes a message and an exit code here."""
        debug = bool(ctx.params.get("debug"))
        return call(lambda: super(Commands, self).invoke(ctx), debug=debug)

    def main(self, *args: Any, **settings: Any) -> Any:
        """Parses, runs and exits."""
        settings |= {"standalone_mode": False, "prog_name": "ssnt"}
        try:
            code = super().main(*args, **settings)
        except Exception as error:
            if not hasattr(error, "format_message"):
                raise
            _tell_usage(error)
            code = MISTAKE
        sys.exit(code if isinstance(code, int) else 0)


def run() -> NoReturn:
    """Runs the command line and exits."""
    use_utf8()
    show_warnings()
    typer.main.get_command(make_app()).main()
    sys.exit(0)


def make_app() -> typer.Typer:
    """The whole command line."""
    app = typer.Typer(
        cls=Commands,
        help="Monotone neural transducers: train them, use them, measure them.",
        epilog="Each command has --help with examples. Begin with: ssnt quickstart",
        callback=_top,
        no_args_is_help=True,
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["--help", "-h"]},
    )
    groups: dict[str, typer.Typer] = {}
    for verb in VERBS:
        if find_spec(verb.module) is None:
            continue
        parent = app
        if verb.group is not None:
            if verb.group not in groups:
                groups[verb.group] = _add_group(app, verb.group)
            parent = groups[verb.group]
        function = verb.function()
        parent.command(verb.name, help=help_text(function), rich_help_panel=verb.panel)(function)
    return app


def help_text(function: Callable[..., Any]) -> str:
    """The help of a verb: its docstring, in which paragraphs flow and examples keep their lines."""
    text, _, examples = inspect.cleandoc(function.__doc__ or "").partition(_EXAMPLES)
    paragraphs = [" ".join(one.split()) for one in text.strip().split("\n\n")]
    if lines := _lines(examples):
        # the first character tells older Typers to keep the lines
        paragraphs.append("\b\n" + "\n".join([_EXAMPLES, *(f"  {line}" for line in lines)]))
    return _escaped("\n\n".join(paragraphs))


def examples_of(function: Callable[..., Any]) -> list[str]:
    """The commands in the examples of a verb."""
    _, _, examples = inspect.cleandoc(function.__doc__ or "").partition(_EXAMPLES)
    return _lines(examples)


def _lines(examples: str) -> list[str]:
    return [line.strip() for line in examples.splitlines() if line.strip()]


def _escaped(text: str) -> str:
    """Text in which square brackets are square brackets, not Rich's markup."""
    return re.sub(r"(\[[a-z#/@])", r"\\\1", text)


def _add_group(app: typer.Typer, name: str) -> typer.Typer:
    help_, panel = GROUPS[name]
    group = typer.Typer(help=help_, no_args_is_help=True, rich_markup_mode="rich")
    app.add_typer(group, name=name, rich_help_panel=panel)
    return group


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"ssnt {__version__}")
        raise typer.Exit


def _top(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", envvar="SSNT_DEBUG", help="Print where in the code an error arose.")
    ] = False,
) -> None:
    """Monotone neural transducers: train them, use them, measure them."""


def _tell_usage(error: Any) -> None:
    """A mistake in the command line itself: what it was, and where the help is."""
    context, message = getattr(error, "ctx", None), error.format_message()
    if type(error).__name__ == "NoArgsIsHelpError":  # the message, if it has not been printed yet, is the help
        print(message, end="" if not message else "\n", file=sys.stderr, flush=True)
        return
    message = usage_message(message)
    if context is not None and (hint := _STRAY.get(context.command_path)) and "extra argument" in message:
        message = f"{message}; {hint}"
    tell(message)
    if context is not None:
        print(f"Try '{context.command_path} --help'.", file=sys.stderr, flush=True)
