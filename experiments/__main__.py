"""``python -m experiments run|status|report|figures``: the command line of the experiments."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from experiments.plan import HOME, Trial, is_by_request, tables, trials_of
from experiments.results import Results, Row
from ssnt.errors import ConfigError, SsntError
from ssnt.interrupts import TrainingInterrupted

INTERRUPTED = 130
"""The exit code after Ctrl-C, as of any program."""

app = typer.Typer(add_completion=False, no_args_is_help=True, help="The paper's tables, on real data.")
Tables = Annotated[
    list[str] | None,
    typer.Argument(metavar="[TABLE]...", help="Folders of plans; by default all but those by request."),
]
System = Annotated[list[str] | None, typer.Option("--system", help="Only this system; may be given again.")]
Dataset = Annotated[list[str] | None, typer.Option("--dataset", help="Only this data set; may be given again.")]


def _place(text: str) -> Path:
    """A directory's name; an empty one, as of a variable that is not set, would be the directory that one is in."""
    if not text:
        raise typer.BadParameter("expected a directory, got nothing; . is the one that you are in")
    return Path(text)


WorkPlace = Annotated[Path, typer.Option(parser=_place, metavar="DIRECTORY", help="Where models are kept.")]
ResultsPlace = Annotated[
    Path | None,
    typer.Option(
        parser=_place,
        metavar="DIRECTORY",
        help="Where results are, in place of the committed ones: to begin from scratch.",
    ),
]


@app.command()
def run(
    names: Tables = None,
    system: System = None,
    dataset: Dataset = None,
    work: WorkPlace = HOME / "work",
    workers: Annotated[
        int | None, typer.Option(min=1, help="Trainings at a time; by default as many as there are cores for.")
    ] = None,
    threads: Annotated[
        int, typer.Option(min=1, help="Threads of each; more for one large model alone: --workers 1 --threads 2.")
    ] = 1,
    results: ResultsPlace = None,
) -> None:
    """Trains and measures what has no result yet, the most important first."""
    from experiments.runner import run as run_trials

    try:
        failed = run_trials(_wanted(names, system, dataset), work=work, workers=workers, threads=threads, home=results)
    except TrainingInterrupted as interrupt:
        typer.echo(str(interrupt), err=True)
        raise typer.Exit(INTERRUPTED) from None
    if failed:
        typer.echo(f"{len(failed)} trials have failed:\n" + "\n".join(failed), err=True)
        raise typer.Exit(1)


@app.command()
def status(names: Tables = None, results: ResultsPlace = None) -> None:
    """Says how much of each table is done, and gives what is measured of small ones."""
    from experiments.runner import check_settings

    _require_results(results)
    for table in names or _usual_tables():
        rows, trials = Results(table, results).rows(), trials_of(table)
        check_settings(trials)  # a plan that `run` would refuse is not under way
        planned: dict[str, list[Trial]] = {}
        for trial in trials:
            planned.setdefault(trial.system, []).append(trial)
        for name, own in planned.items():
            done = [rows[trial.key] for trial in own if trial.key in rows]
            measured = _measured(done[0]) if len(own) == len(done) == 1 else ""
            typer.echo(f"{table:20} {len(done):3} of {len(own):3}  {name}{measured}")


@app.command()
def report(results: ResultsPlace = None) -> None:
    """Writes REPORT.md and its plots from the results alone, beside them."""
    from experiments.report import write_report

    _require_results(results)
    typer.echo(f"written: {write_report(results or HOME)}")


@app.command()
def figures(work: WorkPlace = HOME / "work") -> None:
    """Draws the paper's figures from the models that are in the work directory."""
    from experiments.figures import draw

    missing = draw(work, typer.echo)
    if missing:
        typer.echo(f"not drawn, as {work} has no model of it:\n" + "\n".join(missing), err=True)
        again = f"python -m experiments run TABLE --system NAME --dataset SET --work {work} --results new"
        typer.echo(f"name another --work, or train it (new/ gets rows of its own): {again}", err=True)
        raise typer.Exit(1)


def _require_results(results: Path | None) -> None:
    if results is not None and not results.is_dir():
        raise ConfigError(f"--results: {results} is no directory: give the one that `run --results` has written to")


def _measured(row: Row) -> str:
    """What the row of a system that has but one trial says."""
    test = "" if row.test is None else f", test {row.test:.4f}"
    return f"  {row.metric} dev {row.dev:.4f}{test}"


def _usual_tables() -> list[str]:
    return [table for table in tables() if not is_by_request(table)]


def _wanted(names: list[str] | None, systems: list[str] | None, datasets: list[str] | None) -> list[Trial]:
    trials = [trial for table in names or _usual_tables() for trial in trials_of(table)]
    _check_known("--system", systems, [trial.system for trial in trials])
    _check_known("--dataset", datasets, [trial.dataset for trial in trials])
    of_systems = [trial for trial in trials if not systems or trial.system in systems]
    wanted = [trial for trial in of_systems if not datasets or trial.dataset in datasets]
    if of_systems and not wanted:
        planned = ", ".join(map(repr, dict.fromkeys(trial.dataset for trial in of_systems)))
        raise ConfigError(f"--dataset: of what --system asks for there is nothing on these; it is planned on {planned}")
    return wanted


def _check_known(option: str, wanted: list[str] | None, known: list[str]) -> None:
    if unknown := next((one for one in wanted or [] if one not in known), None):
        raise ConfigError(f"{option}: expected one of {', '.join(map(repr, dict.fromkeys(known)))}, got {unknown!r}")


def main() -> None:
    """Runs the command line; a user's mistake is a message, not a traceback."""
    try:
        app()
    except SsntError as error:
        typer.echo(f"error: {error}", err=True)
        raise SystemExit(2) from None


if __name__ == "__main__":
    main()
